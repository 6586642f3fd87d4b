// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Geometry: see geometry.h. No state, no I/O, no locks; every function may be called anywhere.
 *
 * Invariants: geometry_unmap() is the inverse of geometry_map() on data, and false on exactly the
 * strips that geometry_p() and geometry_q() name (tests/unit/core_geometry.cpp walks whole VDs, and
 * compares with md's arithmetic, written anew from raid5.c).
 */
#include "core/geometry.h"

static bool has_spans(enum geometry_level level)
{
	return level == GEOMETRY_RAID50 || level == GEOMETRY_RAID60;
}

static u32 parities_of(enum geometry_level level)
{
	switch (level) {
	case GEOMETRY_RAID5:
	case GEOMETRY_RAID50:
		return 1;
	case GEOMETRY_RAID6:
	case GEOMETRY_RAID60:
		return 2;
	default:
		return 0;
	}
}

/* Members of a span; of parity levels the configuration decides. */
static u32 members_of_span(enum geometry_level level, u32 members, u32 per_span)
{
	switch (level) {
	case GEOMETRY_RAID0:
		return 1;
	case GEOMETRY_RAID1:
		return members;
	case GEOMETRY_RAID10:
		return 2;
	default:
		return per_span;
	}
}

static bool valid_members(enum geometry_level level, u32 members, u32 per_span)
{
	const u32 parities = parities_of(level);

	if (members == 0 || members > GEOMETRY_MAX_MEMBERS || per_span > GEOMETRY_MAX_PER_SPAN)
		return false;
	if (level == GEOMETRY_RAID1)
		return members >= 2;
	if (level == GEOMETRY_RAID10)
		return members >= 4 && members % 2 == 0;
	if (parities == 0)
		return true;
	/* Two data strips at least: with one, parity would be a mirror and md lays it out otherwise. */
	return per_span >= parities + 2 && members % per_span == 0 && (members / per_span >= 2) == has_spans(level);
}

int geometry_init(struct geometry *geometry, enum geometry_level level, u32 members, u32 per_span,
		  u32 strip, u64 member_sectors)
{
	const u32 parities = parities_of(level);
	u32 rest;

	per_span = members_of_span(level, members, per_span);
	if (!valid_members(level, members, per_span) || strip < GEOMETRY_MIN_STRIP ||
	    strip > GEOMETRY_MAX_STRIP || (strip & (strip - 1)) != 0 || member_sectors == 0)
		return -EINVAL;
	div_u64_rem(member_sectors, strip, &rest);
	if (rest != 0 || member_sectors > (u64)-1 / GEOMETRY_MAX_MEMBERS)
		return -EINVAL;
	geometry->level = level;
	geometry->members = members;
	geometry->per_span = per_span;
	geometry->spans = members / per_span;
	geometry->parities = parities;
	geometry->copies = parities == 0 ? per_span : 1;
	geometry->redundancy = parities + geometry->copies - 1;
	geometry->data = (per_span - parities) / geometry->copies;
	geometry->strip = strip;
	geometry->window = strip < GEOMETRY_MAX_WINDOW ? strip : GEOMETRY_MAX_WINDOW;
	geometry->member_sectors = member_sectors;
	geometry->vd_sectors = member_sectors * geometry->data * geometry->spans;
	return 0;
}

/* The place in its span of the first member after parity: where data strip 0 is. */
static u32 first_data(const struct geometry *geometry, u64 row)
{
	u32 turn;

	if (geometry->parities == 0)
		return 0;
	div_u64_rem(row, geometry->per_span, &turn);
	/* P is on the last member in row 0 and moves down by one with each row; data follows it. */
	return geometry->per_span - turn == geometry->per_span ? 0 : geometry->per_span - turn;
}

u32 geometry_p(const struct geometry *geometry, u32 span, u64 row)
{
	const u32 first = first_data(geometry, row);

	core_assert(geometry->parities >= 1 && span < geometry->spans);
	return span * geometry->per_span + (first == 0 ? geometry->per_span : first) - 1;
}

u32 geometry_q(const struct geometry *geometry, u32 span, u64 row)
{
	const u32 p = geometry_p(geometry, span, row) - span * geometry->per_span;

	core_assert(geometry->parities == 2);
	return span * geometry->per_span + (p == 0 ? geometry->per_span : p) - 1;
}

u32 geometry_data(const struct geometry *geometry, u32 span, u64 row, u32 index)
{
	u32 place;

	core_assert(index < geometry->data && span < geometry->spans);
	place = first_data(geometry, row) + index;
	if (place >= geometry->per_span)
		place -= geometry->per_span;
	return span * geometry->per_span + place;
}

int geometry_data_index(const struct geometry *geometry, u32 span, u64 row, u32 member)
{
	u32 first, place;

	if (span >= geometry->spans || member / geometry->per_span != span)
		return -EINVAL;
	place = member % geometry->per_span;
	if (geometry->parities == 0)
		return 0;
	first = first_data(geometry, row);
	place = place >= first ? place - first : place + geometry->per_span - first;
	return place < geometry->data ? (int)place : -EINVAL;
}

struct geometry_place geometry_map(const struct geometry *geometry, u64 sector)
{
	const u32 full_row = geometry->strip * geometry->data;
	struct geometry_place place;
	u32 in_row, span;
	u64 row;

	core_assert(sector < geometry->vd_sectors);
	row = div_u64_rem(sector, full_row, &in_row);
	row = div_u64_rem(row, geometry->spans, &span);
	place.span = span;
	place.row = row;
	place.member = geometry_data(geometry, span, row, in_row / geometry->strip);
	place.sector = row * geometry->strip + in_row % geometry->strip;
	return place;
}

bool geometry_unmap(const struct geometry *geometry, u32 member, u64 member_sector, u64 *sector)
{
	const u32 span = member / geometry->per_span;
	u32 in_strip;
	u64 row;
	int index;

	core_assert(member < geometry->members && member_sector < geometry->member_sectors);
	row = div_u64_rem(member_sector, geometry->strip, &in_strip);
	index = geometry_data_index(geometry, span, row, member);
	if (index < 0)
		return false;
	*sector = ((row * geometry->spans + span) * geometry->data + (u32)index) * geometry->strip +
		  in_strip;
	return true;
}
