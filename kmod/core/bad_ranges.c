// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Bad ranges: see bad_ranges.h.
 *
 * What is lost for good is listed before anything is written in its place: zeros, with parity that
 * matches them, so that the row is whole again and can be rebuilt, checked and resynced like any
 * other (window.c). Nobody ever reads these zeros as data.
 *
 * Invariants:
 *  (a) Whoever lists a range goes on when that is durable on every member. Whoever takes one off the
 *      list has made durable before what the sectors hold now.
 *  (b) A change is in one page. So pages need no order among each other, and any of them may be cut
 *      off: too much may be listed then that was lost anyway, or still be listed that nobody was told
 *      is rewritten.
 *  (c) On each member a page is written over the older half. What was found at a start is written once
 *      more, as a newer one: some member may have nothing of it.
 *
 * Crash argument: a page that is torn leaves the half that was the newer one of each member; of all
 * halves of members in sync the one with the highest counter counts. So after a cut it is the page as
 * it was or as it was to be, both right by (b).
 *
 * Locking: `lock` guards everything. A range is looked for without it only when there is none at all.
 */
#include "core/bad_ranges.h"

#include "core/window.h"

#define BAD_PAGE_CHANGED 1U	/* to be written */
#define BAD_PAGE_FOUND 2U	/* on some member */
#define BAD_PAGE_EMPTY 4U	/* on some member: nobody can have acted on one that others have */
#define BAD_PAGE_DAMAGED 8U	/* on some member, both halves */

/* Of a page's ranges, so many may be listed; the rest is for halves of ranges that are cut in two. */
#define MOST_ADDED (PERCH_BAD_RANGES_PER_PAGE / 4U * 3U)

void bad_ranges_init(struct bad_ranges *bad, struct perch_bad_page *pages, u32 count,
		     const u8 uuid[16])
{
	core_assert(count > 0 && count <= PERCH_BAD_PAGES);
	memset(bad, 0, sizeof(*bad));
	env_lock_init(&bad->lock);
	bad->page = pages;
	bad->pages = count;
	memset(pages, 0, (size_t)count * sizeof(*pages));
	memcpy(bad->uuid, uuid, sizeof(bad->uuid));
}

static __le32 page_crc(const struct perch_bad_page *page)
{
	return env_crc_without(page, sizeof(*page), __builtin_offsetof(struct perch_bad_page, crc32c));
}

static u32 used(const struct perch_bad_page *page)
{
	return le32_to_cpu(page->count);
}

static bool valid_page(const struct bad_ranges *bad, u32 index, const struct perch_bad_page *page)
{
	return env_equal(page->magic, PERCH_BAD_MAGIC, sizeof(page->magic)) &&
	       env_equal(page->vd_uuid, bad->uuid, sizeof(bad->uuid)) &&
	       le32_to_cpu(page->page) == index && used(page) <= PERCH_BAD_RANGES_PER_PAGE &&
	       page->crc32c == page_crc(page);
}

static bool is_empty(const struct perch_bad_page *page)
{
	const u8 zeros[sizeof(page->magic)] = { 0 };

	return env_equal(page->magic, zeros, sizeof(zeros));
}

static void take(struct bad_ranges *bad, u32 index, const struct perch_bad_page *half)
{
	struct perch_bad_page *page = &bad->page[index];

	bad->state[index] |= BAD_PAGE_FOUND | BAD_PAGE_CHANGED;
	if (le64_to_cpu(half->update_counter) <= le64_to_cpu(page->update_counter))
		return;
	bad->count -= used(page);
	memcpy(page, half, sizeof(*page));
	bad->count += used(page);
}

static bool newer_half(const struct bad_ranges *bad, u32 index, u32 member)
{
	return bad->newer[index][member / 32] >> member % 32 & 1;
}

static void turn_halves(struct bad_ranges *bad, u32 index, u32 member)
{
	bad->newer[index][member / 32] ^= 1U << member % 32;
}

void bad_ranges_load(struct bad_ranges *bad, u32 member, u32 index,
		     const struct perch_bad_page *half0, const struct perch_bad_page *half1)
{
	const bool first = valid_page(bad, index, half0);
	const bool second = valid_page(bad, index, half1);

	if (first)
		take(bad, index, half0);
	if (second)
		take(bad, index, half1);
	if (second && (!first || le64_to_cpu(half1->update_counter) > le64_to_cpu(half0->update_counter)))
		turn_halves(bad, index, member);
	/* With one half of zeros the other is the first one ever, and was cut off. */
	if (!first && !second)
		bad->state[index] |= is_empty(half0) || is_empty(half1) ? BAD_PAGE_EMPTY :
									  BAD_PAGE_DAMAGED;
}

bool bad_ranges_loaded(const struct bad_ranges *bad)
{
	u32 index;

	for (index = 0; index < bad->pages; index++) {
		if ((bad->state[index] & BAD_PAGE_DAMAGED) &&
		    !(bad->state[index] & (BAD_PAGE_FOUND | BAD_PAGE_EMPTY)))
			return false;
	}
	return true;
}

/* --- ranges */

static u64 first_of(const struct perch_bad_range *range)
{
	return le64_to_cpu(range->first_sector);
}

static u64 end_of(const struct perch_bad_range *range)
{
	return first_of(range) + le32_to_cpu(range->sectors);
}

static void set_range(struct perch_bad_range *range, u64 first, u64 end, u32 reason)
{
	range->first_sector = cpu_to_le64(first);
	range->sectors = cpu_to_le32((u32)(end - first));
	range->reason = cpu_to_le32(reason);
}

/* A range that begins before `end` and ends behind `first`, or NULL; in which page it is. */
static struct perch_bad_range *find(struct bad_ranges *bad, u64 first, u64 end, u32 *index)
{
	u32 i;

	for (*index = 0; *index < bad->pages; (*index)++) {
		struct perch_bad_page *page = &bad->page[*index];

		for (i = 0; i < used(page); i++) {
			if (first_of(&page->ranges[i]) < end && first < end_of(&page->ranges[i]))
				return &page->ranges[i];
		}
	}
	return NULL;
}

bool bad_ranges_overlap(struct bad_ranges *bad, u64 sector, u32 sectors)
{
	bool found;
	u32 index;

	if (env_load(&bad->count) == 0)
		return false;
	env_lock(&bad->lock);
	found = find(bad, sector, sector + sectors, &index) != NULL;
	env_unlock(&bad->lock);
	return found;
}

static void set_used(struct bad_ranges *bad, u32 index, u32 count)
{
	struct perch_bad_page *page = &bad->page[index];

	bad->state[index] |= BAD_PAGE_CHANGED;
	env_store(&bad->count, bad->count - used(page) + count);
	page->count = cpu_to_le32(count);
}

/* Makes a range longer by what follows it, for the same reason. */
static bool append(struct bad_ranges *bad, u64 first, u64 end, u32 reason)
{
	struct perch_bad_range *range;
	u32 index;

	if (first == 0)
		return false;
	range = find(bad, first - 1, first, &index);
	if (!range || end_of(range) != first || le32_to_cpu(range->reason) != reason ||
	    end - first_of(range) > (u32)-1)
		return false;
	set_range(range, first_of(range), end, reason);
	set_used(bad, index, used(&bad->page[index]));
	return true;
}

/* Lists a range of which nothing is listed. */
static bool put(struct bad_ranges *bad, u64 first, u64 end, u32 reason)
{
	u32 index, count;

	if (append(bad, first, end, reason))
		return true;
	for (index = 0; index < bad->pages; index++) {
		count = used(&bad->page[index]);
		if (count >= MOST_ADDED)
			continue;
		set_range(&bad->page[index].ranges[count], first, end, reason);
		set_used(bad, index, count + 1);
		return true;
	}
	return false;
}

bool bad_ranges_add(struct bad_ranges *bad, u64 sector, u32 sectors, u32 reason)
{
	const u64 end = sector + sectors;
	bool room = true;
	u64 next;
	u32 index;

	env_lock(&bad->lock);
	for (; room && sector < end; sector = next) {
		const struct perch_bad_range *listed = find(bad, sector, sector + 1, &index);

		if (listed) {
			next = end_of(listed);
			continue;
		}
		for (next = sector + 1; next < end && !find(bad, next, next + 1, &index);)
			next++;
		room = put(bad, sector, next, reason);
	}
	env_store(&bad->added, bad->added + 1);
	env_unlock(&bad->lock);
	return room;
}

/* Takes [first, end) out of a range that overlaps it. False: it would be two, and there is no room. */
static bool cut_out(struct bad_ranges *bad, u32 index, struct perch_bad_range *range, u64 first,
		    u64 end)
{
	struct perch_bad_page *page = &bad->page[index];
	const u64 range_first = first_of(range);
	const u64 range_end = end_of(range);
	const u32 reason = le32_to_cpu(range->reason);
	u32 count = used(page);

	if (range_first < first && end < range_end && count == PERCH_BAD_RANGES_PER_PAGE)
		return false;
	if (range_first < first)
		set_range(range, range_first, first, reason);
	if (range_first < first && end < range_end)
		set_range(&page->ranges[count++], end, range_end, reason);
	else if (end < range_end)
		set_range(range, end, range_end, reason);
	else if (range_first >= first)
		memcpy(range, &page->ranges[--count], sizeof(*range));
	memset(&page->ranges[count], 0, (PERCH_BAD_RANGES_PER_PAGE - count) * sizeof(*range));
	set_used(bad, index, count);
	return true;
}

bool bad_ranges_remove(struct bad_ranges *bad, u64 sector, u32 sectors)
{
	const u64 end = sector + sectors;
	struct perch_bad_range *range;
	bool room = true;
	u32 index;

	if (env_load(&bad->count) == 0)
		return true;
	env_lock(&bad->lock);
	while (room && (range = find(bad, sector, end, &index)) != NULL)
		room = cut_out(bad, index, range, sector, end);
	env_unlock(&bad->lock);
	return room;
}

/* --- pages */

static bool all_written(const struct bad_ranges *bad)
{
	u32 index;

	for (index = 0; index < bad->pages; index++) {
		if (bad->state[index] & BAD_PAGE_CHANGED)
			return false;
	}
	return !bad->writing;
}

bool bad_ranges_durable(struct bad_ranges *bad, struct window *window)
{
	bool durable;

	env_lock(&bad->lock);
	durable = all_written(bad);
	if (!durable) {
		window->next_waiter = bad->waiters;
		bad->waiters = window;
	}
	env_unlock(&bad->lock);
	return durable;
}

bool bad_ranges_is_written(struct bad_ranges *bad)
{
	bool written;

	env_lock(&bad->lock);
	written = all_written(bad);
	env_unlock(&bad->lock);
	return written;
}

bool bad_ranges_next(struct bad_ranges *bad, struct perch_bad_page *page)
{
	bool any;
	u32 index;

	env_lock(&bad->lock);
	for (index = 0; index < bad->pages && !(bad->state[index] & BAD_PAGE_CHANGED);)
		index++;
	any = !bad->writing && index < bad->pages;
	if (any) {
		struct perch_bad_page *next = &bad->page[index];

		memcpy(next->magic, PERCH_BAD_MAGIC, sizeof(next->magic));
		memcpy(next->vd_uuid, bad->uuid, sizeof(next->vd_uuid));
		next->page = cpu_to_le32(index);
		next->update_counter = cpu_to_le64(le64_to_cpu(next->update_counter) + 1);
		next->crc32c = page_crc(next);
		memcpy(page, next, sizeof(*page));
		bad->state[index] &= (u8)~BAD_PAGE_CHANGED;
		bad->writing = true;
		bad->writing_page = index;
	}
	env_unlock(&bad->lock);
	return any;
}

u64 bad_ranges_sector(const struct bad_ranges *bad, u32 member)
{
	const u32 half = newer_half(bad, bad->writing_page, member) ? 0 : PERCH_BAD_COPY_STRIDE;

	return ((u64)bad->writing_page * PERCH_METADATA_UNIT + half) / SECTOR_BYTES;
}

void bad_ranges_put(struct bad_ranges *bad, u32 member)
{
	turn_halves(bad, bad->writing_page, member);
}

struct window *bad_ranges_written(struct bad_ranges *bad)
{
	struct window *ready = NULL;

	env_lock(&bad->lock);
	core_assert(bad->writing);
	bad->writing = false;
	if (all_written(bad)) {
		ready = bad->waiters;
		bad->waiters = NULL;
	}
	env_unlock(&bad->lock);
	return ready;
}

struct window *bad_ranges_take_waiters(struct bad_ranges *bad)
{
	struct window *waiters;

	env_lock(&bad->lock);
	waiters = bad->waiters;
	bad->waiters = NULL;
	env_unlock(&bad->lock);
	return waiters;
}
