// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Windows: see window.h. One operation after the other: what the host writes, a read that has to
 * compute something, a window of a task. Pieces that come meanwhile wait and join the operation that
 * is next: that turns small sequential writes into full rows.
 *
 *	MARKING ──► READING ──► WRITING ──► (end)
 *	               ▲  │         │
 *	               └──┘         └──► DROPPING ──► (end)
 *
 * A block that cannot be read is "unreadable" for this operation, which is planned once more without
 * it; when the operation has ended, another one (REQUEST_REPAIR) writes what it should hold. A write
 * that fails, twice, costs its member: the operation ends when that member is out.
 *
 * Invariants:
 *  (a) A window has one operation at a time. So parity is computed from a content that nobody
 *      changes, and a read that computes a lost block sees data and parity that belong together.
 *  (b) No block is written before the region's dirty bit is durable (dirty_map.c, a).
 *  (c) Parity that is not known good is not used: plan.c is told so, and a lost block that only such
 *      parity could give is an error, to read and to write. Where writes have failed on more members
 *      than the level survives, parity is not known good from then on.
 *  (d) An operation is planned with the members as they are when its reads are issued; one whose write
 *      fails on a member is not answered before the survivors' superblocks call that member out
 *      (metadata.c, b). It is whole then: parity was computed from all its blocks, and no more are
 *      lost than the level survives.
 *  (e) A member that is being rebuilt is used in this window from the moment the window was rebuilt,
 *      and not before (task.c, a).
 *
 * Crash argument (consistency "resync"): a cut keeps any sectors of the operation's writes. A data
 * sector is then old or new. Other blocks of the window are not written, or with their old content
 * (content.c, b). Parity may match nothing; the dirty bit is durable by (b), so after the restart
 * parity of the region is not known good, is not used by (c), and is recomputed. A write is
 * acknowledged when data and parity are complete, so a flush, or FUA on all of them, makes both
 * durable, and what was acknowledged as durable can be computed when a member is lost later.
 *
 * Ownership: a window belongs to its lane, whose owner alone calls what is here. Nothing is allocated.
 */
#include "core/window.h"

#include "core/content.h"
#include "core/vd.h"

/* Where the window begins on its members. */
static u64 member_sector(const struct vd *vd, const struct window *window)
{
	return window->row * vd->geometry.strip + (u64)window->number * vd->geometry.window;
}

u64 window_region(const struct vd *vd, const struct window *window)
{
	return dirty_map_region(&vd->map, member_sector(vd, window));
}

static u32 member_of(const struct vd *vd, const struct window *window, u32 block)
{
	return window->span * vd->geometry.per_span + content_place(vd, window, block);
}

static u32 all_data(const struct vd *vd)
{
	return (1U << vd->geometry.data) - 1;
}

static u32 all_parity(const struct vd *vd)
{
	return ((1U << vd->geometry.parities) - 1) << vd->geometry.data;
}

/* --- planning */

/* Sorts the data blocks into those covered whole and in part. */
static void sum_up(struct vd *vd, struct window *window)
{
	struct plan_window *coverage = &window->coverage;
	u32 block, sector;

	memset(coverage, 0, sizeof(*coverage));
	coverage->data = vd->geometry.data;
	coverage->parities = vd->geometry.parities;
	for (block = 0; block < vd->geometry.data; block++) {
		u32 count = 0;

		for (sector = window->first; sector < window->last; sector++)
			count += content_is_covered(window, block, sector);
		if (count == window->last - window->first)
			coverage->whole |= 1U << block;
		else if (count > 0)
			coverage->part |= 1U << block;
	}
}

/* Which blocks cannot be used now, and whether parity can be trusted. */
static void look_at_members(struct vd *vd, struct window *window)
{
	struct plan_window *coverage = &window->coverage;
	u32 block;

	coverage->lost = 0;
	for (block = 0; block < content_blocks(vd); block++) {
		if (!vd_can_use(vd, member_of(vd, window, block), member_sector(vd, window)))
			coverage->lost |= 1U << block;
	}
	coverage->unreadable &= ~coverage->lost;
	coverage->parity_good = dirty_map_parity_good(&vd->map, window->region);
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
	return window->plan.form != PLAN_UNDEFINED;
}

/* The blocks of members that are being rebuilt, and are not yet in this window. */
static u32 blocks_to_rebuild(const struct vd *vd, const struct window *window)
{
	u32 block, targets = 0;

	for (block = 0; block < content_blocks(vd); block++) {
		const struct member *member = &vd->member[member_of(vd, window, block)];

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
	return true;
}

/* Decides what to read and write. False: it cannot be done. */
static bool make_plan(struct vd *vd, struct window *window)
{
	const struct plan_window *coverage = &window->coverage;
	const u32 wanted = coverage->whole | coverage->part;
	const u32 missing = coverage->lost | coverage->unreadable;

	window->plan.form = PLAN_DATA_ONLY;
	window->plan.read = 0;
	window->plan.write = 0;
	switch (window->kind) {
	case REQUEST_READ:
		if (wanted & missing)
			window->plan.form = PLAN_RECOVER;
		return plan_read(coverage, wanted, &window->plan.read);
	case REQUEST_RESYNC:
		window->plan.form = PLAN_RECONSTRUCT;
		window->plan.read = all_data(vd);
		window->plan.write = all_parity(vd) & ~coverage->lost;
		return (missing & all_data(vd)) == 0;
	case REQUEST_REBUILD:
		return plan_restoring(window, blocks_to_rebuild(vd, window));
	case REQUEST_REPAIR:
		return plan_restoring(window, coverage->unreadable);
	case REQUEST_CHECK:
		if (coverage->lost == 0)
			window->plan.read = all_data(vd) | all_parity(vd);
		return true;
	case REQUEST_PATROL:
		window->plan.read = (all_data(vd) | all_parity(vd)) & ~coverage->lost;
		return true;
	default:
		return plan_host_write(vd, window) && !(window->plan.read & missing);
	}
}

/* --- the operation */

static bool end_with_error(struct window *window)
{
	window->error = -EIO;
	return true;
}

static void submit(struct vd *vd, struct window *window, u32 block, enum io_kind kind, u32 from,
		   u32 to)
{
	const u32 place = content_place(vd, window, block);
	struct io *io = &window->ios[place];

	memset(io, 0, sizeof(*io));
	io->kind = kind;
	io->area = IO_DATA;
	io->fua = kind == IO_WRITE && window->fua;
	io->member = member_of(vd, window, block);
	io->sector = member_sector(vd, window) + from;
	io->sectors = to - from;
	io->buffer = content_at(kind == IO_READ ? window->old[place] : window->block[place], from);
	io->owner = window;
	io->lane = window->lane;
	vd->env->submit(vd->env, io);
}

/* Issues the writes; the region's bit is durable. */
static bool write_out(struct vd *vd, struct window *window)
{
	const u32 write = window->plan.write;
	u32 block, from, to;

	window->state = WINDOW_WRITING;
	window->wrote = true;
	window->failed = 0;
	window->ios_left = env_count_bits(write);
	for (block = 0; block < content_blocks(vd); block++) {
		if (!(write >> block & 1))
			continue;
		from = window->first;
		to = window->last;
		if (window->kind == REQUEST_WRITE && block < vd->geometry.data)
			content_covered_range(window, block, &from, &to);
		submit(vd, window, block, IO_WRITE, from, to);
	}
	return false;
}

/* False: the region's bit is not durable yet; the window will be resumed. */
static bool mark(struct vd *vd, struct window *window)
{
	window->state = WINDOW_MARKING;
	window->entered = true;
	if (dirty_map_enter(&vd->map, window->region, window))
		return true;
	vd->env->wake(vd->env, vd->lanes);
	return false;
}

/* Everything is read. */
static bool go_on_with_writing(struct vd *vd, struct window *window)
{
	content_compute(vd, window);
	window->computed = true;
	if (window->mismatch && window->repair)
		window->plan.write = all_parity(vd);
	if (window->plan.write == 0)
		return true;
	if (!window->entered && !mark(vd, window))
		return false;
	return write_out(vd, window);
}

static bool go_on_with_reading(struct vd *vd, struct window *window)
{
	u32 block;

	look_at_members(vd, window);
	if (!make_plan(vd, window))
		return end_with_error(window);
	if (window->plan.read == 0)
		return go_on_with_writing(vd, window);
	window->state = WINDOW_READING;
	window->failed = 0;
	window->ios_left = env_count_bits(window->plan.read);
	for (block = 0; block < content_blocks(vd); block++) {
		if (window->plan.read >> block & 1)
			submit(vd, window, block, IO_READ, window->first, window->last);
	}
	return false;
}

/* Whether the kind writes in any case; a check may only find out later. */
static bool writes(const struct window *window)
{
	return window->kind != REQUEST_READ && window->kind != REQUEST_PATROL &&
	       window->kind != REQUEST_CHECK;
}

/* Begins the operation: its kind, its pieces and its range are set. */
static bool begin(struct vd *vd, struct window *window)
{
	window->error = 0;
	window->mismatch = false;
	window->entered = false;
	window->computed = false;
	window->wrote = false;
	if (writes(window) && vd_is_broken(vd))
		return end_with_error(window);
	if (writes(window) && !mark(vd, window))
		return false;
	return go_on_with_reading(vd, window);
}

/* Takes the pieces of the next operation: as many of one kind as there are in a row. */
static void take_pieces(struct window *window)
{
	struct piece **end = &window->active;

	window->kind = window->pending->request->kind;
	window->repair = window->pending->request->repair;
	while (window->pending && window->pending->request->kind == window->kind) {
		*end = window->pending;
		end = &window->pending->next;
		window->pending = window->pending->next;
	}
	*end = NULL;
	if (!window->pending)
		window->pending_end = &window->pending;
}

bool window_start(struct vd *vd, struct window *window)
{
	struct piece *piece;

	take_pieces(window);
	memset(window->covered, 0, sizeof(window->covered));
	window->first = vd->geometry.window;
	window->last = 0;
	window->fua = false;
	for (piece = window->active; piece; piece = piece->next)
		content_add_piece(vd, window, piece);
	if (window->kind != REQUEST_READ && window->kind != REQUEST_WRITE) {
		window->first = 0;
		window->last = vd->geometry.window;
	}
	sum_up(vd, window);
	return begin(vd, window);
}

/* What could not be read is written as it should be. */
static bool start_repair(struct vd *vd, struct window *window)
{
	const u32 unreadable = window->coverage.unreadable;

	window->kind = REQUEST_REPAIR;
	window->fua = false;
	memset(window->covered, 0, sizeof(window->covered));
	sum_up(vd, window);
	window->coverage.unreadable = unreadable;
	return begin(vd, window);
}

/* --- what has happened */

static u32 block_at(const struct vd *vd, const struct window *window, const struct io *io)
{
	u32 block = 0;

	while (member_of(vd, window, block) != io->member)
		block++;
	return block;
}

static bool reads_ended(struct vd *vd, struct window *window)
{
	if (window->failed == 0)
		return go_on_with_writing(vd, window);
	window->coverage.unreadable |= window->failed;
	if (window->kind == REQUEST_PATROL || window->kind == REQUEST_CHECK)
		return true;
	return go_on_with_reading(vd, window);
}

static bool writes_ended(struct vd *vd, struct window *window)
{
	u32 block;

	if (window->failed == 0)
		return true;
	window->state = WINDOW_DROPPING;
	for (block = 0; block < content_blocks(vd); block++) {
		if (window->failed >> block & 1)
			metadata_drop(vd, member_of(vd, window, block), PERCH_MEMBER_FAILED);
	}
	metadata_wait(vd, window);
	vd->env->wake(vd->env, vd->lanes);
	return false;
}

bool window_io_ended(struct vd *vd, struct window *window, struct io *io)
{
	core_assert(window->ios_left > 0);
	if (vd_tries_again(vd, io))
		return false;
	if (io->error != 0)
		window->failed |= 1U << block_at(vd, window, io);
	if (--window->ios_left > 0)
		return false;
	return window->state == WINDOW_READING ? reads_ended(vd, window) : writes_ended(vd, window);
}

/* The members whose writes failed are out; what the others hold is what was to be written. */
static bool dropped(struct vd *vd, struct window *window)
{
	const u32 covered = window->coverage.whole | window->coverage.part;

	look_at_members(vd, window);
	if (window->kind == REQUEST_REBUILD)
		return end_with_error(window);
	/* It is written, and cannot be read. */
	if (!window->coverage.parity_good && (covered & window->coverage.lost))
		return end_with_error(window);
	return true;
}

bool window_resumed(struct vd *vd, struct window *window)
{
	if (vd_is_broken(vd))
		return end_with_error(window);
	if (window->state == WINDOW_DROPPING)
		return dropped(vd, window);
	return window->computed ? write_out(vd, window) : go_on_with_reading(vd, window);
}

/* After an error: whether parity of the region may match nothing. */
static bool leaves_doubt(const struct window *window)
{
	return window->entered && window->error != 0 &&
	       (window->kind == REQUEST_RESYNC ||
		(window->wrote && window->kind != REQUEST_REBUILD));
}

static void end_operation(struct vd *vd, struct window *window)
{
	struct piece *piece;

	if (leaves_doubt(window))
		dirty_map_suspect(&vd->map, window->region);
	if (window->entered)
		dirty_map_leave(&vd->map, window->region);
	while ((piece = window->active) != NULL) {
		window->active = piece->next;
		if (window->kind == REQUEST_READ && window->error == 0)
			content_copy_out(vd, window, piece);
		piece->request->mismatch |= window->mismatch;
		vd_piece_done(vd, piece, window->error);
	}
}

void window_finish(struct vd *vd, struct window *window)
{
	bool ended;

	do {
		end_operation(vd, window);
		if (window->coverage.unreadable != 0 && window->error == 0 &&
		    window->kind != REQUEST_REPAIR) {
			ended = start_repair(vd, window);
		} else if (window->pending) {
			ended = window_start(vd, window);
		} else {
			window->state = WINDOW_FREE;
			return;
		}
	} while (ended);
}
