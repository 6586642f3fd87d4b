/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Lanes: windows are distributed over them, and each runs beside the others. A lane has the windows
 * that are in use, and what waits for one. See lane.c.
 */
#ifndef PERCH_CORE_LANE_H
#define PERCH_CORE_LANE_H

#include "core/window.h"

struct lane {
	struct window *windows;
	u32 count;		/* of windows */
	/* Pieces that wait for a window to be free, in the order they came. */
	struct piece *waiting;
	struct piece **waiting_end;

	/* What others have put there for the lane's owner. */
	struct env_spinlock lock;	/* guards `idle` and the three lists */
	bool idle;			/* no window is in use, and no piece waits */
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

/* Whether nothing is in use and nothing waits. From any thread. */
bool lane_is_idle(struct lane *lane);

#endif /* PERCH_CORE_LANE_H */
