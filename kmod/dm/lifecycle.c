// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Start and stop.
 *
 * A start reads superblocks, dirty maps and bad ranges of all members and lets the core choose (vd.h).
 * Every resume is a start, and every suspension a stop: what is in memory is never trusted again.
 *
 * Invariants:
 *  (a) A start writes nothing before the core has chosen; the first thing it writes is an epoch.
 *  (b) Trouble with members is no failure of the resume: the VD is there, all its I/O is an error, and its
 *      status says why.
 *  (c) Nothing is allocated here: memory might be what waits for this device.
 *  (d) After perch_stop() nothing of the core runs, and no command is under way.
 *  (e) Who ends a command has told the core, and wakes its work after that: the stop may be complete in
 *      between. So that is done under rcu_read_lock(), and a stop waits for whoever is in there.
 *  (f) A VD runs once: device-mapper would let two tables have the same members.
 *
 * Crash argument: that of the core. A machine that goes down without a suspension leaves the VD unclean.
 *
 * Locking: the state changes only here, while the device is suspended: device-mapper lets no bio in, and
 * calls one of these at a time. But messages and status come at any time: they hold `gate` while they look at
 * the state and use what runs, and a change of the state holds it for that one store.
 */
#include "dm/lifecycle.h"

#include <linux/random.h>
#include <linux/rcupdate.h>

#include "dm/commands.h"
#include "dm/host.h"
#include "dm/work.h"

#define START_TASK_DEPTH 4U

static void complete_request(struct env *env, struct vd_request *request, int error)
{
	struct perch *perch = container_of(env, struct perch, env);

	if (request->kind != REQUEST_STOP) {
		perch_complete_bio(request, error);
		return;
	}
	perch->stop_error = error;
	complete(&perch->stopped);
}

static void fill_random(struct env *env, void *buffer, u32 bytes)
{
	get_random_bytes(buffer, bytes);
}

/* What the core works with, as the constructor left it. */
static void prepare(struct perch *perch)
{
	struct vd *vd = &perch->vd;
	u32 lane, member, i;

	memset(vd, 0, sizeof(*vd));
	/* Of a window only its memory stays. */
	for (i = 0; i < perch->lanes * perch->windows; i++)
		memset(&perch->window[i], 0, offsetof(struct window, block));
	perch->env.submit = perch_submit_command;
	perch->env.complete = complete_request;
	perch->env.copy = perch_copy;
	perch->env.random = fill_random;
	perch->env.wake = perch_wake;
	vd->geometry = perch->geometry;
	memset(perch->superblocks, 0, perch->geometry.members * sizeof(*perch->superblocks));
	for (member = 0; member < perch->geometry.members; member++)
		vd->superblock[member] = &perch->superblocks[member];
	vd->map_page = perch->map_page;
	vd->bad_page = perch->bad_page;
	dirty_map_init(&vd->map, perch->geometry.member_sectors, perch->region_sectors,
		       perch->region_flags, perch->region_users, perch->uuid);
	bad_ranges_init(&vd->bad, perch->bad_pages, PERCH_BAD_PAGES, perch->uuid);
	for (lane = 0; lane < perch->lanes; lane++)
		lane_init(&perch->lane[lane], &perch->window[lane * perch->windows], perch->windows);
	vd_init(vd, &perch->env, perch->lane, perch->lanes);
}

/* --- superblocks */

/* Why a member's superblock cannot be this table's; NULL: it can. */
static const char *objection(const struct perch *perch, const struct perch_superblock *superblock)
{
	if (le32_to_cpu(superblock->level) != perch->level ||
	    (perch->level >= PERCH_LEVEL_RAID50 &&
	     le32_to_cpu(superblock->members_per_span) != perch->geometry.per_span) ||
	    le32_to_cpu(superblock->strip_bytes) != perch->geometry.strip * SECTOR_BYTES ||
	    le32_to_cpu(superblock->block_bytes) != perch->block_bytes ||
	    le64_to_cpu(superblock->vd_bytes) != perch->geometry.vd_sectors * SECTOR_BYTES ||
	    le64_to_cpu(superblock->data_bytes) != perch->geometry.member_sectors * SECTOR_BYTES ||
	    le64_to_cpu(superblock->region_bytes) != (u64)perch->region_sectors * SECTOR_BYTES)
		return "a superblock does not agree with the table";
	return NULL;
}

/* Reads the superblocks of all members that are there. False: the VD must not be started. */
static bool find_members(struct perch *perch)
{
	struct perch_superblock *copies = &perch->superblocks[perch->geometry.members];
	u32 member, copy;

	for (member = 0; member < perch->geometry.members; member++) {
		if (!perch->device[member].dev)
			continue;
		for (copy = 0; copy < PERCH_SUPERBLOCK_COPIES; copy++) {
			/* One that cannot be read is as good as one that is damaged. */
			if (perch_read_member(perch, member, IO_SUPERBLOCK,
					      copy * (PERCH_SUPERBLOCK_COPY_STRIDE / SECTOR_BYTES),
					      &copies[copy], sizeof(copies[copy])))
				memset(&copies[copy], 0xff, sizeof(copies[copy]));
		}
		if (!vd_found(&perch->vd, member, &copies[0], &copies[1])) {
			DMWARN("member %u has no superblock of this VD", member);
			continue;
		}
		perch->failure = objection(perch, perch->vd.superblock[member]);
		if (perch->failure)
			return false;
	}
	return true;
}

static const char *refusal(const struct perch *perch)
{
	switch (perch->vd.refusal) {
	case SUPERBLOCK_OF_NEWER_VERSION:
		return "a newer version of Perch wrote a superblock";
	case SUPERBLOCK_OF_OTHER_OWNER:
		return "the VD belongs to another engine";
	default:
		return "the VD was deleted";
	}
}

static bool choose(struct perch *perch)
{
	switch (vd_choose(&perch->vd)) {
	case VD_READY:
		return true;
	case VD_TWO_HISTORIES:
		perch->failure = "members ran apart from each other";
		return false;
	case VD_REFUSED:
		perch->failure = refusal(perch);
		return false;
	case VD_TOO_FEW:
		perch->failure = "more members are missing than the level survives";
		return false;
	default:
		perch->failure = "no member was ever part of the VD";
		return false;
	}
}

/* --- dirty map and bad ranges */

#define PAGES_AT_ONCE (PERCH_SCRATCH_BYTES / PERCH_METADATA_UNIT)
#define UNIT_SECTORS (PERCH_METADATA_UNIT / SECTOR_BYTES)

/*
 * Reads `count` pages, all into scratch; one by one if the medium is at fault. Which could be read: a bit
 * each.
 */
static u32 read_pages(struct perch *perch, u32 member, enum io_area area, u64 sector, u32 count,
		      void *buffer)
{
	u32 page, read = 0;
	int error;

	error = perch_read_member(perch, member, area, sector, buffer, count * PERCH_METADATA_UNIT);
	if (!error)
		return ~0U;
	/* A drive that does not answer is not asked once more for each. */
	for (page = 0; page < count && error == -ENODATA; page++) {
		error = perch_read_member(perch, member, area, sector + page * UNIT_SECTORS,
					  buffer + page * PERCH_METADATA_UNIT, PERCH_METADATA_UNIT);
		if (!error) {
			read |= 1U << page;
			error = -ENODATA;
		}
	}
	return read;
}

static void load_map(struct perch *perch, u32 member)
{
	const u64 regions = perch->vd.map.regions;
	const u32 pages = DIV_ROUND_UP_ULL(regions, PERCH_MAP_REGIONS_PER_PAGE);
	const struct perch_map_page *page = perch->scratch;
	u32 first, i, count, read;

	for (first = 0; first < pages; first += count) {
		count = min(pages - first, PAGES_AT_ONCE);
		read = read_pages(perch, member, IO_DIRTY_MAP, (u64)first * UNIT_SECTORS, count,
				  perch->scratch);
		for (i = 0; i < count; i++)
			dirty_map_load(&perch->vd.map, first + i, read >> i & 1 ? &page[i] : NULL,
				       perch->vd.clean);
	}
}

static void load_bad_ranges(struct perch *perch, u32 member)
{
	const u32 at_once = PAGES_AT_ONCE / 2;
	struct perch_bad_page *half[2] = {
		perch->scratch, perch->scratch + at_once * PERCH_METADATA_UNIT,
	};
	u32 first, i, side, read[2];

	for (first = 0; first < PERCH_BAD_PAGES; first += at_once) {
		for (side = 0; side < 2; side++)
			read[side] = read_pages(perch, member, IO_BAD_RANGES,
						side * (PERCH_BAD_COPY_STRIDE / SECTOR_BYTES) +
							(u64)first * UNIT_SECTORS,
						at_once, half[side]);
		for (i = 0; i < at_once; i++) {
			for (side = 0; side < 2; side++) {
				if (!(read[side] >> i & 1)) /* as good as damaged */
					memset(&half[side][i], 0xff, PERCH_METADATA_UNIT);
			}
			bad_ranges_load(&perch->vd.bad, member, first + i, &half[0][i], &half[1][i]);
		}
	}
}

static bool load(struct perch *perch)
{
	u32 member;

	for (member = 0; member < perch->geometry.members; member++) {
		if (!vd_is_in_sync(&perch->vd, member))
			continue;
		if (perch->geometry.redundancy > 0)
			load_map(perch, member);
		load_bad_ranges(perch, member);
	}
	if (bad_ranges_loaded(&perch->vd.bad))
		return true;
	perch->failure = "the list of lost blocks cannot be read from any member";
	return false;
}

/* --- VDs that run */

static DEFINE_MUTEX(all_lock);
static LIST_HEAD(all);

/* False: it runs already, in another table. */
static bool enter(struct perch *perch)
{
	struct perch *other;
	bool first = true;

	mutex_lock(&all_lock);
	list_for_each_entry(other, &all, running)
		first = first && memcmp(other->uuid, perch->uuid, sizeof(perch->uuid));
	if (first)
		list_add(&perch->running, &all);
	mutex_unlock(&all_lock);
	return first;
}

static void leave(struct perch *perch)
{
	mutex_lock(&all_lock);
	list_del_init(&perch->running);
	mutex_unlock(&all_lock);
}

/* --- */

static void set_state(struct perch *perch, enum perch_state state)
{
	mutex_lock(&perch->gate);
	perch->state = state;
	mutex_unlock(&perch->gate);
}

static bool start(struct perch *perch)
{
	perch->failure = NULL;
	if (!enter(perch)) {
		perch->failure = "the VD runs already, in another table";
		return false;
	}
	if (find_members(perch) && choose(perch) && load(perch))
		return true;
	leave(perch);
	return false;
}

void perch_start(struct perch *perch)
{
	perch_stop(perch); /* it runs only if a resume went wrong behind this */
	prepare(perch);
	perch->seen = 0;
	if (!start(perch)) {
		DMERR("%s: not started: %s", dm_table_device_name(perch->ti->table), perch->failure);
		set_state(perch, PERCH_FAILED);
		return;
	}
	vd_start(&perch->vd, START_TASK_DEPTH);
	perch_start_tick(perch);
	set_state(perch, PERCH_RUNNING);
}

void perch_stop(struct perch *perch)
{
	const bool running = perch->state == PERCH_RUNNING;

	set_state(perch, PERCH_STOPPED);
	if (!running)
		return;
	init_completion(&perch->stopped);
	memset(&perch->stop, 0, sizeof(perch->stop));
	perch->stop.kind = REQUEST_STOP;
	vd_submit(&perch->vd, &perch->stop);
	wait_for_completion(&perch->stopped);
	synchronize_rcu();
	perch_stop_work(perch);
	leave(perch);
	if (perch->stop_error)
		DMWARN("%s: stopped unclean", dm_table_device_name(perch->ti->table));
}
