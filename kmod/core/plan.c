// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Planning: see plan.h. No state, no I/O, no locks.
 *
 * Why these forms are enough. Parity is linear, and any `data` of a window's blocks determine the
 * others while fewer say nothing about a further one (the code is MDS). New parity needs the sum
 * over the blocks that stay as they are. That sum comes from those blocks themselves (RECONSTRUCT),
 * or from old parity less the old content of the written ones (MODIFY), which needs every surviving
 * parity once; or, when a lost block is in the way of both, from all there is (RECOVER).
 * tests/unit/core_plan.cpp proves by brute force over all coverages and losses of windows with up
 * to 8 data blocks that no set of blocks that is smaller determines new parity.
 *
 * Crash argument: none needed here; but MODIFY and RECOVER trust old parity, and are never chosen
 * when it is not known good (DESIGN rule 4).
 */
#include "core/plan.h"

static u32 all_data(const struct plan_window *window)
{
	return (1U << window->data) - 1;
}

static u32 all_parity(const struct plan_window *window)
{
	return ((1U << window->parities) - 1) << window->data;
}

/* What cannot be read. */
static u32 missing(const struct plan_window *window)
{
	return window->lost | window->unreadable;
}

static void check(const struct plan_window *window)
{
	core_assert(window->data >= 1 && (window->data == 1 || window->parities >= 1) &&
		    (window->data == 1 || window->parities <= 2) &&
		    window->data + window->parities <= 32);
	core_assert(((window->whole | window->part) & ~all_data(window)) == 0);
	core_assert((window->whole & window->part) == 0);
	core_assert((missing(window) & ~(all_data(window) | all_parity(window))) == 0);
	core_assert((window->lost & window->unreadable) == 0);
}

/* Everything that is left, as far as it takes to compute the lost data blocks. False: too much is. */
static bool blocks_for_recovery(const struct plan_window *window, u32 *read)
{
	const u32 parity = all_parity(window) & ~missing(window);
	u32 needed = env_count_bits(missing(window) & all_data(window));
	u32 bit;

	if (needed > env_count_bits(parity))
		return false;
	*read = all_data(window) & ~missing(window);
	for (bit = 1U << window->data; needed > 0; bit <<= 1) {
		if (parity & bit) {
			*read |= bit;
			needed--;
		}
	}
	return true;
}

static void consider(struct plan *best, enum plan_form form, u32 read)
{
	if (best->form == PLAN_UNDEFINED || env_count_bits(read) < env_count_bits(best->read)) {
		best->form = form;
		best->read = read;
	}
}

struct plan plan_write(const struct plan_window *window)
{
	const u32 covered = window->whole | window->part;
	const u32 parity = all_parity(window) & ~window->lost;
	const u32 stays = all_data(window) & ~window->whole;
	const u32 lost_data = missing(window) & all_data(window);
	struct plan plan = { PLAN_UNDEFINED, stays & ~missing(window),
			     (covered & ~window->lost) | parity };
	u32 everything;

	check(window);
	core_assert(covered != 0);
	if (parity == 0) {
		plan.form = PLAN_DATA_ONLY;
		plan.read = 0;
		return plan;
	}
	if ((stays & lost_data) == 0)
		consider(&plan, stays == 0 ? PLAN_FULL_ROW : PLAN_RECONSTRUCT, stays);
	if (!window->parity_good)
		return plan;
	if (((covered | parity) & missing(window)) == 0)
		consider(&plan, PLAN_MODIFY, covered | parity);
	if (lost_data != 0 && blocks_for_recovery(window, &everything))
		consider(&plan, PLAN_RECOVER, everything);
	return plan;
}

bool plan_read(const struct plan_window *window, u32 wanted, u32 *read)
{
	check(window);
	core_assert((wanted & ~all_data(window)) == 0);
	*read = wanted;
	if ((wanted & missing(window)) == 0)
		return true;
	return window->parity_good && blocks_for_recovery(window, read);
}

bool plan_restore(const struct plan_window *window, u32 targets, struct plan *plan)
{
	check(window);
	core_assert((targets & ~missing(window)) == 0);
	plan->write = targets;
	if ((missing(window) & all_data(window)) == 0) {
		plan->form = PLAN_RECONSTRUCT;
		plan->read = all_data(window);
		return true;
	}
	plan->form = PLAN_RECOVER;
	return window->parity_good && blocks_for_recovery(window, &plan->read);
}
