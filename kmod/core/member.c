// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Members: see member.h.
 *
 * Trust is gained in one way only: a member that is REBUILDING is wholly rebuilt and flushed, then an
 * epoch says IN_SYNC. It is lost at once. A member that was lost does not come back while the VD runs:
 * the next start finds it (or a fresh instance in its place) and decides, from the superblocks.
 */
#include "core/member.h"

bool member_may_become(u8 from, u8 to)
{
	/* By what a member was: a bit for each state that it may have next. */
	static const u8 next[] = {
		[PERCH_MEMBER_UNUSED] = 1 << PERCH_MEMBER_ABSENT | 1 << PERCH_MEMBER_IN_SYNC |
					1 << PERCH_MEMBER_REBUILDING | 1 << PERCH_MEMBER_FAILED,
		[PERCH_MEMBER_ABSENT] = 0,
		[PERCH_MEMBER_IN_SYNC] = 1 << PERCH_MEMBER_ABSENT | 1 << PERCH_MEMBER_FAILED,
		[PERCH_MEMBER_REBUILDING] = 1 << PERCH_MEMBER_IN_SYNC | 1 << PERCH_MEMBER_ABSENT |
					    1 << PERCH_MEMBER_FAILED,
		[PERCH_MEMBER_FAILED] = 0,
	};

	return from == to || (from < sizeof(next) && (next[from] >> to & 1));
}

void member_set_state(struct member *member, u8 state)
{
	core_assert(member_may_become(member->state, state));
	env_store(&member->state, state);
}

bool member_enough(const struct geometry *geometry, const u8 *states)
{
	u32 span, place, out;

	for (span = 0; span < geometry->spans; span++) {
		for (place = 0, out = 0; place < geometry->per_span; place++)
			out += states[span * geometry->per_span + place] != PERCH_MEMBER_IN_SYNC;
		if (out > geometry->redundancy)
			return false;
	}
	return true;
}
