// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Test only: drives in memory that lose power together.
 *
 *	<start> <length> powercut
 *
 * All devices of this target are behind one volatile cache, and one order of writes: what is acknowledged
 * without FUA, and no flush of its device came after it, may be gone after a cut, each write for itself,
 * whole or by sectors, whatever became of writes before or after it, on any device. What was in flight may
 * be there or not. Messages:
 *
 *	cut <seed>	power is lost: of what is volatile a random part stays, all I/O is an error from then on
 *	restore		power is back; what is there is what stayed
 *	lie		flushes and FUA are acknowledged and ignored from now on, as by a broken drive
 *	honest		no longer
 *
 * A thread does what is asked, not in the order in which it came, so that something is always in flight.
 * Reads give what was written last, or what is being written.
 *
 * Locking: one lock for everything. What it costs does not matter here.
 */
#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/device-mapper.h>
#include <linux/highmem.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#define DM_MSG_PREFIX "powercut"

#define SECTOR 512U
/* Volatile writes that are kept in mind; beyond, the oldest one goes to the medium, as in any cache. */
#define MOST_VOLATILE (16U << 20)
/* Of what waits, one of so many is done next. */
#define CHOICE 16U

struct drive {
	u8 *now;	/* what is read */
	u8 *medium;	/* what a cut leaves for sure */
	u64 bytes;
};

/* A write that was acknowledged, or is in flight at a cut. */
struct entry {
	struct list_head list;
	struct drive *drive;
	u64 offset;
	u32 bytes;
	bool durable;
	u8 data[];
};

struct work {
	struct list_head list;
	struct drive *drive;
	struct bio *bio;
};

static DEFINE_MUTEX(lock);
static LIST_HEAD(entries);	/* in the order in which they were done */
static LIST_HEAD(waiting);
static DEFINE_SPINLOCK(waiting_lock);
static DECLARE_WAIT_QUEUE_HEAD(wake);
static struct task_struct *thread;
static u64 volatile_bytes;
static bool off;
static bool lies;
static u64 random_state = 1;

/* xorshift64: the seed alone decides. */
static u32 next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state >> 32;
}

static void copy_bio(struct bio *bio, u8 *data, bool to_bio)
{
	struct bvec_iter iter;
	struct bio_vec vec;

	bio_for_each_segment(vec, bio, iter) {
		void *page = bvec_kmap_local(&vec);

		if (to_bio)
			memcpy(page, data, vec.bv_len);
		else
			memcpy(data, page, vec.bv_len);
		kunmap_local(page);
		data += vec.bv_len;
	}
}

static void drop(struct entry *entry)
{
	volatile_bytes -= entry->bytes;
	list_del(&entry->list);
	kvfree(entry);
}

static void put_on_medium(struct entry *entry)
{
	memcpy(entry->drive->medium + entry->offset, entry->data, entry->bytes);
	drop(entry);
}

static void flush(struct drive *drive)
{
	struct entry *entry, *next;

	list_for_each_entry_safe(entry, next, &entries, list) {
		if (entry->drive == drive)
			put_on_medium(entry);
	}
}

static struct entry *remember(struct drive *drive, struct bio *bio)
{
	const u32 bytes = bio->bi_iter.bi_size;
	struct entry *entry = kvmalloc(struct_size(entry, data, bytes), GFP_NOIO);

	if (!entry)
		return NULL;
	entry->drive = drive;
	entry->offset = bio->bi_iter.bi_sector * SECTOR;
	entry->bytes = bytes;
	entry->durable = (bio->bi_opf & REQ_FUA) && !lies;
	copy_bio(bio, entry->data, false);
	list_add_tail(&entry->list, &entries);
	volatile_bytes += bytes;
	return entry;
}

static blk_status_t write_bio(struct drive *drive, struct bio *bio)
{
	struct entry *entry = remember(drive, bio);

	if (!entry)
		return BLK_STS_RESOURCE;
	memcpy(drive->now + entry->offset, entry->data, entry->bytes);
	while (volatile_bytes > MOST_VOLATILE)
		put_on_medium(list_first_entry(&entries, struct entry, list));
	return BLK_STS_OK;
}

static blk_status_t do_bio(struct drive *drive, struct bio *bio)
{
	if (off)
		return BLK_STS_IOERR;
	if ((bio->bi_opf & REQ_PREFLUSH) && !lies)
		flush(drive);
	if (!bio->bi_iter.bi_size)
		return BLK_STS_OK;
	if (op_is_write(bio_op(bio)))
		return write_bio(drive, bio);
	copy_bio(bio, drive->now + bio->bi_iter.bi_sector * SECTOR, true);
	return BLK_STS_OK;
}

/* What stays of a write: by sectors, or all, or nothing. */
static void keep_some(struct entry *entry)
{
	const u32 fate = entry->durable ? 0 : next_random() % 4;
	u32 at;

	for (at = 0; at < entry->bytes; at += SECTOR) {
		if (fate == 0 || fate == 1 || (fate == 2 && next_random() % 2))
			memcpy(entry->drive->medium + entry->offset + at, entry->data + at, SECTOR);
	}
}

static struct work *take_work(void)
{
	struct work *work = NULL;
	u32 skip;

	spin_lock(&waiting_lock);
	if (!list_empty(&waiting)) {
		work = list_first_entry(&waiting, struct work, list);
		for (skip = get_random_u32() % CHOICE; skip > 0; skip--) {
			if (list_is_last(&work->list, &waiting))
				break;
			work = list_next_entry(work, list);
		}
		list_del(&work->list);
	}
	spin_unlock(&waiting_lock);
	return work;
}

static int run(void *unused)
{
	struct work *work;

	while (!kthread_should_stop()) {
		wait_event_interruptible(wake, kthread_should_stop() || !list_empty(&waiting));
		while ((work = take_work()) != NULL) {
			struct bio *bio = work->bio;

			mutex_lock(&lock);
			bio->bi_status = do_bio(work->drive, bio);
			mutex_unlock(&lock);
			bio_endio(bio);
			cond_resched();
		}
	}
	return 0;
}

/* What is in flight may have come to the drive; its order among the others is open. */
static void cut_in_flight(void)
{
	struct work *work, *next;
	LIST_HEAD(in_flight);

	spin_lock(&waiting_lock);
	list_splice_init(&waiting, &in_flight);
	spin_unlock(&waiting_lock);
	list_for_each_entry_safe(work, next, &in_flight, list) {
		struct bio *bio = work->bio;

		if (op_is_write(bio_op(bio)) && bio->bi_iter.bi_size) {
			struct entry *entry = remember(work->drive, bio);

			if (entry)
				entry->durable = false;
		}
		bio->bi_status = BLK_STS_IOERR;
		bio_endio(bio);
	}
}

static void cut(u64 seed)
{
	struct entry *entry, *next;

	mutex_lock(&lock);
	off = true;
	random_state = seed * 0x9e3779b97f4a7c15ULL | 1;
	cut_in_flight();
	list_for_each_entry(entry, &entries, list)
		keep_some(entry);
	list_for_each_entry_safe(entry, next, &entries, list) {
		memcpy(entry->drive->now + entry->offset, entry->drive->medium + entry->offset, entry->bytes);
		drop(entry);
	}
	mutex_unlock(&lock);
}

static int powercut_message(struct dm_target *ti, unsigned int argc, char **argv, char *result,
			    unsigned int maxlen)
{
	u64 seed;

	if (argc == 2 && !strcmp(argv[0], "cut") && !kstrtou64(argv[1], 10, &seed))
		cut(seed);
	else if (argc == 1 && !strcmp(argv[0], "restore"))
		off = false;
	else if (argc == 1 && (!strcmp(argv[0], "lie") || !strcmp(argv[0], "honest")))
		lies = argv[0][0] == 'l';
	else
		return -EINVAL;
	return 0;
}

static int powercut_map(struct dm_target *ti, struct bio *bio)
{
	struct work *work = dm_per_bio_data(bio, sizeof(*work));

	bio->bi_iter.bi_sector = dm_target_offset(ti, bio->bi_iter.bi_sector);
	work->drive = ti->private;
	work->bio = bio;
	spin_lock(&waiting_lock);
	list_add_tail(&work->list, &waiting);
	spin_unlock(&waiting_lock);
	wake_up(&wake);
	return DM_MAPIO_SUBMITTED;
}

static void powercut_dtr(struct dm_target *ti)
{
	struct drive *drive = ti->private;
	struct entry *entry, *next;

	mutex_lock(&lock);
	list_for_each_entry_safe(entry, next, &entries, list) {
		if (entry->drive == drive)
			drop(entry);
	}
	mutex_unlock(&lock);
	vfree(drive->now);
	vfree(drive->medium);
	kfree(drive);
}

static int powercut_ctr(struct dm_target *ti, unsigned int argc, char **argv)
{
	struct drive *drive;

	if (argc) {
		ti->error = "there are no arguments";
		return -EINVAL;
	}
	drive = kzalloc(sizeof(*drive), GFP_KERNEL);
	if (!drive)
		return -ENOMEM;
	ti->private = drive;
	drive->bytes = ti->len * SECTOR;
	drive->now = vzalloc(drive->bytes);
	drive->medium = vzalloc(drive->bytes);
	if (!drive->now || !drive->medium) {
		powercut_dtr(ti);
		ti->error = "there is not enough memory";
		return -ENOMEM;
	}
	ti->num_flush_bios = 1;
	ti->flush_supported = true;
	ti->per_io_data_size = sizeof(struct work);
	return 0;
}

static struct target_type powercut_target = {
	.name = "powercut",
	.version = { 1, 0, 0 },
	.module = THIS_MODULE,
	.ctr = powercut_ctr,
	.dtr = powercut_dtr,
	.map = powercut_map,
	.message = powercut_message,
};

static int __init powercut_init(void)
{
	int error;

	thread = kthread_run(run, NULL, "powercut");
	if (IS_ERR(thread))
		return PTR_ERR(thread);
	error = dm_register_target(&powercut_target);
	if (error)
		kthread_stop(thread);
	return error;
}

static void __exit powercut_exit(void)
{
	dm_unregister_target(&powercut_target);
	kthread_stop(thread);
}

module_init(powercut_init);
module_exit(powercut_exit);

MODULE_DESCRIPTION("test only: drives in memory that lose power together");
MODULE_AUTHOR("The Perch authors");
MODULE_LICENSE("GPL");
