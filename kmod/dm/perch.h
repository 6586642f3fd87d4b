/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A VD in the kernel: the core (core/vd.h), its members' devices, its threads. One per device-mapper
 * target.
 */
#ifndef PERCH_DM_PERCH_H
#define PERCH_DM_PERCH_H

#include <linux/bio.h>
#include <linux/completion.h>
#include <linux/device-mapper.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/workqueue.h>

#include "core/vd.h"

#define DM_MSG_PREFIX "perch"

#define PERCH_AREAS (IO_BAD_RANGES + 1)	/* enum io_area */

struct perch_device {
	struct dm_dev *dev;		/* NULL: not there */
	sector_t start[PERCH_AREAS];	/* where each area begins on it */
};

enum perch_state {
	PERCH_STOPPED,	/* from the constructor, and from a suspension, to the next resume */
	PERCH_RUNNING,
	PERCH_FAILED,	/* it could not be started: all I/O is an error; `failure` says why */
};

/* A lane's work; or the VD's own, the one behind the lanes'. */
struct perch_work {
	struct work_struct work;
	struct perch *perch;
	u32 lane;
};

struct perch {
	struct env env;			/* what the core knows of this */
	struct vd vd;
	struct dm_target *ti;
	struct mutex gate;		/* between a change of the state, and messages and status */
	enum perch_state state;		/* changes only while the device is suspended */
	const char *failure;
	struct list_head running;	/* of all VDs that run: lifecycle.c */

	/* Constant: what the table says. */
	u8 uuid[16];
	u32 level;			/* PERCH_LEVEL_... */
	u32 per_span;			/* the word; geometry has what it means for the level */
	u32 block_bytes;
	u32 region_sectors;
	struct geometry geometry;
	struct perch_device *device;	/* by member */

	/* Allocated by the constructor: memory.c. */
	struct bio_set commands;
	struct workqueue_struct *queue;
	struct perch_work *work;
	struct delayed_work tick;
	struct work_struct event;
	struct lane *lane;
	struct window *window;
	u32 lanes;
	u32 windows;			/* of a lane */
	u8 *region_flags;
	u16 *region_users;
	struct perch_bad_page *bad_pages;
	struct perch_superblock *superblocks;	/* one of each member, and two to read into */
	struct perch_map_page *map_page;
	struct perch_bad_page *bad_page;
	void *scratch;			/* PERCH_SCRATCH_BYTES */

	/* The stop: lifecycle.c. */
	struct vd_request stop;
	struct completion stopped;
	int stop_error;

	/* What the last event was about: work.c. */
	u32 seen;
};

#define PERCH_SCRATCH_BYTES (64U << 10)

#endif /* PERCH_DM_PERCH_H */
