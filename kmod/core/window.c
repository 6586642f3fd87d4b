// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Windows: see window.h. One operation after the other: what the host writes, a read that has to
 * compute something, a window of a task. Pieces that come meanwhile wait and join the operation that
 * is next: that turns small sequential writes into full rows.
 *
 *	MARKING ──► READING ──► WRITING ──► (end)
 *	               ▲  │         ├──► DROPPING ──► (end)
 *	       LISTING ┴──┘         └──► UNLISTING ──► (end)
 *
 * Writes that fail together are done once more, each on its own.
 *
 * A block that cannot be read is "unreadable" for this operation, which is planned once more without
 * it; when the operation has ended, another one (REQUEST_REPAIR) writes what it should hold. If the
 * redundancy is not enough for that, the operation is done once more in small parts: unreadable
 * sectors of several members seldom lie at the same place. Where they do, the data is lost for good:
 * it is listed (bad_ranges.c), and becomes zeros with parity that matches. So a rebuild comes to its
 * end, and so does the host when it writes there again.
 *
 * A write that fails, twice, costs its member: the operation ends when that member is out.
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
 *  (e) Zeros are not written in the place of what is lost for good, nor parity that counts on them,
 *      before that is listed on all members. A write to such sectors is FUA, and answered when they
 *      are off the list (bad_ranges.c, a).
 *  (f) A member that is being rebuilt is used in this window from the moment the window was rebuilt,
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
#include "core/window_plan.h"

u64 window_sector(const struct vd *vd, const struct window *window)
{
	return window->row * vd->geometry.strip + (u64)window->number * vd->geometry.window;
}

u64 window_region(const struct vd *vd, const struct window *window)
{
	return dirty_map_region(&vd->map, window_sector(vd, window));
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
	io->member = window_member(vd, window, block);
	io->sector = window_sector(vd, window) + from;
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
		if (window->kind == REQUEST_WRITE && block < vd->geometry.data &&
		    !(window->zeroed >> block & 1))
			content_covered_range(window, block, &from, &to);
		submit(vd, window, block, IO_WRITE, from, to);
	}
	return false;
}

/* False: the region's bit is not durable yet; the window will be resumed. */
static bool mark(struct vd *vd, struct window *window)
{
	if (vd->geometry.redundancy == 0)
		return true; /* there is nothing that could differ */
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
		window->plan.write = content_parity(vd);
	if (window->plan.write == 0)
		return true;
	if (!window->entered && !mark(vd, window))
		return false;
	return write_out(vd, window);
}

/* Lists what is lost for good; the window will be resumed. */
static bool list_lost(struct vd *vd, struct window *window, u32 lost)
{
	const u32 reason = window->coverage.unreadable != 0 ? PERCH_BAD_LOST : PERCH_BAD_UNDEFINED;
	u32 block;

	for (block = 0; block < vd->geometry.data; block++) {
		if ((lost >> block & 1) &&
		    !bad_ranges_add(&vd->bad, content_sector(vd, window, block) + window->first,
				    window->last - window->first, reason))
			return end_with_error(window);
	}
	window->zeroed |= lost;
	window->lists = true;
	window->fua |= window->kind == REQUEST_WRITE;
	window->state = WINDOW_LISTING;
	/* It was on the list already: a cut came before the zeros. */
	if (bad_ranges_durable(&vd->bad, window))
		lane_put_window(&vd->lane[window->lane], window);
	vd->env->wake(vd->env, window->lane);
	vd->env->wake(vd->env, vd->lanes);
	return false;
}

/* What the plan needs is missing. */
static bool do_without(struct vd *vd, struct window *window)
{
	const u32 lost = window_plan_lost(vd, window) & ~window->zeroed;

	if (window->coverage.unreadable != 0 && !window->fine) {
		window->fine = true;
		window->last = window->from; /* its parts are still to come: next_part() */
		return true;
	}
	return lost != 0 ? list_lost(vd, window, lost) : end_with_error(window);
}

static bool go_on_with_reading(struct vd *vd, struct window *window)
{
	u32 block;

	if (!window_plan(vd, window))
		return do_without(vd, window);
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
	window->wrote = false;
	window->lists = false;
	window->fine = false;
	window->first = window->from;
	window->last = window->to;
	window_plan_part(vd, window);
	if (window->kind == REQUEST_REPAIR)
		window->coverage.unreadable = window->unreadable;
	if (writes(window) && vd_is_broken(vd))
		return end_with_error(window);
	if (writes(window) && !mark(vd, window))
		return false;
	return go_on_with_reading(vd, window);
}

/*
 * Whether the next piece joins the operation: one of the same kind. Writes to copies leave no holes,
 * which would have to be read.
 */
static bool joins(const struct vd *vd, const struct window *window, u32 *from, u32 *to)
{
	const struct piece *piece = window->pending;

	if (!piece || piece->request->kind != window->kind)
		return false;
	return vd->geometry.parities > 0 || window->kind != REQUEST_WRITE ||
	       content_widen(vd, window, piece, 0, from, to);
}

/* Takes the pieces of the next operation, in their order. */
static void take_pieces(const struct vd *vd, struct window *window)
{
	struct piece **end = &window->active;
	u32 from = 0, to = 0;

	window->kind = window->pending->request->kind;
	window->repair = window->pending->request->repair;
	while (joins(vd, window, &from, &to)) {
		*end = window->pending;
		end = &window->pending->next;
		window->pending = window->pending->next;
		if (window->alone > 0) {
			window->alone--;
			break;
		}
	}
	*end = NULL;
	if (!window->pending)
		window->pending_end = &window->pending;
}

bool window_start(struct vd *vd, struct window *window)
{
	struct piece *piece;

	take_pieces(vd, window);
	memset(window->covered, 0, sizeof(window->covered));
	memset(window->undefined, 0, sizeof(window->undefined));
	window->from = vd->geometry.window;
	window->to = 0;
	window->fua = false;
	window->unreadable = 0;
	for (piece = window->active; piece; piece = piece->next)
		content_add_piece(vd, window, piece);
	window->fua |= content_is_listed(vd, window);
	if (window->kind != REQUEST_READ && window->kind != REQUEST_WRITE) {
		window->from = 0;
		window->to = vd->geometry.window;
	}
	return begin(vd, window);
}

/* What could not be read is written as it should be. */
static bool start_repair(struct vd *vd, struct window *window)
{
	window->kind = REQUEST_REPAIR;
	window->fua = false;
	memset(window->covered, 0, sizeof(window->covered));
	return begin(vd, window);
}

/* The next part of an operation that is done in parts. False: there is none. */
static bool next_part(struct vd *vd, struct window *window)
{
	const bool tasks = window->kind != REQUEST_READ && window->kind != REQUEST_WRITE;

	while (window->error == 0 && window->last < window->to) {
		window->first = window->last;
		window->last = window->first - window->first % WINDOW_FINE + WINDOW_FINE;
		if (window->last > window->to)
			window->last = window->to;
		if (window_plan_part(vd, window) || tasks)
			return true;
	}
	return false;
}

/* Some of what the host wrote was lost before. It is durable: off the list with it, and it waits. */
static bool unlist(struct vd *vd, struct window *window)
{
	if (!content_unlist(vd, window))
		return end_with_error(window);
	window->state = WINDOW_UNLISTING;
	if (bad_ranges_durable(&vd->bad, window))
		return true;
	vd->env->wake(vd->env, vd->lanes);
	return false;
}

/* --- what has happened */

static u32 block_at(const struct vd *vd, const struct window *window, const struct io *io)
{
	u32 block = 0;

	while (window_member(vd, window, block) != io->member)
		block++;
	return block;
}

static bool reads_ended(struct vd *vd, struct window *window)
{
	if (window->failed == 0)
		return go_on_with_writing(vd, window);
	window->coverage.unreadable |= window->failed;
	window->unreadable |= window->failed;
	if (window->kind == REQUEST_PATROL || window->kind == REQUEST_CHECK)
		return true;
	return go_on_with_reading(vd, window);
}

static bool writes_ended(struct vd *vd, struct window *window)
{
	u32 block;

	if (window->failed == 0) {
		window->wrote = false;
		return true;
	}
	window->state = WINDOW_DROPPING;
	for (block = 0; block < content_blocks(vd); block++) {
		if (window->failed >> block & 1)
			metadata_drop(vd, window_member(vd, window, block), PERCH_MEMBER_FAILED);
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
	if (io->error == -ENODATA && io->kind == IO_READ)
		window->gone |= 1U << block_at(vd, window, io);
	if (--window->ios_left > 0)
		return false;
	return window->state == WINDOW_READING ? reads_ended(vd, window) : writes_ended(vd, window);
}

/* The members whose writes failed are out; what the others hold is what was to be written. */
static bool dropped(struct vd *vd, struct window *window)
{
	const u32 covered = window->coverage.whole | window->coverage.part;

	if (window->kind == REQUEST_REBUILD)
		return end_with_error(window);
	/* It is written, and cannot be read. */
	if (!window_plan_parity_good(vd, window) &&
	    (covered & window_plan_out(vd, window)))
		return end_with_error(window);
	return true;
}

bool window_resumed(struct vd *vd, struct window *window)
{
	if (vd_is_broken(vd))
		return end_with_error(window);
	if (window->state == WINDOW_DROPPING)
		return dropped(vd, window);
	if (window->state == WINDOW_UNLISTING)
		return true;
	return window->computed ? write_out(vd, window) : go_on_with_reading(vd, window);
}

/* After an error: whether parity of the region may match nothing. */
static bool leaves_doubt(const struct window *window)
{
	return window->entered && window->error != 0 &&
	       (window->kind == REQUEST_RESYNC ||
		(window->wrote && (window->kind != REQUEST_REBUILD || window->lists)));
}

/*
 * Writes that have failed together are tried one by one, before any other: what cannot be done of one
 * is not the others' fault. True: they are.
 */
static bool part_writes(const struct vd *vd, struct window *window)
{
	struct piece **end = &window->active;

	if (window->error == 0 || window->kind != REQUEST_WRITE || vd_is_broken(vd) ||
	    !window->active || !window->active->next)
		return false;
	for (; *end; end = &(*end)->next)
		window->alone++;
	*end = window->pending;
	if (!window->pending)
		window->pending_end = end;
	window->pending = window->active;
	window->active = NULL;
	return true;
}

static void end_operation(struct vd *vd, struct window *window)
{
	struct piece *piece;
	int error;

	if (leaves_doubt(window))
		dirty_map_suspect(&vd->map, window->region);
	if (window->entered)
		dirty_map_leave(&vd->map, window->region);
	if (part_writes(vd, window))
		return;
	while ((piece = window->active) != NULL) {
		window->active = piece->next;
		error = window->error;
		if (window->kind == REQUEST_READ && error == 0)
			error = content_copy_out(vd, window, piece);
		piece->request->mismatch |= window->mismatch;
		vd_piece_done(vd, piece, error);
	}
}

/* Begins the next operation, if there is one. As window_start(). */
static bool start_next(struct vd *vd, struct window *window)
{
	if (window->unreadable != 0 && window->error == 0 && window->kind != REQUEST_REPAIR)
		return start_repair(vd, window);
	if (window->pending)
		return window_start(vd, window);
	window->state = WINDOW_FREE;
	return false;
}

void window_finish(struct vd *vd, struct window *window)
{
	bool ended = true;

	while (ended) {
		if (next_part(vd, window)) {
			ended = go_on_with_reading(vd, window);
		} else if (window->error == 0 && content_is_listed(vd, window)) {
			ended = unlist(vd, window);
		} else {
			end_operation(vd, window);
			ended = start_next(vd, window);
		}
	}
}
