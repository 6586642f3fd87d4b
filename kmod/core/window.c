// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Windows: see window.h.
 *
 * An operation takes the pieces that wait for a window, as many of one kind as came in a row, marks
 * the region dirty, reads what plan.c says, computes parity, writes data and parity beside each
 * other, and ends its pieces when all of that is complete. What arrives meanwhile waits, and is one
 * operation next: that turns small sequential writes into full rows.
 *
 * Invariants:
 *  (a) A window has one operation at a time. So parity is computed from a content that nobody
 *      changes, and a read that computes a lost block sees data and parity that belong together.
 *  (b) No block is written before the region's dirty bit is durable (dirty_map.c, a).
 *  (c) The host's data is copied once, before parity is computed: what is written is what parity was
 *      computed from, whatever the host does to its buffer.
 *  (d) Parity that is not known good is not used: plan.c is told so, and a lost block that only such
 *      parity could give is an error, to read and to write. Where a write has failed, parity is not
 *      known good from then on.
 *  (e) Sectors that the host did not write are either not written, or written as they were read.
 *
 * Crash argument (consistency "resync"): a cut keeps any sectors of the operation's writes. A data
 * sector is then old or new. Other blocks of the window are not written, or with their old content
 * (e). Parity may match nothing; the dirty bit is durable by (b), so after the restart parity of the
 * region is not known good, is not used by (d), and is recomputed. A write is acknowledged when data
 * and parity are complete, so a flush, or FUA on all of them, makes both durable, and what was
 * acknowledged as durable can be computed when a member is lost later.
 *
 * Ownership: a window belongs to its lane, whose owner alone calls what is here. Nothing is allocated.
 */
#include "core/window.h"

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

/* The place in the span of a block: data block, P or Q, as plan.h numbers them. */
static u32 place_of(const struct vd *vd, const struct window *window, u32 block)
{
	const struct geometry *geometry = &vd->geometry;
	u32 member;

	if (block < geometry->data)
		member = geometry_data(geometry, window->span, window->row, block);
	else if (block == geometry->data)
		member = geometry_p(geometry, window->span, window->row);
	else
		member = geometry_q(geometry, window->span, window->row);
	return member - window->span * geometry->per_span;
}

static u32 blocks(const struct vd *vd)
{
	return vd->geometry.data + vd->geometry.parities;
}

static bool is_covered(const struct window *window, u32 data, u32 sector)
{
	return window->covered[data][sector / 64] >> (sector % 64) & 1;
}

static void *at(void *block, u32 sector)
{
	return (u8 *)block + (size_t)sector * SECTOR_BYTES;
}

/*
 * Which sectors of a data block a piece covers: [*from, *to) of the window. Also where the first of
 * them is in the request, in bytes. False: none.
 */
static bool overlap(const struct vd *vd, const struct window *window, const struct piece *piece,
		    u32 data, u32 *from, u32 *to, u32 *offset)
{
	const struct geometry *geometry = &vd->geometry;
	const struct request *request = piece->request;
	const u64 strip = (window->row * geometry->spans + window->span) * geometry->data + data;
	const u64 begin = strip * geometry->strip + (u64)window->number * geometry->window;
	const u64 first = request->sector > begin ? request->sector : begin;
	const u64 request_end = request->sector + request->sectors;
	const u64 end = begin + geometry->window < request_end ? begin + geometry->window :
								 request_end;

	if (first >= end)
		return false;
	*from = (u32)(first - begin);
	*to = (u32)(end - begin);
	*offset = (u32)(first - request->sector) * SECTOR_BYTES;
	return true;
}

/* Marks what a piece covers, and takes over the data of a write. */
static void add_piece(struct vd *vd, struct window *window, struct piece *piece)
{
	u32 data, from, to, offset, sector;

	for (data = 0; data < vd->geometry.data; data++) {
		if (!overlap(vd, window, piece, data, &from, &to, &offset))
			continue;
		for (sector = from; sector < to; sector++)
			window->covered[data][sector / 64] |= (u64)1 << (sector % 64);
		window->first = from < window->first ? from : window->first;
		window->last = to > window->last ? to : window->last;
		if (window->kind == REQUEST_WRITE)
			vd->env->copy(vd->env, piece->request, offset,
				      at(window->block[place_of(vd, window, data)], from),
				      (to - from) * SECTOR_BYTES);
	}
	window->fua |= piece->request->fua;
}

/* Sorts the data blocks into those covered whole and in part, and finds what is lost. */
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
			count += is_covered(window, block, sector);
		if (count == window->last - window->first)
			coverage->whole |= 1U << block;
		else if (count > 0)
			coverage->part |= 1U << block;
	}
	for (block = 0; block < blocks(vd); block++) {
		if (vd->lost[window->span * vd->geometry.per_span + place_of(vd, window, block)])
			coverage->lost |= 1U << block;
	}
}

/* Where a data block is covered: from the first sector to the last. */
static void covered_range(const struct window *window, u32 data, u32 *from, u32 *to)
{
	*from = window->first;
	*to = window->last;
	while (*from < *to && !is_covered(window, data, *from))
		(*from)++;
	while (*from < *to && !is_covered(window, data, *to - 1))
		(*to)--;
}

static bool has_holes(const struct window *window, u32 data)
{
	u32 from, to;

	covered_range(window, data, &from, &to);
	for (; from < to; from++) {
		if (!is_covered(window, data, from))
			return true;
	}
	return false;
}

static void submit(struct vd *vd, struct window *window, u32 block, enum io_kind kind, u32 from,
		   u32 to)
{
	const u32 place = place_of(vd, window, block);
	struct io *io = &window->ios[place];

	memset(io, 0, sizeof(*io));
	io->kind = kind;
	io->area = IO_DATA;
	io->fua = kind == IO_WRITE && window->fua;
	io->member = window->span * vd->geometry.per_span + place;
	io->sector = member_sector(vd, window) + from;
	io->sectors = to - from;
	io->buffer = at(kind == IO_READ ? window->old[place] : window->block[place], from);
	io->owner = window;
	io->lane = window->lane;
	vd->env->submit(vd->env, io);
}

/* The blocks as parity.c wants them: those of `fresh` as they will be, the others as read. */
static struct parity_row parity_row(const struct vd *vd, const struct window *window, u32 fresh)
{
	struct parity_row row;
	u32 block;

	memset(&row, 0, sizeof(row));
	row.members = vd->geometry.per_span;
	row.p = place_of(vd, window, vd->geometry.data);
	row.q = vd->geometry.parities == 2 ? place_of(vd, window, vd->geometry.data + 1) :
					     row.members;
	for (block = 0; block < blocks(vd); block++) {
		const u32 place = place_of(vd, window, block);

		row.block[place] = at(fresh >> block & 1 ? window->block[place] :
							   window->old[place],
				      window->first);
	}
	return row;
}

/* A mask of blocks as one of places. */
static u32 places(const struct vd *vd, const struct window *window, u32 mask)
{
	u32 result = 0;
	u32 block;

	for (block = 0; block < blocks(vd); block++) {
		if (mask >> block & 1)
			result |= 1U << place_of(vd, window, block);
	}
	return result;
}

/* Fills what the host did not write of a block with what was read. */
static void complete_block(const struct vd *vd, struct window *window, u32 data)
{
	const u32 place = place_of(vd, window, data);
	u32 sector;

	for (sector = window->first; sector < window->last; sector++) {
		if (!is_covered(window, data, sector))
			memcpy(at(window->block[place], sector), at(window->old[place], sector),
			       SECTOR_BYTES);
	}
}

/* Parity from its old content and the change of each written block. */
static void modify_parity(const struct vd *vd, struct window *window, u32 covered, u32 parity)
{
	const size_t bytes = (size_t)(window->last - window->first) * SECTOR_BYTES;
	const struct parity_row row = parity_row(vd, window, ~0U);
	u32 block;

	for (block = vd->geometry.data; block < blocks(vd); block++) {
		const u32 place = place_of(vd, window, block);

		if (parity >> block & 1)
			memcpy(row.block[place], at(window->old[place], window->first), bytes);
	}
	for (block = 0; block < vd->geometry.data; block++) {
		const u32 place = place_of(vd, window, block);
		void *delta = at(window->old[place], window->first);

		if (!(covered >> block & 1))
			continue;
		parity_add(delta, row.block[place], bytes);
		parity_update(&row, place, delta, places(vd, window, parity), bytes);
	}
}

/* What is to be written, from what is new and what was read. */
static void compute(struct vd *vd, struct window *window)
{
	const struct plan_window *coverage = &window->coverage;
	const u32 all = (1U << vd->geometry.data) - 1;
	const u32 covered = coverage->whole | coverage->part;
	const u32 parity = window->plan.write & ~all;
	const size_t bytes = (size_t)(window->last - window->first) * SECTOR_BYTES;
	u32 block;

	if (window->plan.form == PLAN_RECOVER) {
		const struct parity_row row = parity_row(vd, window, 0);

		parity_recover(&row, places(vd, window, ~window->plan.read), bytes);
	}
	if (window->kind == REQUEST_READ)
		return;
	for (block = 0; block < vd->geometry.data; block++) {
		if (coverage->part >> block & 1)
			complete_block(vd, window, block);
	}
	if (window->plan.form == PLAN_MODIFY) {
		modify_parity(vd, window, covered, parity);
	} else if (parity != 0) {
		const struct parity_row row = parity_row(vd, window, covered | ~all);

		parity_generate(&row, places(vd, window, parity), bytes);
	}
}

/* Decides what to read and write. False: it cannot be done. */
static bool make_plan(struct vd *vd, struct window *window)
{
	const u32 all = (1U << vd->geometry.data) - 1;
	const u32 parity = ((1U << vd->geometry.parities) - 1) << vd->geometry.data;
	struct plan_window *coverage = &window->coverage;
	u32 block;

	coverage->parity_good = dirty_map_parity_good(&vd->map, window->region);
	if (window->kind == REQUEST_READ) {
		const u32 wanted = coverage->whole | coverage->part;

		window->plan.write = 0;
		window->plan.form = wanted & coverage->lost ? PLAN_RECOVER : PLAN_DATA_ONLY;
		return plan_read(coverage, wanted, &window->plan.read);
	}
	if (window->kind == REQUEST_RESYNC) {
		window->plan.form = PLAN_RECONSTRUCT;
		window->plan.read = all;
		window->plan.write = parity & ~coverage->lost;
		return (coverage->lost & all) == 0;
	}
	/* It could be written, but not read. */
	if (!coverage->parity_good && ((coverage->whole | coverage->part) & coverage->lost))
		return false;
	window->plan = plan_write(coverage);
	for (block = 0; block < vd->geometry.data; block++) {
		/* A member is written in one piece, which has to be known all over. */
		if (window->plan.form == PLAN_DATA_ONLY && (coverage->part >> block & 1) &&
		    !(coverage->lost >> block & 1) && has_holes(window, block))
			window->plan.read |= 1U << block;
	}
	return window->plan.form != PLAN_UNDEFINED;
}

/* Everything is read: computes and writes. True when there was nothing to write. */
static bool go_on_with_writing(struct vd *vd, struct window *window)
{
	const u32 write = window->plan.write;
	u32 block, from, to;

	compute(vd, window);
	if (write == 0)
		return true;
	window->state = WINDOW_WRITING;
	window->ios_left = env_count_bits(write);
	for (block = 0; block < blocks(vd); block++) {
		if (!(write >> block & 1))
			continue;
		from = window->first;
		to = window->last;
		if (block < vd->geometry.data)
			covered_range(window, block, &from, &to);
		submit(vd, window, block, IO_WRITE, from, to);
	}
	return false;
}

bool window_marked(struct vd *vd, struct window *window)
{
	u32 block;

	if (!make_plan(vd, window)) {
		window->error = -EIO;
		return true;
	}
	if (window->plan.read == 0)
		return go_on_with_writing(vd, window);
	window->state = WINDOW_READING;
	window->ios_left = env_count_bits(window->plan.read);
	for (block = 0; block < blocks(vd); block++) {
		if (window->plan.read >> block & 1)
			submit(vd, window, block, IO_READ, window->first, window->last);
	}
	return false;
}

/* Takes the pieces of the next operation: as many of one kind as there are in a row. */
static void take_pieces(struct window *window)
{
	struct piece **end = &window->active;

	window->kind = window->pending->request->kind;
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
	window->error = 0;
	for (piece = window->active; piece; piece = piece->next)
		add_piece(vd, window, piece);
	if (window->kind == REQUEST_RESYNC) {
		window->first = 0;
		window->last = vd->geometry.window;
	}
	sum_up(vd, window);
	window->entered = window->kind != REQUEST_READ;
	window->state = WINDOW_MARKING;
	if (window->entered && !dirty_map_enter(&vd->map, window->region, window)) {
		vd->env->wake(vd->env, vd->lanes);
		return false;
	}
	return window_marked(vd, window);
}

/* Gives a read its data. */
static void copy_out(struct vd *vd, struct window *window, struct piece *piece)
{
	u32 data, from, to, offset;

	for (data = 0; data < vd->geometry.data; data++) {
		if (overlap(vd, window, piece, data, &from, &to, &offset))
			vd->env->copy(vd->env, piece->request, offset,
				      at(window->old[place_of(vd, window, data)], from),
				      (to - from) * SECTOR_BYTES);
	}
}

void window_finish(struct vd *vd, struct window *window)
{
	struct piece *piece;

	do {
		if (window->entered)
			dirty_map_leave(&vd->map, window->region);
		while ((piece = window->active) != NULL) {
			window->active = piece->next;
			if (window->kind == REQUEST_READ && window->error == 0)
				copy_out(vd, window, piece);
			vd_piece_done(vd, piece, window->error);
		}
		if (!window->pending) {
			window->state = WINDOW_FREE;
			return;
		}
	} while (window_start(vd, window));
}

bool window_io_ended(struct vd *vd, struct window *window, const struct io *io)
{
	core_assert(window->ios_left > 0);
	if (io->error != 0) {
		window->error = -EIO;
		if (window->state == WINDOW_WRITING)
			dirty_map_suspect(&vd->map, window->region);
	}
	if (--window->ios_left > 0)
		return false;
	if (window->state == WINDOW_WRITING || window->error != 0)
		return true;
	return go_on_with_writing(vd, window);
}
