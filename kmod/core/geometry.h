/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where the sectors of a VD lie: pure arithmetic, for every level.
 *
 * A VD has members in spans of per_span members each. A span has rows: one strip of every member at
 * the same offset. In a row of a parity level one or two strips are parity, the others data, in an
 * order that rotates from row to row. In a row of a mirror all strips are copies of one.
 *
 * The arrangements are md's, so that data is readable without Perch (drivers/md/raid0.c, raid1.c,
 * raid10.c, raid5.c of Linux 6.1; in dm-raid's words):
 *	RAID0		striped; here: spans of one member
 *	RAID1		every member holds everything; here: one span
 *	RAID10		near-2: members 2i and 2i+1 mirror each other; here: spans of two, whatever the
 *			spans of the configuration
 *	RAID5		raid5_ls, left symmetric
 *	RAID6		raid6_nc, rotating N, continue; Q counts members, not data strips
 *	RAID50, 60	striped over spans of RAID5 or RAID6, in pieces of a span's full data row
 *
 * All sectors have 512 bytes.
 */
#ifndef PERCH_CORE_GEOMETRY_H
#define PERCH_CORE_GEOMETRY_H

#include "core/env.h"

#define GEOMETRY_MAX_MEMBERS 256U	/* of a VD */
#define GEOMETRY_MAX_PER_SPAN 32U
#define GEOMETRY_MIN_STRIP 8U		/* sectors; 4 KiB */
#define GEOMETRY_MAX_STRIP 2048U	/* sectors; 1 MiB */
#define GEOMETRY_MAX_WINDOW 128U	/* sectors; 64 KiB */

enum geometry_level {
	GEOMETRY_RAID0,
	GEOMETRY_RAID1,
	GEOMETRY_RAID10,
	GEOMETRY_RAID5,
	GEOMETRY_RAID6,
	GEOMETRY_RAID50,
	GEOMETRY_RAID60,
};

/* Filled by geometry_init() and constant from then on. */
struct geometry {
	enum geometry_level level;
	u32 members;		/* of the VD */
	u32 per_span;		/* members of a span */
	u32 spans;
	u32 data;		/* strips of data in a row of a span */
	u32 parities;		/* strips of parity in a row: 0, 1 or 2 */
	u32 copies;		/* of each data strip: 1; mirrors: per_span */
	u32 redundancy;		/* members that a span may lose: parities, or copies - 1 */
	u32 strip;		/* sectors; a power of two */
	u32 window;		/* sectors; min(strip, 64 KiB) */
	u64 member_sectors;	/* of data on each member; a multiple of strip */
	u64 vd_sectors;
};

/* A place on a member. With mirrors: on the first of those that hold it. */
struct geometry_place {
	u32 span;
	u32 member;	/* of the VD, from 0 */
	u64 row;	/* of the span */
	u64 sector;	/* of the member's data */
};

/*
 * Returns 0, or -EINVAL for a shape that no VD can have. per_span counts for RAID5 to 60 only.
 */
int geometry_init(struct geometry *geometry, enum geometry_level level, u32 members, u32 per_span,
		  u32 strip, u64 member_sectors);

/* Where a sector of the VD lies; sector < vd_sectors. */
struct geometry_place geometry_map(const struct geometry *geometry, u64 sector);

/*
 * Which sector of the VD lies there; member_sector < member_sectors. False for parity. Every copy of
 * a mirrored sector gives the same answer.
 */
bool geometry_unmap(const struct geometry *geometry, u32 member, u64 member_sector, u64 *sector);

/* The member of the VD that holds P in a row of a span; parities >= 1. */
u32 geometry_p(const struct geometry *geometry, u32 span, u64 row);
/* The same of Q; parities == 2. */
u32 geometry_q(const struct geometry *geometry, u32 span, u64 row);
/* The member that holds data strip `index` of a row; index < data. With mirrors: the first one. */
u32 geometry_data(const struct geometry *geometry, u32 span, u64 row, u32 index);
/* The opposite; -EINVAL for a member that holds parity in that row, or is in another span. */
int geometry_data_index(const struct geometry *geometry, u32 span, u64 row, u32 member);

#endif /* PERCH_CORE_GEOMETRY_H */
