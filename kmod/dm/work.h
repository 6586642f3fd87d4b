/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Who runs the core: a work for each lane and one for the VD's own, and a tick. See work.c. */
#ifndef PERCH_DM_WORK_H
#define PERCH_DM_WORK_H

#include "dm/perch.h"

/* 0 or -ENOMEM. */
int perch_create_work(struct perch *perch);
void perch_destroy_work(struct perch *perch);

/* env->wake; from any context. */
void perch_wake(struct env *env, u32 lane);

/* The tick goes on until it is stopped; then nothing runs any more, and nothing may wake anybody. */
void perch_start_tick(struct perch *perch);
void perch_stop_work(struct perch *perch);

#endif /* PERCH_DM_WORK_H */
