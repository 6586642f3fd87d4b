// SPDX-License-Identifier: GPL-2.0-or-later
/* See memory.h. */
#include "dm/memory.h"

#include <linux/cpumask.h>
#include <linux/minmax.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "dm/commands.h"
#include "dm/work.h"

/* Two lanes for each CPU that can be busy with one, as far as that helps anybody. */
#define LANES_PER_CPU 2U
#define MAX_LANES 32U
#define WINDOWS_PER_LANE 4U
/* Commands to members that can always be begun, whatever else takes memory. */
#define RESERVED_COMMANDS 64U

static u64 count_regions(const struct perch *perch)
{
	return DIV_ROUND_UP_ULL(perch->geometry.member_sectors, perch->region_sectors);
}

static int allocate_blocks(struct perch *perch, struct window *window)
{
	const size_t bytes = perch->geometry.window * SECTOR_BYTES;
	u32 place;

	for (place = 0; place < perch->geometry.per_span; place++) {
		window->block[place] = kvmalloc(bytes, GFP_KERNEL);
		window->old[place] = kvmalloc(bytes, GFP_KERNEL);
		if (!window->block[place] || !window->old[place])
			return -ENOMEM;
	}
	return 0;
}

static int allocate_lanes(struct perch *perch)
{
	u32 i;

	perch->lanes = min3(LANES_PER_CPU * num_online_cpus(), MAX_LANES, VD_MAX_LANES);
	perch->windows = WINDOWS_PER_LANE;
	perch->lane = kvcalloc(perch->lanes, sizeof(*perch->lane), GFP_KERNEL);
	perch->window = kvcalloc(perch->lanes * perch->windows, sizeof(*perch->window), GFP_KERNEL);
	if (!perch->lane || !perch->window)
		return -ENOMEM;
	for (i = 0; i < perch->lanes * perch->windows; i++) {
		if (allocate_blocks(perch, &perch->window[i]))
			return -ENOMEM;
	}
	return 0;
}

int perch_allocate_memory(struct perch *perch)
{
	const u64 regions = count_regions(perch);
	int error;

	error = bioset_init(&perch->commands, RESERVED_COMMANDS, perch_command_pad(),
			    BIOSET_NEED_BVECS);
	if (error)
		return error;
	perch->region_flags = kvcalloc(regions, sizeof(*perch->region_flags), GFP_KERNEL);
	perch->region_users = kvcalloc(regions, sizeof(*perch->region_users), GFP_KERNEL);
	perch->bad_pages = kvcalloc(PERCH_BAD_PAGES, sizeof(*perch->bad_pages), GFP_KERNEL);
	perch->superblocks = kvcalloc(perch->geometry.members + PERCH_SUPERBLOCK_COPIES,
				      sizeof(*perch->superblocks), GFP_KERNEL);
	perch->scratch = kvmalloc(PERCH_SCRATCH_BYTES, GFP_KERNEL);
	/* Commands write from them: whole pages, as any drive takes them. */
	perch->map_page = kzalloc(sizeof(*perch->map_page), GFP_KERNEL);
	perch->bad_page = kzalloc(sizeof(*perch->bad_page), GFP_KERNEL);
	if (!perch->region_flags || !perch->region_users || !perch->bad_pages ||
	    !perch->superblocks || !perch->scratch || !perch->map_page || !perch->bad_page)
		return -ENOMEM;
	error = allocate_lanes(perch);
	return error ? error : perch_create_work(perch);
}

void perch_free_memory(struct perch *perch)
{
	u32 i, place;

	perch_destroy_work(perch);
	for (i = 0; perch->window && i < perch->lanes * perch->windows; i++) {
		for (place = 0; place < perch->geometry.per_span; place++) {
			kvfree(perch->window[i].block[place]);
			kvfree(perch->window[i].old[place]);
		}
	}
	kvfree(perch->window);
	kvfree(perch->lane);
	kfree(perch->bad_page);
	kfree(perch->map_page);
	kvfree(perch->scratch);
	kvfree(perch->superblocks);
	kvfree(perch->bad_pages);
	kvfree(perch->region_users);
	kvfree(perch->region_flags);
	bioset_exit(&perch->commands);
}
