// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Parity arithmetic: see parity.h. No state, no I/O, no locks; may be called anywhere, but takes
 * time in proportion to the row.
 *
 * Invariant: after parity_generate(), any blocks of the row that parity_recover() is asked for come
 * out as they were (tests/unit/core_parity.cpp: every number of members, every pair, against ISA-L).
 */
#include "core/parity.h"

#define FEEDBACK 0x1d1d1d1d1d1d1d1dULL	/* of 0x11d, what is left of x^8 */
#define LOW_BITS 0x0101010101010101ULL
#define NOT_LOW_BITS 0xfefefefefefefefeULL

/* Eight bytes times g at once. */
static u64 times_g(u64 bytes)
{
	const u64 carries = bytes >> 7 & LOW_BITS;

	/* 0xff where a bit was carried out of a byte. */
	return (bytes << 1 & NOT_LOW_BITS) ^ (((carries << 8) - carries) & FEEDBACK);
}

/* Eight bytes times a constant. */
static u64 times(u64 bytes, u8 factor)
{
	u64 product = 0;

	for (; factor != 0; factor >>= 1) {
		if (factor & 1)
			product ^= bytes;
		bytes = times_g(bytes);
	}
	return product;
}

static u8 gf_multiply(u8 a, u8 b)
{
	return (u8)times(a, b);
}

/* g to a power; 0 to 254. */
static u8 gf_power(u32 power)
{
	u8 result = 1;

	while (power-- > 0)
		result = (u8)times_g(result);
	return result;
}

/* 1 / a; a is not 0. a^254, for a^255 = 1. */
static u8 gf_inverse(u8 a)
{
	u8 result = 1;
	u32 i;

	for (i = 0; i < 254; i++)
		result = gf_multiply(result, a);
	return result;
}

void parity_add(void *to, const void *from, size_t bytes)
{
	const u64 *source = from;
	u64 *target = to;
	size_t i;

	for (i = 0; i < bytes / sizeof(u64); i++)
		target[i] ^= source[i];
}

/* to += factor * from */
static void add_times(void *to, const void *from, u8 factor, size_t bytes)
{
	const u64 *source = from;
	u64 *target = to;
	size_t i;

	for (i = 0; i < bytes / sizeof(u64); i++)
		target[i] ^= times(source[i], factor);
}

static void multiply(void *block, u8 factor, size_t bytes)
{
	u64 *words = block;
	size_t i;

	for (i = 0; i < bytes / sizeof(u64); i++)
		words[i] = times(words[i], factor);
}

static bool is_data(const struct parity_row *row, u32 place)
{
	return place != row->p && place != row->q;
}

/* to := the sum of g^(power * place) over the data blocks that are not in `without` */
static void sum(const struct parity_row *row, void *to, u32 without, bool weighted, size_t bytes)
{
	u32 place;

	memset(to, 0, bytes);
	for (place = 0; place < row->members; place++) {
		if (is_data(row, place) && (without >> place & 1) == 0)
			add_times(to, row->block[place], weighted ? gf_power(place) : 1, bytes);
	}
}

void parity_generate(const struct parity_row *row, u32 wanted, size_t bytes)
{
	if (wanted >> row->p & 1)
		sum(row, row->block[row->p], 0, false, bytes);
	if (row->q < row->members && (wanted >> row->q & 1))
		sum(row, row->block[row->q], 0, true, bytes);
}

void parity_update(const struct parity_row *row, u32 place, const void *delta, u32 wanted,
		   size_t bytes)
{
	core_assert(place < row->members && is_data(row, place));
	if (wanted >> row->p & 1)
		parity_add(row->block[row->p], delta, bytes);
	if (row->q < row->members && (wanted >> row->q & 1))
		add_times(row->block[row->q], delta, gf_power(place), bytes);
}

/* Data block x from P. */
static void recover_from_p(const struct parity_row *row, u32 x, size_t bytes)
{
	sum(row, row->block[x], 1U << x, false, bytes);
	parity_add(row->block[x], row->block[row->p], bytes);
}

/* Data block x from Q: Q = Q' + g^x D. */
static void recover_from_q(const struct parity_row *row, u32 x, size_t bytes)
{
	sum(row, row->block[x], 1U << x, true, bytes);
	parity_add(row->block[x], row->block[row->q], bytes);
	multiply(row->block[x], gf_inverse(gf_power(x)), bytes);
}

/*
 * Data blocks x and y from P and Q: with P' and Q' the sums over the others,
 *	D_x + D_y = P + P'		g^x D_x + g^y D_y = Q + Q'
 * so that D_y = (g^x (P + P') + Q + Q') / (g^x + g^y), and D_x = P + P' + D_y.
 */
static void recover_two(const struct parity_row *row, u32 x, u32 y, size_t bytes)
{
	const u32 both = 1U << x | 1U << y;
	const u8 factor_x = gf_power(x);

	sum(row, row->block[x], both, false, bytes);
	parity_add(row->block[x], row->block[row->p], bytes);
	sum(row, row->block[y], both, true, bytes);
	parity_add(row->block[y], row->block[row->q], bytes);
	add_times(row->block[y], row->block[x], factor_x, bytes);
	multiply(row->block[y], gf_inverse((u8)(factor_x ^ gf_power(y))), bytes);
	parity_add(row->block[x], row->block[y], bytes);
}

void parity_recover(const struct parity_row *row, u32 lost, size_t bytes)
{
	const u32 parities = row->q < row->members ? 2 : 1;
	u32 data[2];
	u32 found = 0, place;

	for (place = 0; place < row->members; place++) {
		if (!(lost >> place & 1) || !is_data(row, place))
			continue;
		core_assert(found < parities);
		data[found++] = place;
	}
	if (found == 2)
		recover_two(row, data[0], data[1], bytes);
	else if (found == 1 && !(lost >> row->p & 1))
		recover_from_p(row, data[0], bytes);
	else if (found == 1 && parities == 2)
		recover_from_q(row, data[0], bytes);
	/* Parity that is lost follows from data that is whole now. */
	parity_generate(row, lost, bytes);
}
