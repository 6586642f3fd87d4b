// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Superblocks: see superblock.h. No state, no I/O, no locks.
 *
 * Every start, and every change of who is in sync, is an epoch: a number, a nonce, and the nonce of
 * the epoch that it follows. metadata.c writes one to all members that are there, and uses what it
 * says only after all of them have it. So after a cut the members that are in sync carry at most two
 * epochs, one of which follows the other, if they carried the same one when it was started.
 *
 * Which one counts: the newest that was not cut off. An epoch was, if a member that it calls in sync
 * carries neither it nor one that came after it: that member never had it, so nobody has acted on it.
 * It may carry the epoch before; or another one that followed that, when the machine started again
 * without those that had the one that was cut off. Or the machine started again without the member
 * that had not got it, and was cut off once more: then the epochs of several starts are there, each
 * of them the parent of the next, and the first one counts.
 *
 * But a member of whose copies one is damaged, and that carries the epoch before, may have had it
 * there: it is no witness. Taking the newer one is right either way: an epoch takes trust away from
 * members that are gone, or gives it to one that was wholly rebuilt and flushed before it was begun.
 *
 * Two histories: a member that the chosen epoch does not call in sync may be one that was dropped,
 * or one that ran without the others. The latter says itself that others, which are in sync now, were
 * not there. (An instance is fresh at each assignment: a member that was absent and came back is
 * another one.) Numbers do not tell: either side may have counted further.
 */
#include "core/superblock.h"

#define CRC_FIELD __builtin_offsetof(struct perch_superblock, crc32c)

struct epoch superblock_epoch(const struct perch_superblock *superblock)
{
	struct epoch epoch;

	epoch.number = le64_to_cpu(superblock->epoch_number);
	memcpy(epoch.nonce, superblock->epoch_nonce, sizeof(epoch.nonce));
	memcpy(epoch.parent, superblock->epoch_parent_nonce, sizeof(epoch.parent));
	return epoch;
}

static bool valid(const struct perch_superblock *copy, const u8 vd_uuid[16], u32 row)
{
	return env_equal(copy->magic, PERCH_SUPERBLOCK_MAGIC, sizeof(copy->magic)) &&
	       copy->crc32c == env_crc_without(copy, sizeof(*copy), CRC_FIELD) &&
	       env_equal(copy->vd_uuid, vd_uuid, sizeof(copy->vd_uuid)) &&
	       le32_to_cpu(copy->row) == row;
}

/* No features are known: what has one cannot be written rightly, and so not be used. */
static enum superblock_refusal refusal_of(const struct perch_superblock *copy)
{
	if (le32_to_cpu(copy->version) != PERCH_SUPERBLOCK_VERSION ||
	    copy->feature_incompat != 0 || copy->feature_ro_compat != 0)
		return SUPERBLOCK_OF_NEWER_VERSION;
	if (le32_to_cpu(copy->flags) & PERCH_SUPERBLOCK_TOMBSTONE)
		return SUPERBLOCK_OF_DELETED_VD;
	if (le32_to_cpu(copy->owner) != PERCH_OWNER_PERCH)
		return SUPERBLOCK_OF_OTHER_OWNER;
	return SUPERBLOCK_ACCEPTED;
}

/* Whether it holds together: one member for each row, each in a state that there is. */
static bool sound(const struct perch_superblock *copy, u32 members)
{
	u32 row;

	if (le32_to_cpu(copy->members) != members || le32_to_cpu(copy->entries) != members)
		return false;
	for (row = 0; row < members; row++) {
		const struct perch_member *entry = &copy->member[row];

		if (le16_to_cpu(entry->row) != row || entry->state == PERCH_MEMBER_UNUSED ||
		    entry->state > PERCH_MEMBER_FAILED)
			return false;
	}
	return true;
}

static bool is_empty(const struct perch_superblock *copy)
{
	const u8 zeros[sizeof(copy->magic)] = { 0 };

	return env_equal(copy->magic, zeros, sizeof(zeros));
}

struct superblock_copies superblock_pick(const struct perch_superblock *copy0,
					 const struct perch_superblock *copy1,
					 const u8 vd_uuid[16], u32 row, u32 members)
{
	const bool first = valid(copy0, vd_uuid, row);
	const bool second = valid(copy1, vd_uuid, row);
	const bool newer = second && (!first || le64_to_cpu(copy1->update_counter) >
							le64_to_cpu(copy0->update_counter));
	const struct perch_superblock *counts = newer ? copy1 : copy0;
	struct superblock_copies copies = { newer, SUPERBLOCK_ACCEPTED, false };

	if (first || second)
		copies.refusal = refusal_of(counts);
	/* An older copy in the stead of one that is not understood is an older truth. */
	if ((!first && !second) || copies.refusal != SUPERBLOCK_ACCEPTED || !sound(counts, members))
		copies.counts = -1;
	copies.damaged = first != second && !is_empty(first ? copy1 : copy0);
	return copies;
}

static bool same_epoch(const struct perch_superblock *a, const struct perch_superblock *b)
{
	return env_equal(a->epoch_nonce, b->epoch_nonce, sizeof(a->epoch_nonce));
}

/* Whether the epoch of `child` follows that of `parent` at once. */
static bool follows(const struct perch_superblock *child, const struct perch_superblock *parent)
{
	return env_equal(child->epoch_parent_nonce, parent->epoch_nonce,
			 sizeof(child->epoch_parent_nonce));
}

u8 superblock_state(const struct perch_superblock *superblock,
		    const struct perch_superblock *member)
{
	const struct perch_member *entry = &superblock->member[le32_to_cpu(member->row)];

	if (!env_equal(entry->instance, member->instance, sizeof(entry->instance)))
		return PERCH_MEMBER_UNUSED;
	return entry->state;
}

u8 superblock_start_state(const struct perch_superblock *chosen,
			  const struct perch_superblock *found, u32 row)
{
	u8 state;

	if (!found)
		return chosen->member[row].state == PERCH_MEMBER_FAILED ? PERCH_MEMBER_FAILED :
									  PERCH_MEMBER_ABSENT;
	state = superblock_state(chosen, found);
	return state == PERCH_MEMBER_UNUSED ? PERCH_MEMBER_REBUILDING : state;
}

static bool never_part(const struct perch_superblock *superblock)
{
	return superblock->epoch_number == 0;
}

/* What the members carry, when a VD starts. */
struct carried {
	const struct perch_superblock *const *found;
	const bool *damaged;
	u32 members;
};

static bool carries(const struct carried *all, u32 row)
{
	return all->found[row] && !never_part(all->found[row]);
}

/* The epoch before, if somebody carries it. */
static const struct perch_superblock *parent_of(const struct carried *all,
						const struct perch_superblock *child)
{
	u32 row;

	for (row = 0; row < all->members; row++) {
		if (carries(all, row) && follows(child, all->found[row]))
			return all->found[row];
	}
	return NULL;
}

/* Whether `child` is of an epoch that came after that of `ancestor`, as far as can be seen. */
static bool descends(const struct carried *all, const struct perch_superblock *child,
		     const struct perch_superblock *ancestor)
{
	u32 steps;

	for (steps = 0; child && steps < all->members; steps++) {
		if (follows(child, ancestor))
			return true;
		child = parent_of(all, child);
	}
	return false;
}

/* Whether `row` shows that an epoch was cut off: in sync by it, and it never had it. */
static bool shows_incomplete(const struct carried *all, const struct perch_superblock *epoch,
			     u32 row)
{
	const struct perch_superblock *member = all->found[row];

	if (superblock_state(epoch, member) != PERCH_MEMBER_IN_SYNC || same_epoch(member, epoch) ||
	    descends(all, member, epoch))
		return false;
	return !(all->damaged[row] && follows(epoch, member));
}

/* Whether an epoch was cut off, as far as those show that are there. */
static bool incomplete(const struct carried *all, const struct perch_superblock *epoch)
{
	u32 row;

	for (row = 0; row < all->members; row++) {
		if (carries(all, row) && shows_incomplete(all, epoch, row))
			return true;
	}
	return false;
}

/* Whether a member that is not in sync ran on without one that is. */
static bool ran_apart(const struct perch_superblock *chosen, const struct perch_superblock *member)
{
	const u32 members = le32_to_cpu(chosen->members);
	u32 row;

	for (row = 0; row < members; row++) {
		const struct perch_member *here = &chosen->member[row];
		const struct perch_member *there = &member->member[row];

		if (here->state == PERCH_MEMBER_IN_SYNC &&
		    (there->state == PERCH_MEMBER_ABSENT || there->state == PERCH_MEMBER_FAILED) &&
		    env_equal(here->instance, there->instance, sizeof(here->instance)))
			return true;
	}
	return false;
}

enum superblock_choice superblock_choose(const struct perch_superblock *const *found,
					 const bool *damaged, u32 members, u32 *chosen)
{
	const struct carried all = { found, damaged, members };
	const struct perch_superblock *best = NULL;
	bool any = false;
	u32 row;

	for (row = 0; row < members; row++) {
		if (!carries(&all, row))
			continue;
		any = true;
		if ((best && le64_to_cpu(found[row]->epoch_number) <= le64_to_cpu(best->epoch_number)) ||
		    incomplete(&all, found[row]))
			continue;
		best = found[row];
		*chosen = row;
	}
	if (!best)
		return any ? SUPERBLOCK_TWO_HISTORIES : SUPERBLOCK_NONE;
	for (row = 0; row < members; row++) {
		if (carries(&all, row) &&
		    superblock_state(best, found[row]) != PERCH_MEMBER_IN_SYNC &&
		    superblock_state(best, found[row]) != PERCH_MEMBER_UNUSED &&
		    ran_apart(best, found[row]) && !incomplete(&all, found[row]))
			return SUPERBLOCK_TWO_HISTORIES;
	}
	return SUPERBLOCK_CHOSEN;
}

bool superblock_clean(const struct perch_superblock *const *found, u32 members, u32 chosen)
{
	u32 row;

	for (row = 0; row < members; row++) {
		/*
		 * What follows it was cut off before anything was written to data. Who carries it may be
		 * those alone who are being rebuilt: they too are told of a stop.
		 */
		if (found[row] && same_epoch(found[row], found[chosen]) &&
		    !(le32_to_cpu(found[row]->flags) & PERCH_SUPERBLOCK_CLEAN))
			return false;
	}
	return true;
}

void superblock_seal(struct perch_superblock *superblock, u64 update_counter)
{
	superblock->update_counter = cpu_to_le64(update_counter);
	superblock->crc32c = env_crc_without(superblock, sizeof(*superblock), CRC_FIELD);
}
