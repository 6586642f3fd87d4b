/* SPDX-License-Identifier: GPL-2.0-or-later WITH Linux-syscall-note */
/*
 * What Perch writes on a drive, first version. Included by userspace now and by the kernel target
 * later; docs/on-disk-format.md describes the same in prose.
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

/*
 * Whose drive this is. Written once when the drive is taken, at both ends.
 * crc32c covers the 4096 bytes with the crc32c field zero.
 */
struct perch_label {
	__u8 magic[8];
	__le32 crc32c;
	__le32 version;
	__le64 feature_compat;		/* unknown bits: ignore */
	__le64 feature_ro_compat;	/* unknown bits: read only */
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

#endif
