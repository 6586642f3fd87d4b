/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One VD of a parity level: what the shell talks to. See vd.c.
 *
 * Threads. The shell calls vd_submit(), vd_io_done() and vd_tick() from anywhere. It calls
 * vd_run_lane() for one lane from one thread at a time, and vd_run() from one at a time, whenever
 * env->wake() asked for it; different lanes run beside each other. A wake while they run means that
 * they are to be run once more.
 *
 * What lanes share, and the rule for it:
 *	geometry, lost		constant while I/O runs
 *	dirty map		its own lock
 *	a request's `left`	atomic; `error` only ever becomes -EIO
 *	lists of a lane, of vd	their own locks
 */
#ifndef PERCH_CORE_VD_H
#define PERCH_CORE_VD_H

#include "core/dirty_map.h"
#include "core/lane.h"

#define VD_MAX_LANES 64U

/* What vd.c does by itself; it has one command at a time to each member. */
enum vd_work {
	VD_NOTHING,
	VD_SETTING_BITS,	/* a page of the dirty map is written */
	VD_FLUSHING,		/* for the host, or before bits are cleared, or both */
	VD_CLEARING_BITS,	/* as VD_SETTING_BITS */
};

struct vd {
	struct env *env;
	struct geometry geometry;
	u8 lost[GEOMETRY_MAX_MEMBERS];	/* by member: not 0 when it cannot be used */
	struct dirty_map map;
	struct lane *lane;
	u32 lanes;

	struct env_spinlock lock;	/* guards the next four */
	struct request *flushes;	/* of the host, that wait for the next flush */
	struct io *ended;
	bool resync_ended;	/* the window that was being resynced is done */
	bool ticked;		/* vd_tick() was called */

	/* Of vd_run() alone. */
	enum vd_work work;
	bool tick_due;		/* idle regions are to be looked for */
	bool flush_first;	/* a page was written: now it is the flushes' turn */
	struct request *flushing;
	bool flush_clears;
	bool failed;		/* a page was not written: once more with the next tick */
	u32 ios_left;
	int error;
	struct io ios[GEOMETRY_MAX_MEMBERS];
	struct perch_map_page page;

	/* Resync: one window at a time. */
	struct request resync;
	bool resyncing;
	bool resync_failed;	/* goes on with the next tick */
	u64 resync_region;	/* no region before it is to be resynced */
	u64 resync_sector;	/* of a member */
	u32 resync_span;
};

/*
 * The geometry, the lanes with their windows and blocks, and the dirty map are set up, and `lost`
 * says who cannot be used: at most as many of a span as it has parities. Then I/O may begin.
 */
void vd_init(struct vd *vd, struct env *env, struct lane *lane, u32 lanes);

/* Sectors at whose multiples the shell splits what the host asks for: a full row. */
static inline u32 vd_row_sectors(const struct vd *vd)
{
	return vd->geometry.strip * vd->geometry.data;
}

/*
 * Whether a read can go to the members directly, by geometry_map(), a strip at a time. If not, it is
 * to be submitted: a lost member's content is computed.
 */
bool vd_reads_directly(const struct vd *vd, u64 sector, u32 sectors);

/*
 * Begins a request. A write is complete when its data and its parity are on the members, and with
 * `fua` on their media; a flush, when everything that was complete before is on the media.
 */
void vd_submit(struct vd *vd, struct request *request);

/* A command has ended: 0 or a negative errno. */
void vd_io_done(struct vd *vd, struct io *io, int error);

/* About once a second: idle regions are marked clean, and what has failed is tried again. */
void vd_tick(struct vd *vd);

void vd_run_lane(struct vd *vd, u32 lane);
void vd_run(struct vd *vd);

/* Whether parity is known to match everywhere. */
bool vd_in_sync(struct vd *vd);

/* For window.c: a piece has ended. */
void vd_piece_done(struct vd *vd, struct piece *piece, int error);

#endif /* PERCH_CORE_VD_H */
