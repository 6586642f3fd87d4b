/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What differs between the kernels that are supported: 6.1 and newer. Nothing else asks for a version. */
#ifndef PERCH_DM_COMPAT_H
#define PERCH_DM_COMPAT_H

#include <linux/blkdev.h>
#include <linux/device-mapper.h>
#include <linux/kernel.h>
#include <linux/raid/pq.h>
#include <linux/raid/xor.h>
#include <linux/version.h>
#include <linux/workqueue.h>

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 4, 0)
#include <linux/hex.h>
#endif

/* Since 6.17 a queue says that its works stay on their CPU; before, all did that say nothing else. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 17, 0)
#define WQ_PERCPU 0
#endif

/* Bios of up to so many sectors come as they are; since 6.9 that is a wish of the user, who is nobody. */
static inline void perch_take_sectors(struct queue_limits *limits, unsigned int sectors)
{
	limits->max_hw_sectors = max(limits->max_hw_sectors, sectors);
	limits->max_sectors = max(limits->max_sectors, sectors);
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 9, 0)
	limits->max_user_sectors = max(limits->max_user_sectors, sectors);
#endif
}

/* to ^= each of `count` sources, PERCH_XOR_SOURCES at most; whole sectors, aligned to 32 bytes. */
#define PERCH_XOR_SOURCES 4U

static inline void perch_xor(void *to, void **sources, unsigned int count, size_t bytes)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 2, 0)
	xor_gen(to, sources, count, bytes);
#else
	xor_blocks(count, bytes, to, sources);
#endif
}

/*
 * lib/raid6, of at most a page: P and Q from data; P and Q after a change of one block; two data blocks;
 * a data block and P.
 */
static inline void perch_gen_syndrome(int disks, size_t bytes, void **pointers)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 2, 0)
	raid6_gen_syndrome(disks, bytes, pointers);
#else
	raid6_call.gen_syndrome(disks, bytes, pointers);
#endif
}

static inline void perch_xor_syndrome(int disks, int place, size_t bytes, void **pointers)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 2, 0)
	raid6_xor_syndrome(disks, place, place, bytes, pointers);
#else
	raid6_call.xor_syndrome(disks, place, place, bytes, pointers);
#endif
}

static inline void perch_recover_two(int disks, size_t bytes, int first, int second, void **pointers)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 2, 0)
	raid6_recov_2data(disks, bytes, first, second, pointers);
#else
	raid6_2data_recov(disks, bytes, first, second, pointers);
#endif
}

static inline void perch_recover_with_p(int disks, size_t bytes, int data, void **pointers)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 2, 0)
	raid6_recov_datap(disks, bytes, data, pointers);
#else
	raid6_datap_recov(disks, bytes, data, pointers);
#endif
}

/* Whether a target's table is not read-only. */
static inline bool perch_may_write(const struct dm_target *ti)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 5, 0)
	return dm_table_get_mode(ti->table) & BLK_OPEN_WRITE;
#else
	return dm_table_get_mode(ti->table) & FMODE_WRITE;
#endif
}

#endif /* PERCH_DM_COMPAT_H */
