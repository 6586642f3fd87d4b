/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Bad ranges: sectors of a VD whose content was lost for good. They are listed on every member, read
 * as errors, and are taken off the list when they are rewritten. See bad_ranges.c.
 *
 * The pages on the members are what uapi/perch_format.h describes; these are their copies in memory,
 * and the decisions about them. No I/O is done here: metadata.c writes the pages.
 */
#ifndef PERCH_CORE_BAD_RANGES_H
#define PERCH_CORE_BAD_RANGES_H

#include "core/geometry.h"
#include "uapi/perch_format.h"

struct window;

struct bad_ranges {
	struct env_spinlock lock;	/* guards all that follows, but for looks at the two counts */
	struct perch_bad_page *page;	/* as they are to be on the members */
	u32 pages;
	u64 count;	/* ranges in all pages; env_load() */
	u64 added;	/* how often something was listed; env_load() */
	u8 state[PERCH_BAD_PAGES];	/* BAD_PAGE_...: by page */
	/* By page and member, a bit each: which half is the newer one. By who writes them. */
	u32 newer[PERCH_BAD_PAGES][GEOMETRY_MAX_MEMBERS / 32];
	bool writing;	/* a page is on its way */
	u32 writing_page;
	struct window *waiters;		/* for all pages to be durable, in no order */
	u8 uuid[16];
};

/*
 * Memory for the pages is the caller's: PERCH_BAD_PAGES of them, or fewer where a VD is known not to
 * have more. All are empty until bad_ranges_load() says otherwise.
 */
void bad_ranges_init(struct bad_ranges *bad, struct perch_bad_page *pages, u32 count,
		     const u8 uuid[16]);

/*
 * Both copies of a page, as one member has them. To be called for every page of every in-sync member
 * before I/O begins.
 */
void bad_ranges_load(struct bad_ranges *bad, u32 member, u32 index,
		     const struct perch_bad_page *half0, const struct perch_bad_page *half1);
/*
 * When all are loaded. False: some page is damaged wherever it is, so that nobody knows what it said.
 */
bool bad_ranges_loaded(const struct bad_ranges *bad);

/* Whether any of these sectors of the VD is listed. */
bool bad_ranges_overlap(struct bad_ranges *bad, u64 sector, u32 sectors);
/* Lists sectors, for a reason of uapi/perch_format.h. False: there is no room. */
bool bad_ranges_add(struct bad_ranges *bad, u64 sector, u32 sectors, u32 reason);
/* Takes sectors off the list. False: there is no room for what is left of a range in its middle. */
bool bad_ranges_remove(struct bad_ranges *bad, u64 sector, u32 sectors);

/* True: all changes are durable. Else the window is on `waiters`, until they are. */
bool bad_ranges_durable(struct bad_ranges *bad, struct window *window);
bool bad_ranges_is_written(struct bad_ranges *bad);

/* Makes the next page to be written. False: none is, or one is on its way. */
bool bad_ranges_next(struct bad_ranges *bad, struct perch_bad_page *page);
/* The sector of the members' extents where that page goes on this one; and that it is there now. */
u64 bad_ranges_sector(const struct bad_ranges *bad, u32 member);
void bad_ranges_put(struct bad_ranges *bad, u32 member);
/* It is durable on every member. Returns the windows that may go on, linked by next_waiter. */
struct window *bad_ranges_written(struct bad_ranges *bad);
/* No page will be written any more. Returns all windows that wait, linked by next_waiter. */
struct window *bad_ranges_take_waiters(struct bad_ranges *bad);

#endif /* PERCH_CORE_BAD_RANGES_H */
