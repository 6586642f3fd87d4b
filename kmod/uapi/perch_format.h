/* SPDX-License-Identifier: GPL-2.0-or-later WITH Linux-syscall-note */
/*
 * What Perch writes on a drive, first version. Included by userspace and by the kernel target;
 * docs/on-disk-format.md describes the same in prose.
 *
 * A drive carries a GPT with one partition of type PERCH_GPT_TYPE_GUID that starts at
 * PERCH_FRONT_RESERVE_BYTES. All offsets below are bytes from the start of that partition:
 *
 *	0                 zeros, label A at PERCH_LABEL_OFFSET
 *	1 MiB             configuration slot 0   (PERCH_CONFIG_SLOT_BYTES)
 *	5 MiB             configuration slot 1
 *	9 MiB             extents, PERCH_EXTENT_ALIGN aligned, as the configuration lists them
 *	end - 1 MiB       zeros, label B at PERCH_LABEL_OFFSET within this MiB
 *
 * All integers are little-endian. Metadata is read and written in 4 KiB units whatever the logical
 * block size. The first and last MiB hold nothing but labels and zeros, so that no content of a
 * virtual drive can make a prober ambivalent about the drive.
 */
#ifndef PERCH_FORMAT_H
#define PERCH_FORMAT_H

#include <linux/types.h>

#define PERCH_GPT_TYPE_GUID "50455243-4852-4149-4454-4d454d424552"
#define PERCH_GPT_PARTITION_NAME "perch"

#define PERCH_FRONT_RESERVE_BYTES (1ULL << 30)
#define PERCH_SLACK_BYTES (256ULL << 20)
#define PERCH_COERCION_BYTES (1ULL << 30)

#define PERCH_METADATA_UNIT 4096U
#define PERCH_LABEL_OFFSET 4096U
#define PERCH_LABEL_BYTES 4096U
#define PERCH_EDGE_BYTES (1ULL << 20)
#define PERCH_CONFIG_SLOTS 2U
#define PERCH_CONFIG_SLOT_BYTES (4ULL << 20)
#define PERCH_EXTENT_ALIGN (1ULL << 20)
#define PERCH_EXTENTS_OFFSET \
	(PERCH_EDGE_BYTES + PERCH_CONFIG_SLOTS * PERCH_CONFIG_SLOT_BYTES)

#define PERCH_LABEL_MAGIC "PERCHLBL"
#define PERCH_CONFIG_MAGIC "PERCHCFG"
#define PERCH_LABEL_VERSION 1U
#define PERCH_CONFIG_VERSION 1U

/* Bits of the incompat mask that this version understands: none yet. */
#define PERCH_INCOMPAT_KNOWN 0ULL

/* Limits of the format; reaching one is a clear error, never a wrap. */
#define PERCH_MAX_MEMBERS 256U		/* of a VD; also entries in a superblock */
#define PERCH_MAX_VDS 240U
#define PERCH_MAX_GROUPS 64U
#define PERCH_MAX_VDS_PER_GROUP 16U
#define PERCH_MAX_DRIVES 256U		/* of a controller */

/*
 * Extents: the names under which the configuration lists them, and their sizes. A member has one of
 * each that its engine needs. Sizes are multiples of PERCH_EXTENT_ALIGN. "checksums" is reserved and
 * never written; "data" takes what is left.
 */
#define PERCH_EXTENT_SUPERBLOCK "superblock"
#define PERCH_EXTENT_DIRTY_MAP "dirty-map"
#define PERCH_EXTENT_BAD_RANGES "bad-ranges"
#define PERCH_EXTENT_DMRAID "dm-raid"
#define PERCH_EXTENT_RESHAPE "reshape"
#define PERCH_EXTENT_LOG "log"
#define PERCH_EXTENT_CHECKSUMS "checksums"
#define PERCH_EXTENT_DATA "data"

#define PERCH_SUPERBLOCK_EXTENT_BYTES (1ULL << 20)
#define PERCH_DIRTY_MAP_EXTENT_BYTES (1ULL << 20)
#define PERCH_BAD_RANGES_EXTENT_BYTES (1ULL << 20)
#define PERCH_DMRAID_EXTENT_BYTES (4ULL << 20)
#define PERCH_RESHAPE_EXTENT_BYTES (8ULL << 20)
#define PERCH_LOG_MIN_BYTES (4ULL << 20)
#define PERCH_LOG_MAX_BYTES (256ULL << 20)

/*
 * Whose drive this is. Written once when the drive is taken, at both ends.
 * crc32c covers the 4096 bytes with the crc32c field zero.
 */
struct perch_label {
	__u8 magic[8];
	__le32 crc32c;
	__le32 version;
	__le64 feature_compat;		/* unknown bits: ignore */
	__le64 feature_ro_compat;	/* unknown bits: read only, or refuse */
	__le64 feature_incompat;	/* unknown bits: refuse */
	__u8 controller_uuid[16];
	__u8 drive_uuid[16];
	__le64 device_bytes;		/* size of the whole drive */
	__le64 partition_offset;	/* of the partition, from the start of the drive */
	__le64 partition_bytes;
	__le32 logical_block_bytes;
	__le32 config_slots;
	__le64 config_slot_bytes;
	__le64 config_offset;		/* of slot 0 */
	__le64 extents_offset;
	__u8 reserved[3968];
};

/*
 * Heads a configuration slot; payload_bytes of JSON text follow in the next metadata unit.
 * header_crc32c covers this header with that field zero. The slot with the higher sequence whose
 * two checksums hold counts; a writer always overwrites the other one.
 */
struct perch_config_header {
	__u8 magic[8];
	__le32 header_crc32c;
	__le32 version;
	__le64 feature_incompat;
	__le64 sequence;		/* grows by one with each change */
	__u8 id[16];			/* random, of this state */
	__u8 parent_id[16];		/* of the state it was made from */
	__u8 controller_uuid[16];
	__le64 payload_bytes;
	__le32 payload_crc32c;
	__u8 reserved[4004];
};

#define PERCH_SUPERBLOCK_MAGIC "PERCHSUP"
#define PERCH_MAP_MAGIC "PERCHMAP"
#define PERCH_BAD_MAGIC "PERCHBAD"
#define PERCH_SUPERBLOCK_VERSION 1U

#define PERCH_SUPERBLOCK_BYTES 16384U
#define PERCH_SUPERBLOCK_COPIES 2U
#define PERCH_SUPERBLOCK_COPY_STRIDE (PERCH_SUPERBLOCK_EXTENT_BYTES / PERCH_SUPERBLOCK_COPIES)
#define PERCH_SUPERBLOCK_TASKS 8U

/* level */
#define PERCH_LEVEL_RAID0 0U
#define PERCH_LEVEL_RAID1 1U
#define PERCH_LEVEL_RAID5 5U
#define PERCH_LEVEL_RAID6 6U
#define PERCH_LEVEL_RAID10 10U
#define PERCH_LEVEL_RAID50 50U
#define PERCH_LEVEL_RAID60 60U

/* owner */
#define PERCH_OWNER_PERCH 1U
#define PERCH_OWNER_DM_RAID 2U

/* flags of a superblock */
#define PERCH_SUPERBLOCK_CLEAN 1U	/* stopped in order: no write was in flight */
#define PERCH_SUPERBLOCK_TOMBSTONE 2U	/* the VD was deleted; never start it again */

/* state of a member */
#define PERCH_MEMBER_UNUSED 0U		/* no entry */
#define PERCH_MEMBER_ABSENT 1U		/* gone when this epoch was written */
#define PERCH_MEMBER_IN_SYNC 2U
#define PERCH_MEMBER_REBUILDING 3U	/* in sync below recovered_bytes */
#define PERCH_MEMBER_FAILED 4U		/* dropped for errors */

/* flags of a member */
#define PERCH_MEMBER_LOG_IGNORED 1U	/* nothing in its log counts in this epoch */

/* kind of a task */
#define PERCH_TASK_NONE 0U
#define PERCH_TASK_REBUILD 1U
#define PERCH_TASK_RESYNC 2U
#define PERCH_TASK_CHECK 3U
#define PERCH_TASK_PATROL 4U
#define PERCH_TASK_RESHAPE 5U
#define PERCH_TASK_ALL_ROWS 0xffffffffU

/* How far a task has come; everything below the cursor is done and was flushed before it. */
struct perch_task_cursor {
	__le32 kind;
	__le32 row;			/* of the member it works on, or PERCH_TASK_ALL_ROWS */
	__le64 cursor_bytes;		/* within the data extents */
};

/* One member. `instance` is fresh at each assignment, so a drive that returns is another member. */
struct perch_member {
	__u8 instance[16];
	__le64 recovered_bytes;		/* of its data extent, while rebuilding; else zero */
	__le16 row;
	__u8 state;
	__u8 flags;
	__u8 reserved[4];
};

/*
 * Who is a member of a VD and who is in sync: the kernel's authority, one per VD and member, in that
 * member's superblock extent. Two copies, at 0 and at PERCH_SUPERBLOCK_COPY_STRIDE; the valid one
 * with the higher update_counter counts, and a writer overwrites the other. crc32c covers the 16384
 * bytes with the crc32c field zero.
 *
 * A change of membership is an epoch: number + 1, a random nonce, and the nonce it follows. Epochs
 * are the same on all members that are there; the fields before `epoch_number` and the cursors are
 * each member's own. Which epoch counts when a VD starts: the newest not provably incomplete. An
 * epoch is incomplete if a present member that it calls in sync carries neither it nor a descendant;
 * then its parent counts, which that member carries. Two epochs of which neither descends from the
 * other are two histories: neither is started.
 *
 * While the owner is dm-raid, its own superblock says who is in sync; what counts here is whose
 * extent this is, the owner and the tombstone.
 */
struct perch_superblock {
	__u8 magic[8];
	__le32 crc32c;
	__le32 version;
	__le64 feature_compat;		/* unknown bits: ignore */
	__le64 feature_ro_compat;	/* unknown bits: read only, or refuse */
	__le64 feature_incompat;	/* unknown bits: refuse */
	__u8 vd_uuid[16];
	__u8 instance[16];		/* of the member whose extent this is */
	__u8 controller_uuid[16];
	__le64 update_counter;		/* grows with each write of a copy */

	__le64 epoch_number;
	__u8 epoch_nonce[16];
	__u8 epoch_parent_nonce[16];
	__le64 log_generation;		/* parts of another one do not exist; zero: no log */

	__le32 row;			/* of the member whose extent this is */
	__le32 members;			/* rows of the VD */
	__le32 members_per_span;	/* `members` where there are no spans */
	__le32 level;
	__le32 owner;			/* nobody else may run the VD */
	__le32 flags;
	__le32 strip_bytes;
	__le32 block_bytes;		/* logical block of the VD: 512 or 4096 */
	__le64 data_bytes;		/* of the data extent, the same on each member */
	__le64 vd_bytes;
	__le64 region_bytes;		/* of the dirty map, within the data extents; zero: no map */
	__le64 data_offset;		/* of this member's data extent, within the partition */
	__le64 reshape_position;	/* bytes of the VD; zero: none, which is all that version 1 has */
	struct perch_task_cursor tasks[PERCH_SUPERBLOCK_TASKS];
	__le32 entries;			/* of `member` in use: the first ones */
	__u8 reserved[7844];

	/* A row may have two: the member that counts, and one that is being rebuilt to replace it. */
	struct perch_member member[PERCH_MAX_MEMBERS];
};

/*
 * Dirty map: page i of the extent holds the regions from i * PERCH_MAP_REGIONS_PER_PAGE on. Region r
 * is the bytes [r, r + 1) * region_bytes of every member's data extent. Two bits per region, the
 * lower ones of a byte first. crc32c covers the page with the crc32c field zero. A map is read from
 * every in-sync member and united: a region is dirty if one says so, never written if all say so. A
 * page that cannot be read, does not check, or is another VD's, counts as all dirty and written.
 */
#define PERCH_MAP_HEADER_BYTES 64U
#define PERCH_MAP_BITS_BYTES (PERCH_METADATA_UNIT - PERCH_MAP_HEADER_BYTES)
#define PERCH_MAP_REGIONS_PER_PAGE (PERCH_MAP_BITS_BYTES * 4U)
#define PERCH_MAP_PAGES (PERCH_DIRTY_MAP_EXTENT_BYTES / PERCH_METADATA_UNIT)
#define PERCH_MAX_REGION_BYTES (1ULL << 39)
#define PERCH_MAP_DIRTY 1U
#define PERCH_MAP_NEVER_WRITTEN 2U

struct perch_map_page {
	__u8 magic[8];
	__le32 crc32c;
	__le32 page;			/* index within the extent */
	__u8 vd_uuid[16];
	__u8 reserved[32];
	__u8 bits[PERCH_MAP_BITS_BYTES];
};

/*
 * Bad ranges: blocks of the VD, by its address, that were lost beyond redundancy. They read as
 * errors until they are rewritten, which removes them. A range may stand in any page; what any range
 * names is lost. The extent is two halves; page i is at i * 4 KiB of each. Every member has the list, and
 * of a page the valid one with the highest update_counter among all halves of all in-sync members
 * counts; a writer overwrites the older half of each member. A page of zeros is an empty one.
 */
#define PERCH_BAD_HEADER_BYTES 64U
#define PERCH_BAD_RANGES_PER_PAGE 252U
#define PERCH_BAD_COPY_STRIDE (PERCH_BAD_RANGES_EXTENT_BYTES / 2U)
#define PERCH_BAD_PAGES (PERCH_BAD_COPY_STRIDE / PERCH_METADATA_UNIT)

/* reason of a bad range */
#define PERCH_BAD_LOST 1U		/* more unreadable sources than the level bears */
#define PERCH_BAD_UNDEFINED 2U		/* in flight at a crash, its member absent afterwards */

struct perch_bad_range {
	__le64 first_sector;		/* of 512 bytes, of the VD */
	__le32 sectors;			/* at least 1 */
	__le32 reason;
};

struct perch_bad_page {
	__u8 magic[8];
	__le32 crc32c;
	__le32 page;			/* index within its half */
	__u8 vd_uuid[16];
	__le64 update_counter;
	__le32 count;			/* of ranges in use: the first ones */
	__u8 reserved[20];
	struct perch_bad_range ranges[PERCH_BAD_RANGES_PER_PAGE];
};

/*
 * The log extent's content is reserved: this version has none, and the extent holds zeros. A bit of
 * feature_incompat in the superblock will announce it, so that no program that cannot replay a log
 * starts a VD that has one. The same will go for "reshape" and "checksums", which this version
 * neither writes nor reads.
 */

#ifdef __cplusplus
#define PERCH_ASSERT(condition) static_assert(condition, #condition)
#else
#define PERCH_ASSERT(condition) _Static_assert(condition, #condition)
#endif
PERCH_ASSERT(sizeof(struct perch_label) == PERCH_LABEL_BYTES);
PERCH_ASSERT(sizeof(struct perch_config_header) == PERCH_METADATA_UNIT);
PERCH_ASSERT(__builtin_offsetof(struct perch_label, controller_uuid) == 40);
PERCH_ASSERT(__builtin_offsetof(struct perch_label, device_bytes) == 72);
PERCH_ASSERT(__builtin_offsetof(struct perch_label, extents_offset) == 120);
PERCH_ASSERT(__builtin_offsetof(struct perch_config_header, id) == 32);
PERCH_ASSERT(__builtin_offsetof(struct perch_config_header, payload_bytes) == 80);
PERCH_ASSERT(PERCH_EXTENTS_OFFSET % PERCH_EXTENT_ALIGN == 0);
PERCH_ASSERT(sizeof(struct perch_task_cursor) == 16);
PERCH_ASSERT(sizeof(struct perch_member) == 32);
PERCH_ASSERT(__builtin_offsetof(struct perch_member, recovered_bytes) == 16);
PERCH_ASSERT(__builtin_offsetof(struct perch_member, row) == 24);
PERCH_ASSERT(sizeof(struct perch_superblock) == PERCH_SUPERBLOCK_BYTES);
PERCH_ASSERT(__builtin_offsetof(struct perch_superblock, vd_uuid) == 40);
PERCH_ASSERT(__builtin_offsetof(struct perch_superblock, update_counter) == 88);
PERCH_ASSERT(__builtin_offsetof(struct perch_superblock, epoch_number) == 96);
PERCH_ASSERT(__builtin_offsetof(struct perch_superblock, log_generation) == 136);
PERCH_ASSERT(__builtin_offsetof(struct perch_superblock, row) == 144);
PERCH_ASSERT(__builtin_offsetof(struct perch_superblock, data_bytes) == 176);
PERCH_ASSERT(__builtin_offsetof(struct perch_superblock, reshape_position) == 208);
PERCH_ASSERT(__builtin_offsetof(struct perch_superblock, tasks) == 216);
PERCH_ASSERT(__builtin_offsetof(struct perch_superblock, entries) == 344);
PERCH_ASSERT(__builtin_offsetof(struct perch_superblock, member) == 8192);
PERCH_ASSERT(PERCH_SUPERBLOCK_BYTES <= PERCH_SUPERBLOCK_COPY_STRIDE);
PERCH_ASSERT(sizeof(struct perch_map_page) == PERCH_METADATA_UNIT);
PERCH_ASSERT(__builtin_offsetof(struct perch_map_page, vd_uuid) == 16);
PERCH_ASSERT(__builtin_offsetof(struct perch_map_page, bits) == PERCH_MAP_HEADER_BYTES);
PERCH_ASSERT(sizeof(struct perch_bad_range) == 16);
PERCH_ASSERT(sizeof(struct perch_bad_page) == PERCH_METADATA_UNIT);
PERCH_ASSERT(__builtin_offsetof(struct perch_bad_page, update_counter) == 32);
PERCH_ASSERT(__builtin_offsetof(struct perch_bad_page, ranges) == PERCH_BAD_HEADER_BYTES);

#endif
