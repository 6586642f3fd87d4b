/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * All memory of a VD: allocated by the table's constructor, so that neither I/O nor a resume waits
 * for any (a resume may be what reclaim waits for).
 */
#ifndef PERCH_DM_MEMORY_H
#define PERCH_DM_MEMORY_H

#include "dm/perch.h"

/* perch->geometry and perch->region_sectors are known. 0, or -ENOMEM: perch_free_memory() then, too. */
int perch_allocate_memory(struct perch *perch);
/* What has been allocated of it. */
void perch_free_memory(struct perch *perch);

#endif /* PERCH_DM_MEMORY_H */
