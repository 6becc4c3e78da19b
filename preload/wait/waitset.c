/* Epoll sets: their life, and epoll_ctl. */
#include "preload/discover/registry.h"
#include "preload/interpose.h"
#include "preload/io.h"
#include "preload/link/link.h"
#include "preload/quiet.h"
#include "preload/real.h"
#include "preload/stats/stats.h"
#include "preload/switch.h"
#include "preload/wait/waitset_inner.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

pthread_mutex_t waitset_lock = PTHREAD_MUTEX_INITIALIZER;
static struct waitset *free_sets; /* lock: waitset_lock */

void *waitset_carve(size_t size)
{
	void *m = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return m == MAP_FAILED ? NULL : m;
}

struct waitset *waitset_new(int fd)
{
	bool locked = sets_lock();
	if (!free_sets) {
		struct waitset *c = waitset_carve(16 * sizeof(*c));
		for (int i = 0; c && i < 16; i++) {
			c[i].next_free = free_sets;
			free_sets = &c[i];
		}
	}
	struct waitset *w = free_sets;
	if (w)
		free_sets = w->next_free;
	sets_unlock(locked);
	if (!w)
		return NULL;
	memset(w, 0, sizeof(*w));
	w->fd = fd;
	w->fds = 1;
	w->hidden = -1;
	w->process = waitset_process;
	w->creator = getpid();
	/* drawn now, so that a child knows them as well */
	w->id = random64();
	w->data_waker = random64();
	w->data_hidden = random64();
	fdtab_set(fd, (uintptr_t)w | FD_EPOLL);
	return w;
}

void waitset_dup(struct waitset *w, int fd)
{
	uint32_t n = atomic_load(&w->fds);
	do
		if (!n)
			return; /* closed by another thread meanwhile: its members are gone */
	while (!atomic_compare_exchange_weak(&w->fds, &n, n + 1));
	fdtab_set(fd, (uintptr_t)w | FD_EPOLL);
}

static void drop_of_set(struct sock *s, void *arg)
{
	for (struct interest *i = s->interests, *next; i; i = next) {
		next = i->next_of_sock;
		if (i->set == arg)
			interest_drop(i);
	}
}

/* Under the sets' lock. A set that is closed under a thread's wait lives until that thread has left it. */
void waitset_give_back(struct waitset *w)
{
	if (!w->closed || atomic_load(&w->inside))
		return;
	if (w->hidden >= 0)
		fdtab_disown(w->hidden);
	if (w->waker && !set_foreign(w))
		waker_free(w->waker);
	w->waker = NULL;
	w->hidden = -1;
	w->closed = 0;
	w->next_free = free_sets;
	free_sets = w;
}

void waitset_enter(struct waitset *w)
{
	inside_count(INSIDE_SET, &w->inside);
}

void waitset_leave(struct waitset *w)
{
	inside_uncount(INSIDE_SET, &w->inside);
	if (unlikely(w->closed)) {
		bool locked = sets_lock();
		waitset_give_back(w);
		sets_unlock(locked);
	}
}

void waitset_close(struct waitset *w, int fd)
{
	if (fdtab_set(fd, 0) != ((uintptr_t)w | FD_EPOLL))
		return; /* another thread closes the same number */
	if (atomic_fetch_sub(&w->fds, 1) != 1) {
		for (int k = 0; w->fd == fd && k <= fdtab_highest; k++)
			if (k != fd && fdtab_waitset(k) == w)
				w->fd = k;
		return;
	}
	bool locked = sets_lock();
	sock_each(drop_of_set, w);
	w->closed = 1;
	waitset_give_back(w);
	sets_unlock(locked);
}

void waitset_forked(void)
{
	waitset_process++;
}

void waitset_fork_child(void)
{
	pthread_mutex_init(&waitset_lock, NULL);
}

void waitset_leave_member(struct sock *s, void *arg)
{
	for (struct interest *i = s->interests; i; i = i->next_of_sock)
		if (i->set == arg) {
			enum reason why = i->set->watched ? REASON_NESTED_SET : i->set->shared ? REASON_SHARED_SET : REASON_NO_FDS;
			if (s->slot)
				switch_leave(s, i->fd, why);
			else if (atomic_load(&s->stage) != SOCK_LISTENER)
				sock_plain(s, why);
			return;
		}
}

void waitset_empty(struct waitset *w)
{
	sock_each(waitset_leave_member, w);
	if (atomic_load(&w->n_lane))
		return; /* bytes that could not be moved: that member stays ours */
	/* Ours would make the set look readable. */
	bool locked = sets_lock();
	if (w->waker) {
		waker_poke(w->waker); /* who sleeps in it looks again, in the kernel alone */
		waker_unregister(w->waker, w->fd);
		waker_free(w->waker);
	}
	if (w->hidden >= 0)
		fdtab_disown(w->hidden);
	w->waker = NULL;
	w->hidden = -1;
	sets_unlock(locked);
}

void waitset_exec(void)
{
	for (int fd = 0; fd <= fdtab_highest; fd++) {
		struct waitset *w = fdtab_waitset(fd);
		int flags = w && w->waker && !set_foreign(w) ? real.fcntl(fd, F_GETFD) : -1;
		if (flags >= 0 && !(flags & FD_CLOEXEC) && !atomic_load(&w->n_lane))
			waitset_empty(w);
	}
}

void waitset_watched(struct waitset *w)
{
	if (set_foreign(w))
		waitset_first_use(w);
	if (w->watched)
		return;
	w->watched = 1;
	waitset_empty(w);
}

static struct interest *find(struct waitset *w, struct sock *s, int fd)
{
	for (struct interest *i = s->interests; i; i = i->next_of_sock)
		if (i->set == w && i->fd == fd)
			return i;
	return NULL;
}

/* Should the program register the data of one of our registrations, ours is changed. */
void waitset_keep_apart(struct waitset *w, uint64_t data)
{
	struct epoll_event e = {.events = EPOLLIN};
	bool locked = sets_lock();
	if (w->waker && data == w->data_waker) {
		e.events |= EPOLLET;
		w->data_waker = random64();
		e.data.u64 = w->data_waker;
		real.epoll_ctl(w->fd, EPOLL_CTL_MOD, w->waker->eventfd, &e);
	}
	if (w->hidden >= 0 && data == w->data_hidden) {
		w->data_hidden = random64();
		e.data.u64 = w->data_hidden;
		real.epoll_ctl(w->fd, EPOLL_CTL_MOD, w->hidden, &e);
	}
	sets_unlock(locked);
}

#define BESIDE_EXCLUSIVE (EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP | EPOLLWAKEUP | EPOLLET | EPOLLEXCLUSIVE)

static int ctl_add(struct waitset *w, struct interest *i, int fd, struct sock *s, struct epoll_event *event)
{
	if (i && !i->parked)
		return -EEXIST;
	if (i && i->hidden) { /* it comes back: programs that wait for one thing at a time take out and add all the time */
		if (event->events & EPOLLEXCLUSIVE && event->events & ~BESIDE_EXCLUSIVE)
			return -EINVAL;
		i->parked = i->disabled = 0;
		i->fresh = ~0u;
		i->events = event->events;
		i->data = event->data;
		interest_ask(i);
		interest_enqueue(i);
		return 0;
	}
	/* What is on a lane already goes past the kernel's set: there a one-shot event of the moment could be another thread's
	 * before the registration has moved, and be reported twice. */
	bool straight = (sock_on_lane(s) || (event->events & EPOLLET && sock_watched(s))) && !w->shared && !set_foreign(w) &&
			waitset_equip(w);
	if (straight && event->events & EPOLLEXCLUSIVE && event->events & ~BESIDE_EXCLUSIVE)
		return -EINVAL;
	if (!straight && real.epoll_ctl(w->fd, EPOLL_CTL_ADD, i ? i->number : fd, event) < 0)
		return -errno;
	if (!i) {
		i = interest_new();
		if (!i) {
			s->slot ? (void)(s->slot->never = REASON_NO_MEMORY) : sock_plain(s, REASON_NO_MEMORY);
			return straight && real.epoll_ctl(w->fd, EPOLL_CTL_ADD, fd, event) < 0 ? -errno : 0;
		}
		i->set = w;
		i->sock = s;
		i->fd = i->number = fd;
		i->next_of_sock = s->interests;
		s->interests = i;
	}
	i->parked = i->disabled = 0;
	i->fresh = ~0u;
	i->events = event->events;
	i->data = event->data;
	i->absent = straight;
	interest_follow(i, false);
	if (straight && i->hidden) {
		i->disabled = 0;
		interest_enqueue(i);
		if (!alone() && w->waker)
			waker_poke(w->waker);
	} else if (straight) { /* the hidden set had no room for it */
		i->absent = 0;
		if (real.epoll_ctl(w->fd, EPOLL_CTL_ADD, i->number, event) < 0) {
			int r = -errno;
			interest_drop(i);
			return r;
		}
	}
	return 0;
}

int waitset_ctl(struct waitset *w, int op, int fd, struct sock *s, struct epoll_event *event)
{
	struct interest *i = find(w, s, fd);
	if (op == EPOLL_CTL_ADD)
		return ctl_add(w, i, fd, s, event);
	if (!i)
		return real.epoll_ctl(w->fd, op, fd, event) < 0 ? -errno : 0;
	if (op == EPOLL_CTL_MOD) {
		if (i->parked)
			return -ENOENT;
		if (i->events & EPOLLEXCLUSIVE || event->events & EPOLLEXCLUSIVE)
			return -EINVAL;
		if (!i->hidden && real.epoll_ctl(w->fd, i->absent ? EPOLL_CTL_ADD : op, i->number, event) < 0)
			return -errno;
		i->absent = 0;
		i->events = event->events;
		i->data = event->data;
		i->disabled = 0;
		i->fresh = ~0u;
		if (i->hidden) {
			interest_ask(i);
			interest_enqueue(i);
			if (!alone() && w->waker)
				waker_poke(w->waker);
		}
		return 0;
	}
	if (op == EPOLL_CTL_DEL) {
		if (i->parked)
			return -ENOENT;
		if (i->hidden && sock_both_on_lane(s)) {
			i->parked = 1; /* the hidden registration is edge-triggered: it disturbs nobody */
			interest_dequeue(i);
			return 0;
		}
		if (!i->absent && real.epoll_ctl(i->hidden ? w->hidden : w->fd, op, i->number, event) < 0)
			return -errno;
		interest_drop(i);
		return 0;
	}
	return -EINVAL;
}
