/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tasks: what goes over all windows of a VD beside the host's requests: resync, rebuild, check,
 * patrol read. One at a time, the most urgent first. See task.c.
 */
#ifndef PERCH_CORE_TASK_H
#define PERCH_CORE_TASK_H

#include "core/io.h"

struct vd;

#define TASK_MAX_DEPTH 16U	/* windows at a time */

/* A window's place among all windows of all spans, in the order in which tasks go. */
static inline u64 task_place(u64 window, u32 spans, u32 span)
{
	return window * spans + span;
}

struct task_slot {
	struct vd_request request;
	u64 place;
	bool busy;
	bool failed;	/* it ended so, and stays busy until nothing of the task runs */
	bool ended;	/* guarded by the task's lock */
	u64 rebuilt;	/* place + 1 of the window that a rebuild has ended here last; by its lane */
};

struct task {
	struct env_spinlock lock;	/* guards `ended` of all slots, and the next four */
	bool wants_check, wants_patrol, wants_repair, wants_end;

	enum request_kind kind;	/* that runs; REQUEST_NONE */
	u32 depth;		/* windows at a time; 0: tasks pause */
	u64 next, end;		/* places: the next one, and the first that is not to be done */
	u32 busy;		/* slots in use */
	bool failed;		/* some window was not done: on from `rebuilt` with the next tick */
	u64 region;		/* resync: of the dirty map */

	u64 rebuilt;		/* places below are rebuilt; env_load() */
	u64 mismatches;		/* that the last check has found, in windows */
	struct task_slot slot[TASK_MAX_DEPTH];
};

void task_init(struct vd *vd, u32 depth);

/* Asks for a check (with `repair`: parity that does not match is made anew) or a patrol read. */
void task_want(struct vd *vd, enum request_kind kind, bool repair);

/* Ends a check or a patrol read that runs or waits. Others go on: they are not for anybody to end. */
void task_end(struct vd *vd);

/* How far the task that runs has come, and how far it goes; in windows of all spans. */
u64 task_done(const struct vd *vd);
u64 task_all(const struct vd *vd);

/* By the thread that does the VD's own work: takes what has ended, and later begins what is next. */
void task_collect(struct vd *vd, bool ticked);
void task_issue(struct vd *vd);

/* A rebuild has done all windows. */
bool task_is_at_end(const struct task *task);
/* Sectors of each member's data that are rebuilt, below which nothing is left out. */
u64 task_rebuilt_to(const struct vd *vd);
/* Whether a window is rebuilt; by its lane, exactly, by others perhaps too late. */
bool task_has_rebuilt(const struct task *task, u64 place);

/* A request of a task has ended; in the window's lane, while the window is still in use. */
void task_ended(struct vd *vd, struct vd_request *request, int error);

#endif /* PERCH_CORE_TASK_H */
