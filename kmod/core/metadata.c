// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The VD's own writes: see metadata.h.
 *
 * Invariants:
 *  (a) One work at a time, the same command to every member that is there; all with FUA but flushes.
 *  (b) An epoch counts when it is durable on every member that it names as there. Only then members'
 *      states change, so that no operation is planned without a member before the survivors know, and
 *      only then windows go on whose write failed on a member: nothing is acknowledged that a member
 *      has not got and that the survivors' superblocks still trust (rule 3).
 *  (c) A work that failed on a member is done once more when that member is out. A write is tried
 *      twice before. A flush is not: what it was to cover may be gone, and a second one that succeeds
 *      proves nothing.
 *  (d) An epoch is begun when the one before it has ended on every member that it names. After a start
 *      some members in sync may carry one that was cut off: they get the chosen one first ("heals").
 *  (e) More members lost than a span's level survives: nothing is recorded, the VD is broken. Writes
 *      and flushes are errors from then on, and a later start finds the epoch as it was.
 *  (f) Bits are set, and windows go on, only when the page is on all members. Bits are cleared only
 *      behind a flush that was issued after idle regions were looked for (dirty_map.c, b), and only
 *      while all members are in sync.
 *  (g) A host's flush is complete when a flush of every member that was issued after the request came
 *      has succeeded. So all that was acknowledged before is on the media.
 *  (h) A rebuild's cursor, "in sync" and "clean" are written behind a flush that was issued after the
 *      writes they vouch for had ended (rule 11). Clean: only when no parity is unknown.
 *
 * Crash argument: a superblock is written over the older copy, so that a torn one leaves the other;
 * superblock.c says which epoch counts after any cut. The start's epoch is durable before the first
 * page of the map, and a page before the first write in place; so a clean mark is gone, and a member
 * that is not there is recorded as absent, before anything changes that could make them untrue.
 *
 * Locking: `lock` guards what other threads leave here; all else is metadata_run()'s own. Nothing
 * outside is called with the lock held.
 */
#include "core/metadata.h"

#include "core/vd.h"

/* A metadata page, in sectors. */
#define PAGE_SECTORS (PERCH_METADATA_UNIT / SECTOR_BYTES)

void metadata_init(struct vd *vd, const struct epoch *epoch, bool heals, bool clean)
{
	struct metadata *metadata = &vd->metadata;

	memset(metadata, 0, sizeof(*metadata));
	env_lock_init(&metadata->lock);
	metadata->epoch = *epoch;
	metadata->heals = heals;
	metadata->clean = clean;
	metadata->epoch_wanted = true;
}

void metadata_put_request(struct vd *vd, struct vd_request *request)
{
	struct metadata *metadata = &vd->metadata;

	env_lock(&metadata->lock);
	if (request->kind == REQUEST_STOP) {
		metadata->stop = request;
	} else {
		request->next = metadata->flushes;
		metadata->flushes = request;
	}
	env_unlock(&metadata->lock);
}

void metadata_put_io(struct vd *vd, struct io *io)
{
	env_lock(&vd->metadata.lock);
	io->next = vd->metadata.ended;
	vd->metadata.ended = io;
	env_unlock(&vd->metadata.lock);
}

void metadata_tick(struct vd *vd)
{
	env_lock(&vd->metadata.lock);
	vd->metadata.ticked = true;
	env_unlock(&vd->metadata.lock);
}

void metadata_drop(struct vd *vd, u32 member, u8 state)
{
	env_lock(&vd->metadata.lock);
	if (member_is_there(vd->member[member].next)) {
		vd->member[member].next = state;
		vd->metadata.epoch_wanted = true;
	}
	env_unlock(&vd->metadata.lock);
}

void metadata_wait(struct vd *vd, struct window *window)
{
	env_lock(&vd->metadata.lock);
	window->next_waiter = vd->metadata.waiting;
	vd->metadata.waiting = window;
	env_unlock(&vd->metadata.lock);
}

/* Gives windows back to their lanes. */
static void resume(struct vd *vd, struct window *window)
{
	struct window *next;
	u32 lane;

	for (; window; window = next) {
		next = window->next_waiter;
		lane = window->lane;
		lane_put_window(&vd->lane[lane], window);
		vd->env->wake(vd->env, lane);
	}
}

static void complete_flushes(struct vd *vd, struct vd_request *request, int error)
{
	struct vd_request *next;

	for (; request; request = next) {
		next = request->next;
		vd->env->complete(vd->env, request, error);
	}
}

/* --- commands */

/* A member's superblock, as it is to be. */
static void fill_superblock(struct vd *vd, u32 member, const struct epoch *epoch, const u8 *states)
{
	struct perch_superblock *superblock = vd->superblock[member];
	u32 row;

	superblock->epoch_number = cpu_to_le64(epoch->number);
	memcpy(superblock->epoch_nonce, epoch->nonce, sizeof(epoch->nonce));
	memcpy(superblock->epoch_parent_nonce, epoch->parent, sizeof(epoch->parent));
	superblock->flags = cpu_to_le32(vd->metadata.clean ? PERCH_SUPERBLOCK_CLEAN : 0);
	for (row = 0; row < vd->geometry.members; row++) {
		struct perch_member *entry = &superblock->member[row];
		const u64 recovered = states[row] == PERCH_MEMBER_REBUILDING ?
					      vd->member[row].recovered : 0;

		memset(entry, 0, sizeof(*entry));
		memcpy(entry->instance, vd->member[row].instance, sizeof(entry->instance));
		entry->recovered_bytes = cpu_to_le64(recovered * SECTOR_BYTES);
		entry->row = cpu_to_le16((u16)row);
		entry->state = states[row];
	}
	superblock_seal(superblock, vd->member[member].update_counter + 1);
}

/* The command of the work for one member. */
static void prepare(struct vd *vd, u32 member)
{
	struct metadata *metadata = &vd->metadata;
	struct io *io = &metadata->ios[member];
	const struct epoch *epoch = metadata->work == METADATA_EPOCH ? &metadata->epoch_next :
								       &metadata->epoch;

	memset(io, 0, sizeof(*io));
	io->kind = IO_WRITE;
	io->fua = true;
	io->member = member;
	io->lane = vd->lanes;
	switch (metadata->work) {
	case METADATA_SUPERBLOCKS:
	case METADATA_EPOCH:
		if (metadata->heals) /* vd_choose() has filled it */
			superblock_seal(vd->superblock[member], vd->member[member].update_counter + 1);
		else
			fill_superblock(vd, member, epoch, metadata->planned);
		io->area = IO_SUPERBLOCK;
		io->sector = vd->member[member].copy ?
				     0 : PERCH_SUPERBLOCK_COPY_STRIDE / SECTOR_BYTES;
		io->sectors = PERCH_SUPERBLOCK_BYTES / SECTOR_BYTES;
		io->buffer = vd->superblock[member];
		break;
	case METADATA_FLUSHING:
		io->kind = IO_FLUSH;
		io->fua = false;
		break;
	case METADATA_BAD_RANGES:
		io->area = IO_BAD_RANGES;
		io->sector = bad_ranges_sector(&vd->bad, member);
		io->sectors = PAGE_SECTORS;
		io->buffer = vd->bad_page;
		break;
	default:
		io->area = IO_DIRTY_MAP;
		io->sector = (u64)vd->map.writing_page * PAGE_SECTORS;
		io->sectors = PAGE_SECTORS;
		io->buffer = vd->map_page;
	}
}

/* Begins a work: its command goes to every member that is there, for an epoch: that will be. */
static void begin(struct vd *vd, enum metadata_work work)
{
	struct metadata *metadata = &vd->metadata;
	const bool planned = work == METADATA_EPOCH;
	u32 member;

	metadata->work = work;
	metadata->failed = false;
	metadata->ios_left = 0;
	for (member = 0; member < vd->geometry.members; member++) {
		if (!planned)
			metadata->planned[member] = vd->member[member].state;
		metadata->ios_left += member_is_there(metadata->planned[member]);
	}
	for (member = 0; member < vd->geometry.members; member++) {
		if (!member_is_there(metadata->planned[member]))
			continue;
		prepare(vd, member);
		vd->env->submit(vd->env, &metadata->ios[member]);
	}
}

/* Counts the commands that have ended. True when the last one of the work has. */
static bool count_ended(struct vd *vd)
{
	struct metadata *metadata = &vd->metadata;
	struct io *io, *next;
	bool any = false;

	env_lock(&metadata->lock);
	next = metadata->ended;
	metadata->ended = NULL;
	env_unlock(&metadata->lock);
	while ((io = next) != NULL) {
		next = io->next;
		if (vd_tries_again(vd, io))
			continue;
		any = true;
		core_assert(metadata->ios_left > 0);
		metadata->ios_left--;
		if (io->error != 0) {
			metadata->failed = true;
			metadata_drop(vd, io->member, PERCH_MEMBER_FAILED);
		} else if (io->area == IO_SUPERBLOCK && io->kind == IO_WRITE) {
			vd->member[io->member].copy = !vd->member[io->member].copy;
			vd->member[io->member].update_counter++;
		} else if (io->area == IO_BAD_RANGES && io->kind == IO_WRITE) {
			bad_ranges_put(&vd->bad, io->member);
		}
	}
	return any && metadata->ios_left == 0;
}

/* --- epochs */

/* Begins the next epoch, if one is wanted. True: it, or the end of everything, has begun. */
static bool begin_epoch(struct vd *vd)
{
	struct metadata *metadata = &vd->metadata;
	u32 member;
	bool wanted;

	env_lock(&metadata->lock);
	wanted = metadata->epoch_wanted;
	metadata->epoch_wanted = false;
	for (member = 0; wanted && member < vd->geometry.members; member++)
		metadata->planned[member] = vd->member[member].next;
	env_unlock(&metadata->lock);
	if (!wanted)
		return false;
	if (!member_enough(&vd->geometry, metadata->planned)) {
		env_store(&vd->broken, true);
		return true;
	}
	metadata->clean = false;
	metadata->epoch_next.number = metadata->epoch.number + 1;
	memcpy(metadata->epoch_next.parent, metadata->epoch.nonce, sizeof(metadata->epoch.nonce));
	vd->env->random(vd->env, metadata->epoch_next.nonce, sizeof(metadata->epoch_next.nonce));
	begin(vd, METADATA_EPOCH);
	return true;
}

/* It is on all members that it names, but for those that have failed meanwhile. */
static void end_epoch(struct vd *vd)
{
	struct metadata *metadata = &vd->metadata;
	u32 member;

	metadata->epoch = metadata->epoch_next;
	if (metadata->failed)
		return; /* it names one that has not got it: it may not count yet; the next one will */
	for (member = 0; member < vd->geometry.members; member++)
		member_set_state(&vd->member[member], metadata->planned[member]);
}

/* --- flushes */

/*
 * Whether a stop is wanted, and nothing is under way any more: no window of a task, and no repair. Tasks
 * begin none while the VD is stopping.
 */
static bool stop_is_due(struct vd *vd)
{
	bool stops;
	u32 lane;

	env_lock(&vd->metadata.lock);
	stops = vd->metadata.stop != NULL;
	env_unlock(&vd->metadata.lock);
	for (lane = 0; stops && lane < vd->lanes; lane++)
		stops = lane_is_idle(&vd->lane[lane]);
	return stops;
}

static void complete_stop(struct vd *vd, int error)
{
	struct metadata *metadata = &vd->metadata;
	struct vd_request *stop;

	env_lock(&metadata->lock);
	stop = metadata->stop;
	metadata->stop = NULL;
	env_unlock(&metadata->lock);
	metadata->stopped = true;
	vd->env->complete(vd->env, stop, error);
}

/* Begins a flush for all who want one. */
static void begin_flush(struct vd *vd)
{
	struct metadata *metadata = &vd->metadata;
	const bool checkpoint = metadata->tick_due || task_is_at_end(&vd->task);

	env_lock(&metadata->lock);
	metadata->flushing = metadata->flushes;
	metadata->flushes = NULL;
	env_unlock(&metadata->lock);
	metadata->flush_stops = stop_is_due(vd);
	/* What is idle now has no write that the flush, issued after this, would not cover. */
	metadata->flush_clears = metadata->tick_due && vd_is_optimal(vd) &&
				 dirty_map_tick(&vd->map);
	metadata->flush_rebuilt = checkpoint ? task_rebuilt_to(vd) : 0;
	metadata->tick_due = false;
	metadata->flush_first = false;
	if (metadata->flushing || metadata->flush_clears || metadata->flush_stops ||
	    vd_rebuilt_further(vd, metadata->flush_rebuilt))
		begin(vd, METADATA_FLUSHING);
}

/* What is rebuilt is on the media: the cursor may say so, or the member be in sync. */
static void record_rebuilt(struct vd *vd)
{
	struct metadata *metadata = &vd->metadata;
	const u64 rebuilt = metadata->flush_rebuilt;
	const bool whole = vd_is_rebuilt(vd, rebuilt);
	u32 member;

	for (member = 0; member < vd->geometry.members; member++) {
		struct member *one = &vd->member[member];

		if (one->state != PERCH_MEMBER_REBUILDING)
			continue;
		if (one->recovered < rebuilt)
			env_store(&one->recovered, rebuilt);
		env_lock(&metadata->lock);
		if (whole && one->next == PERCH_MEMBER_REBUILDING) {
			one->next = PERCH_MEMBER_IN_SYNC;
			metadata->epoch_wanted = true;
		}
		env_unlock(&metadata->lock);
	}
	if (!whole)
		begin(vd, METADATA_SUPERBLOCKS);
}

static void end_flush(struct vd *vd)
{
	struct metadata *metadata = &vd->metadata;
	struct vd_request *flushed = metadata->flushing;

	metadata->flushing = NULL;
	complete_flushes(vd, flushed, 0);
	if (metadata->flush_stops) {
		metadata->clean = !dirty_map_has_unknown(&vd->map);
		begin(vd, METADATA_SUPERBLOCKS);
	} else if (vd_rebuilt_further(vd, metadata->flush_rebuilt)) {
		record_rebuilt(vd);
	}
	if (metadata->work == METADATA_IDLE && metadata->flush_clears && vd_is_optimal(vd) &&
	    dirty_map_next_clear(&vd->map, vd->map_page))
		begin(vd, METADATA_CLEARING_BITS);
}

/* --- what comes next */

static void end_superblocks(struct vd *vd)
{
	struct metadata *metadata = &vd->metadata;

	metadata->heals = false;
	if (metadata->flush_stops)
		complete_stop(vd, 0);
}

/* The work has ended. */
static void end_work(struct vd *vd)
{
	struct metadata *metadata = &vd->metadata;
	const enum metadata_work work = metadata->work;

	metadata->work = METADATA_IDLE;
	if (work == METADATA_EPOCH) {
		end_epoch(vd);
		return;
	}
	if (metadata->failed && metadata->heals) {
		metadata->heals = false; /* the epoch that follows does not count on it */
		return;
	}
	if (metadata->failed) {
		metadata->held = work;
		return;
	}
	switch (work) {
	case METADATA_SUPERBLOCKS:
		end_superblocks(vd);
		break;
	case METADATA_FLUSHING:
		end_flush(vd);
		break;
	case METADATA_BAD_RANGES:
		resume(vd, bad_ranges_written(&vd->bad));
		break;
	default:
		metadata->flush_first = true;
		resume(vd, dirty_map_written(&vd->map));
	}
}

/* Nothing can be written any more: all that wait are told so. */
static void give_up(struct vd *vd)
{
	struct metadata *metadata = &vd->metadata;
	struct vd_request *flushes;
	struct window *windows;

	env_lock(&metadata->lock);
	flushes = metadata->flushes;
	metadata->flushes = NULL;
	windows = metadata->waiting;
	metadata->waiting = NULL;
	env_unlock(&metadata->lock);
	complete_flushes(vd, metadata->flushing, -EIO);
	metadata->flushing = NULL;
	complete_flushes(vd, flushes, -EIO);
	resume(vd, windows);
	resume(vd, dirty_map_take_waiters(&vd->map));
	resume(vd, bad_ranges_take_waiters(&vd->bad));
	if (stop_is_due(vd))
		complete_stop(vd, -EIO);
}

/* No member is to be dropped: windows that wait for that may go on. */
static void resume_waiting(struct vd *vd)
{
	struct metadata *metadata = &vd->metadata;
	struct window *windows = NULL;

	env_lock(&metadata->lock);
	if (!metadata->epoch_wanted) {
		windows = metadata->waiting;
		metadata->waiting = NULL;
	}
	env_unlock(&metadata->lock);
	resume(vd, windows);
}

static void begin_held(struct vd *vd)
{
	const enum metadata_work held = vd->metadata.held;

	vd->metadata.held = METADATA_IDLE;
	/* The epoch without the member that failed took the mark away; nothing was written since the flush. */
	if (held == METADATA_SUPERBLOCKS && vd->metadata.flush_stops)
		vd->metadata.clean = !dirty_map_has_unknown(&vd->map);
	begin(vd, held);
}

/* Begins what is most urgent. */
static void begin_next(struct vd *vd)
{
	struct metadata *metadata = &vd->metadata;

	if (metadata->heals) {
		begin(vd, METADATA_SUPERBLOCKS);
		return;
	}
	if (begin_epoch(vd))
		return;
	resume_waiting(vd);
	if (metadata->held != METADATA_IDLE) {
		begin_held(vd);
		return;
	}
	if (bad_ranges_next(&vd->bad, vd->bad_page)) {
		begin(vd, METADATA_BAD_RANGES);
		return;
	}
	/* Pages of the map and flushes take turns, so that neither waits for all of the others. */
	if (metadata->flush_first)
		begin_flush(vd);
	if (metadata->work != METADATA_IDLE)
		return;
	if (dirty_map_next_set(&vd->map, vd->map_page))
		begin(vd, METADATA_SETTING_BITS);
	else
		begin_flush(vd);
}

bool metadata_take_tick(struct vd *vd)
{
	bool ticked;

	env_lock(&vd->metadata.lock);
	ticked = vd->metadata.ticked;
	vd->metadata.ticked = false;
	env_unlock(&vd->metadata.lock);
	vd->metadata.tick_due |= ticked;
	return ticked;
}

void metadata_run(struct vd *vd)
{
	struct metadata *metadata = &vd->metadata;

	if (metadata->stopped)
		return;
	if (count_ended(vd))
		end_work(vd);
	/* The end of the work may have been that of the stop. */
	if (metadata->work == METADATA_IDLE && !vd->broken && !metadata->stopped)
		begin_next(vd);
	if (metadata->work == METADATA_IDLE && vd->broken)
		give_up(vd);
}
