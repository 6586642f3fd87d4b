/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Superblocks: who is a member of a VD and who is in sync. See superblock.c; what they look like is
 * in uapi/perch_format.h. Pure functions over what was read.
 */
#ifndef PERCH_CORE_SUPERBLOCK_H
#define PERCH_CORE_SUPERBLOCK_H

#include "core/geometry.h"
#include "uapi/perch_format.h"

/* A state of the membership, the same on all members that are there. */
struct epoch {
	u64 number;	/* from 1; 0: of a member that was never part of one */
	u8 nonce[16];
	u8 parent[16];	/* nonce of the epoch that it follows */
};

struct epoch superblock_epoch(const struct perch_superblock *superblock);

/* Why a VD must not be started here, whatever its other members say. */
enum superblock_refusal {
	SUPERBLOCK_ACCEPTED,
	SUPERBLOCK_OF_NEWER_VERSION,
	SUPERBLOCK_OF_OTHER_OWNER,
	SUPERBLOCK_OF_DELETED_VD,
};

/* A member's two copies. */
struct superblock_copies {
	int counts;	/* 0 or 1; -1: neither can be used */
	enum superblock_refusal refusal; /* of the one that would count */
	bool damaged;	/* the other one is: what counts may be older than what was written last */
};

struct superblock_copies superblock_pick(const struct perch_superblock *copy0,
					 const struct perch_superblock *copy1,
					 const u8 vd_uuid[16], u32 row, u32 members);

enum superblock_choice {
	SUPERBLOCK_CHOSEN,
	SUPERBLOCK_NONE,		/* nobody was ever part of the VD */
	SUPERBLOCK_TWO_HISTORIES,	/* members ran apart from each other: nobody may decide but a person */
};

/*
 * Which epoch counts when a VD starts, of those that the members in `found` carry (NULL: not there).
 * `damaged` says of which one copy is. *chosen: a member that carries it.
 */
enum superblock_choice superblock_choose(const struct perch_superblock *const *found,
					 const bool *damaged, u32 members, u32 *chosen);

/* What the epoch of `superblock` says of a member, by the instance that `member` carries. */
u8 superblock_state(const struct perch_superblock *superblock,
		    const struct perch_superblock *member);

/*
 * What a member is when a VD starts by the epoch of `chosen`. `found`: its superblock; NULL: it is not
 * there. One that the epoch does not know was put in its place since, and is rebuilt.
 */
u8 superblock_start_state(const struct perch_superblock *chosen,
			  const struct perch_superblock *found, u32 row);

/* Whether the VD was stopped in order in the epoch of `chosen`: everybody who carries it says so. */
bool superblock_clean(const struct perch_superblock *const *found, u32 members, u32 chosen);

/* Makes it ready to be written: counter and checksum. */
void superblock_seal(struct perch_superblock *superblock, u64 update_counter);

#endif /* PERCH_CORE_SUPERBLOCK_H */
