// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Lanes: see lane.h.
 *
 * Invariants:
 *  (a) Only the lane's owner, in lane_run(), looks at windows and at pieces that wait; by one thread at
 *      a time. Others put things in the three lists that `lock` guards, and wake the lane after that.
 *  (b) A window in use is found by every piece for it, so that no window of the VD is in use twice:
 *      a window's lane is decided by its number alone (vd.c).
 *  (c) Pieces are given to windows in the order they came. One that finds no free window holds up
 *      those behind it; windows become free without anything from the lane's lists but what is taken
 *      in first, so that this ends.
 *
 * Nothing is allocated, and nothing outside is called with the lock held.
 */
#include "core/lane.h"

#include "core/vd.h"

/* Then others may have the CPU. */
#define MOST_ROUNDS 32U

void lane_init(struct lane *lane, struct window *windows, u32 count)
{
	u32 i;

	core_assert(count > 0);
	memset(lane, 0, sizeof(*lane));
	lane->windows = windows;
	lane->count = count;
	lane->waiting_end = &lane->waiting;
	lane->new_end = &lane->new_pieces;
	lane->idle = true;
	env_lock_init(&lane->lock);
	for (i = 0; i < count; i++)
		windows[i].state = WINDOW_FREE;
}

void lane_put_piece(struct lane *lane, struct piece *piece)
{
	piece->next = NULL;
	env_lock(&lane->lock);
	*lane->new_end = piece;
	lane->new_end = &piece->next;
	env_unlock(&lane->lock);
}

void lane_put_io(struct lane *lane, struct io *io)
{
	env_lock(&lane->lock);
	io->next = lane->ended;
	lane->ended = io;
	env_unlock(&lane->lock);
}

void lane_put_window(struct lane *lane, struct window *window)
{
	env_lock(&lane->lock);
	window->next_waiter = lane->resumed;
	lane->resumed = window;
	env_unlock(&lane->lock);
}

static bool is_at(const struct window *window, const struct piece *piece)
{
	return window->state != WINDOW_FREE && window->row == piece->row &&
	       window->span == piece->span && window->number == piece->window;
}

/* The window in use for a piece, else a free one, else NULL. */
static struct window *find_window(struct lane *lane, const struct piece *piece)
{
	struct window *found = NULL;
	u32 i;

	for (i = 0; i < lane->count; i++) {
		if (is_at(&lane->windows[i], piece))
			return &lane->windows[i];
		if (lane->windows[i].state == WINDOW_FREE)
			found = &lane->windows[i];
	}
	return found;
}

/* Gives waiting pieces to their windows, as long as there are free ones. */
static void place_pieces(struct vd *vd, struct lane *lane)
{
	struct window *window;
	struct piece *piece;

	while ((piece = lane->waiting) != NULL && (window = find_window(lane, piece)) != NULL) {
		const bool was_free = window->state == WINDOW_FREE;

		lane->waiting = piece->next;
		if (!lane->waiting)
			lane->waiting_end = &lane->waiting;
		piece->next = NULL;
		if (was_free) {
			window->row = piece->row;
			window->span = piece->span;
			window->number = piece->window;
			window->lane = (u32)(lane - vd->lane);
			window->region = window_region(vd, window);
			window->pending_end = &window->pending;
		}
		*window->pending_end = piece;
		window->pending_end = &piece->next;
		if (was_free && window_start(vd, window))
			window_finish(vd, window);
	}
}

static bool is_at_rest(const struct lane *lane)
{
	u32 i;

	for (i = 0; i < lane->count; i++) {
		if (lane->windows[i].state != WINDOW_FREE)
			return false;
	}
	return !lane->waiting;
}

/* Moves what others have put there to where only the owner looks. False: there was nothing. */
static bool take_in(struct lane *lane, struct io **ended, struct window **resumed)
{
	bool any;

	env_lock(&lane->lock);
	*ended = lane->ended;
	*resumed = lane->resumed;
	any = *ended || *resumed || lane->new_pieces;
	if (lane->new_pieces) {
		*lane->waiting_end = lane->new_pieces;
		lane->waiting_end = lane->new_end;
	}
	lane->ended = NULL;
	lane->resumed = NULL;
	lane->new_pieces = NULL;
	lane->new_end = &lane->new_pieces;
	lane->idle = !any && is_at_rest(lane);
	env_unlock(&lane->lock);
	return any;
}

void lane_run(struct vd *vd, struct lane *lane)
{
	struct window *window, *resumed;
	struct io *io, *ended;
	u32 rounds;

	for (rounds = 0; rounds < MOST_ROUNDS && take_in(lane, &ended, &resumed); rounds++) {
		while ((io = ended) != NULL) {
			ended = io->next;
			window = io->owner;
			if (window_io_ended(vd, window, io))
				window_finish(vd, window);
		}
		while ((window = resumed) != NULL) {
			resumed = window->next_waiter;
			if (window_resumed(vd, window))
				window_finish(vd, window);
		}
		place_pieces(vd, lane);
	}
	if (rounds == MOST_ROUNDS)
		vd->env->wake(vd->env, (u32)(lane - vd->lane));
	/* A stop waits for lanes to be idle. It was asked for before `idle` was seen, or sees it. */
	if (vd_is_stopping(vd))
		vd->env->wake(vd->env, vd->lanes);
}

bool lane_is_idle(struct lane *lane)
{
	bool idle;

	env_lock(&lane->lock);
	idle = lane->idle && !lane->ended && !lane->resumed && !lane->new_pieces;
	env_unlock(&lane->lock);
	return idle;
}
