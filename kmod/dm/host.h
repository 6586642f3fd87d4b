/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the host asks for: its bios become requests of the core, or go to a member. See host.c. */
#ifndef PERCH_DM_HOST_H
#define PERCH_DM_HOST_H

#include "dm/perch.h"

/* Bytes of a target's data for each bio. */
unsigned int perch_host_bytes(void);

/* The target's map and end_io. */
int perch_map(struct dm_target *ti, struct bio *bio);
int perch_end_io(struct dm_target *ti, struct bio *bio, blk_status_t *error);

/* env->complete and env->copy, for requests that are bios. */
void perch_complete_bio(struct vd_request *request, int error);
void perch_copy(struct env *env, struct vd_request *request, u32 offset, void *buffer, u32 bytes);

#endif /* PERCH_DM_HOST_H */
