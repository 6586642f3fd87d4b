/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which members to read and which to write, so that a window holds what the host wrote and parity
 * that matches: pure functions of what is written and which members are lost. The further copies of
 * a mirror's only data block are its parity here: each of them gives it, or follows from it.
 *
 * A window has `data` data blocks and one or two parity blocks; bit i of a mask is data block i,
 * bit `data` is P, bit `data` + 1 is Q. "Covered" is meant within the union of all writes to the
 * window: a block is covered whole when it is written wherever any block is, else in part.
 */
#ifndef PERCH_CORE_PLAN_H
#define PERCH_CORE_PLAN_H

#include "core/env.h"

enum plan_form {
	PLAN_DATA_ONLY,		/* no parity is left to be written */
	PLAN_FULL_ROW,		/* parity from the new data alone */
	PLAN_RECONSTRUCT,	/* parity from the new data and what the others hold */
	PLAN_MODIFY,		/* parity from its old content and the change of each block */
	PLAN_RECOVER,		/* everything that is left is read, lost blocks are computed first */
	PLAN_UNDEFINED,		/* what a lost block holds cannot be known: see plan_write() */
};

struct plan_window {
	u32 data;	/* 1 for mirrors and RAID0, else 2 to 31; with parity, at most 32 */
	u32 parities;	/* 1 or 2; copies - 1 of a mirror, 0 of RAID0 */
	u32 whole;	/* data blocks that are covered whole */
	u32 part;	/* data blocks that are covered in part */
	u32 lost;	/* blocks, parity too, that cannot be read or written here; up to `parities` */
	bool parity_good;	/* known to match what the members hold */
	u32 unreadable;	/* that cannot be read, but written; none of them is lost */
};

struct plan {
	enum plan_form form;
	u32 read;
	u32 write;
};

/*
 * The plan with the fewest blocks read; all have the same to write: covered blocks and parity, as
 * far as they are not lost. Of equal ones, the one that relies on old parity least.
 *
 * Parity that is not known good is neither modified nor used to compute a lost block. A lost block
 * (here and below also one that is unreadable) that is not covered whole is undefined then
 * (PLAN_UNDEFINED): the caller lists it as lost before it makes parity from a content of its choice;
 * `read` is what that takes.
 */
struct plan plan_write(const struct plan_window *window);

/*
 * The blocks to read for the content of `wanted` data blocks, of which some may be lost; the fewest.
 * False when a lost block is wanted and parity is not known good, or too much is lost.
 */
bool plan_read(const struct plan_window *window, u32 wanted, u32 *read);

/*
 * The plan to write `targets`, lost or unreadable blocks, as they should be. False when what they
 * hold cannot be known.
 */
bool plan_restore(const struct plan_window *window, u32 targets, struct plan *plan);

#endif /* PERCH_CORE_PLAN_H */
