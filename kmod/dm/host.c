// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The host's bios.
 *
 * A read of what is whole goes to its member without a lane, a thread or a copy: map() only changes
 * where the bio goes, as dm-stripe's does. All else becomes a request of the core; map() puts it there
 * and returns, it never waits.
 *
 * Invariants:
 *  (a) A bio is one request: what lies in more than one row (of reads that go to a member: strip) is cut
 *      off, and device-mapper comes again with the rest.
 *  (b) A read that went to a member and failed, or that was overtaken (vd_read_stands()), becomes a
 *      request: the core computes what the member did not give.
 *  (c) Of a write each byte is read once, when it is copied into a window's block: parity is computed
 *      from the copy, so that a host that changes its buffer meanwhile spoils its own data alone.
 *
 * Locking: none; a bio belongs to one thread at a time.
 */
#include "dm/host.h"

#include <linux/blkdev.h>
#include <linux/highmem.h>
#include <linux/log2.h>
#include <linux/math64.h>

struct host_bio {
	struct vd_request request;
	struct bvec_iter iter;	/* of the bio as it came: who ends it has moved its own */
	u64 ticket;
	bool direct;		/* it is at a member */
};

unsigned int perch_host_bytes(void)
{
	return sizeof(struct host_bio);
}

static struct bio *bio_of(struct vd_request *request)
{
	struct host_bio *host = container_of(request, struct host_bio, request);

	return dm_bio_from_per_bio_data(host, sizeof(*host));
}

static void submit(struct perch *perch, struct bio *bio, struct host_bio *host)
{
	struct vd_request *request = &host->request;

	host->direct = false;
	host->iter = bio->bi_iter;
	request->fua = bio->bi_opf & REQ_FUA;
	request->repair = false;
	request->mismatch = false;
	request->next = NULL;
	if (!bio_sectors(bio)) {
		request->kind = REQUEST_FLUSH;
		request->sector = 0;
		request->sectors = 0;
	} else {
		request->kind = op_is_write(bio_op(bio)) ? REQUEST_WRITE : REQUEST_READ;
		request->sector = dm_target_offset(perch->ti, bio->bi_iter.bi_sector);
		request->sectors = bio_sectors(bio);
	}
	vd_submit(&perch->vd, request);
}

/* Leaves device-mapper what lies beyond these sectors. */
static void limit(struct bio *bio, u64 sectors)
{
	if (bio_sectors(bio) > sectors)
		dm_accept_partial_bio(bio, sectors);
}

/* Sends a read to the member that holds its beginning, if that can be read. */
static bool map_directly(struct perch *perch, struct bio *bio, struct host_bio *host)
{
	const u64 sector = dm_target_offset(perch->ti, bio->bi_iter.bi_sector);
	const struct geometry *geometry = &perch->geometry;
	/* Windows of a strip may be in different places while one of them is rebuilt. */
	const u32 step = vd_is_optimal(&perch->vd) ? geometry->strip : geometry->window;
	const u32 sectors = min_t(u32, bio_sectors(bio), step - (sector & (step - 1)));
	/* Copies in turn, by strips: what is read in a row is read from one drive. */
	const u32 turn = sector >> ilog2(geometry->strip);
	const struct perch_device *device;
	struct geometry_place place;

	if (!vd_reads_directly(&perch->vd, sector, sectors, &host->ticket) ||
	    !vd_read_place(&perch->vd, sector, turn, &place))
		return false;
	device = &perch->device[place.member];
	limit(bio, sectors);
	host->direct = true;
	host->iter = bio->bi_iter;
	bio_set_dev(bio, device->dev->bdev);
	bio->bi_iter.bi_sector = device->start[IO_DATA] + place.sector;
	return true;
}

int perch_map(struct dm_target *ti, struct bio *bio)
{
	struct host_bio *host = dm_per_bio_data(bio, sizeof(*host));
	struct perch *perch = ti->private;
	u32 in_row;

	host->direct = false;
	if (perch->state != PERCH_RUNNING)
		return DM_MAPIO_KILL;
	if (bio_sectors(bio)) {
		if (!op_is_write(bio_op(bio)) && map_directly(perch, bio, host))
			return DM_MAPIO_REMAPPED;
		div_u64_rem(dm_target_offset(ti, bio->bi_iter.bi_sector),
			    vd_row_sectors(&perch->vd), &in_row);
		limit(bio, vd_row_sectors(&perch->vd) - in_row);
	}
	submit(perch, bio, host);
	return DM_MAPIO_SUBMITTED;
}

int perch_end_io(struct dm_target *ti, struct bio *bio, blk_status_t *error)
{
	struct host_bio *host = dm_per_bio_data(bio, sizeof(*host));
	struct perch *perch = ti->private;

	if (!host->direct || (*error && (bio->bi_opf & REQ_RAHEAD)))
		return DM_ENDIO_DONE;
	if (!*error && vd_read_stands(&perch->vd, host->ticket))
		return DM_ENDIO_DONE;
	bio->bi_iter = host->iter;
	bio->bi_status = BLK_STS_OK;
	rcu_read_lock(); /* a stop waits for this: lifecycle.c, e */
	submit(perch, bio, host);
	rcu_read_unlock();
	return DM_ENDIO_INCOMPLETE;
}

void perch_complete_bio(struct vd_request *request, int error)
{
	struct bio *bio = bio_of(request);

	bio->bi_status = errno_to_blk_status(error);
	bio_endio(bio);
}

void perch_copy(struct env *env, struct vd_request *request, u32 offset, void *buffer, u32 bytes)
{
	struct host_bio *host = container_of(request, struct host_bio, request);
	struct bio *bio = bio_of(request);
	struct bvec_iter iter = host->iter;

	bio_advance_iter(bio, &iter, offset);
	while (bytes > 0) {
		struct bio_vec piece = bio_iter_iovec(bio, iter);
		void *data = bvec_kmap_local(&piece);
		const u32 now = min(bytes, piece.bv_len);

		if (request->kind == REQUEST_WRITE)
			memcpy(buffer, data, now);
		else
			memcpy(data, buffer, now);
		kunmap_local(data);
		if (request->kind != REQUEST_WRITE)
			flush_dcache_page(piece.bv_page);
		bio_advance_iter_single(bio, &iter, now);
		buffer += now;
		bytes -= now;
	}
}
