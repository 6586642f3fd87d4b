// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What a window's blocks hold: see content.h.
 *
 * Invariants:
 *  (a) The host's data is copied once, before parity is computed: what is written is what parity was
 *      computed from, whatever the host does to its buffer (rule 7).
 *  (b) Sectors that the host did not write are either not written, or written as they were read.
 *  (c) `old` is what was read or recovered, `block` what is to be written; parity is computed from
 *      nothing else.
 *
 * Crash argument: none needed here; nothing is issued.
 *
 * Ownership: the window's, in its lane.
 */
#include "core/content.h"

#include "core/vd.h"

bool content_is_covered(const struct window *window, u32 data, u32 sector)
{
	return window->covered[data][sector / 64] >> (sector % 64) & 1;
}

u32 content_blocks(const struct vd *vd)
{
	return vd->geometry.data + vd->geometry.redundancy;
}

u32 content_data(const struct vd *vd)
{
	return (1U << vd->geometry.data) - 1;
}

u32 content_parity(const struct vd *vd)
{
	return ((1U << vd->geometry.redundancy) - 1) << vd->geometry.data;
}

void *content_at(void *block, u32 sector)
{
	return (u8 *)block + (size_t)sector * SECTOR_BYTES;
}

u32 content_place(const struct vd *vd, const struct window *window, u32 block)
{
	const struct geometry *geometry = &vd->geometry;
	u32 member;

	if (geometry->parities == 0)
		return block;
	if (block < geometry->data)
		member = geometry_data(geometry, window->span, window->row, block);
	else if (block == geometry->data)
		member = geometry_p(geometry, window->span, window->row);
	else
		member = geometry_q(geometry, window->span, window->row);
	return member - window->span * geometry->per_span;
}

u64 content_sector(const struct vd *vd, const struct window *window, u32 data)
{
	const struct geometry *geometry = &vd->geometry;
	const u64 strip = (window->row * geometry->spans + window->span) * geometry->data + data;

	return strip * geometry->strip + (u64)window->number * geometry->window;
}

/*
 * Which sectors of a data block a piece covers: [*from, *to) of the window. Also where the first of
 * them is in the request, in bytes. False: none.
 */
static bool overlap(const struct vd *vd, const struct window *window, const struct piece *piece,
		    u32 data, u32 *from, u32 *to, u32 *offset)
{
	const struct geometry *geometry = &vd->geometry;
	const struct vd_request *request = piece->request;
	const u64 begin = content_sector(vd, window, data);
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

bool content_widen(const struct vd *vd, const struct window *window, const struct piece *piece,
		   u32 data, u32 *from, u32 *to)
{
	u32 first, end, offset;

	if (!overlap(vd, window, piece, data, &first, &end, &offset))
		return false;
	if (*from < *to && (first > *to || end < *from))
		return false;
	if (*from == *to) {
		*from = first;
		*to = end;
	}
	*from = first < *from ? first : *from;
	*to = end > *to ? end : *to;
	return true;
}

void content_add_piece(struct vd *vd, struct window *window, struct piece *piece)
{
	u32 data, from, to, offset, sector;

	for (data = 0; data < vd->geometry.data; data++) {
		if (!overlap(vd, window, piece, data, &from, &to, &offset))
			continue;
		for (sector = from; sector < to; sector++)
			window->covered[data][sector / 64] |= (u64)1 << (sector % 64);
		window->from = from < window->from ? from : window->from;
		window->to = to > window->to ? to : window->to;
		if (window->kind == REQUEST_WRITE)
			vd->env->copy(vd->env, piece->request, offset,
				      content_at(window->block[content_place(vd, window, data)], from),
				      (to - from) * SECTOR_BYTES);
	}
	window->fua |= piece->request->fua;
}

void content_covered_range(const struct window *window, u32 data, u32 *from, u32 *to)
{
	*from = window->first;
	*to = window->last;
	while (*from < *to && !content_is_covered(window, data, *from))
		(*from)++;
	while (*from < *to && !content_is_covered(window, data, *to - 1))
		(*to)--;
}

bool content_has_holes(const struct window *window, u32 data)
{
	u32 from, to;

	content_covered_range(window, data, &from, &to);
	for (; from < to; from++) {
		if (!content_is_covered(window, data, from))
			return true;
	}
	return false;
}

/* The blocks as parity.c wants them: those of `fresh` as they will be, the others as read. */
static struct parity_row parity_row(const struct vd *vd, const struct window *window, u32 fresh)
{
	struct parity_row row;
	u32 block;

	memset(&row, 0, sizeof(row));
	row.members = vd->geometry.per_span;
	row.p = content_place(vd, window, vd->geometry.data);
	row.q = vd->geometry.parities == 2 ? content_place(vd, window, vd->geometry.data + 1) :
					     row.members;
	for (block = 0; block < content_blocks(vd); block++) {
		const u32 place = content_place(vd, window, block);

		row.block[place] = content_at(fresh >> block & 1 ? window->block[place] :
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

	for (block = 0; block < content_blocks(vd); block++) {
		if (mask >> block & 1)
			result |= 1U << content_place(vd, window, block);
	}
	return result;
}

/* Fills what the host did not write of a block with what was read. */
static void complete_block(const struct vd *vd, struct window *window, u32 data)
{
	const u32 place = content_place(vd, window, data);
	u32 sector;

	for (sector = window->first; sector < window->last; sector++) {
		if (!content_is_covered(window, data, sector))
			memcpy(content_at(window->block[place], sector), content_at(window->old[place], sector),
			       SECTOR_BYTES);
	}
}

/* Parity from its old content and the change of each written block. */
static void modify_parity(const struct vd *vd, struct window *window, u32 covered, u32 parity)
{
	const size_t bytes = (size_t)(window->last - window->first) * SECTOR_BYTES;
	const struct parity_row row = parity_row(vd, window, ~0U);
	u32 block;

	for (block = vd->geometry.data; block < content_blocks(vd); block++) {
		const u32 place = content_place(vd, window, block);

		if (parity >> block & 1)
			memcpy(row.block[place], content_at(window->old[place], window->first), bytes);
	}
	for (block = 0; block < vd->geometry.data; block++) {
		const u32 place = content_place(vd, window, block);
		void *delta = content_at(window->old[place], window->first);

		if (!(covered >> block & 1))
			continue;
		parity_add(delta, row.block[place], bytes);
		parity_update(&row, place, delta, places(vd, window, parity), bytes);
	}
}

/* The further copies of a mirror: what they hold, and whether they are all the same. */
static void fill_copies(const struct vd *vd, struct window *window, u32 blocks, const void *from)
{
	const size_t bytes = (size_t)(window->last - window->first) * SECTOR_BYTES;
	u32 block;

	for (block = 0; block < content_blocks(vd); block++) {
		if (blocks >> block & 1)
			memcpy(content_at(window->block[block], window->first), from, bytes);
	}
}

static bool copies_match(const struct vd *vd, const struct window *window)
{
	const size_t bytes = (size_t)(window->last - window->first) * SECTOR_BYTES;
	u32 block;

	for (block = 1; block < content_blocks(vd); block++) {
		if (!env_equal(content_at(window->old[0], window->first),
			       content_at(window->old[block], window->first), bytes))
			return false;
	}
	return true;
}

/* Parity as it follows from what was read; whether that is what is there. */
static bool parity_matches(const struct vd *vd, struct window *window, u32 all)
{
	const size_t bytes = (size_t)(window->last - window->first) * SECTOR_BYTES;
	const struct parity_row row = parity_row(vd, window, ~all);
	bool matches = true;
	u32 block;

	parity_generate(&row, places(vd, window, ~all), bytes);
	for (block = vd->geometry.data; block < content_blocks(vd); block++) {
		const u32 place = content_place(vd, window, block);

		matches = matches && env_equal(row.block[place],
					       content_at(window->old[place], window->first), bytes);
	}
	return matches;
}

/* What was recovered is what is to be written. */
static void take_recovered(const struct vd *vd, struct window *window)
{
	u32 block;

	for (block = 0; block < content_blocks(vd); block++) {
		const u32 place = content_place(vd, window, block);
		void *recovered = window->old[place];

		if (!(window->plan.write >> block & 1))
			continue;
		window->old[place] = window->block[place];
		window->block[place] = recovered;
	}
}

/* What is lost for good, and not written by the host, is zeros from now on. */
static void zero_lost(const struct vd *vd, struct window *window)
{
	const size_t bytes = (size_t)(window->last - window->first) * SECTOR_BYTES;
	u32 block;

	for (block = 0; block < vd->geometry.data; block++) {
		const u32 place = content_place(vd, window, block);

		if (!(window->zeroed >> block & 1))
			continue;
		memset(content_at(window->old[place], window->first), 0, bytes);
		if (!(window->coverage.part >> block & 1))
			memset(content_at(window->block[place], window->first), 0, bytes);
	}
}

/* A mirror: all that is written is the same. */
static void compute_copies(struct vd *vd, struct window *window)
{
	const u32 source = window->plan.read != 0 ? window->plan.read & ~(window->plan.read - 1) : 1;
	const bool fresh = (window->coverage.whole | window->zeroed) & 1;
	u32 place = 0;

	for (; !(source >> place & 1);)
		place++;
	if (window->kind == REQUEST_CHECK && window->plan.read != 0)
		window->mismatch = !copies_match(vd, window);
	if (window->kind == REQUEST_READ && place != 0)
		memcpy(content_at(window->old[0], window->first),
		       content_at(window->old[place], window->first),
		       (size_t)(window->last - window->first) * SECTOR_BYTES);
	if (fresh)
		fill_copies(vd, window, window->plan.write & ~1U, content_at(window->block[0], window->first));
	else
		fill_copies(vd, window, window->plan.write | (window->mismatch ? content_parity(vd) : 0),
			    content_at(window->old[place], window->first));
}

static void compute_parity(struct vd *vd, struct window *window)
{
	const struct plan_window *coverage = &window->coverage;
	const u32 all = content_data(vd);
	const u32 covered = coverage->whole | coverage->part;
	const u32 parity = window->plan.write & ~all;
	const size_t bytes = (size_t)(window->last - window->first) * SECTOR_BYTES;
	const bool restores = window->kind == REQUEST_REBUILD || window->kind == REQUEST_REPAIR;
	u32 block;

	if (window->plan.form == PLAN_RECOVER) {
		const struct parity_row row = parity_row(vd, window, 0);

		parity_recover(&row, places(vd, window, ~window->plan.read), bytes);
		if (restores)
			take_recovered(vd, window);
	}
	if (window->kind == REQUEST_CHECK && window->plan.read != 0)
		window->mismatch = !parity_matches(vd, window, all);
	if (window->kind == REQUEST_READ || window->kind == REQUEST_CHECK ||
	    (restores && window->plan.form == PLAN_RECOVER))
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

void content_compute(struct vd *vd, struct window *window)
{
	zero_lost(vd, window);
	if (vd->geometry.parities == 0)
		compute_copies(vd, window);
	else
		compute_parity(vd, window);
}

/* Whether a read of these sectors of a block cannot be answered. */
static bool is_undefined(const struct window *window, u32 data, u32 from, u32 to)
{
	const u32 part = 1U << from / WINDOW_FINE;
	const u32 parts_after = 1U << (to + WINDOW_FINE - 1) / WINDOW_FINE;

	return window->undefined[data] & (parts_after - part);
}

int content_copy_out(struct vd *vd, struct window *window, struct piece *piece)
{
	u32 data, from, to, offset;

	for (data = 0; data < vd->geometry.data; data++) {
		if (overlap(vd, window, piece, data, &from, &to, &offset) &&
		    (is_undefined(window, data, from, to) ||
		     bad_ranges_overlap(&vd->bad, content_sector(vd, window, data) + from, to - from)))
			return -EIO;
	}
	for (data = 0; data < vd->geometry.data; data++) {
		if (overlap(vd, window, piece, data, &from, &to, &offset))
			vd->env->copy(vd->env, piece->request, offset,
				      content_at(window->old[content_place(vd, window, data)], from),
				      (to - from) * SECTOR_BYTES);
	}
	return 0;
}

bool content_is_listed(struct vd *vd, const struct window *window)
{
	const struct piece *piece;
	u32 data, from, to, offset;

	if (window->kind != REQUEST_WRITE || env_load(&vd->bad.count) == 0)
		return false;
	for (piece = window->active; piece; piece = piece->next) {
		for (data = 0; data < vd->geometry.data; data++) {
			if (overlap(vd, window, piece, data, &from, &to, &offset) &&
			    bad_ranges_overlap(&vd->bad, content_sector(vd, window, data) + from,
					       to - from))
				return true;
		}
	}
	return false;
}

bool content_unlist(struct vd *vd, const struct window *window)
{
	const struct piece *piece;
	u32 data, from, to, offset;

	for (piece = window->active; piece; piece = piece->next) {
		for (data = 0; data < vd->geometry.data; data++) {
			if (overlap(vd, window, piece, data, &from, &to, &offset) &&
			    !bad_ranges_remove(&vd->bad, content_sector(vd, window, data) + from,
					       to - from))
				return false;
		}
	}
	return true;
}
