/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a VD writes on its members beside the host's data, and when: superblocks, pages of the dirty
 * map and of bad ranges, flushes. One of these at a time, to all members that are there. See metadata.c.
 */
#ifndef PERCH_CORE_METADATA_H
#define PERCH_CORE_METADATA_H

#include "core/geometry.h"
#include "core/io.h"
#include "core/superblock.h"

struct vd;
struct window;

enum metadata_work {
	METADATA_IDLE,
	METADATA_SUPERBLOCKS,	/* of the same epoch: a cursor, the clean mark, what a cut left behind */
	METADATA_EPOCH,
	METADATA_SETTING_BITS,	/* a page of the dirty map */
	METADATA_CLEARING_BITS,	/* the same */
	METADATA_BAD_RANGES,	/* a page of them */
	METADATA_FLUSHING,	/* for the host, before bits are cleared, before a cursor or a clean mark */
};

struct metadata {
	/* Guards the next six, and every member's `next`. */
	struct env_spinlock lock;
	struct vd_request *flushes;	/* of the host, that wait for the next flush */
	struct vd_request *stop;
	struct io *ended;
	struct window *waiting;		/* for members whose writes failed to be out */
	bool ticked;
	bool epoch_wanted;		/* some member's `next` is not its state */

	/* All that follows is metadata_run()'s own. */
	struct epoch epoch;		/* that all members carry that are there */
	struct epoch epoch_next;
	bool heals;			/* METADATA_SUPERBLOCKS before anything else */
	bool clean;			/* what superblocks say */
	bool stopped;			/* nothing begins any more */
	enum metadata_work work;
	enum metadata_work held;	/* failed on some member: once more when that is out */
	bool failed;			/* some command of the work was */
	u32 ios_left;
	struct io ios[GEOMETRY_MAX_MEMBERS];
	u8 planned[GEOMETRY_MAX_MEMBERS]; /* states, as epoch_next says */

	bool tick_due;			/* idle regions are to be looked for */
	bool flush_first;		/* a page was written: now it is the flushes' turn */
	struct vd_request *flushing;
	bool flush_clears;
	bool flush_stops;
	u64 flush_rebuilt;		/* how far the rebuild was before the flush */
};

/* The chosen epoch is `epoch`; the next one is written before anything else. */
void metadata_init(struct vd *vd, const struct epoch *epoch, bool heals, bool clean);

/* From any thread; the caller wakes the VD's own work. */
void metadata_put_request(struct vd *vd, struct vd_request *request);
void metadata_put_io(struct vd *vd, struct io *io);
void metadata_tick(struct vd *vd);

/*
 * A member is to be `state` (absent or failed) in the next epoch. From any thread, which wakes the
 * VD's own work.
 */
void metadata_drop(struct vd *vd, u32 member, u8 state);
/* A window waits until no member is to be dropped any more, or the VD is broken. */
void metadata_wait(struct vd *vd, struct window *window);

/* By the thread that does the VD's own work: whether a tick has come; then what there is to do. */
bool metadata_take_tick(struct vd *vd);
void metadata_run(struct vd *vd);

#endif /* PERCH_CORE_METADATA_H */
