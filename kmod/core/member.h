/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The members of a VD, and what may become of each. See member.c.
 */
#ifndef PERCH_CORE_MEMBER_H
#define PERCH_CORE_MEMBER_H

#include "core/geometry.h"
#include "uapi/perch_format.h"

struct member {
	/*
	 * PERCH_MEMBER_*: what the durable epoch says. Stored by metadata.c alone, with
	 * member_set_state(); everybody looks at it with member_state().
	 */
	u8 state;
	u8 next;	/* what the next epoch is to say; guarded by metadata's lock */
	u8 copy;	/* of its superblock: which one counts now */
	u8 instance[16];
	u64 update_counter;
	u64 recovered;	/* sectors of its data that the durable superblocks call rebuilt */
};

static inline u8 member_state(const struct member *member)
{
	return env_load(&member->state);
}

/* Whether a member in this state is there: its metadata is written, and it is flushed. */
static inline bool member_is_there(u8 state)
{
	return state == PERCH_MEMBER_IN_SYNC || state == PERCH_MEMBER_REBUILDING;
}

/* Whether the table of transitions has this one. */
bool member_may_become(u8 from, u8 to);

/* The only writer of `state`; the epoch that says so is durable on all members that are there. */
void member_set_state(struct member *member, u8 state);

/* Whether these states, of all members of a VD, leave every span enough that are in sync. */
bool member_enough(const struct geometry *geometry, const u8 *states);

#endif /* PERCH_CORE_MEMBER_H */
