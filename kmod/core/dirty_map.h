/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which regions of a VD may have parity that does not match, after a crash: see dirty_map.c.
 *
 * A region is the same range of every member's data. The map on the members is what
 * uapi/perch_format.h describes; this is its copy in memory, and the decisions about it. It does no
 * I/O: metadata.c writes the pages that it makes.
 */
#ifndef PERCH_CORE_DIRTY_MAP_H
#define PERCH_CORE_DIRTY_MAP_H

#include "core/env.h"
#include "uapi/perch_format.h"

struct window;

/* What is known of a region. */
#define REGION_DIRTY 1U		/* its bit is durable on every member */
#define REGION_WANTED 2U	/* a write waits for the bit */
#define REGION_WRITING 4U	/* the bit is on its way to the members, or back */
#define REGION_UNKNOWN 8U	/* parity is not known to match: to be resynced */
#define REGION_IDLE 16U		/* nobody wrote since the last tick */
#define REGION_CLEARING 32U	/* idle when the flush was issued that is to precede its clearing */
#define REGION_SUSPECT 64U	/* a write in it failed: it stays unknown until the VD is started anew */

struct dirty_map {
	struct env_spinlock lock;	/* guards all that follows */
	u64 regions;
	u32 region_sectors;	/* of a member */
	u8 *flags;		/* by region */
	u16 *users;		/* by region: writes between enter and leave */
	u64 wanted;		/* regions that are REGION_WANTED */
	struct window *waiters;	/* for their region's bit, in no order */
	u32 writing_page;
	bool writing;		/* a page is on its way */
	u32 unwritten;		/* pages from this one on are written, whatever they say */
	u8 uuid[16];
};

/*
 * Memory for the flags and users of all regions is the caller's. region_sectors: a power of two.
 * All regions are clean until dirty_map_load() says otherwise.
 */
void dirty_map_init(struct dirty_map *map, u64 member_sectors, u32 region_sectors, u8 *flags,
		    u16 *users, const u8 uuid[16]);

/*
 * Adds what one member's page says; NULL or a page that does not check: all is dirty. To be called
 * for every page of every in-sync member before I/O begins. `clean`: the VD was stopped in order, so
 * that a bit only says where it was written to (while a member was missing), and parity matches.
 */
void dirty_map_load(struct dirty_map *map, u32 page, const struct perch_map_page *content,
		    bool clean);

u64 dirty_map_region(const struct dirty_map *map, u64 member_sector);

/*
 * A write to a region begins. False: its bit is not durable yet; the window is on `waiters` and will
 * be given back by dirty_map_written(). Either way the write counts until dirty_map_leave().
 */
bool dirty_map_enter(struct dirty_map *map, u64 region, struct window *window);
/* It has ended: all its writes are complete. */
void dirty_map_leave(struct dirty_map *map, u64 region);

/* Whether parity of a region is known to match. */
bool dirty_map_parity_good(struct dirty_map *map, u64 region);
/* A write in a region failed: what the members hold there matches nothing. Before it leaves. */
void dirty_map_suspect(struct dirty_map *map, u64 region);
/* All windows of a region were resynced, after it was dirty. */
void dirty_map_resynced(struct dirty_map *map, u64 region);
/* The next region from `region` on that can be resynced; `regions` when there is none. */
u64 dirty_map_next_unknown(struct dirty_map *map, u64 region);

/* Whether there is any. */
bool dirty_map_has_unknown(struct dirty_map *map);

/* All pages are to be written once, for a member that has none; and whether they are. */
void dirty_map_write_all(struct dirty_map *map);
bool dirty_map_is_written(struct dirty_map *map);

/* Makes the next page to be written. False: none is, or a page is on its way. */
bool dirty_map_next_set(struct dirty_map *map, struct perch_map_page *page);
/*
 * Time passes. True: some regions were idle for a whole tick, and could be clean: the caller flushes
 * all members now, and calls dirty_map_next_clear() when that has succeeded. It is not called again
 * before that flush has ended, so that no region is marked whose writes that flush does not cover.
 */
bool dirty_map_tick(struct dirty_map *map);
/* Makes a page that clears the bits of regions that are idle still. False as above. */
bool dirty_map_next_clear(struct dirty_map *map, struct perch_map_page *page);
/* The page is durable on every member. Returns the windows that may go on, linked by next_waiter. */
struct window *dirty_map_written(struct dirty_map *map);
/* No page will be written any more. Returns all windows that wait, linked by next_waiter. */
struct window *dirty_map_take_waiters(struct dirty_map *map);

#endif /* PERCH_CORE_DIRTY_MAP_H */
