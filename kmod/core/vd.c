// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A VD: see vd.h. Splits what the host asks for into pieces for windows, writes the dirty map,
 * flushes, and resyncs.
 *
 * This version runs with the members it is started with: one whose command fails makes the request
 * fail (-EIO), it is not dropped. Nothing of what a lost member and an unclean stop leave unknown
 * together is guessed: it is -EIO.
 *
 * Invariants:
 *  (a) The dirty map's pages are written one at a time, with FUA, to every member that can be used;
 *      bits are set, and windows go on, only when all of them have succeeded.
 *  (b) Bits are cleared only behind a flush of all members; dirty_map_tick() looks for idle regions
 *      just before that flush is issued, and at no other time (dirty_map.c, b). Only while no member
 *      is lost.
 *  (c) A host's flush is complete when a flush of every member that was issued after the request
 *      came has succeeded. So all that was acknowledged before is on the media.
 *  (d) Resync goes window by window through the lanes, as a write does, so that no write is between
 *      its reads and its writes. Parity of a region is good once all its windows are done. Not yet
 *      flushed, that is true for reads now; for a crash the bit is still set.
 *
 * Crash argument: that of dirty_map.c and window.c. Resync starts anew after a crash, from the bits;
 * it only ever writes parity computed from data as it is, so a cut in its middle leaves what the
 * next resync repairs.
 *
 * Locking: `lock` guards what other threads leave for vd_run(); all else that is not in a lane or
 * the dirty map is vd_run()'s own.
 */
#include "core/vd.h"

/* A metadata page, in sectors. */
#define PAGE_SECTORS (PERCH_METADATA_UNIT / SECTOR_BYTES)

void vd_init(struct vd *vd, struct env *env, struct lane *lane, u32 lanes)
{
	u32 span, member, lost;

	core_assert(vd->geometry.parities > 0 && lanes > 0 && lanes <= VD_MAX_LANES);
	core_assert(vd->map.region_sectors >= vd->geometry.strip);
	for (member = 0, lost = 0; member < lanes; member++)
		lost += lane[member].count;
	core_assert(lost <= 0xffff); /* the dirty map counts writes to a region in 16 bits */
	for (span = 0; span < vd->geometry.spans; span++) {
		lost = 0;
		for (member = 0; member < vd->geometry.per_span; member++)
			lost += vd->lost[span * vd->geometry.per_span + member] != 0;
		core_assert(lost <= vd->geometry.parities);
	}
	vd->env = env;
	vd->lane = lane;
	vd->lanes = lanes;
	env_lock_init(&vd->lock);
	vd->flushes = NULL;
	vd->ended = NULL;
	vd->tick_due = false;
	vd->flush_first = false;
	vd->resync_ended = false;
	vd->work = VD_NOTHING;
	vd->flushing = NULL;
	vd->resyncing = false;
	vd->resync_failed = false;
	vd->resync_region = dirty_map_next_unknown(&vd->map, 0);
	vd->resync_sector = vd->resync_region * vd->map.region_sectors;
	vd->resync_span = 0;
	vd->failed = false;
	vd->ticked = false;
}

static u32 windows_of_strip(const struct vd *vd)
{
	return vd->geometry.strip / vd->geometry.window;
}

static u32 lane_of(const struct vd *vd, const struct piece *piece)
{
	const u64 number = (piece->row * vd->geometry.spans + piece->span) * windows_of_strip(vd) +
			   piece->window;
	u32 lane;

	div_u64_rem(number, vd->lanes, &lane);
	return lane;
}

/* The row of the VD, over all spans, that a sector is in; and where in the row. */
static u64 row_of(const struct vd *vd, u64 sector, u32 *in_row)
{
	return div_u64_rem(sector, vd_row_sectors(vd), in_row);
}

bool vd_reads_directly(const struct vd *vd, u64 sector, u32 sectors)
{
	const u64 end = sector + sectors;

	while (sector < end) {
		if (vd->lost[geometry_map(&vd->geometry, sector).member])
			return false;
		sector = (sector | (vd->geometry.strip - 1)) + 1;
	}
	return true;
}

/* Whether a request covers anything of a window of its row. */
static bool covers(const struct vd *vd, u32 first, u32 sectors, u32 window)
{
	const u32 size = vd->geometry.window;
	u32 data;

	for (data = 0; data < vd->geometry.data; data++) {
		const u32 begin = data * vd->geometry.strip + window * size;

		if (begin < first + sectors && first < begin + size)
			return true;
	}
	return false;
}

static void submit_pieces(struct vd *vd, struct request *request)
{
	u32 used[REQUEST_MAX_WINDOWS];
	u32 in_row, window, span, pieces = 0, i;
	u64 row = row_of(vd, request->sector, &in_row);

	core_assert(request->sectors > 0 && request->sectors <= vd_row_sectors(vd) - in_row);
	core_assert(request->sector + request->sectors <= vd->geometry.vd_sectors);
	row = div_u64_rem(row, vd->geometry.spans, &span);
	for (window = 0; window < windows_of_strip(vd); window++) {
		struct piece *piece = &request->pieces[pieces];

		if (!covers(vd, in_row, request->sectors, window))
			continue;
		piece->request = request;
		piece->row = row;
		piece->span = span;
		piece->window = window;
		pieces++;
	}
	/* Complete it can be as soon as the last piece is in a lane; it is not touched after that. */
	request->left = pieces;
	for (i = 0; i < pieces; i++)
		used[i] = lane_of(vd, &request->pieces[i]);
	for (i = 0; i < pieces; i++)
		lane_put_piece(&vd->lane[used[i]], &request->pieces[i]);
	for (i = 0; i < pieces; i++)
		vd->env->wake(vd->env, used[i]);
}

void vd_submit(struct vd *vd, struct request *request)
{
	request->error = 0;
	if (request->kind != REQUEST_FLUSH) {
		submit_pieces(vd, request);
		return;
	}
	env_lock(&vd->lock);
	request->next = vd->flushes;
	vd->flushes = request;
	env_unlock(&vd->lock);
	vd->env->wake(vd->env, vd->lanes);
}

void vd_piece_done(struct vd *vd, struct piece *piece, int error)
{
	struct request *request = piece->request;

	if (error != 0)
		request->error = error;
	if (!env_dec_and_test(&request->left))
		return;
	if (request->kind != REQUEST_RESYNC) {
		vd->env->complete(vd->env, request, request->error);
		return;
	}
	env_lock(&vd->lock);
	vd->resync_ended = true;
	env_unlock(&vd->lock);
	vd->env->wake(vd->env, vd->lanes);
}

void vd_io_done(struct vd *vd, struct io *io, int error)
{
	const u32 lane = io->lane;

	io->error = error;
	if (lane < vd->lanes) {
		lane_put_io(&vd->lane[lane], io);
	} else {
		env_lock(&vd->lock);
		io->next = vd->ended;
		vd->ended = io;
		env_unlock(&vd->lock);
	}
	vd->env->wake(vd->env, lane);
}

static bool any_lost(const struct vd *vd)
{
	u32 member;

	for (member = 0; member < vd->geometry.members; member++) {
		if (vd->lost[member])
			return true;
	}
	return false;
}

void vd_tick(struct vd *vd)
{
	env_lock(&vd->lock);
	vd->ticked = true;
	env_unlock(&vd->lock);
	vd->env->wake(vd->env, vd->lanes);
}

void vd_run_lane(struct vd *vd, u32 lane)
{
	lane_run(vd, &vd->lane[lane]);
}

/* The same command to every member that can be used. */
static void submit_to_all(struct vd *vd, enum io_kind kind)
{
	u32 member;

	vd->error = 0;
	vd->ios_left = 0;
	for (member = 0; member < vd->geometry.members; member++)
		vd->ios_left += !vd->lost[member];
	for (member = 0; member < vd->geometry.members; member++) {
		struct io *io = &vd->ios[member];

		if (vd->lost[member])
			continue;
		memset(io, 0, sizeof(*io));
		io->kind = kind;
		io->member = member;
		io->lane = vd->lanes;
		if (kind == IO_WRITE) {
			io->area = IO_DIRTY_MAP;
			io->fua = true;
			io->sector = (u64)vd->map.writing_page * PAGE_SECTORS;
			io->sectors = PAGE_SECTORS;
			io->buffer = &vd->page;
		}
		vd->env->submit(vd->env, io);
	}
}

static void begin_page(struct vd *vd, enum vd_work work)
{
	vd->work = work;
	submit_to_all(vd, IO_WRITE);
}

/* The page is on all members: windows that waited for it go on. */
static void end_page(struct vd *vd)
{
	struct window *window, *next;
	u32 lane;

	if (vd->error != 0) {
		/* A member that cannot be written is to be dropped; until that exists, once more. */
		vd->failed = true;
		return;
	}
	vd->work = VD_NOTHING;
	vd->flush_first = true;
	for (window = dirty_map_written(&vd->map); window; window = next) {
		next = window->next_waiter;
		lane = window->lane;
		lane_put_window(&vd->lane[lane], window);
		vd->env->wake(vd->env, lane);
	}
}

/* Begins a flush for all who want one. */
static void begin_flush(struct vd *vd)
{
	env_lock(&vd->lock);
	vd->flushing = vd->flushes;
	vd->flushes = NULL;
	env_unlock(&vd->lock);
	/* What is idle now has no write that the flush, issued after this, would not cover. */
	vd->flush_clears = vd->tick_due && !any_lost(vd) && dirty_map_tick(&vd->map);
	vd->tick_due = false;
	vd->flush_first = false;
	if (vd->flushing || vd->flush_clears) {
		vd->work = VD_FLUSHING;
		submit_to_all(vd, IO_FLUSH);
	}
}

static void end_flush(struct vd *vd)
{
	struct request *request;

	vd->work = VD_NOTHING;
	while ((request = vd->flushing) != NULL) {
		vd->flushing = request->next;
		vd->env->complete(vd->env, request, vd->error ? -EIO : 0);
	}
	if (vd->flush_clears && vd->error == 0 && dirty_map_next_clear(&vd->map, &vd->page))
		begin_page(vd, VD_CLEARING_BITS);
}

/* Submits the window at the cursor. */
static void resync_window(struct vd *vd)
{
	struct request *request = &vd->resync;
	struct piece *piece = &request->pieces[0];
	u32 in_strip, lane;

	memset(request, 0, sizeof(*request));
	request->kind = REQUEST_RESYNC;
	request->left = 1;
	piece->request = request;
	piece->row = div_u64_rem(vd->resync_sector, vd->geometry.strip, &in_strip);
	piece->span = vd->resync_span;
	piece->window = in_strip / vd->geometry.window;
	lane = lane_of(vd, piece);
	lane_put_piece(&vd->lane[lane], piece);
	vd->env->wake(vd->env, lane);
}

static u64 region_end(const struct vd *vd, u64 region)
{
	const u64 end = (region + 1) * vd->map.region_sectors;

	return end < vd->geometry.member_sectors ? end : vd->geometry.member_sectors;
}

/* Moves the cursor past a window that was resynced. */
static void resync_next(struct vd *vd)
{
	vd->resyncing = false;
	vd->resync_failed = vd->resync.error != 0;
	if (vd->resync_failed || ++vd->resync_span < vd->geometry.spans)
		return;
	vd->resync_span = 0;
	vd->resync_sector += vd->geometry.window;
	if (vd->resync_sector < region_end(vd, vd->resync_region))
		return;
	dirty_map_resynced(&vd->map, vd->resync_region);
	vd->resync_region = dirty_map_next_unknown(&vd->map, vd->resync_region);
	vd->resync_sector = vd->resync_region * vd->map.region_sectors;
}

/* Resync goes on, if there is anything to resync and nobody is lost. */
static void resync(struct vd *vd, bool ended)
{
	if (ended)
		resync_next(vd);
	if (!vd->resyncing && !vd->resync_failed && vd->resync_region < vd->map.regions &&
	    !any_lost(vd)) {
		vd->resyncing = true;
		resync_window(vd);
	}
}

/* Counts the commands that have ended. True when the last one of the work has. */
static bool take_ended(struct vd *vd)
{
	struct io *io;
	bool any;

	env_lock(&vd->lock);
	io = vd->ended;
	vd->ended = NULL;
	env_unlock(&vd->lock);
	any = io != NULL;
	for (; io; io = io->next) {
		if (io->error != 0)
			vd->error = io->error;
		core_assert(vd->ios_left > 0);
		vd->ios_left--;
	}
	return any && vd->ios_left == 0;
}

void vd_run(struct vd *vd)
{
	bool ticked, resynced;

	env_lock(&vd->lock);
	ticked = vd->ticked;
	resynced = vd->resync_ended;
	vd->ticked = false;
	vd->resync_ended = false;
	env_unlock(&vd->lock);
	if (take_ended(vd)) {
		if (vd->work == VD_FLUSHING)
			end_flush(vd);
		else
			end_page(vd);
	}
	vd->tick_due |= ticked;
	if (ticked && vd->failed) {
		vd->failed = false;
		submit_to_all(vd, IO_WRITE);
	}
	/* Pages and flushes take turns, so that neither waits for all of the others. */
	if (vd->work == VD_NOTHING && vd->flush_first)
		begin_flush(vd);
	if (vd->work == VD_NOTHING) {
		if (dirty_map_next_set(&vd->map, &vd->page))
			begin_page(vd, VD_SETTING_BITS);
		else
			begin_flush(vd);
	}
	if (ticked)
		vd->resync_failed = false;
	resync(vd, resynced);
}

bool vd_in_sync(struct vd *vd)
{
	return dirty_map_next_unknown(&vd->map, 0) == vd->map.regions;
}
