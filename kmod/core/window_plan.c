// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What an operation reads and writes: see window_plan.h. From what it is to do, which members may be
 * used, what could not be read so far, and whether parity can be trusted; plan.c does the arithmetic.
 *
 * Invariants:
 *  (a) Parity that is not known good is not used (plan.c is told so). Copies of a mirror that may
 *      differ all count as good: any of them is old or new. But as long as they may differ all reads
 *      are from the first that is there.
 *  (b) What is missing is given up (`zeroed`) only when every drive that could not read it says that
 *      this will not change, and nothing else can give it. A member that just does not answer loses
 *      nothing by that.
 *  (c) With something zeroed, parity is made from all data blocks, none of which is missing then.
 *
 * Crash argument: none needed here; nothing is issued.
 *
 * Ownership: the window's, in its lane.
 */
#include "core/window_plan.h"

#include "core/content.h"
#include "core/vd.h"

u32 window_member(const struct vd *vd, const struct window *window, u32 block)
{
	return window->span * vd->geometry.per_span + content_place(vd, window, block);
}

bool window_plan_part(struct vd *vd, struct window *window)
{
	struct plan_window *coverage = &window->coverage;
	u32 block, sector;

	memset(coverage, 0, sizeof(*coverage));
	coverage->data = vd->geometry.data;
	coverage->parities = vd->geometry.redundancy;
	for (block = 0; block < vd->geometry.data; block++) {
		u32 count = 0;

		for (sector = window->first; sector < window->last; sector++)
			count += content_is_covered(window, block, sector);
		if (count == window->last - window->first)
			coverage->whole |= 1U << block;
		else if (count > 0)
			coverage->part |= 1U << block;
	}
	window->gone = 0;
	window->zeroed = 0;
	window->computed = false;
	return (coverage->whole | coverage->part) != 0;
}

bool window_plan_parity_good(struct vd *vd, const struct window *window)
{
	return vd->geometry.parities == 0 || dirty_map_parity_good(&vd->map, window->region);
}

u32 window_plan_out(const struct vd *vd, const struct window *window)
{
	u32 block, out = 0;

	for (block = 0; block < content_blocks(vd); block++) {
		if (!vd_can_use(vd, window_member(vd, window, block), window_sector(vd, window)))
			out |= 1U << block;
	}
	return out;
}

static u32 missing(const struct window *window)
{
	return window->coverage.lost | window->coverage.unreadable;
}

static bool plan_host_read(struct window *window)
{
	const struct plan_window *coverage = &window->coverage;
	const u32 wanted = coverage->whole | coverage->part;
	const u32 part = 1U << window->first / WINDOW_FINE;
	const u32 parts_after = 1U << (window->last + WINDOW_FINE - 1) / WINDOW_FINE;
	u32 block;

	if (wanted & missing(window))
		window->plan.form = PLAN_RECOVER;
	if (plan_read(coverage, wanted, &window->plan.read))
		return true;
	if (coverage->unreadable != 0 && !window->fine)
		return false;
	/* The rest can be read. */
	for (block = 0; block < coverage->data; block++) {
		if (wanted & missing(window) & 1U << block)
			window->undefined[block] |= (u16)(parts_after - part);
	}
	window->plan.form = PLAN_DATA_ONLY;
	return plan_read(coverage, wanted & ~missing(window), &window->plan.read);
}

static bool plan_host_write(struct vd *vd, struct window *window)
{
	const struct plan_window *coverage = &window->coverage;
	u32 block;

	/* It could be written, but not read. */
	if (!coverage->parity_good && ((coverage->whole | coverage->part) & coverage->lost))
		return false;
	window->plan = plan_write(coverage);
	for (block = 0; block < vd->geometry.data; block++) {
		/* A member is written in one piece, which has to be known all over. */
		if (window->plan.form == PLAN_DATA_ONLY && (coverage->part >> block & 1) &&
		    !(coverage->lost >> block & 1) && content_has_holes(window, block))
			window->plan.read |= 1U << block;
	}
	return window->plan.form != PLAN_UNDEFINED && !(window->plan.read & missing(window));
}

/* The blocks of members that are being rebuilt, and are not yet in this window. */
static u32 blocks_to_rebuild(const struct vd *vd, const struct window *window)
{
	u32 block, targets = 0;

	for (block = 0; block < content_blocks(vd); block++) {
		const struct member *member = &vd->member[window_member(vd, window, block)];

		if ((window->coverage.lost >> block & 1) &&
		    member_state(member) == PERCH_MEMBER_REBUILDING)
			targets |= 1U << block;
	}
	return targets;
}

static bool plan_restoring(struct window *window, u32 targets)
{
	if (targets != 0)
		return plan_restore(&window->coverage, targets, &window->plan);
	/* What could not be read is looked for part by part. */
	if (window->kind == REQUEST_REPAIR)
		window->plan.read = window->unreadable & ~window->coverage.lost;
	return true;
}

static bool plan_resync(const struct vd *vd, struct window *window)
{
	window->plan.form = PLAN_RECONSTRUCT;
	window->plan.read = content_data(vd);
	window->plan.write = content_parity(vd) & ~window->coverage.lost;
	return (missing(window) & content_data(vd)) == 0;
}

/* From the first copy that is there, as reads are. */
static bool plan_resync_of_copies(const struct vd *vd, struct window *window)
{
	const u32 all = content_data(vd) | content_parity(vd);
	const u32 there = all & ~missing(window);

	window->plan.form = PLAN_RECOVER;
	window->plan.read = there & ~(there - 1);
	window->plan.write = all & ~window->coverage.lost & ~window->plan.read;
	return there != 0;
}

/* All data that is not given is read, all parity that can be is written. */
static bool plan_with_zeros(const struct vd *vd, struct window *window)
{
	const struct plan_window *coverage = &window->coverage;
	const u32 given = coverage->whole | window->zeroed;
	const u32 targets = window->kind == REQUEST_REBUILD ? blocks_to_rebuild(vd, window) : 0;

	window->plan.form = PLAN_RECONSTRUCT;
	window->plan.read = content_data(vd) & ~given;
	window->plan.write = (given | coverage->part | content_parity(vd)) & (~coverage->lost | targets);
	return !(window->plan.read & missing(window));
}

bool window_plan(struct vd *vd, struct window *window)
{
	struct plan_window *coverage = &window->coverage;

	coverage->lost = window_plan_out(vd, window);
	coverage->unreadable &= ~coverage->lost;
	coverage->parity_good = window_plan_parity_good(vd, window);
	window->plan.form = PLAN_DATA_ONLY;
	window->plan.read = 0;
	window->plan.write = 0;
	if (window->zeroed != 0)
		return plan_with_zeros(vd, window);
	switch (window->kind) {
	case REQUEST_READ:
		return plan_host_read(window);
	case REQUEST_RESYNC:
		return vd->geometry.parities == 0 ? plan_resync_of_copies(vd, window) :
						    plan_resync(vd, window);
	case REQUEST_REBUILD:
		return plan_restoring(window, blocks_to_rebuild(vd, window));
	case REQUEST_REPAIR:
		return plan_restoring(window, coverage->unreadable);
	case REQUEST_CHECK:
		if (coverage->lost == 0)
			window->plan.read = content_data(vd) | content_parity(vd);
		return true;
	case REQUEST_PATROL:
		window->plan.read = (content_data(vd) | content_parity(vd)) & ~coverage->lost;
		return true;
	default:
		return plan_host_write(vd, window);
	}
}

u32 window_plan_lost(const struct vd *vd, const struct window *window)
{
	const struct plan_window *coverage = &window->coverage;

	if (coverage->unreadable & ~window->gone)
		return 0;
	/* After an unclean stop a rebuild puts it right; until then more may come back. */
	if (window->kind == REQUEST_WRITE && !coverage->parity_good)
		return 0;
	return missing(window) & content_data(vd) & ~coverage->whole;
}
