// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Who runs the core.
 *
 * Each lane is a work item, the VD's own work another: a work item runs on one CPU at a time, and one
 * that is queued while it runs, runs once more. That is what vd.h asks for. Works of the lanes run beside
 * each other, where what woke them was: on the CPU that took the interrupt.
 *
 * Locking: none; nothing here is shared but the queue.
 */
#include "dm/work.h"

#include <linux/slab.h>

#include "dm/compat.h"

#define TICK_SECONDS 1

/* What userspace would want to know about: a change of it is an event. */
static u32 look(const struct perch *perch)
{
	const struct vd *vd = &perch->vd;
	u32 member, seen = vd_is_broken(vd) | vd->task.kind << 1;

	for (member = 0; member < vd->geometry.members; member++)
		seen = seen * 31 + member_state(&vd->member[member]);
	return seen;
}

static void run_lane(struct work_struct *work)
{
	struct perch_work *mine = container_of(work, struct perch_work, work);

	vd_run_lane(&mine->perch->vd, mine->lane);
}

static void run_vd(struct work_struct *work)
{
	struct perch *perch = container_of(work, struct perch_work, work)->perch;
	u32 seen;

	vd_run(&perch->vd);
	seen = look(perch);
	if (seen == perch->seen)
		return;
	perch->seen = seen;
	schedule_work(&perch->event);
}

/* Apart, because it takes a lock under which others wait for memory. */
static void tell(struct work_struct *work)
{
	dm_table_event(container_of(work, struct perch, event)->ti->table);
}

static void tick(struct work_struct *work)
{
	struct perch *perch = container_of(to_delayed_work(work), struct perch, tick);

	vd_tick(&perch->vd);
	perch_start_tick(perch);
}

int perch_create_work(struct perch *perch)
{
	u32 lane;

	INIT_DELAYED_WORK(&perch->tick, tick);
	INIT_WORK(&perch->event, tell);
	perch->work = kcalloc(perch->lanes + 1, sizeof(*perch->work), GFP_KERNEL);
	if (!perch->work)
		return -ENOMEM;
	for (lane = 0; lane <= perch->lanes; lane++) {
		INIT_WORK(&perch->work[lane].work, lane < perch->lanes ? run_lane : run_vd);
		perch->work[lane].perch = perch;
		perch->work[lane].lane = lane;
	}
	/* What is written here may be memory that somebody waits for. */
	perch->queue = alloc_workqueue("perch", WQ_MEM_RECLAIM | WQ_CPU_INTENSIVE | WQ_PERCPU, 0);
	return perch->queue ? 0 : -ENOMEM;
}

void perch_destroy_work(struct perch *perch)
{
	if (perch->queue)
		destroy_workqueue(perch->queue);
	kfree(perch->work);
}

void perch_wake(struct env *env, u32 lane)
{
	struct perch *perch = container_of(env, struct perch, env);

	queue_work(perch->queue, &perch->work[lane].work);
}

void perch_start_tick(struct perch *perch)
{
	queue_delayed_work(perch->queue, &perch->tick, TICK_SECONDS * HZ);
}

void perch_stop_work(struct perch *perch)
{
	cancel_delayed_work_sync(&perch->tick);
	drain_workqueue(perch->queue);
	flush_work(&perch->event);
}
