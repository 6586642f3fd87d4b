/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a window's blocks hold: the host's data taken over, what was read, parity. See content.c.
 *
 * Blocks are numbered as in plan.h: data blocks, P, Q.
 */
#ifndef PERCH_CORE_CONTENT_H
#define PERCH_CORE_CONTENT_H

#include "core/window.h"

/* How many blocks a window has, and the place in the span of each. */
u32 content_blocks(const struct vd *vd);
u32 content_place(const struct vd *vd, const struct window *window, u32 block);

/* Masks of all of them. */
u32 content_data(const struct vd *vd);
u32 content_parity(const struct vd *vd);

/* The VD's sector where a data block begins. */
u64 content_sector(const struct vd *vd, const struct window *window, u32 data);

/* Where a sector of the window is in a block's buffer. */
void *content_at(void *block, u32 sector);

/*
 * Widens [*from, *to) by what a piece covers of a data block. False, and nothing done: it covers
 * nothing, or a hole would be left. An empty range is widened by anything.
 */
bool content_widen(const struct vd *vd, const struct window *window, const struct piece *piece,
		   u32 data, u32 *from, u32 *to);

/* Marks what a piece covers, and takes over the data of a write. */
void content_add_piece(struct vd *vd, struct window *window, struct piece *piece);
/* Gives a read its data: 0, or -EIO if some of it is lost. */
int content_copy_out(struct vd *vd, struct window *window, struct piece *piece);

/* Whether some of what a write covers is listed as lost; and takes it off the list, if there is room. */
bool content_is_listed(struct vd *vd, const struct window *window);
bool content_unlist(struct vd *vd, const struct window *window);

bool content_is_covered(const struct window *window, u32 data, u32 sector);
/* Where a data block is covered: from the first sector to the last, which is the first that is not. */
void content_covered_range(const struct window *window, u32 data, u32 *from, u32 *to);
/* Whether that range has sectors that are not. */
bool content_has_holes(const struct window *window, u32 data);

/* What is to be written, from what is new and what was read; a check's finding. */
void content_compute(struct vd *vd, struct window *window);

#endif /* PERCH_CORE_CONTENT_H */
