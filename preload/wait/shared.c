/* Epoll sets that more than one process uses. A set made before a fork is one open file of parent and child: an event in it
 * goes to one of them, a wake-up word can be slept on by one of them. So as soon as the child uses such a set while the
 * other lives it is the kernel's, for both: its members leave their lanes. The one that has to hear of it learns it from
 * family memory. A child that only holds or closes the set changes nothing of it. */
#include "preload/link/link.h"
#include "preload/state.h"
#include "preload/switch.h"
#include "preload/wait/waitset_inner.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

uint32_t waitset_process;
_Atomic uint32_t waitset_heard;
_Atomic uint32_t waitset_followed;

/* Is nobody else left who could use it? Of processes that were forked before there was a family only the one that made it
 * is known. */
static bool nobody_else(const struct waitset *w)
{
	int saved = errno;
	bool alive = w->creator != getpid() && (kill(w->creator, 0) == 0 || errno != ESRCH);
	errno = saved;
	return !alive && (!family || family_only());
}

/* Under the sets' lock: members that came with the set wake us by a word of our own. */
static void wait_for(struct sock *s, void *arg)
{
	struct waitset *w = arg;
	for (struct interest *i = s->interests; i; i = i->next_of_sock)
		if (i->set == w && i->hidden && s->link && slot_lane(s->slot)) {
			link_announce(s->link, w->waker->word);
			atomic_fetch_or(&slot_lane(s->slot)->end[s->slot->side].waiters, 1ull << w->waker->word);
			interest_enqueue(i);
		}
}

static void say(const struct waitset *w)
{
	if (!family)
		return;
	uint32_t n = atomic_fetch_add(&family->shared_sets, 1);
	atomic_store(&family->shared_set[n % FAMILY_SETS], w->id);
	atomic_fetch_add(&family->shared_sets, 1); /* who looked between the two looks again */
	waker_ring();
}

void waitset_first_use(struct waitset *w)
{
	bool ours = nobody_else(w), locked = sets_lock();
	if (!set_foreign(w)) {
		sets_unlock(locked);
		return;
	}
	w->waker = NULL; /* our parent's */
	if (!w->shared)
		atomic_store(&w->shared, ours ? SET_OURS : SET_GIVING);
	w->process = waitset_process;
	bool share = w->shared == SET_GIVING;
	if (w->n_lane && waitset_equip(w)) /* for those that cannot leave at once as well */
		sock_each(wait_for, w);
	sets_unlock(locked);
	if (share) {
		waitset_give(w);
		say(w);
	}
}

void waitset_give(struct waitset *w)
{
	atomic_store(&w->shared, SET_GIVEN);
	waitset_empty(w);
}

void waitset_hear(void)
{
	bool locked = sets_lock();
	uint32_t said = atomic_load(&family->shared_sets), from = atomic_load(&waitset_heard);
	bool all = said - from >= FAMILY_SETS;
	for (int fd = 0; fd <= fdtab_highest; fd++) {
		struct waitset *w = fdtab_waitset(fd);
		bool it = w && all;
		for (uint32_t n = from; w && !it && n != said; n++)
			it = atomic_load(&family->shared_set[n % FAMILY_SETS]) == w->id;
		if (it && !set_foreign(w) && w->shared == SET_OURS)
			atomic_store(&w->shared, SET_GIVING);
	}
	atomic_store(&waitset_heard, said);
	sets_unlock(locked);
}

static void follow(struct sock *s, void *arg)
{
	(void)arg;
	if (s->slot && !s->solo && s->link && slot_lane(s->slot))
		for (struct interest *i = s->interests; i; i = i->next_of_sock)
			interest_follow(i, false);
}

void waitset_follow_others(void)
{
	atomic_store(&waitset_followed, atomic_load(&family->modes_changed)); /* before the modes are looked at */
	bool locked = sets_lock();
	sock_each(follow, NULL);
	sets_unlock(locked);
}

uint32_t waitset_refuses(struct sock *s)
{
	uint32_t why = REASON_NONE;
	if (family && atomic_load(&family->shared_sets) != atomic_load(&waitset_heard))
		waitset_hear();
	bool locked = sets_lock();
	for (struct interest *i = s->interests; i && !why; i = i->next_of_sock) {
		struct waitset *w = i->set;
		if (set_foreign(w))
			continue;
		if (w->shared && nobody_else(w))
			atomic_store(&w->shared, SET_OURS);
		why = w->watched ? REASON_NESTED_SET : w->shared ? REASON_SHARED_SET : waitset_equip(w) ? REASON_NONE : REASON_NO_FDS;
	}
	sets_unlock(locked);
	return why;
}
