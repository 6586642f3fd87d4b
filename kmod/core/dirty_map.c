// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Dirty map: see dirty_map.h.
 *
 * A write in place changes data and parity on several members, and a crash may keep any part of
 * that. So before the first write to a region its bit is made durable on every member; it stays
 * while the region is written to ("sticky"), and is cleared when nobody wrote for a while.
 *
 * Invariants:
 *  (a) While any write to a region is between enter and leave, its bit is durable on all members.
 *  (b) A bit is cleared on a member only if every write to the region was complete before a flush
 *      was issued that then succeeded on all members, and none has begun since.
 *  (c) Parity of a region that was dirty when the VD started after an unclean stop is not known to
 *      match until all its windows were resynced; nor is that of a region in which a write failed,
 *      until the VD is started anew. Such a region is never cleared.
 *
 * (a): enter() lets a write through only in REGION_DIRTY, which is set by written() alone, and
 * leaves REGION_DIRTY only in next_clear(), which takes regions without users. (b): tick() marks
 * REGION_CLEARING, on regions without users, before the flush, and never while one is under way;
 * enter() removes the mark, and next_clear() takes only regions that have it still: all their writes
 * ended before the flush was issued.
 *
 * Crash argument: at any cut, a region with a write that is not wholly durable has its bit on every
 * member, by (a) and (b); dirty_map_load() unites the members' pages, so that one member is enough,
 * and counts a page that does not check as all dirty.
 *
 * Locking: `lock` guards everything; no function sleeps or calls out.
 */
#include "core/dirty_map.h"

#include "core/window.h"

#define REGIONS_PER_PAGE PERCH_MAP_REGIONS_PER_PAGE

_Static_assert(sizeof(PERCH_MAP_MAGIC) == 9, "the magic is eight bytes");

void dirty_map_init(struct dirty_map *map, u64 member_sectors, u32 region_sectors, u8 *flags,
		    u16 *users, const u8 uuid[16])
{
	u32 rest;

	core_assert(region_sectors != 0 && (region_sectors & (region_sectors - 1)) == 0);
	memset(map, 0, sizeof(*map));
	env_lock_init(&map->lock);
	map->regions = div_u64_rem(member_sectors, region_sectors, &rest) + (rest != 0);
	core_assert(map->regions <= (u64)PERCH_MAP_PAGES * REGIONS_PER_PAGE);
	map->region_sectors = region_sectors;
	map->flags = flags;
	map->users = users;
	map->unwritten = (u32)-1;
	memset(flags, 0, (size_t)map->regions);
	memset(users, 0, (size_t)map->regions * sizeof(*users));
	memcpy(map->uuid, uuid, sizeof(map->uuid));
}

static __le32 page_crc(const struct perch_map_page *page)
{
	return env_crc_without(page, sizeof(*page), __builtin_offsetof(struct perch_map_page, crc32c));
}

static bool valid_page(const struct dirty_map *map, u32 index, const struct perch_map_page *page)
{
	return env_equal(page->magic, PERCH_MAP_MAGIC, sizeof(page->magic)) &&
	       env_equal(page->vd_uuid, map->uuid, sizeof(map->uuid)) &&
	       le32_to_cpu(page->page) == index && page->crc32c == page_crc(page);
}

u64 dirty_map_region(const struct dirty_map *map, u64 member_sector)
{
	u32 rest;

	return div_u64_rem(member_sector, map->region_sectors, &rest);
}

static u64 page_end(const struct dirty_map *map, u32 page)
{
	const u64 end = (u64)(page + 1) * REGIONS_PER_PAGE;

	return end < map->regions ? end : map->regions;
}

static void want(struct dirty_map *map, u64 region)
{
	if (!(map->flags[region] & REGION_WANTED))
		map->wanted++;
	map->flags[region] |= REGION_WANTED;
}

void dirty_map_load(struct dirty_map *map, u32 page, const struct perch_map_page *content,
		    bool clean)
{
	const bool valid = content != NULL && valid_page(map, page, content);
	const u64 first = (u64)page * REGIONS_PER_PAGE;
	u64 region;

	for (region = first; region < page_end(map, page); region++) {
		const u32 place = (u32)(region - first);
		const u32 bits = valid ? (u32)content->bits[place / 4] >> place % 4 * 2 :
					 PERCH_MAP_DIRTY;

		/* The bit may be on some members only: it is set on all before the next write. */
		if (!(bits & PERCH_MAP_DIRTY))
			continue;
		if (!valid || !clean)
			map->flags[region] |= REGION_UNKNOWN;
		want(map, region);
	}
}

bool dirty_map_enter(struct dirty_map *map, u64 region, struct window *window)
{
	bool ready;

	env_lock(&map->lock);
	map->users[region]++;
	core_assert(map->users[region] != 0);
	map->flags[region] &= (u8)~(REGION_IDLE | REGION_CLEARING);
	ready = map->flags[region] & REGION_DIRTY;
	if (!ready) {
		/* If its bit is on its way already, that will do. */
		if (!(map->flags[region] & REGION_WRITING))
			want(map, region);
		window->next_waiter = map->waiters;
		map->waiters = window;
	}
	env_unlock(&map->lock);
	return ready;
}

void dirty_map_leave(struct dirty_map *map, u64 region)
{
	env_lock(&map->lock);
	core_assert(map->users[region] != 0);
	map->users[region]--;
	env_unlock(&map->lock);
}

bool dirty_map_parity_good(struct dirty_map *map, u64 region)
{
	bool good;

	env_lock(&map->lock);
	good = !(map->flags[region] & REGION_UNKNOWN);
	env_unlock(&map->lock);
	return good;
}

void dirty_map_suspect(struct dirty_map *map, u64 region)
{
	env_lock(&map->lock);
	core_assert(map->users[region] != 0);
	map->flags[region] |= REGION_UNKNOWN | REGION_SUSPECT;
	env_unlock(&map->lock);
}

void dirty_map_resynced(struct dirty_map *map, u64 region)
{
	env_lock(&map->lock);
	core_assert(map->flags[region] & REGION_UNKNOWN);
	if (!(map->flags[region] & REGION_SUSPECT))
		map->flags[region] &= (u8)~(REGION_UNKNOWN | REGION_IDLE);
	env_unlock(&map->lock);
}

u64 dirty_map_next_unknown(struct dirty_map *map, u64 region)
{
	env_lock(&map->lock);
	while (region < map->regions &&
	       (map->flags[region] & (REGION_UNKNOWN | REGION_SUSPECT)) != REGION_UNKNOWN)
		region++;
	env_unlock(&map->lock);
	return region;
}

bool dirty_map_has_unknown(struct dirty_map *map)
{
	bool any = false;
	u64 region;

	env_lock(&map->lock);
	for (region = 0; region < map->regions && !any; region++)
		any = map->flags[region] & REGION_UNKNOWN;
	env_unlock(&map->lock);
	return any;
}

void dirty_map_write_all(struct dirty_map *map)
{
	env_lock(&map->lock);
	map->unwritten = 0;
	env_unlock(&map->lock);
}

bool dirty_map_is_written(struct dirty_map *map)
{
	bool written;

	env_lock(&map->lock);
	written = !map->writing && (u64)map->unwritten * REGIONS_PER_PAGE >= map->regions;
	env_unlock(&map->lock);
	return written;
}

/* Whether a region's bit is to be set in a page that is being made. */
static bool bit_of(const struct dirty_map *map, u64 region)
{
	return map->flags[region] & (REGION_DIRTY | REGION_WANTED | REGION_WRITING);
}

static void fill_page(struct dirty_map *map, u32 index, struct perch_map_page *page)
{
	const u64 first = (u64)index * REGIONS_PER_PAGE;
	u64 region;

	memset(page, 0, sizeof(*page));
	memcpy(page->magic, PERCH_MAP_MAGIC, sizeof(page->magic));
	memcpy(page->vd_uuid, map->uuid, sizeof(page->vd_uuid));
	page->page = cpu_to_le32(index);
	for (region = first; region < page_end(map, index); region++) {
		const u32 place = (u32)(region - first);

		if (bit_of(map, region))
			page->bits[place / 4] |= (u8)(PERCH_MAP_DIRTY << place % 4 * 2);
	}
	page->crc32c = page_crc(page);
	map->writing_page = index;
	map->writing = true;
}

/* The first page that is to be written; `regions` or more over that: none. */
static u64 first_wanted(const struct dirty_map *map)
{
	u64 region = (u64)map->unwritten * REGIONS_PER_PAGE;

	if (region < map->regions)
		return region;
	for (region = 0; region < map->regions && map->wanted > 0; region++) {
		if (map->flags[region] & REGION_WANTED)
			return region;
	}
	return map->regions;
}

bool dirty_map_next_set(struct dirty_map *map, struct perch_map_page *page)
{
	u64 region, end;
	u32 index;
	bool any;

	env_lock(&map->lock);
	region = first_wanted(map);
	any = !map->writing && region < map->regions;
	if (any) {
		index = (u32)(region / REGIONS_PER_PAGE);
		end = page_end(map, index);
		for (; region < end; region++) {
			if (!(map->flags[region] & REGION_WANTED))
				continue;
			map->flags[region] = (u8)((map->flags[region] & ~REGION_WANTED) |
						  REGION_WRITING);
			map->wanted--;
		}
		map->unwritten += index == map->unwritten;
		fill_page(map, index, page);
	}
	env_unlock(&map->lock);
	return any;
}

static bool may_clear(const struct dirty_map *map, u64 region)
{
	return map->users[region] == 0 &&
	       (map->flags[region] & (REGION_DIRTY | REGION_UNKNOWN)) == REGION_DIRTY;
}

bool dirty_map_tick(struct dirty_map *map)
{
	bool any = false;
	u64 region;

	env_lock(&map->lock);
	for (region = 0; region < map->regions; region++) {
		if (!may_clear(map, region))
			continue;
		if (map->flags[region] & REGION_IDLE) {
			map->flags[region] |= REGION_CLEARING;
			any = true;
		}
		map->flags[region] |= REGION_IDLE;
	}
	env_unlock(&map->lock);
	return any;
}

bool dirty_map_next_clear(struct dirty_map *map, struct perch_map_page *page)
{
	u64 region, first = map->regions;

	env_lock(&map->lock);
	for (region = 0; !map->writing && region < map->regions; region++) {
		if (!may_clear(map, region) || !(map->flags[region] & REGION_CLEARING))
			continue;
		if (first == map->regions)
			first = region;
		if (region / REGIONS_PER_PAGE != first / REGIONS_PER_PAGE)
			break;
		map->flags[region] = 0;
	}
	if (first != map->regions)
		fill_page(map, (u32)(first / REGIONS_PER_PAGE), page);
	env_unlock(&map->lock);
	return first != map->regions;
}

struct window *dirty_map_written(struct dirty_map *map)
{
	struct window *window, *ready = NULL, *waiting = NULL;
	u64 region;

	env_lock(&map->lock);
	core_assert(map->writing);
	map->writing = false;
	region = (u64)map->writing_page * REGIONS_PER_PAGE;
	for (; region < page_end(map, map->writing_page); region++) {
		if (map->flags[region] & REGION_WRITING)
			map->flags[region] = (u8)((map->flags[region] & ~REGION_WRITING) |
						  REGION_DIRTY);
	}
	while ((window = map->waiters) != NULL) {
		map->waiters = window->next_waiter;
		if (map->flags[window->region] & REGION_DIRTY) {
			window->next_waiter = ready;
			ready = window;
		} else {
			window->next_waiter = waiting;
			waiting = window;
		}
	}
	map->waiters = waiting;
	env_unlock(&map->lock);
	return ready;
}

struct window *dirty_map_take_waiters(struct dirty_map *map)
{
	struct window *waiters;

	env_lock(&map->lock);
	waiters = map->waiters;
	map->waiters = NULL;
	env_unlock(&map->lock);
	return waiters;
}
