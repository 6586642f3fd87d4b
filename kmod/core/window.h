/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Windows: the unit in which a row with parity is written, and a lost member's content is computed.
 * A window is the same min(strip, 64 KiB) of every member of a span. See window.c.
 */
#ifndef PERCH_CORE_WINDOW_H
#define PERCH_CORE_WINDOW_H

#include "core/geometry.h"
#include "core/io.h"
#include "core/parity.h"
#include "core/plan.h"

#define WINDOW_WORDS (GEOMETRY_MAX_WINDOW / 64U)
#define WINDOW_FINE 8U	/* sectors: what is lost at a time, where something cannot be read */

struct vd;

enum window_state {
	WINDOW_FREE,
	WINDOW_MARKING,		/* waits for its region's dirty bit */
	WINDOW_READING,
	WINDOW_WRITING,
	WINDOW_DROPPING,	/* a member's write failed: waits for it to be out */
	WINDOW_LISTING,		/* something is lost for good: waits until that is listed */
	WINDOW_UNLISTING,	/* such a thing was rewritten: waits until it is off the list */
};

struct window {
	enum window_state state;
	u32 lane;
	u64 row;
	u32 span;
	u32 number;		/* of the row */
	u64 region;		/* of the dirty map */
	struct window *next_waiter;	/* of the list that it is on while it waits, or is resumed */

	/* Pieces that wait for the next operation, in the order they came. */
	struct piece *pending;
	struct piece **pending_end;
	u32 alone;		/* that many of them have failed together: each is an operation of its own */

	/* The operation. */
	enum request_kind kind;
	struct piece *active;
	u64 covered[GEOMETRY_MAX_PER_SPAN][WINDOW_WORDS];	/* sectors, by data block */
	u32 from, to;		/* sectors: where anything is covered; `to` is the first that is not */
	bool fine;		/* it is done in parts of WINDOW_FINE, one after the other */
	u32 first, last;	/* sectors: the part that is done now, all of it if it is not `fine` */
	u32 unreadable;		/* blocks that could not be read, in any part */
	u16 undefined[GEOMETRY_MAX_PER_SPAN];	/* what a read cannot give, by data block: a bit for
						 * each WINDOW_FINE sectors */
	bool lists;		/* something was lost for good */
	struct plan_window coverage;
	struct plan plan;
	bool fua;
	bool repair;		/* of a check */
	bool mismatch;		/* of a check */
	bool entered;		/* the dirty map counts it */
	bool computed;		/* what is to be written is there */
	bool wrote;		/* something was issued, and has not ended everywhere */
	int error;
	u32 failed;		/* blocks whose command failed */
	u32 gone;		/* of the part: that could not be read, and will not be next time */
	u32 zeroed;		/* of the part: data blocks that are lost for good, and become zeros */
	u32 ios_left;
	struct io ios[GEOMETRY_MAX_PER_SPAN];	/* by place in the span */

	/* By place in the span, each of a window's size: content, and what was read. */
	void *block[GEOMETRY_MAX_PER_SPAN];
	void *old[GEOMETRY_MAX_PER_SPAN];
};

/* Where it begins on its members, in sectors of their data. */
u64 window_sector(const struct vd *vd, const struct window *window);
/* The dirty map's region that a window lies in. */
u64 window_region(const struct vd *vd, const struct window *window);

/* What the lane's owner calls. Each returns true when the operation has ended: window_finish() then. */

/* Begins the next operation; pieces are pending. */
bool window_start(struct vd *vd, struct window *window);
/* What the window waited for has come: the bit of its region is durable, or a member is out. */
bool window_resumed(struct vd *vd, struct window *window);
/* One of the window's commands has ended. */
bool window_io_ended(struct vd *vd, struct window *window, struct io *io);
/* Ends the operation, and those that end at once after it. The window may be free then. */
void window_finish(struct vd *vd, struct window *window);

#endif /* PERCH_CORE_WINDOW_H */
