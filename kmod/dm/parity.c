// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The core's parity arithmetic (core/parity.h) by the kernel's functions, which know the CPU's vectors. In
 * the module it takes the place of core/parity.c, which says what is computed, and why.
 *
 * lib/raid6 wants data blocks first, by the power of their coefficient, then P, then Q. Here a coefficient's
 * power is the place in the span, places of P and Q included (raid6_nc), so these two are sources of zeros.
 *
 * Invariants:
 *  (a) Where Q is wanted and P is not, P is computed all the same, into P's buffer. Nobody needs what that
 *      held: parity that is not wanted is not written, and what was read of it is not looked at after this.
 *  (b) Pieces of a page: the library's recovery reads zeros of that length.
 *
 * Locking: none. Called by the lanes' works alone: the functions disable preemption while they use vectors.
 */
#include "core/parity.h"

#include <linux/mm.h>

#include "dm/compat.h"

#define PIECE 4096U
#define POINTERS (PARITY_MAX_MEMBERS + 2U)

static const u8 zeros[PIECE] __aligned(PIECE);

void parity_add(void *to, const void *from, size_t bytes)
{
	void *source = (void *)from;

	perch_xor(to, &source, 1, bytes);
}

static bool is_data(const struct parity_row *row, u32 place)
{
	return place != row->p && place != row->q;
}

static bool has_q(const struct parity_row *row)
{
	return row->q < row->members;
}

/* to := the sum of all blocks but those in `without` */
static void sum(const struct parity_row *row, void *to, u32 without, size_t bytes)
{
	void *sources[PERCH_XOR_SOURCES];
	bool first = true;
	u32 place, count = 0;

	for (place = 0; place < row->members; place++) {
		if (without >> place & 1)
			continue;
		if (first) {
			memcpy(to, row->block[place], bytes);
			first = false;
			continue;
		}
		sources[count++] = row->block[place];
		if (count == PERCH_XOR_SOURCES) {
			perch_xor(to, sources, count, bytes);
			count = 0;
		}
	}
	if (count > 0)
		perch_xor(to, sources, count, bytes);
}

/* P and Q of a row that has no Q are one bit. */
static u32 parities(const struct parity_row *row)
{
	return 1U << row->p | (has_q(row) ? 1U << row->q : 0);
}

/* What the library wants, at an offset. How many there are. */
static u32 point(const struct parity_row *row, size_t offset, void **pointers)
{
	u32 place;

	for (place = 0; place < row->members; place++)
		pointers[place] = is_data(row, place) ? row->block[place] + offset : (void *)zeros;
	pointers[row->members] = row->block[row->p] + offset;
	pointers[row->members + 1] = row->block[row->q] + offset;
	return row->members + 2;
}

void parity_generate(const struct parity_row *row, u32 wanted, size_t bytes)
{
	void *pointers[POINTERS];
	size_t offset;
	u32 count;

	if (!has_q(row) || !(wanted >> row->q & 1)) {
		if (wanted >> row->p & 1)
			sum(row, row->block[row->p], parities(row), bytes);
		return;
	}
	for (offset = 0; offset < bytes; offset += PIECE) {
		count = point(row, offset, pointers);
		perch_gen_syndrome(count, min_t(size_t, PIECE, bytes - offset), pointers);
	}
}

void parity_update(const struct parity_row *row, u32 place, const void *delta, u32 wanted,
		   size_t bytes)
{
	void *pointers[POINTERS];
	size_t offset;
	u32 count;

	if (!has_q(row) || !(wanted >> row->q & 1)) {
		if (wanted >> row->p & 1)
			parity_add(row->block[row->p], delta, bytes);
		return;
	}
	for (offset = 0; offset < bytes; offset += PIECE) {
		count = point(row, offset, pointers);
		pointers[place] = (void *)delta + offset;
		perch_xor_syndrome(count, place, min_t(size_t, PIECE, bytes - offset), pointers);
	}
}

/* Data blocks x and y, x before y, from P and Q; or x alone, from Q. */
static void recover(const struct parity_row *row, u32 x, u32 y, size_t bytes)
{
	void *pointers[POINTERS];
	size_t offset;
	u32 count;

	for (offset = 0; offset < bytes; offset += PIECE) {
		const size_t piece = min_t(size_t, PIECE, bytes - offset);

		count = point(row, offset, pointers);
		if (y < row->members)
			perch_recover_two(count, piece, x, y, pointers);
		else
			perch_recover_with_p(count, piece, x, pointers);
	}
}

void parity_recover(const struct parity_row *row, u32 lost, size_t bytes)
{
	u32 data[2] = { row->members, row->members };
	u32 found = 0, place;

	for (place = 0; place < row->members; place++) {
		if ((lost >> place & 1) && is_data(row, place)) {
			core_assert(found < (has_q(row) ? 2 : 1));
			data[found++] = place;
		}
	}
	if (found == 1 && !(lost >> row->p & 1))
		sum(row, row->block[data[0]], 1U << data[0] | (has_q(row) ? 1U << row->q : 0), bytes);
	else if (found > 0)
		recover(row, data[0], data[1], bytes);
	/* Parity that is lost follows from data that is whole now. */
	parity_generate(row, lost, bytes);
}
