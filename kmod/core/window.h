/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Windows: the unit in which a row with parity is written, and a lost member's content is computed.
 * A window is the same min(strip, 64 KiB) of every member of a span. See window.c.
 *
 * Windows are hashed to lanes. A lane has the windows in use, and what waits for one.
 */
#ifndef PERCH_CORE_WINDOW_H
#define PERCH_CORE_WINDOW_H

#include "core/geometry.h"
#include "core/io.h"
#include "core/parity.h"
#include "core/plan.h"

#define WINDOW_WORDS (GEOMETRY_MAX_WINDOW / 64U)

struct vd;

enum window_state {
	WINDOW_FREE,
	WINDOW_MARKING,		/* waits for its region's dirty bit */
	WINDOW_READING,
	WINDOW_WRITING,
};

struct window {
	enum window_state state;
	u32 lane;
	u64 row;
	u32 span;
	u32 number;		/* of the row */
	u64 region;		/* of the dirty map */
	struct window *next_waiter;	/* the dirty map's, or the lane's, while it waits */

	/* Pieces that wait for the next operation, in the order they came. */
	struct piece *pending;
	struct piece **pending_end;

	/* The operation. */
	enum request_kind kind;
	struct piece *active;
	u64 covered[GEOMETRY_MAX_PER_SPAN][WINDOW_WORDS];	/* sectors, by data block */
	u32 first, last;	/* sectors: where anything is covered; last is the first that is not */
	struct plan_window coverage;
	struct plan plan;
	bool fua;
	bool entered;		/* the dirty map counts it */
	int error;
	u32 ios_left;
	struct io ios[GEOMETRY_MAX_PER_SPAN];	/* by place in the span */

	/* By place in the span, each of a window's size: content, and what was read. */
	void *block[GEOMETRY_MAX_PER_SPAN];
	void *old[GEOMETRY_MAX_PER_SPAN];
};

struct lane {
	struct window *windows;
	u32 count;		/* of windows */
	/* Pieces that wait for a window to be free, in the order they came. */
	struct piece *waiting;
	struct piece **waiting_end;

	/* What others have put there for the lane's owner. */
	struct env_spinlock lock;	/* guards the three lists */
	struct piece *new_pieces;
	struct piece **new_end;
	struct io *ended;
	struct window *resumed;
};

/* Memory for the windows and their blocks is the caller's. */
void lane_init(struct lane *lane, struct window *windows, u32 count);

/* Puts something there for the lane's owner; from any thread. The caller wakes the lane. */
void lane_put_piece(struct lane *lane, struct piece *piece);
void lane_put_io(struct lane *lane, struct io *io);
void lane_put_window(struct lane *lane, struct window *window);

/* Does what there is to do; by one thread at a time. */
void lane_run(struct vd *vd, struct lane *lane);

/* Whether nothing is in use and nothing waits. */
bool lane_is_idle(struct lane *lane);

#endif /* PERCH_CORE_WINDOW_H */
