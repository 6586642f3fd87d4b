// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The device-mapper target "perch": table, status, messages. man 7 dm-perch has them for users.
 *
 *	<start> <length> perch <level> <members> <per span> <strip> <sectors of a member> <region>
 *		<block> <uuid> <member>...
 *
 * level: 0, 1, 5, 6, 10, 50, 60; strip, sectors of a member's data, region: in sectors of 512 bytes;
 * block: bytes, 512 or 4096; uuid: 32 hexadecimal digits. Each member is "-" if it is not there, or
 * <device> and where on it its superblock, dirty map, bad ranges and data begin, in sectors.
 */
#include <linux/module.h>
#include <linux/slab.h>

#include "dm/compat.h"
#include "dm/host.h"
#include "dm/lifecycle.h"
#include "dm/memory.h"

#define FIXED_ARGUMENTS 8U
#define MEMBER_ARGUMENTS 5U
#define MIN_REGION_SECTORS 8U

/* --- the table */

static int read_number(struct dm_arg_set *arguments, u64 least, u64 most, u64 *number)
{
	const char *word = dm_shift_arg(arguments);

	if (!word || kstrtou64(word, 10, number) || *number < least || *number > most)
		return -EINVAL;
	return 0;
}

static int level_of(u64 number, enum geometry_level *level)
{
	static const struct {
		u32 number;
		enum geometry_level level;
	} levels[] = {
		{ PERCH_LEVEL_RAID0, GEOMETRY_RAID0 },	 { PERCH_LEVEL_RAID1, GEOMETRY_RAID1 },
		{ PERCH_LEVEL_RAID5, GEOMETRY_RAID5 },	 { PERCH_LEVEL_RAID6, GEOMETRY_RAID6 },
		{ PERCH_LEVEL_RAID10, GEOMETRY_RAID10 }, { PERCH_LEVEL_RAID50, GEOMETRY_RAID50 },
		{ PERCH_LEVEL_RAID60, GEOMETRY_RAID60 },
	};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(levels); i++) {
		if (levels[i].number == number) {
			*level = levels[i].level;
			return 0;
		}
	}
	return -EINVAL;
}

/* What is the same for all members. */
static int read_shape(struct perch *perch, struct dm_arg_set *arguments)
{
	u64 level, members, per_span, strip, sectors, region, block;
	struct dm_target *ti = perch->ti;
	enum geometry_level geometry_level;
	const char *uuid;

	ti->error = "the level must be 0, 1, 5, 6, 10, 50 or 60";
	if (read_number(arguments, 0, 60, &level) || level_of(level, &geometry_level))
		return -EINVAL;
	ti->error = "the numbers after the level are: members, members of a span, strip, sectors of a member, region, bytes of a block";
	if (read_number(arguments, 1, GEOMETRY_MAX_MEMBERS, &members) ||
	    read_number(arguments, 1, GEOMETRY_MAX_MEMBERS, &per_span) ||
	    read_number(arguments, GEOMETRY_MIN_STRIP, GEOMETRY_MAX_STRIP, &strip) ||
	    read_number(arguments, 1, U64_MAX >> 9, &sectors) ||
	    read_number(arguments, MIN_REGION_SECTORS, PERCH_MAX_REGION_BYTES / SECTOR_BYTES, &region) ||
	    read_number(arguments, SECTOR_BYTES, PERCH_METADATA_UNIT, &block))
		return -EINVAL;
	ti->error = "no VD can have this shape";
	if (geometry_init(&perch->geometry, geometry_level, members, per_span, strip, sectors))
		return -EINVAL;
	ti->error = "a region must be a power of two, not smaller than a strip, and the map fit its extent";
	if (!is_power_of_2(region) || region < strip ||
	    DIV_ROUND_UP_ULL(sectors, region) > PERCH_MAP_PAGES * PERCH_MAP_REGIONS_PER_PAGE)
		return -EINVAL;
	ti->error = "a block must have 512 or 4096 bytes";
	if (block != SECTOR_BYTES && block != PERCH_METADATA_UNIT)
		return -EINVAL;
	ti->error = "the table's length is not that of the VD";
	if (perch->geometry.vd_sectors != ti->len)
		return -EINVAL;
	ti->error = "the UUID must have 32 hexadecimal digits";
	uuid = dm_shift_arg(arguments);
	if (!uuid || strlen(uuid) != 2 * sizeof(perch->uuid) ||
	    hex2bin(perch->uuid, uuid, sizeof(perch->uuid)))
		return -EINVAL;
	perch->level = level;
	perch->per_span = per_span;
	perch->region_sectors = region;
	perch->block_bytes = block;
	return 0;
}

/* Whether what lies on a member fits, and nothing in another's place. */
static int check_places(const struct perch *perch, const struct perch_device *device)
{
	const u64 size = bdev_nr_sectors(device->dev->bdev);
	const u64 lengths[PERCH_AREAS] = {
		[IO_DATA] = perch->geometry.member_sectors,
		[IO_DIRTY_MAP] = PERCH_DIRTY_MAP_EXTENT_BYTES / SECTOR_BYTES,
		[IO_SUPERBLOCK] = PERCH_SUPERBLOCK_EXTENT_BYTES / SECTOR_BYTES,
		[IO_BAD_RANGES] = PERCH_BAD_RANGES_EXTENT_BYTES / SECTOR_BYTES,
	};
	u32 i, j;

	for (i = 0; i < PERCH_AREAS; i++) {
		const u64 end = device->start[i] + lengths[i];

		if (device->start[i] % (PERCH_METADATA_UNIT / SECTOR_BYTES) || end > size)
			return -EINVAL;
		for (j = 0; j < i; j++) {
			if (device->start[j] < end && device->start[i] < device->start[j] + lengths[j])
				return -EINVAL;
		}
	}
	return 0;
}

static int read_member(struct perch *perch, struct dm_arg_set *arguments,
		       struct perch_device *device)
{
	static const enum io_area areas[] = { IO_SUPERBLOCK, IO_DIRTY_MAP, IO_BAD_RANGES, IO_DATA };
	const char *path = dm_shift_arg(arguments);
	u64 start;
	u32 i;
	int error;

	perch->ti->error = "a member is \"-\", or a device and four sectors";
	if (!path)
		return -EINVAL;
	if (!strcmp(path, "-"))
		return 0;
	for (i = 0; i < ARRAY_SIZE(areas); i++) {
		if (read_number(arguments, 0, U64_MAX >> 9, &start))
			return -EINVAL;
		device->start[areas[i]] = start;
	}
	perch->ti->error = "a member's device cannot be opened";
	error = dm_get_device(perch->ti, path, dm_table_get_mode(perch->ti->table), &device->dev);
	if (error)
		return error;
	perch->ti->error = "a member's device has larger blocks than the VD";
	if (bdev_logical_block_size(device->dev->bdev) > perch->block_bytes)
		return -EINVAL;
	perch->ti->error = "a member's parts overlap, are not at whole blocks, or its device is too small";
	return check_places(perch, device);
}

static void perch_dtr(struct dm_target *ti)
{
	struct perch *perch = ti->private;
	u32 member;

	perch_stop(perch);
	perch_free_memory(perch);
	for (member = 0; perch->device && member < perch->geometry.members; member++) {
		if (perch->device[member].dev)
			dm_put_device(ti, perch->device[member].dev);
	}
	kvfree(perch->device);
	kvfree(perch);
}

static int construct(struct perch *perch, struct dm_arg_set *arguments)
{
	int error = read_shape(perch, arguments);
	u32 member;

	if (error)
		return error;
	perch->device = kvcalloc(perch->geometry.members, sizeof(*perch->device), GFP_KERNEL);
	if (!perch->device)
		return -ENOMEM;
	for (member = 0; member < perch->geometry.members; member++) {
		error = read_member(perch, arguments, &perch->device[member]);
		if (error)
			return error;
	}
	perch->ti->error = "there are more words than members";
	if (arguments->argc)
		return -EINVAL;
	perch->ti->error = "there is not enough memory";
	return perch_allocate_memory(perch);
}

static int perch_ctr(struct dm_target *ti, unsigned int argc, char **argv)
{
	struct dm_arg_set arguments = { .argc = argc, .argv = argv };
	struct perch *perch;
	int error;

	if (!perch_may_write(ti)) {
		ti->error = "a VD cannot be read-only: it writes on its members whatever the host does";
		return -EROFS;
	}
	perch = kvzalloc(sizeof(*perch), GFP_KERNEL);
	if (!perch) {
		ti->error = "there is not enough memory";
		return -ENOMEM;
	}
	ti->private = perch;
	perch->ti = ti;
	mutex_init(&perch->gate);
	INIT_LIST_HEAD(&perch->running);
	error = construct(perch, &arguments);
	if (error) {
		perch_dtr(ti);
		return error;
	}
	ti->error = NULL;
	ti->num_flush_bios = 1;
	ti->flush_supported = true;
	ti->per_io_data_size = perch_host_bytes();
	return 0;
}

/* --- life */

static int perch_preresume(struct dm_target *ti)
{
	perch_start(ti->private);
	return 0;
}

static void perch_postsuspend(struct dm_target *ti)
{
	perch_stop(ti->private);
}

/* --- status */

/* More are lost than the level survives: that is not recorded, but no secret. */
static char letter_of(const struct perch *perch, u32 member)
{
	const struct vd *vd = &perch->vd;

	switch (vd_is_broken(vd) ? vd->member[member].next : member_state(&vd->member[member])) {
	case PERCH_MEMBER_IN_SYNC:
		return 'A';
	case PERCH_MEMBER_REBUILDING:
		return 'a';
	case PERCH_MEMBER_FAILED:
		return 'D';
	default:
		return '-';
	}
}

static const char *action_of(const struct vd *vd)
{
	switch (vd->task.kind) {
	case REQUEST_RESYNC:
		return "resync";
	case REQUEST_REBUILD:
		return "rebuild";
	case REQUEST_CHECK:
		return "check";
	case REQUEST_PATROL:
		return "patrol";
	default:
		return "idle";
	}
}

/*
 * <members> <letter of each> <done>/<all> <action> <synced|unsynced> <mismatches> <bad ranges>; "failed"
 * and the reason for one that could not be started.
 */
static void show_state(struct perch *perch, char *result, unsigned int maxlen)
{
	const struct vd *vd = &perch->vd;
	unsigned int sz = 0;
	u32 member;

	if (perch->state != PERCH_RUNNING) {
		DMEMIT("%s %s", perch->state == PERCH_FAILED ? "failed" : "stopped",
		       perch->failure ? perch->failure : "");
		return;
	}
	DMEMIT("%u ", perch->geometry.members);
	for (member = 0; member < perch->geometry.members; member++)
		DMEMIT("%c", letter_of(perch, member));
	DMEMIT(" %llu/%llu %s %s %llu %llu%s", task_done(vd), task_all(vd), action_of(vd),
	       vd_is_resynced(&perch->vd) ? "synced" : "unsynced",
	       vd->task.mismatches, env_load(&vd->bad.count), vd_is_broken(vd) ? " broken" : "");
}

static void show_table(const struct perch *perch, char *result, unsigned int maxlen)
{
	const struct geometry *geometry = &perch->geometry;
	unsigned int sz = 0;
	u32 member;

	DMEMIT("%u %u %u %u %llu %u %u %*phN", perch->level, geometry->members, perch->per_span,
	       geometry->strip, geometry->member_sectors, perch->region_sectors, perch->block_bytes,
	       (int)sizeof(perch->uuid), perch->uuid);
	for (member = 0; member < geometry->members; member++) {
		const struct perch_device *device = &perch->device[member];

		if (!device->dev) {
			DMEMIT(" -");
			continue;
		}
		DMEMIT(" %s %llu %llu %llu %llu", device->dev->name,
		       (u64)device->start[IO_SUPERBLOCK], (u64)device->start[IO_DIRTY_MAP],
		       (u64)device->start[IO_BAD_RANGES], (u64)device->start[IO_DATA]);
	}
}

static void perch_status(struct dm_target *ti, status_type_t type, unsigned int flags, char *result,
			 unsigned int maxlen)
{
	struct perch *perch = ti->private;

	switch (type) {
	case STATUSTYPE_INFO:
		mutex_lock(&perch->gate);
		show_state(perch, result, maxlen);
		mutex_unlock(&perch->gate);
		break;
	case STATUSTYPE_TABLE:
		show_table(perch, result, maxlen);
		break;
	default:
		*result = '\0';
	}
}

/* --- messages: they ask, and return at once */

static int fail_member(struct perch *perch, const char *word)
{
	unsigned int member;

	if (kstrtouint(word, 10, &member) || member >= perch->geometry.members)
		return -EINVAL;
	vd_member_lost(&perch->vd, member);
	return 0;
}

static int take_message(struct perch *perch, unsigned int argc, char **argv)
{
	if (perch->state != PERCH_RUNNING)
		return -ENODEV;
	if (argc == 2 && !strcasecmp(argv[0], "fail"))
		return fail_member(perch, argv[1]);
	if (argc != 1)
		return -EINVAL;
	if (!strcasecmp(argv[0], "check"))
		task_want(&perch->vd, REQUEST_CHECK, false);
	else if (!strcasecmp(argv[0], "repair"))
		task_want(&perch->vd, REQUEST_CHECK, true);
	else if (!strcasecmp(argv[0], "patrol"))
		task_want(&perch->vd, REQUEST_PATROL, false);
	else if (!strcasecmp(argv[0], "idle"))
		task_end(&perch->vd);
	else
		return -EINVAL;
	return 0;
}

static int perch_message(struct dm_target *ti, unsigned int argc, char **argv, char *result,
			 unsigned int maxlen)
{
	struct perch *perch = ti->private;
	int error;

	mutex_lock(&perch->gate);
	error = take_message(perch, argc, argv);
	mutex_unlock(&perch->gate);
	return error;
}

/* --- limits */

static int perch_iterate_devices(struct dm_target *ti, iterate_devices_callout_fn call, void *data)
{
	struct perch *perch = ti->private;
	u32 member;
	int result = 0;

	for (member = 0; !result && member < perch->geometry.members; member++) {
		struct perch_device *device = &perch->device[member];

		if (device->dev)
			result = call(ti, device->dev, device->start[IO_DATA],
				      perch->geometry.member_sectors, data);
	}
	return result;
}

/* A bio may be a whole row: what is not needed of one member's limit is not cut (host.c does that). */
static void perch_io_hints(struct dm_target *ti, struct queue_limits *limits)
{
	const struct perch *perch = ti->private;
	const struct geometry *geometry = &perch->geometry;
	const u32 row = geometry->strip * geometry->data;

	/* A member with larger blocks than those that are there now may take a place later. */
	limits->logical_block_size = max(limits->logical_block_size, perch->block_bytes);
	limits->physical_block_size = max(limits->physical_block_size, limits->logical_block_size);
	perch_take_sectors(limits, row);
	limits->io_min = geometry->strip * SECTOR_BYTES;
	limits->io_opt = row * geometry->spans * SECTOR_BYTES;
}

static struct target_type perch_target = {
	.name = "perch",
	.version = { 1, 0, 0 },
	.features = DM_TARGET_SINGLETON,
	.module = THIS_MODULE,
	.ctr = perch_ctr,
	.dtr = perch_dtr,
	.map = perch_map,
	.end_io = perch_end_io,
	.preresume = perch_preresume,
	.postsuspend = perch_postsuspend,
	.status = perch_status,
	.message = perch_message,
	.iterate_devices = perch_iterate_devices,
	.io_hints = perch_io_hints,
};

static int __init perch_init(void)
{
	return dm_register_target(&perch_target);
}

static void __exit perch_exit(void)
{
	dm_unregister_target(&perch_target);
}

module_init(perch_init);
module_exit(perch_exit);

MODULE_DESCRIPTION("device-mapper target of Perch, RAID of NVMe drives");
MODULE_AUTHOR("The Perch authors");
MODULE_VERSION("0.1.0");
MODULE_LICENSE("GPL");
