/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The arithmetic of P and Q, and of what is lost.
 *
 * P is the sum (XOR) of a row's data blocks. Q is the sum of g^c times each, in GF(2^8) with the
 * polynomial x^8 + x^4 + x^3 + x^2 + 1 (0x11d) and the generator g = 2, as lib/raid6 of Linux
 * computes it. The power c is the member's place in its span, P and Q places included (raid6_nc).
 * H. Peter Anvin, "The mathematics of RAID-6", gives the equations.
 *
 * parity.c is the portable implementation, which userspace runs; the module has one of its own in its place
 * (dm/parity.c), by the kernel's functions. Lengths are multiples of 512 bytes, buffers are aligned to 8.
 */
#ifndef PERCH_CORE_PARITY_H
#define PERCH_CORE_PARITY_H

#include "core/env.h"

#define PARITY_MAX_MEMBERS 32U

/* The blocks of one row at the same offset, by place in the span. */
struct parity_row {
	void *block[PARITY_MAX_MEMBERS];
	u32 members;
	u32 p;		/* place of P */
	u32 q;		/* place of Q; `members` or more: there is none */
};

/* P and Q from all data blocks; of the two, those whose bit is in `wanted`. */
void parity_generate(const struct parity_row *row, u32 wanted, size_t bytes);

/*
 * P and Q after a change of data block `place` by `delta`, the sum of its old and new content; of
 * the two, those whose bit is in `wanted`.
 */
void parity_update(const struct parity_row *row, u32 place, const void *delta, u32 wanted,
		   size_t bytes);

/*
 * The content of the blocks in `lost` from all others: up to as many as there are parity blocks,
 * data or parity. What their buffers hold before does not matter.
 */
void parity_recover(const struct parity_row *row, u32 lost, size_t bytes);

/* to += from; buffers may be the same. */
void parity_add(void *to, const void *from, size_t bytes);

#endif /* PERCH_CORE_PARITY_H */
