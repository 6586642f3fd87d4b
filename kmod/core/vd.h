/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One VD: what the shell talks to. See vd.c.
 *
 * Threads. The shell calls vd_submit(), vd_io_done(), vd_member_lost() and vd_tick() from anywhere. It
 * calls vd_run_lane() for one lane from one thread at a time, and vd_run() from one at a time,
 * whenever env->wake() asked for it; different lanes run beside each other. A wake while they run
 * means that they are to be run once more.
 *
 * What lanes share, and the rule for it:
 *	geometry		constant
 *	a member's state	stored by metadata.c after the epoch that says so is durable; loaded
 *	broken, stopping	only ever become true; loaded
 *	what is rebuilt		task.h: exact for a window's own lane
 *	dirty map, bad ranges	their own locks
 *	a request's `left`	atomic; `error` only ever becomes -EIO
 *	lists			of a lane, metadata, tasks: their own locks
 */
#ifndef PERCH_CORE_VD_H
#define PERCH_CORE_VD_H

#include "core/bad_ranges.h"
#include "core/dirty_map.h"
#include "core/lane.h"
#include "core/member.h"
#include "core/metadata.h"
#include "core/task.h"

#define VD_MAX_LANES 64U

struct vd {
	struct env *env;
	struct geometry geometry;
	struct member member[GEOMETRY_MAX_MEMBERS];
	struct perch_superblock *superblock[GEOMETRY_MAX_MEMBERS];
	bool damaged[GEOMETRY_MAX_MEMBERS];	/* one copy of its superblock */
	const struct perch_superblock *found[GEOMETRY_MAX_MEMBERS]; /* while it starts */
	struct dirty_map map;
	struct bad_ranges bad;
	struct lane *lane;
	u32 lanes;
	bool broken;	/* more members are lost than the level survives: nothing is written any more */
	bool stopping;
	bool clean;	/* it was stopped in order */
	enum superblock_refusal refusal; /* what a member says against a start */
	/* What metadata.c writes pages from. */
	struct perch_map_page *map_page;
	struct perch_bad_page *bad_page;
	struct metadata metadata;
	struct task task;
};

/*
 * How a VD starts; everything it needs is allocated by the shell.
 *
 * 1. geometry_init(), and a buffer for each member's superblock in vd->superblock, for a page of the map
 *    and one of bad ranges; dirty_map_init(), bad_ranges_init().
 * 2. vd_init().
 * 3. vd_found() for each member that can be read, with both copies of its superblock.
 * 4. vd_choose(): who is in sync, and who is to be rebuilt.
 * 5. dirty_map_load() for each page of each member that vd_is_in_sync(), with vd->clean, unless there
 *    is no redundancy; and bad_ranges_load(). If bad_ranges_loaded() is false: it does not start.
 * 6. vd_start(). Then I/O may begin. The first thing written is an epoch.
 */
void vd_init(struct vd *vd, struct env *env, struct lane *lane, u32 lanes);
/* False: neither copy can be used. */
bool vd_found(struct vd *vd, u32 member, const struct perch_superblock *copy0,
	      const struct perch_superblock *copy1);

enum vd_choice {
	VD_READY,
	VD_UNKNOWN,		/* nobody was ever part of it */
	VD_TWO_HISTORIES,	/* members ran apart */
	VD_TOO_FEW,		/* more are missing than the level survives */
	VD_REFUSED,		/* a member says that nobody, or another, may start it: vd->refusal */
};

enum vd_choice vd_choose(struct vd *vd);
bool vd_is_in_sync(const struct vd *vd, u32 member);
/* Windows that tasks have under way at a time: 0 (they pause) to TASK_MAX_DEPTH. */
void vd_start(struct vd *vd, u32 task_depth);

/* Sectors at whose multiples the shell splits what the host asks for: a full row. */
static inline u32 vd_row_sectors(const struct vd *vd)
{
	return vd->geometry.strip * vd->geometry.data;
}

/*
 * Whether a read can go to the members directly, each window's part by vd_read_place(). If not, or if
 * one of these reads fails, or if what they gave does not stand, it is to be submitted: what a member
 * cannot give is computed. `ticket` is for vd_read_stands().
 */
bool vd_reads_directly(struct vd *vd, u64 sector, u32 sectors, u64 *ticket);
/*
 * Where a sector, and what follows it in its window, can be read now; of several copies one by `turn`.
 * False: nowhere.
 */
bool vd_read_place(struct vd *vd, u64 sector, u32 turn, struct geometry_place *place);
/* When they have ended: they were not overtaken by zeros in the place of what was lost for good. */
bool vd_read_stands(const struct vd *vd, u64 ticket);

/*
 * Begins a request. A write is complete when its data and its parity are on the members, and with
 * `fua` on their media; a flush, when everything that was complete before is on the media; a stop,
 * when that is so, tasks and repairs have come to rest, and the VD is marked clean. No command is under
 * way then, and none is begun after it; ticks are needed until then. -EIO: it is broken, and not clean.
 */
void vd_submit(struct vd *vd, struct vd_request *request);

/* A command has ended: 0 or a negative errno. */
void vd_io_done(struct vd *vd, struct io *io, int error);

/* A member is gone. Its commands still have to end, as errors. */
void vd_member_lost(struct vd *vd, u32 member);

/* About once a second: idle regions are marked clean, and what has failed is tried again. */
void vd_tick(struct vd *vd);

void vd_run_lane(struct vd *vd, u32 lane);
void vd_run(struct vd *vd);

/* Whether parity is known to match everywhere. */
bool vd_is_resynced(struct vd *vd);
/* Whether all members are in sync. */
bool vd_is_optimal(const struct vd *vd);
bool vd_is_broken(const struct vd *vd);

/* --- for the parts of the core */

/* Whether a member holds what it should at a sector of its data, in a window whose lane asks. */
bool vd_can_use(const struct vd *vd, u32 member, u64 sector);
bool vd_is_stopping(const struct vd *vd);
/* Whether a member that is rebuilt up to there has everything. */
bool vd_is_rebuilt(struct vd *vd, u64 sectors);
/* Whether some member that is rebuilt up to there is not yet recorded so. */
bool vd_rebuilt_further(struct vd *vd, u64 sectors);
void vd_put_piece(struct vd *vd, struct piece *piece);
/* A piece has ended. */
void vd_piece_done(struct vd *vd, struct piece *piece, int error);
/* A command that has failed: true if it is tried once more. */
bool vd_tries_again(struct vd *vd, struct io *io);

#endif /* PERCH_CORE_VD_H */
