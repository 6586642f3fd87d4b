/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Commands to members, as bios. See commands.c. */
#ifndef PERCH_DM_COMMANDS_H
#define PERCH_DM_COMMANDS_H

#include "dm/perch.h"

/* Bytes that a command needs in front of its bio. */
unsigned int perch_command_pad(void);

/* Begins a command of the core: env->submit. In a worker. */
void perch_submit_command(struct env *env, struct io *io);

/* Reads from a member, and waits for it: while the VD starts. A negative errno on failure. */
int perch_read_member(struct perch *perch, u32 member, enum io_area area, u64 sector, void *buffer,
		      u32 bytes);

#endif /* PERCH_DM_COMMANDS_H */
