/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A VD is started when its device is resumed, and stopped when it is suspended. See lifecycle.c. */
#ifndef PERCH_DM_LIFECYCLE_H
#define PERCH_DM_LIFECYCLE_H

#include "dm/perch.h"

/* Reads what is on the members and starts. If it cannot: the state is PERCH_FAILED, and says why. */
void perch_start(struct perch *perch);

/* None of the host's bios is there. Waits for what is under way, and marks the VD clean. */
void perch_stop(struct perch *perch);

#endif /* PERCH_DM_LIFECYCLE_H */
