/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What goes in and out of the core. It does no I/O itself: it submits `struct io` to the shell and
 * is told of their ends; it is given `struct vd_request` and says when they are done. All of them, and
 * all buffers, are allocated before I/O begins.
 *
 * The shell calls the core from as many threads as it likes, but a lane and the VD's own work each
 * from one at a time (see vd.h). No function of `struct env` is called with a lock held, and none
 * may call back into the core before it returns.
 */
#ifndef PERCH_CORE_IO_H
#define PERCH_CORE_IO_H

#include "core/env.h"

enum io_kind {
	IO_READ,
	IO_WRITE,
	IO_FLUSH,
};

enum io_area {
	IO_DATA,	/* the member's data extent */
	IO_DIRTY_MAP,	/* its dirty map extent */
	IO_SUPERBLOCK,	/* its superblock extent */
	IO_BAD_RANGES,	/* its bad ranges extent */
};

/* One command to one member. */
struct io {
	enum io_kind kind;
	enum io_area area;
	bool fua;
	u32 member;
	u64 sector;	/* of the area */
	u32 sectors;
	void *buffer;
	/* How it ended. -ENODATA: the medium could not be read, and will not be next time either. */
	int error;
	bool again;	/* it has failed once, and was submitted once more */
	/* Of whoever issued it. */
	void *owner;
	u32 lane;	/* or `vd->lanes`: the VD's own work */
	struct io *next;
};

enum request_kind {
	REQUEST_NONE,
	REQUEST_READ,	/* with a lost member; see vd_reads_directly() */
	REQUEST_WRITE,
	REQUEST_FLUSH,
	REQUEST_STOP,	/* the last one: none of the host's is under way, or comes after it */
	/* The core's own: see task.c. */
	REQUEST_RESYNC,
	REQUEST_REBUILD,
	REQUEST_CHECK,
	REQUEST_PATROL,
	REQUEST_REPAIR,	/* of what could not be read: see window.c */
};

#define REQUEST_MAX_WINDOWS 16U	/* of a row: the largest strip over the largest window */

/* The part of a request that lies in one window. */
struct piece {
	struct vd_request *request;
	u64 row;
	u32 span;
	u32 window;	/* of the row */
	struct piece *next;
};

/*
 * What the host asks for. It lies in one row: the shell splits at multiples of vd_row_sectors(). (Not
 * `struct request`: that is the block layer's.)
 */
struct vd_request {
	enum request_kind kind;
	bool fua;
	u64 sector;	/* of the VD */
	u32 sectors;
	/* The core's, until it is complete. */
	int error;
	u32 left;
	bool repair;	/* of a check: parity that does not match is made anew */
	bool mismatch;	/* a check's finding */
	struct vd_request *next;
	struct piece pieces[REQUEST_MAX_WINDOWS];
};

/* The shell. */
struct env {
	/* Begins a command; its end is told by vd_io_done(), later. */
	void (*submit)(struct env *env, struct io *io);
	/* The request is done: 0 or a negative errno. */
	void (*complete)(struct env *env, struct vd_request *request, int error);
	/* Copies `bytes` of a write's data to the core, or of a read's data to the host. */
	void (*copy)(struct env *env, struct vd_request *request, u32 offset, void *buffer, u32 bytes);
	/* Fills a buffer with random bytes: nobody must have seen these before. */
	void (*random)(struct env *env, void *buffer, u32 bytes);
	/* There is work: vd_run_lane(lane), or vd_run() for `vd->lanes`, is to be called. */
	void (*wake)(struct env *env, u32 lane);
};

#endif /* PERCH_CORE_IO_H */
