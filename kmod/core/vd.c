// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A VD: see vd.h. Starts it, and splits what the host asks for into pieces for windows.
 *
 * Invariants:
 *  (a) Who may be used is what the chosen epoch says of the instances that were found, and nothing
 *      else: a member that it calls in sync; one that is being rebuilt, up to where that was recorded;
 *      one that it does not know is new and is rebuilt from the start; any other one is left alone.
 *  (b) Nothing is written before the start's epoch is durable, which records who was not there
 *      (metadata.c).
 *  (c) Nothing of what a lost member and an unclean stop leave unknown together is guessed: it is
 *      -EIO, to read and to write.
 *
 * Crash argument: that of superblock.c, metadata.c, dirty_map.c, window.c and task.c.
 *
 * Locking: none of its own; see vd.h for what is shared.
 */
#include "core/vd.h"

void vd_init(struct vd *vd, struct env *env, struct lane *lane, u32 lanes)
{
	u32 i, windows;

	core_assert(lanes > 0 && lanes <= VD_MAX_LANES);
	core_assert(vd->map.region_sectors >= vd->geometry.strip);
	for (i = 0, windows = 0; i < lanes; i++)
		windows += lane[i].count;
	core_assert(windows <= 0xffff); /* the dirty map counts writes to a region in 16 bits */
	vd->env = env;
	vd->lane = lane;
	vd->lanes = lanes;
	vd->broken = false;
	vd->stopping = false;
	vd->refusal = SUPERBLOCK_ACCEPTED;
	memset(vd->member, 0, sizeof(vd->member));
	memset(vd->damaged, 0, sizeof(vd->damaged));
}

bool vd_found(struct vd *vd, u32 member, const struct perch_superblock *copy0,
	      const struct perch_superblock *copy1)
{
	const struct superblock_copies copies = superblock_pick(copy0, copy1, vd->map.uuid, member,
								vd->geometry.members);
	const struct perch_superblock *counts = copies.counts == 1 ? copy1 : copy0;
	struct member *found = &vd->member[member];

	if (copies.refusal != SUPERBLOCK_ACCEPTED)
		vd->refusal = copies.refusal;
	if (copies.counts < 0)
		return false;
	memcpy(vd->superblock[member], counts, sizeof(*counts));
	memcpy(found->instance, counts->instance, sizeof(found->instance));
	found->copy = copies.counts == 1;
	found->update_counter = le64_to_cpu(counts->update_counter);
	found->next = PERCH_MEMBER_IN_SYNC; /* until vd_choose(): it is there */
	vd->damaged[member] = copies.damaged;
	return true;
}

/* The superblock of a member that was found; NULL for others. */
static const struct perch_superblock *found_superblock(const struct vd *vd, u32 member)
{
	return vd->member[member].next == PERCH_MEMBER_UNUSED ? NULL : vd->superblock[member];
}

/* What a member is, by the epoch that counts. */
static void set_chosen_state(struct vd *vd, const struct perch_superblock *chosen, u32 row)
{
	const struct perch_superblock *found = found_superblock(vd, row);
	const struct perch_member *entry = &chosen->member[row];
	const u8 state = superblock_start_state(chosen, found, row);
	struct member *member = &vd->member[row];

	if (!found)
		memcpy(member->instance, entry->instance, sizeof(member->instance));
	else if (superblock_state(chosen, found) == PERCH_MEMBER_REBUILDING)
		member->recovered = le64_to_cpu(entry->recovered_bytes) / SECTOR_BYTES;
	member_set_state(member, state);
	member->next = state;
}

/* Members in sync that carry another epoch get the chosen one first: see metadata.c. */
static bool heal(struct vd *vd, u32 chosen)
{
	const struct perch_superblock *from = vd->superblock[chosen];
	bool any = false;
	u32 row;

	for (row = 0; row < vd->geometry.members; row++) {
		struct perch_superblock *to = vd->superblock[row];

		if (vd->member[row].state != PERCH_MEMBER_IN_SYNC ||
		    env_equal(to->epoch_nonce, from->epoch_nonce, sizeof(to->epoch_nonce)))
			continue;
		to->epoch_number = from->epoch_number;
		memcpy(to->epoch_nonce, from->epoch_nonce, sizeof(to->epoch_nonce));
		memcpy(to->epoch_parent_nonce, from->epoch_parent_nonce, sizeof(to->epoch_nonce));
		to->flags = from->flags;
		memcpy(to->member, from->member, sizeof(to->member));
		any = true;
	}
	return any;
}

static bool too_few(const struct vd *vd)
{
	u8 states[GEOMETRY_MAX_MEMBERS];
	u32 member;

	for (member = 0; member < vd->geometry.members; member++)
		states[member] = vd->member[member].state;
	return !member_enough(&vd->geometry, states);
}

enum vd_choice vd_choose(struct vd *vd)
{
	const struct perch_superblock **found = vd->found;
	struct epoch epoch;
	u32 row, chosen = 0;

	if (vd->refusal != SUPERBLOCK_ACCEPTED)
		return VD_REFUSED;
	for (row = 0; row < vd->geometry.members; row++)
		found[row] = found_superblock(vd, row);
	switch (superblock_choose(found, vd->damaged, vd->geometry.members, &chosen)) {
	case SUPERBLOCK_NONE:
		return VD_UNKNOWN;
	case SUPERBLOCK_TWO_HISTORIES:
		return VD_TWO_HISTORIES;
	default:
		break;
	}
	vd->clean = superblock_clean(found, vd->geometry.members, chosen);
	epoch = superblock_epoch(found[chosen]);
	for (row = 0; row < vd->geometry.members; row++)
		set_chosen_state(vd, found[chosen], row);
	if (too_few(vd))
		return VD_TOO_FEW;
	metadata_init(vd, &epoch, heal(vd, chosen), vd->clean);
	return VD_READY;
}

bool vd_is_in_sync(const struct vd *vd, u32 member)
{
	return member_state(&vd->member[member]) == PERCH_MEMBER_IN_SYNC;
}

void vd_start(struct vd *vd, u32 task_depth)
{
	u32 member;

	task_init(vd, task_depth);
	for (member = 0; member < vd->geometry.members; member++) {
		/* It has no map yet, and needs one to be in sync. */
		if (vd->member[member].state == PERCH_MEMBER_REBUILDING)
			dirty_map_write_all(&vd->map);
	}
	vd->env->wake(vd->env, vd->lanes);
}

/* --- requests */

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

bool vd_can_use(const struct vd *vd, u32 member, u64 sector)
{
	const struct member *one = &vd->member[member];
	const u8 state = member_state(one);
	u32 span, rest;
	u64 window;

	if (state != PERCH_MEMBER_REBUILDING)
		return state == PERCH_MEMBER_IN_SYNC;
	window = div_u64_rem(sector, vd->geometry.window, &rest);
	span = member / vd->geometry.per_span;
	return sector < env_load(&one->recovered) ||
	       task_has_rebuilt(&vd->task, task_place(window, vd->geometry.spans, span));
}

bool vd_reads_directly(struct vd *vd, u64 sector, u32 sectors, u64 *ticket)
{
	const u64 end = sector + sectors;
	const u32 step = vd->geometry.window;
	struct geometry_place place;

	*ticket = env_load(&vd->bad.added);
	if (bad_ranges_overlap(&vd->bad, sector, sectors))
		return false;
	while (sector < end) {
		if (!vd_read_place(vd, sector, 0, &place))
			return false;
		sector = (sector | (step - 1)) + 1;
	}
	return true;
}

bool vd_read_place(struct vd *vd, u64 sector, u32 turn, struct geometry_place *place)
{
	const struct geometry *geometry = &vd->geometry;
	u32 copy, usable = 0, choices;

	*place = geometry_map(geometry, sector);
	for (copy = 0; copy < geometry->copies; copy++) {
		if (vd_can_use(vd, place->member + copy, place->sector))
			usable |= 1U << copy;
	}
	choices = env_count_bits(usable);
	if (choices == 0)
		return false;
	/* Copies may differ: all reads are from one of them until they are the same. */
	if (choices > 1 &&
	    !dirty_map_parity_good(&vd->map, dirty_map_region(&vd->map, place->sector)))
		choices = 1;
	for (turn %= choices; turn > 0; turn--)
		usable &= usable - 1;
	for (; !(usable & 1); usable >>= 1)
		place->member++;
	return true;
}

bool vd_read_stands(const struct vd *vd, u64 ticket)
{
	return env_load(&vd->bad.added) == ticket;
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

void vd_put_piece(struct vd *vd, struct piece *piece)
{
	const u32 lane = lane_of(vd, piece);

	lane_put_piece(&vd->lane[lane], piece);
	vd->env->wake(vd->env, lane);
}

static void submit_pieces(struct vd *vd, struct vd_request *request)
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

void vd_submit(struct vd *vd, struct vd_request *request)
{
	request->error = 0;
	if (request->kind == REQUEST_READ || request->kind == REQUEST_WRITE) {
		submit_pieces(vd, request);
		return;
	}
	if (request->kind == REQUEST_STOP)
		env_store(&vd->stopping, true);
	metadata_put_request(vd, request);
	vd->env->wake(vd->env, vd->lanes);
}

void vd_piece_done(struct vd *vd, struct piece *piece, int error)
{
	struct vd_request *request = piece->request;

	if (error != 0)
		request->error = error;
	if (!env_dec_and_test(&request->left))
		return;
	if (request->kind == REQUEST_READ || request->kind == REQUEST_WRITE)
		vd->env->complete(vd->env, request, request->error);
	else
		task_ended(vd, request, request->error);
}

/* --- events */

void vd_io_done(struct vd *vd, struct io *io, int error)
{
	const u32 lane = io->lane;

	io->error = error;
	if (lane < vd->lanes)
		lane_put_io(&vd->lane[lane], io);
	else
		metadata_put_io(vd, io);
	vd->env->wake(vd->env, lane);
}

bool vd_tries_again(struct vd *vd, struct io *io)
{
	if (io->error == 0 || io->kind != IO_WRITE || io->again)
		return false;
	io->again = true;
	io->error = 0;
	vd->env->submit(vd->env, io);
	return true;
}

void vd_member_lost(struct vd *vd, u32 member)
{
	metadata_drop(vd, member, PERCH_MEMBER_ABSENT);
	vd->env->wake(vd->env, vd->lanes);
}

void vd_tick(struct vd *vd)
{
	metadata_tick(vd);
	vd->env->wake(vd->env, vd->lanes);
}

void vd_run_lane(struct vd *vd, u32 lane)
{
	lane_run(vd, &vd->lane[lane]);
}

void vd_run(struct vd *vd)
{
	task_collect(vd, metadata_take_tick(vd));
	metadata_run(vd);
	task_issue(vd);
}

/* --- what it is like */

bool vd_is_resynced(struct vd *vd)
{
	return !dirty_map_has_unknown(&vd->map);
}

bool vd_is_optimal(const struct vd *vd)
{
	u32 member;

	for (member = 0; member < vd->geometry.members; member++) {
		if (!vd_is_in_sync(vd, member))
			return false;
	}
	return true;
}

bool vd_is_broken(const struct vd *vd)
{
	return env_load(&vd->broken);
}

bool vd_is_stopping(const struct vd *vd)
{
	return env_load(&vd->stopping);
}

bool vd_is_rebuilt(struct vd *vd, u64 sectors)
{
	return sectors == vd->geometry.member_sectors && dirty_map_is_written(&vd->map) &&
	       bad_ranges_is_written(&vd->bad);
}

bool vd_rebuilt_further(struct vd *vd, u64 sectors)
{
	const bool whole = vd_is_rebuilt(vd, sectors);
	u32 member;

	for (member = 0; member < vd->geometry.members; member++) {
		const struct member *one = &vd->member[member];

		if (one->state == PERCH_MEMBER_REBUILDING &&
		    (one->recovered < sectors || (whole && one->next == PERCH_MEMBER_REBUILDING)))
			return true;
	}
	return false;
}
