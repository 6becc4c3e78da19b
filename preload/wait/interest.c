/* Memberships in epoll sets: where each is registered, and what is true of its connection now. */
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

static struct interest *free_interests; /* lock: waitset_lock */

struct interest *interest_new(void)
{
	if (!free_interests) {
		struct interest *c = waitset_carve(64 * sizeof(*c));
		for (int i = 0; c && i < 64; i++) {
			c[i].next_of_sock = free_interests;
			free_interests = &c[i];
		}
	}
	struct interest *i = free_interests;
	if (i) {
		uint16_t generation = i->generation;
		free_interests = i->next_of_sock;
		memset(i, 0, sizeof(*i));
		i->generation = generation;
	}
	return i;
}

/* What the hidden registration of i carries. Objects are never unmapped, but used again: a registration that could not be
 * taken out (its number was closed past us while another process holds the file) must not speak for the next one. */
#define POINTER_BITS 48

static uint64_t data_of(const struct interest *i)
{
	return (uint64_t)(uintptr_t)i | (uint64_t)i->generation << POINTER_BITS;
}

static struct interest *interest_of(uint64_t data)
{
	struct interest *i = (struct interest *)(uintptr_t)(data & ((1ull << POINTER_BITS) - 1));
	return i->generation == data >> POINTER_BITS ? i : NULL;
}

static bool by_copy(const struct interest *i)
{
	return fd_kind(fdtab_get(i->number)) == FD_OWN;
}

void interest_dequeue(struct interest *i)
{
	if (!i->queued)
		return;
	struct waitset *w = i->set;
	if (i->next_ready == i) {
		w->ready = NULL;
	} else {
		i->prev_ready->next_ready = i->next_ready;
		i->next_ready->prev_ready = i->prev_ready;
		if (w->ready == i)
			w->ready = i->next_ready;
	}
	i->queued = 0;
}

void interest_enqueue(struct interest *i)
{
	if (i->queued || i->disabled || i->parked)
		return;
	struct waitset *w = i->set;
	if (!w->ready) {
		w->ready = i->next_ready = i->prev_ready = i;
	} else {
		i->next_ready = w->ready;
		i->prev_ready = w->ready->prev_ready;
		i->prev_ready->next_ready = i;
		w->ready->prev_ready = i;
	}
	i->queued = 1;
}

bool sock_on_lane(struct sock *s)
{
	struct slot *t = s->slot;
	return t && (atomic_load_explicit(&t->rx.mode, memory_order_acquire) == MODE_LANE ||
		     atomic_load_explicit(&t->tx.mode, memory_order_acquire) == MODE_LANE);
}

bool sock_both_on_lane(struct sock *s)
{
	return s->slot->rx.mode == MODE_LANE && s->slot->tx.mode == MODE_LANE;
}

bool sock_watched(struct sock *s)
{
	struct slot *t = s->slot;
	return t && (atomic_load_explicit(&t->rx.mode, memory_order_acquire) != MODE_KERNEL ||
		     atomic_load_explicit(&t->tx.mode, memory_order_acquire) == MODE_LANE);
}

uint32_t sock_ready(struct sock *s)
{
	struct slot *t = s->slot;
	uint32_t e = s->kernel_events;
	if (unlikely(e & EPOLLPRI) && !io_kernel_urgent(s))
		e &= ~EPOLLPRI;
	if (t->rx.mode == MODE_LANE) {
		if ((e & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) == EPOLLIN && !io_kernel_bytes(s))
			e &= ~EPOLLIN; /* the event was of bytes that have been taken since */
		size_t unread = ring_unread(rx_ring(t));
		if (unread >= (s->lowat ? s->lowat : 1) || t->rx.shut)
			e |= EPOLLIN;
		if (rx_ends(t)) { /* where a copy that the peer knows nothing of lives on, no FIN is behind it */
			if (io_kernel_bytes(s))
				e |= EPOLLIN | EPOLLRDHUP;
			else
				atomic_store_explicit(&t->rx.end_early, 1, memory_order_relaxed);
		}
		if (io_demoted(t) && io_kernel_bytes(s))
			e |= EPOLLIN; /* what follows the lane's bytes, if anything does: a receive goes through the switch */
	}
	if (t->tx.mode == MODE_LANE) {
		struct link_dir *d = tx_dir(t);
		if (head_gated(atomic_load(&d->head)) ? atomic_load(&d->tail) == head_pos(atomic_load(&d->head)) :
							ring_unread(tx_ring(t)) <= tx_limit(t) * 2 / 3 || t->tx.shut)
			e |= EPOLLOUT;
		else
			atomic_store(&d->want_room, tx_limit(t) * 2 / 3 + 1);
	}
	return e & (EPOLLHUP | EPOLLERR) ? e | EPOLLOUT : e;
}

struct waitset *waitset_of(int epfd)
{
	return fdtab_waitset(epfd);
}

/* Registered by its last number, so that it can be changed and taken out. */
static int hidden_new(struct waitset *w)
{
	int fd = fdtab_own(real.epoll_create1(EPOLL_CLOEXEC));
	struct epoll_event e = {.events = EPOLLIN, .data.u64 = w->data_hidden};
	if (fd >= 0 && real.epoll_ctl(w->fd, EPOLL_CTL_ADD, fd, &e) < 0) {
		fdtab_disown(fd);
		fd = -1;
	}
	return fd;
}

static bool equip(struct waitset *w)
{
	if (!w->waker) {
		struct waker *k = waker_new();
		if (!k)
			return false;
		w->waker = k; /* before a thread that sleeps in the set can be told of it */
		if (waker_register(k, w->fd, w->data_waker) < 0) {
			w->waker = NULL;
			waker_free(k);
			return false;
		}
	}
	if (w->hidden < 0)
		w->hidden = hidden_new(w);
	return w->hidden >= 0;
}

bool waitset_equip(struct waitset *w)
{
	bool done = (w->waker && w->hidden >= 0) || equip(w);
	if (w->bare != !done)
		w->bare = !done;
	return done;
}

/* What the hidden set is asked for: the kernel's part of the readiness. With the receiving side on a lane it is
 * edge-triggered, latched in kernel_events and independent of what the program asks, so that it never changes. */
static uint32_t hidden_events(struct interest *i)
{
	struct slot *t = i->sock->slot;
	uint32_t out = t->tx.mode != MODE_LANE ? EPOLLOUT : 0, asked = interest_asked(i);
	if (t->rx.mode == MODE_LANE)
		return EPOLLIN | EPOLLRDHUP | EPOLLPRI | EPOLLET | out;
	return asked & (EPOLLIN | EPOLLRDHUP | EPOLLPRI | EPOLLET | out);
}

/* A number that changes with every arrival and with the end. */
uint64_t sock_incoming(struct slot *t)
{
	struct link_dir *d = rx_dir(t);
	return atomic_load(&d->head) << 1 | atomic_load(&d->end);
}

struct move {
	struct waitset *w;
	int to;
};

static void register_again(struct sock *s, void *arg)
{
	struct move *m = arg;
	for (struct interest *i = s->interests; i; i = i->next_of_sock) {
		struct epoll_event e = {.events = i->asked, .data.u64 = data_of(i)};
		if (i->set == m->w && i->hidden)
			real.epoll_ctl(m->to, EPOLL_CTL_ADD, i->number, &e);
	}
}

/* A registration that belongs to nobody cannot be taken out of the hidden set, and reports for ever: without it. */
static void hidden_anew(struct waitset *w)
{
	struct epoll_event e;
	struct move m = {w, hidden_new(w)};
	if (m.to < 0)
		return;
	sock_each(register_again, &m);
	real.epoll_ctl(w->fd, EPOLL_CTL_DEL, w->hidden, &e); /* a child may hold it */
	fdtab_disown(w->hidden);
	w->hidden = m.to;
}

/* The kernel's part: what the hidden set says is latched. Under the sets' lock. */
void waitset_drain_hidden(struct waitset *w)
{
	struct epoll_event e[32];
	bool stale = false;
	int n;
	if (w->hidden < 0)
		return;
	do {
		n = quiet_epoll(w->hidden, e, 32);
		for (int k = 0; k < n; k++) {
			struct interest *i = interest_of(e[k].data.u64);
			if (!i || i->set != w || !i->sock) {
				stale = true;
				continue;
			}
			uint32_t events = e[k].events;
			struct slot *t = i->sock->slot;
			/* The marker's arrival is no arrival of its own: the bytes that it follows have been reported. */
			if (i->events & EPOLLET && t->rx.mode == MODE_AGREED && i->seen == sock_incoming(t) && io_promoted(t) &&
			    !(events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)))
				events &= ~EPOLLIN;
			i->sock->kernel_events |= events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR | EPOLLPRI | EPOLLOUT);
			i->fresh |= events;
			interest_enqueue(i);
		}
	} while (n == 32 && (e[0].events & EPOLLET));
	if (unlikely(stale))
		hidden_anew(w);
}

/* Has the kernel reported a one-shot member already? Then it keeps the private bits of its events only; nothing but
 * fdinfo tells. Asked once, when the member moves. */
static bool oneshot_fired(struct waitset *w, struct interest *i)
{
	char path[40], text[4096];
	bool fired = false;
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", w->fd);
	int fd = quiet_open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ssize_t n, kept = 0;
	while ((n = quiet_read(fd, text + kept, sizeof(text) - 1 - kept)) > 0) {
		text[kept + n] = 0;
		char *line = text;
		for (char *end; (end = strchr(line, '\n')); line = end + 1) {
			int tfd;
			unsigned events;
			if (sscanf(line, "tfd: %d events: %x", &tfd, &events) == 2 && tfd == i->number)
				fired = !(events & ~(EPOLLONESHOT | EPOLLET | EPOLLWAKEUP | EPOLLEXCLUSIVE));
		}
		kept = strlen(line);
		memmove(text, line, kept);
	}
	quiet_close(fd);
	return fired;
}

/* swallow: called from a receive of the program on this very socket, so that what is there now is its business
 * already; an edge-triggered member must not be told of it again. */
static void to_hidden(struct interest *i, bool swallow)
{
	struct waitset *w = i->set;
	if (w->shared || !waitset_equip(w))
		return;
	struct sock *s = i->sock;
	link_announce(s->link, w->waker->word);
	struct epoll_event e = {.events = hidden_events(i), .data.u64 = data_of(i)};
	if (real.epoll_ctl(w->hidden, EPOLL_CTL_ADD, i->number, &e) < 0)
		return;
	i->asked = e.events;
	if (i->events & EPOLLONESHOT)
		i->disabled = i->absent || oneshot_fired(w, i);
	if (!i->absent)
		real.epoll_ctl(w->fd, EPOLL_CTL_DEL, i->number, &e);
	i->absent = 0;
	i->hidden = 1;
	atomic_fetch_add(&w->n_lane, 1);
	/* What is there at this moment was told by the kernel's event for the marker, or is about to be returned by the
	 * receive that took it; what comes between here and the waiters bit is found by the first look. */
	i->seen = sock_incoming(s->slot);
	i->wanted = 0;
	if (swallow && i->events & EPOLLET) {
		waitset_drain_hidden(w); /* the event of having been added */
		s->kernel_events &= ~(EPOLLIN | EPOLLOUT | EPOLLPRI);
		i->fresh = 0;
	}
	atomic_fetch_or(&slot_lane(s->slot)->end[s->slot->side].waiters, 1ull << w->waker->word);
	interest_enqueue(i);
	if (w->native_inside)
		waker_poke(w->waker); /* they sleep in a set that had no lane member */
}

static void to_native(struct interest *i)
{
	struct waitset *w = i->set;
	struct epoll_event e = {.events = i->events, .data = i->data};
	real.epoll_ctl(w->hidden, EPOLL_CTL_DEL, i->number, &e);
	i->absent = i->disabled;
	if (!i->parked && !i->absent)
		real.epoll_ctl(w->fd, EPOLL_CTL_ADD, i->number, &e);
	interest_dequeue(i);
	i->hidden = 0;
	atomic_fetch_sub(&w->n_lane, 1);
}

/* Asks the hidden set anew, where that changes anything: with both directions on a lane it never does. */
void interest_ask(struct interest *i)
{
	struct epoll_event e = {.events = hidden_events(i), .data.u64 = data_of(i)};
	if (e.events != i->asked && real.epoll_ctl(i->set->hidden, EPOLL_CTL_MOD, i->number, &e) == 0)
		i->asked = e.events;
}

/* Modes changed: the registration follows. Under the sets' lock. */
void interest_follow(struct interest *i, bool swallow)
{
	if (set_foreign(i->set))
		return;
	/* Arrivals in the ring while kernel bytes are still unread are edges of their own: an edge-triggered member moves
	 * with the agreement already. */
	bool lane = sock_on_lane(i->sock) || (i->events & EPOLLET && sock_watched(i->sock));
	if (lane && !i->hidden) {
		to_hidden(i, swallow);
	} else if (lane) {
		interest_ask(i);
		interest_enqueue(i);
	} else if (i->hidden) {
		to_native(i);
	}
}

void waitset_modes_changed(struct sock *s, bool receiving)
{
	int saved = errno;
	if (!s->solo && family) {
		/* by who is not behind already: that one looks at all of them anyway */
		uint32_t seen = atomic_fetch_add(&family->modes_changed, 1);
		if (!self_thread.vfork_child)
			atomic_compare_exchange_strong(&waitset_followed, &seen, seen + 1);
		waker_ring();
	}
	/* A vfork child has descriptors of its own under its parent's sets: the parent does it. */
	if (s->interests && !self_thread.vfork_child) {
		bool locked = sets_lock();
		for (struct interest *i = s->interests; i; i = i->next_of_sock)
			interest_follow(i, receiving);
		sets_unlock(locked);
	}
	errno = saved;
}

void waitset_wants_room(struct sock *s)
{
	struct slot *t = s->slot;
	if (!s->interests)
		return;
	bool locked = sets_lock();
	for (struct interest *i = s->interests; i; i = i->next_of_sock)
		i->wanted = 1;
	/* seq_cst: want_room before the look at the tail; the reader stores the tail before its look at want_room */
	atomic_store(&tx_dir(t)->want_room, tx_limit(t) * 2 / 3 + 1);
	bool room = ring_unread(tx_ring(t)) <= tx_limit(t) * 2 / 3;
	sets_unlock(locked);
	if (room)
		waitset_kick(s);
}

void waitset_kick(struct sock *s)
{
	if (!alone() && s->slot && s->link && slot_lane(s->slot))
		waker_poke_words(atomic_load(&slot_lane(s->slot)->end[s->slot->side].waiters));
	if (!s->interests)
		return;
	bool locked = sets_lock();
	for (struct interest *i = s->interests; i; i = i->next_of_sock)
		if (i->hidden) {
			interest_enqueue(i);
			if (locked && i->set->waker && !set_foreign(i->set))
				waker_poke(i->set->waker);
		}
	sets_unlock(locked);
}

void interest_drop(struct interest *i)
{
	struct interest **p = &i->sock->interests;
	while (*p != i)
		p = &(*p)->next_of_sock;
	*p = i->next_of_sock;
	interest_dequeue(i);
	if (i->hidden)
		atomic_fetch_sub(&i->set->n_lane, 1);
	if (by_copy(i))
		fdtab_disown(i->number);
	i->generation++;
	i->set = NULL;
	i->sock = NULL;
	i->next_of_sock = free_interests;
	free_interests = i;
}

void interest_keep(struct interest *i, bool here)
{
	int copy = real.fcntl(here ? i->number : i->sock->fd, F_DUPFD_CLOEXEC, 3), from = i->set->hidden;
	if (copy < 0)
		return;
	copy = fdtab_own(copy);
	struct epoll_event e = {.events = i->asked, .data.u64 = data_of(i)};
	if (real.epoll_ctl(from, EPOLL_CTL_ADD, copy, &e) < 0) {
		fdtab_disown(copy);
		return;
	}
	if (here)
		real.epoll_ctl(from, EPOLL_CTL_DEL, i->number, &e);
	i->number = copy;
}

void waitset_forget(struct sock *s, int fd, bool here, bool last)
{
	bool native = false;
	if (!s->interests)
		return;
	bool locked = sets_lock();
	/* A registration lives as long as the open file: a closed number whose socket lives on by another stays in the
	 * set, and only the last close removes it. */
	for (struct interest *i = s->interests, *next; i; i = next) {
		next = i->next_of_sock;
		if (last) {
			if (i->hidden && here && !set_foreign(i->set)) {
				struct epoll_event e;
				real.epoll_ctl(i->set->hidden, EPOLL_CTL_DEL, i->number, &e);
			}
			interest_drop(i);
		} else if (set_foreign(i->set)) {
			continue;
		} else if (i->number == fd && i->hidden) {
			interest_keep(i, here);
		} else if (i->number == fd && !i->absent && !i->parked) {
			native = true;
		}
	}
	sets_unlock(locked);
	if (!native || atomic_load(&s->stage) == SOCK_LISTENER)
		return;
	/* The kernel takes no change for a number that is closed, so the member could not move to the hidden set. */
	if (s->slot)
		switch_leave(s, s->fd, REASON_CLOSED_NUMBER);
	else
		sock_plain(s, REASON_CLOSED_NUMBER);
}

void waitset_replacing(struct sock *s, bool in_sets)
{
	bool locked = sets_lock();
	for (struct interest *i = s->interests, *next; i; i = next) {
		next = i->next_of_sock;
		struct epoll_event e;
		if (in_sets)
			real.epoll_ctl(i->hidden ? i->set->hidden : i->set->fd, EPOLL_CTL_DEL, i->number, &e);
		if (!in_sets || i->parked) {
			interest_drop(i);
			continue;
		}
		if (by_copy(i)) {
			fdtab_disown(i->number);
			i->number = s->fd;
		}
		interest_dequeue(i);
		if (i->hidden)
			atomic_fetch_sub(&i->set->n_lane, 1);
		i->hidden = 0;
	}
	sets_unlock(locked);
}

void waitset_drop(struct sock *s)
{
	bool locked = sets_lock();
	while (s->interests)
		interest_drop(s->interests);
	sets_unlock(locked);
}

void waitset_replaced(struct sock *s)
{
	bool locked = sets_lock();
	for (struct interest *i = s->interests; i; i = i->next_of_sock) {
		struct epoll_event e = {.events = i->events, .data = i->data};
		i->absent = i->disabled;
		if (!i->absent)
			real.epoll_ctl(i->set->fd, EPOLL_CTL_ADD, i->number, &e);
	}
	sets_unlock(locked);
}

bool waitset_kept(struct sock *s)
{
	bool kept = false, locked = sets_lock();
	for (struct interest *i = s->interests; i && !kept; i = i->next_of_sock) {
		int flags = real.fcntl(i->set->fd, F_GETFD);
		kept = flags >= 0 && !(flags & FD_CLOEXEC);
	}
	sets_unlock(locked);
	return kept;
}
