// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Tasks: see task.h.
 *
 * A task sends one request for each window through the lanes, as the host does, so that no write is
 * between its reads and its writes.
 *
 *	resync	parity is made anew from data, in regions whose parity is unknown; only while all
 *		members are in sync
 *	rebuild	the blocks of members that are REBUILDING are computed from the others, and written
 *	check	parity is compared with data, and with repair made anew where it does not match
 *	patrol	everything is read; what cannot be is computed and rewritten (window.c)
 *
 * Invariants:
 *  (a) A window that is rebuilt counts as such at once and exactly, for its lane: task_ended() notes it
 *      while the window is in use, so that the next write to it already goes to the new member, and
 *      one before it did not have to (rule 5). The note is in the slot, which is not used again before
 *      `rebuilt` has moved past the window. Hence the order in task_has_rebuilt(): slots first.
 *  (b) `rebuilt` moves in order, past windows that have ended well. What is recorded on the media
 *      follows it behind a flush (metadata.c, h).
 *  (c) A region's parity is good when all its windows were resynced, and none failed: a window that
 *      fails makes its region suspect (window.c).
 *
 * Crash argument: a resync starts anew from the bits, a rebuild from its recorded cursor; below it
 * the member's content is on its media, and above it nobody believes it. Both only ever write what
 * follows from what is there, so a cut in their middle leaves what the next run repairs.
 *
 * Locking: `lock` guards what lanes and others leave; all else is the thread's that does the VD's own
 * work. Nothing outside is called with the lock held.
 */
#include "core/task.h"

#include "core/vd.h"

void task_init(struct vd *vd, u32 depth)
{
	memset(&vd->task, 0, sizeof(vd->task));
	env_lock_init(&vd->task.lock);
	core_assert(depth <= TASK_MAX_DEPTH);
	vd->task.depth = depth;
}

void task_want(struct vd *vd, enum request_kind kind, bool repair)
{
	struct task *task = &vd->task;

	env_lock(&task->lock);
	if (kind == REQUEST_CHECK) {
		task->wants_check = true;
		task->wants_repair = repair;
	} else {
		task->wants_patrol = true;
	}
	env_unlock(&task->lock);
	vd->env->wake(vd->env, vd->lanes);
}

void task_end(struct vd *vd)
{
	struct task *task = &vd->task;

	env_lock(&task->lock);
	task->wants_check = false;
	task->wants_patrol = false;
	task->wants_end = true;
	env_unlock(&task->lock);
	vd->env->wake(vd->env, vd->lanes);
}

bool task_has_rebuilt(const struct task *task, u64 place)
{
	u32 i;

	for (i = 0; i < TASK_MAX_DEPTH; i++) {
		if (env_load(&task->slot[i].rebuilt) == place + 1)
			return true;
	}
	return place < env_load(&task->rebuilt);
}

u64 task_rebuilt_to(const struct vd *vd)
{
	u32 rest;

	return div_u64_rem(vd->task.rebuilt, vd->geometry.spans, &rest) * vd->geometry.window;
}

bool task_is_at_end(const struct task *task)
{
	return task->kind == REQUEST_REBUILD && task->busy == 0 && task->next == task->end;
}

void task_ended(struct vd *vd, struct vd_request *request, int error)
{
	/* The request is the slot's first field. */
	struct task_slot *slot = (struct task_slot *)request;

	if (request->kind == REQUEST_REBUILD && error == 0)
		env_store(&slot->rebuilt, slot->place + 1);
	env_lock(&vd->task.lock);
	slot->ended = true;
	env_unlock(&vd->task.lock);
	vd->env->wake(vd->env, vd->lanes);
}

/* --- which windows */

static u64 windows_of_member(const struct vd *vd)
{
	u32 rest;

	return div_u64_rem(vd->geometry.member_sectors, vd->geometry.window, &rest);
}

u64 task_all(const struct vd *vd)
{
	return windows_of_member(vd) * vd->geometry.spans;
}

u64 task_done(const struct vd *vd)
{
	const u64 all = task_all(vd);

	if (vd->task.kind == REQUEST_NONE)
		return all;
	if (vd->task.kind == REQUEST_REBUILD)
		return env_load(&vd->task.rebuilt);
	return vd->task.next < all ? vd->task.next : all;
}

static u64 place_of_region(const struct vd *vd, u64 region)
{
	const u64 first = region * (vd->map.region_sectors / vd->geometry.window);
	const u64 windows = windows_of_member(vd);

	return task_place(first < windows ? first : windows, vd->geometry.spans, 0);
}

/* The next region to be resynced becomes the task's range. */
static bool next_region(struct vd *vd)
{
	struct task *task = &vd->task;

	task->region = dirty_map_next_unknown(&vd->map, task->region);
	if (task->region == vd->map.regions)
		return false;
	task->next = place_of_region(vd, task->region);
	task->end = place_of_region(vd, task->region + 1);
	return true;
}

static bool any_rebuilding(const struct vd *vd, u64 *from)
{
	const u64 windows = windows_of_member(vd);
	u32 member, rest;
	bool any = false;

	*from = windows;
	for (member = 0; member < vd->geometry.members; member++) {
		u64 done;

		if (vd->member[member].state != PERCH_MEMBER_REBUILDING)
			continue;
		any = true;
		done = div_u64_rem(vd->member[member].recovered, vd->geometry.window, &rest);
		*from = done < *from ? done : *from;
	}
	return any;
}

static bool take_wish(struct task *task, bool *wish)
{
	bool wanted;

	env_lock(&task->lock);
	wanted = *wish;
	*wish = false;
	env_unlock(&task->lock);
	return wanted;
}

/* Begins the most urgent task, if there is one. */
static void choose(struct vd *vd)
{
	struct task *task = &vd->task;
	u64 from;

	task->next = 0;
	task->end = task_all(vd);
	task->region = 0;
	if (vd_is_optimal(vd) && next_region(vd)) {
		task->kind = REQUEST_RESYNC;
	} else if (any_rebuilding(vd, &from)) {
		task->kind = REQUEST_REBUILD;
		if (task->rebuilt < from * vd->geometry.spans)
			env_store(&task->rebuilt, from * vd->geometry.spans);
		task->next = task->rebuilt;
	} else if (vd_is_optimal(vd) && take_wish(task, &task->wants_check)) {
		task->kind = REQUEST_CHECK;
		task->mismatches = 0;
	} else if (take_wish(task, &task->wants_patrol)) {
		task->kind = REQUEST_PATROL;
	}
}

/* --- windows that have ended */

/* The first place that has not ended; in a task that has not failed all before it are done. */
static u64 first_busy(const struct task *task)
{
	u64 first = task->next;
	u32 i;

	for (i = 0; i < TASK_MAX_DEPTH; i++) {
		if (task->slot[i].busy && task->slot[i].place < first)
			first = task->slot[i].place;
	}
	return first;
}

static void take_slot(struct vd *vd, struct task_slot *slot)
{
	struct task *task = &vd->task;
	bool ended;

	env_lock(&task->lock);
	ended = slot->ended;
	slot->ended = false;
	env_unlock(&task->lock);
	if (!ended)
		return;
	task->mismatches += slot->request.mismatch;
	if (slot->request.error != 0 && task->kind == REQUEST_REBUILD) {
		slot->failed = true;
		task->failed = true;
		return;
	}
	slot->busy = false;
	task->busy--;
}

/* After a failure, when nothing runs any more: from the first window that was not done. */
static void start_over(struct task *task, bool ticked)
{
	u32 i, failed = 0;

	for (i = 0; i < TASK_MAX_DEPTH; i++)
		failed += task->slot[i].failed;
	if (!ticked || failed < task->busy)
		return;
	for (i = 0; i < TASK_MAX_DEPTH; i++) {
		task->slot[i].busy = false;
		task->slot[i].failed = false;
	}
	task->busy = 0;
	task->failed = false;
	task->kind = REQUEST_NONE;
}

void task_collect(struct vd *vd, bool ticked)
{
	struct task *task = &vd->task;
	u32 i;

	for (i = 0; i < TASK_MAX_DEPTH; i++) {
		if (task->slot[i].busy)
			take_slot(vd, &task->slot[i]);
	}
	if (task->kind == REQUEST_REBUILD && first_busy(task) > task->rebuilt)
		env_store(&task->rebuilt, first_busy(task));
	if (task->failed)
		start_over(task, ticked);
}

/* --- windows that begin */

static void submit_window(struct vd *vd, struct task_slot *slot)
{
	struct vd_request *request = &slot->request;
	struct piece *piece = &request->pieces[0];
	u32 in_strip, span;
	u64 window;

	window = div_u64_rem(vd->task.next, vd->geometry.spans, &span);
	slot->place = vd->task.next++;
	slot->busy = true;
	vd->task.busy++;
	memset(request, 0, sizeof(*request));
	request->kind = vd->task.kind;
	request->repair = vd->task.wants_repair;
	request->left = 1;
	piece->request = request;
	piece->row = div_u64_rem(window * vd->geometry.window, vd->geometry.strip, &in_strip);
	piece->span = span;
	piece->window = in_strip / vd->geometry.window;
	vd_put_piece(vd, piece);
}

/* One that is not in use, and whose note is not needed any more (invariant a). */
static struct task_slot *free_slot(struct task *task)
{
	u32 i;

	for (i = 0; i < task->depth; i++) {
		struct task_slot *slot = &task->slot[i];

		if (!slot->busy && (task->kind != REQUEST_REBUILD || slot->rebuilt <= task->rebuilt))
			return slot;
	}
	return NULL;
}

/* All windows of the range have ended: what that means. True: there is more of the same task. */
static bool next_range(struct vd *vd)
{
	struct task *task = &vd->task;

	if (task->kind != REQUEST_RESYNC)
		return false;
	dirty_map_resynced(&vd->map, task->region);
	return vd_is_optimal(vd) && next_region(vd);
}

/* Whether the task may go on with the members as they are. */
static bool may_go_on(const struct vd *vd)
{
	const enum request_kind kind = vd->task.kind;
	u64 from;

	if (kind == REQUEST_REBUILD)
		return any_rebuilding(vd, &from);
	return vd_is_optimal(vd) || kind == REQUEST_PATROL;
}

void task_issue(struct vd *vd)
{
	struct task *task = &vd->task;
	struct task_slot *slot;

	if (vd->broken || vd_is_stopping(vd) || task->failed)
		return;
	if (take_wish(task, &task->wants_end) &&
	    (task->kind == REQUEST_CHECK || task->kind == REQUEST_PATROL))
		task->end = task->next;
	if (task->kind == REQUEST_NONE)
		choose(vd);
	if (task->busy == 0 && task->kind != REQUEST_NONE && !may_go_on(vd)) {
		task->kind = REQUEST_NONE;
		choose(vd);
	}
	while (task->kind != REQUEST_NONE && may_go_on(vd)) {
		while (task->next < task->end && (slot = free_slot(task)) != NULL)
			submit_window(vd, slot);
		if (task->busy > 0 || task->next < task->end)
			return;
		/* A rebuild is at its end only when its members are in sync: metadata.c sees to that. */
		if (task->kind == REQUEST_REBUILD)
			return;
		if (!next_range(vd)) {
			task->kind = REQUEST_NONE;
			choose(vd);
		}
	}
}
