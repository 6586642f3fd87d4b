/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What an operation on a window reads and writes, as its members are now: see window_plan.c.
 */
#ifndef PERCH_CORE_WINDOW_PLAN_H
#define PERCH_CORE_WINDOW_PLAN_H

#include "core/window.h"

/* Begins a part, [first, last): which data blocks are covered there. False: none. */
bool window_plan_part(struct vd *vd, struct window *window);

/* Decides what to read and write of it. False: what that takes is missing. */
bool window_plan(struct vd *vd, struct window *window);

/*
 * Data blocks of the part that are missing, and not given by the host: what is lost if nothing else
 * helps. 0 if that is not known to be for good.
 */
u32 window_plan_lost(const struct vd *vd, const struct window *window);

/* Whether parity, or copies, may be used here. */
bool window_plan_parity_good(struct vd *vd, const struct window *window);

/* Blocks whose members cannot be used here now. */
u32 window_plan_out(const struct vd *vd, const struct window *window);

/* The member that holds a block. */
u32 window_member(const struct vd *vd, const struct window *window, u32 block);

#endif /* PERCH_CORE_WINDOW_PLAN_H */
