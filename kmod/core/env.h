/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the core needs from where it is compiled: the kernel module or a userspace program. This is
 * the only file of the core that knows which of them it is. Userspace is freestanding: no libc
 * beyond memcpy and memset, which compilers call by themselves.
 */
#ifndef PERCH_CORE_ENV_H
#define PERCH_CORE_ENV_H

#ifdef __KERNEL__
#include <asm/barrier.h>
#include <linux/atomic.h>
#include <linux/bug.h>
#include <linux/build_bug.h>
#include <linux/crc32c.h>
#include <linux/errno.h>
#include <linux/math64.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/types.h>

#define core_assert(condition) BUG_ON(!(condition))

struct env_spinlock {
	spinlock_t lock;
	unsigned long flags;
};

/* What one thread stores last, and others look at without a lock: acquire and release. */
#define env_load(place) smp_load_acquire(place)
#define env_store(place, value) smp_store_release(place, value)

static inline bool env_dec_and_test(u32 *count)
{
	return atomic_dec_and_test((atomic_t *)count);
}

static inline void env_lock_init(struct env_spinlock *lock)
{
	spin_lock_init(&lock->lock);
}

static inline void env_lock(struct env_spinlock *lock)
{
	unsigned long flags;

	spin_lock_irqsave(&lock->lock, flags);
	lock->flags = flags;
}

static inline void env_unlock(struct env_spinlock *lock)
{
	spin_unlock_irqrestore(&lock->lock, lock->flags);
}

/* Goes on with a CRC32C; as it is stored it begins with all ones and is inverted at the end. */
static inline u32 env_crc32c(u32 crc, const void *bytes, size_t count)
{
	return crc32c(crc, bytes, count);
}
#else
#include <endian.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

#define cpu_to_le16(value) htole16(value)
#define cpu_to_le32(value) htole32(value)
#define cpu_to_le64(value) htole64(value)
#define le16_to_cpu(value) le16toh(value)
#define le32_to_cpu(value) le32toh(value)
#define le64_to_cpu(value) le64toh(value)

/* What one thread stores last, and others look at without a lock: acquire and release. */
#define env_load(place) __atomic_load_n(place, __ATOMIC_ACQUIRE)
#define env_store(place, value) __atomic_store_n(place, value, __ATOMIC_RELEASE)

#define EIO 5
#define EINVAL 22
#define ENODATA 61

#define core_assert(condition) \
	do { \
		if (!(condition)) \
			__builtin_trap(); \
	} while (0)

/* Userspace runs the core in one thread: a lock that is taken twice is a mistake. */
struct env_spinlock {
	bool held;
};

static inline void env_lock_init(struct env_spinlock *lock)
{
	lock->held = false;
}

static inline void env_lock(struct env_spinlock *lock)
{
	core_assert(!lock->held);
	lock->held = true;
}

static inline void env_unlock(struct env_spinlock *lock)
{
	core_assert(lock->held);
	lock->held = false;
}

/* True when the count has come to zero. */
static inline bool env_dec_and_test(u32 *count)
{
	return __atomic_sub_fetch(count, 1, __ATOMIC_ACQ_REL) == 0;
}

/* Goes on with a CRC32C, in plain C. */
static inline u32 env_crc32c_portable(u32 crc, const void *bytes, size_t count)
{
	/* Remainders of four bits by Castagnoli's polynomial, reflected. */
	static const u32 remainders[16] = {
		0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
		0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
		0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
	};
	const u8 *byte = (const u8 *)bytes;

	for (; count > 0; count--) {
		crc ^= *byte++;
		crc = crc >> 4 ^ remainders[crc & 15];
		crc = crc >> 4 ^ remainders[crc & 15];
	}
	return crc;
}

/* Goes on with a CRC32C; as it is stored it begins with all ones and is inverted at the end. */
static inline u32 env_crc32c(u32 crc, const void *bytes, size_t count)
{
#ifdef __SSE4_2__
	const u8 *byte = (const u8 *)bytes;
	u64 word;

	for (; count >= sizeof(word); count -= sizeof(word), byte += sizeof(word)) {
		memcpy(&word, byte, sizeof(word));
		crc = (u32)__builtin_ia32_crc32di(crc, word);
	}
	return env_crc32c_portable(crc, byte, count);
#else
	return env_crc32c_portable(crc, bytes, count);
#endif
}

/* The quotient; the remainder is stored. Divisions of 64 bits are no operator in the kernel. */
static inline u64 div_u64_rem(u64 dividend, u32 divisor, u32 *remainder)
{
	*remainder = (u32)(dividend % divisor);
	return dividend / divisor;
}
#endif

#define SECTOR_BYTES 512U

/* How many bits are set. A loop: compilers make a call of their builtin where there is no popcnt. */
static inline u32 env_count_bits(u32 mask)
{
	u32 bits = 0;

	for (; mask != 0; mask &= mask - 1)
		bits++;
	return bits;
}

static inline bool env_equal(const void *a, const void *b, size_t bytes)
{
	const u8 *one = (const u8 *)a;
	const u8 *other = (const u8 *)b;
	size_t i;

	for (i = 0; i < bytes; i++) {
		if (one[i] != other[i])
			return false;
	}
	return true;
}

/*
 * The CRC32C of a structure that holds it in a field at `field`, with that field zero, as the
 * formats of uapi/perch_format.h have it.
 */
static inline __le32 env_crc_without(const void *structure, size_t bytes, size_t field)
{
	const __le32 zero = 0;
	const u8 *byte = (const u8 *)structure;
	const size_t after = field + sizeof(zero);
	u32 crc;

	crc = env_crc32c(~0U, byte, field);
	crc = env_crc32c(crc, &zero, sizeof(zero));
	return cpu_to_le32(~env_crc32c(crc, byte + after, bytes - after));
}

#endif /* PERCH_CORE_ENV_H */
