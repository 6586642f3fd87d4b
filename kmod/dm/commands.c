// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Commands to members.
 *
 * Invariants:
 *  (a) A bio is allocated and submitted by a worker, never inside map() of another device: it goes down
 *      at once, so that those in flight end without this thread, and waiting for memory of the bio set
 *      ends.
 *  (b) Flags of the host's bios do not reach members: what a member is asked is what the core says. So
 *      none of its errors is of the host's making (EAGAIN, EINVAL).
 *  (c) A command's end touches nothing of the core but what vd_io_done() does; it may be in interrupt
 *      context.
 *
 * Crash argument: none of its own. FUA and flushes are passed on as they are asked for.
 */
#include "dm/commands.h"

#include <linux/blkdev.h>
#include <linux/mm.h>
#include <linux/vmalloc.h>

struct command {
	struct perch *perch;
	struct io *io;
	struct bio bio;
};

unsigned int perch_command_pad(void)
{
	return offsetof(struct command, bio);
}

static struct page *page_of(const void *buffer)
{
	return is_vmalloc_addr(buffer) ? vmalloc_to_page(buffer) : virt_to_page(buffer);
}

/* Memory that is contiguous is one piece, other memory one for each page. */
static void add_buffer(struct bio *bio, void *buffer, u32 bytes)
{
	while (bytes > 0) {
		const u32 in_page = offset_in_page(buffer);
		const u32 piece = is_vmalloc_addr(buffer) ?
					  min_t(u32, bytes, PAGE_SIZE - in_page) : bytes;

		__bio_add_page(bio, page_of(buffer), piece, in_page);
		buffer += piece;
		bytes -= piece;
	}
}

static unsigned short pieces_of(const void *buffer, u32 bytes)
{
	if (!is_vmalloc_addr(buffer))
		return bytes > 0;
	return DIV_ROUND_UP(offset_in_page(buffer) + bytes, PAGE_SIZE);
}

static struct bio *make_bio(struct perch *perch, u32 member, enum io_area area, u64 sector,
			    blk_opf_t flags, void *buffer, u32 bytes)
{
	const struct perch_device *device = &perch->device[member];
	struct bio *bio;

	if (area != IO_DATA)
		flags |= REQ_META | REQ_PRIO;
	bio = bio_alloc_bioset(device->dev->bdev, pieces_of(buffer, bytes), flags, GFP_NOIO,
			       &perch->commands);
	bio->bi_iter.bi_sector = device->start[area] + sector;
	add_buffer(bio, buffer, bytes);
	return bio;
}

static void end_command(struct bio *bio)
{
	struct command *command = container_of(bio, struct command, bio);
	struct perch *perch = command->perch;
	struct io *io = command->io;
	/* A medium that cannot be read is -ENODATA: the core knows the difference. */
	const int error = blk_status_to_errno(bio->bi_status);

	bio_put(bio);
	rcu_read_lock(); /* a stop waits for this: lifecycle.c, e */
	vd_io_done(&perch->vd, io, error);
	rcu_read_unlock();
}

void perch_submit_command(struct env *env, struct io *io)
{
	struct perch *perch = container_of(env, struct perch, env);
	struct command *command;
	struct bio *bio;

	switch (io->kind) {
	case IO_READ:
		bio = make_bio(perch, io->member, io->area, io->sector, REQ_OP_READ, io->buffer,
			       io->sectors * SECTOR_BYTES);
		break;
	case IO_WRITE:
		bio = make_bio(perch, io->member, io->area, io->sector,
			       REQ_OP_WRITE | REQ_SYNC | REQ_IDLE | (io->fua ? REQ_FUA : 0),
			       io->buffer, io->sectors * SECTOR_BYTES);
		break;
	default:
		bio = make_bio(perch, io->member, IO_DATA, 0, REQ_OP_WRITE | REQ_SYNC | REQ_PREFLUSH,
			       NULL, 0);
	}
	command = container_of(bio, struct command, bio);
	command->perch = perch;
	command->io = io;
	bio->bi_end_io = end_command;
	submit_bio_noacct(bio); /* device-mapper has counted the host's */
}

int perch_read_member(struct perch *perch, u32 member, enum io_area area, u64 sector, void *buffer,
		      u32 bytes)
{
	struct bio *bio = make_bio(perch, member, area, sector, REQ_OP_READ, buffer, bytes);
	const int error = submit_bio_wait(bio);

	bio_put(bio);
	return error;
}
