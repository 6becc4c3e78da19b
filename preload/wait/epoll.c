#include "preload/discover/registry.h"
#include "preload/interpose.h"
#include "preload/io.h"
#include "preload/link/link.h"
#include "preload/quiet.h"
#include "preload/real.h"
#include "preload/state.h"
#include "preload/stats/stats.h"
#include "preload/switch.h"
#include "preload/wait/waitset.h"
#include "preload/wait/waker.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define POLL_EVERY 8         /* the kernel is polled at the latest every so many waits */
#define ALWAYS (EPOLLERR | EPOLLHUP)

struct waitset {
	int fd;                          /* the program's */
	_Atomic uint32_t fds;            /* numbers that refer to it */
	int hidden;                      /* nested in fd, holds lane connections' kernel sockets; -1 none yet */
	struct waker *_Atomic waker;     /* registered in fd; NULL none yet */
	uint64_t data_hidden, data_waker;
	_Atomic uint32_t n_lane;         /* interests in the hidden set */
	_Atomic uint32_t native_inside;  /* threads that entered the kernel's wait before the set had lane members */
	_Atomic uint32_t inside;         /* threads in a wait on it, while the process has more than one */
	uint8_t closed;                  /* by its last number; given back when nobody is inside; lock: waitset_lock */
	uint8_t watched;                 /* nested in another set, or polled: members stay on the kernel */
	_Atomic uint32_t waits;                  /* since the kernel was polled */
	struct interest *ready;          /* doubly linked ring, first is next to report */
	struct waitset *next_free;
};

/* One lock for sets, interests and ready lists of this process; taken after a direction's lock, never before. A
 * program with one thread does not take it. */
pthread_mutex_t waitset_lock = PTHREAD_MUTEX_INITIALIZER;
static struct waitset *free_sets;
static struct interest *free_interests;

static bool lock(void)
{
	critical_enter();
	if (alone())
		return false;
	pthread_mutex_lock(&waitset_lock);
	return true;
}

static void unlock(bool locked)
{
	if (locked)
		pthread_mutex_unlock(&waitset_lock);
	critical_leave();
}

static void *carve(size_t size)
{
	void *m = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return m == MAP_FAILED ? NULL : m;
}

static struct interest *interest_new(void)
{
	if (!free_interests) {
		struct interest *c = carve(64 * sizeof(*c));
		for (int i = 0; c && i < 64; i++) {
			c[i].next_of_sock = free_interests;
			free_interests = &c[i];
		}
	}
	struct interest *i = free_interests;
	if (i) {
		free_interests = i->next_of_sock;
		memset(i, 0, sizeof(*i));
	}
	return i;
}

static void dequeue(struct interest *i)
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

static void enqueue(struct interest *i)
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

static bool sock_both_on_lane(struct sock *s)
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
	if (t->rx.mode == MODE_LANE) {
		if ((e & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) == EPOLLIN && !io_kernel_bytes(s))
			e &= ~EPOLLIN; /* the event was of bytes that have been taken since */
		struct link_dir *d = rx_dir(t);
		size_t unread = ring_unread(rx_ring(t));
		if (unread >= (s->lowat ? s->lowat : 1) || t->rx.shut)
			e |= EPOLLIN;
		if (atomic_load(&d->end))
			e |= EPOLLIN | EPOLLRDHUP;
		if (io_demoted(t))
			e |= EPOLLIN; /* a receive goes through the switch; at worst it says EAGAIN */
	}
	if (t->rx.mode == MODE_AGREED && ring_unread(rx_ring(t)) && io_promoted(t))
		e |= EPOLLIN; /* the marker is in the kernel, behind at most kernel bytes */
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

/* The waker and the hidden set of w; false: no descriptors. Under the big lock. */
static bool equip(struct waitset *w)
{
	if (!w->waker) {
		struct waker *k = waker_new();
		if (!k)
			return false;
		w->data_waker = random64();
		struct epoll_event e = {.events = EPOLLIN | EPOLLET, .data.u64 = w->data_waker};
		w->waker = k; /* before a thread that sleeps in the set can be told of it */
		if (real.epoll_ctl(w->fd, EPOLL_CTL_ADD, k->eventfd, &e) < 0 && errno != EEXIST) {
			w->waker = NULL;
			waker_free(k);
			return false;
		}
	}
	if (w->hidden < 0) {
		int fd = real.epoll_create1(EPOLL_CLOEXEC);
		if (fd < 0)
			return false;
		w->data_hidden = random64();
		struct epoll_event e = {.events = EPOLLIN, .data.u64 = w->data_hidden};
		if (real.epoll_ctl(w->fd, EPOLL_CTL_ADD, fd, &e) < 0) {
			quiet_close(fd);
			return false;
		}
		w->hidden = fdtab_own(fd);
		/* the registration follows the open file, whatever its number is now */
	}
	return true;
}

/* What the hidden set is asked for: the kernel's part of the readiness. With the receiving side on a lane it is
 * edge-triggered, latched in kernel_events and independent of what the program asks, so that it never changes. */
static uint32_t hidden_events(struct interest *i)
{
	struct slot *t = i->sock->slot;
	uint32_t out = t->tx.mode != MODE_LANE ? EPOLLOUT : 0;
	if (t->rx.mode == MODE_LANE)
		return EPOLLIN | EPOLLRDHUP | EPOLLET | out;
	return (i->events & (EPOLLIN | EPOLLRDHUP | EPOLLPRI | EPOLLET)) | (i->events & out);
}

/* A number that changes with every arrival and with the end. */
static uint64_t incoming(struct slot *t)
{
	struct link_dir *d = rx_dir(t);
	return atomic_load(&d->head) << 1 | atomic_load(&d->end);
}

/* The kernel's part: what the hidden set says is latched. Under the big lock. */
static void drain_hidden(struct waitset *w)
{
	struct epoll_event e[32];
	int n;
	if (w->hidden < 0)
		return;
	do {
		n = quiet_epoll(w->hidden, e, 32);
		for (int k = 0; k < n; k++) {
			struct interest *i = e[k].data.ptr;
			if (i->set != w || !i->sock)
				continue;
			uint32_t events = e[k].events;
			struct slot *t = i->sock->slot;
			/* The marker's arrival is no arrival of its own: the bytes that it follows have been reported. */
			if (i->events & EPOLLET && t->rx.mode == MODE_AGREED && i->seen == incoming(t) && io_promoted(t) &&
			    !(events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)))
				events &= ~EPOLLIN;
			i->sock->kernel_events |= events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR | EPOLLPRI | EPOLLOUT);
			i->fresh |= events;
			enqueue(i);
		}
	} while (n == 32 && (e[0].events & EPOLLET));
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
			if (sscanf(line, "tfd: %d events: %x", &tfd, &events) == 2 && tfd == i->fd)
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
	if (!equip(w))
		return;
	struct sock *s = i->sock;
	if (link_announce(s->link, w->waker->word) < 0)
		log_message(LOG_WARNING, "fd %d: wake-up descriptor not handed over yet", i->fd);
	struct epoll_event e = {.events = hidden_events(i), .data.ptr = i};
	if (real.epoll_ctl(w->hidden, EPOLL_CTL_ADD, i->fd, &e) < 0)
		return;
	i->asked = e.events;
	if (i->events & EPOLLONESHOT)
		i->disabled = i->absent || oneshot_fired(w, i);
	if (!i->absent)
		real.epoll_ctl(w->fd, EPOLL_CTL_DEL, i->fd, &e);
	i->absent = 0;
	i->hidden = 1;
	atomic_fetch_add(&w->n_lane, 1);
	/* What is there at this moment was told by the kernel's event for the marker, or is about to be returned by the
	 * receive that took it; what comes between here and the waiters bit is found by the first look. */
	i->seen = incoming(s->slot);
	i->wanted = 0;
	if (swallow && i->events & EPOLLET) {
		drain_hidden(w); /* the event of having been added */
		s->kernel_events &= ~(EPOLLIN | EPOLLOUT | EPOLLPRI);
		i->fresh = 0;
	}
	atomic_fetch_or(&s->slot->lane->end[s->slot->side].waiters, 1ull << w->waker->word);
	enqueue(i);
	if (w->native_inside)
		waker_poke(w->waker); /* they sleep in a set that had no lane member */
}

static void to_native(struct interest *i)
{
	struct waitset *w = i->set;
	struct epoll_event e = {.events = i->events, .data = i->data};
	real.epoll_ctl(w->hidden, EPOLL_CTL_DEL, i->fd, &e);
	i->absent = i->disabled;
	if (!i->parked && !i->absent)
		real.epoll_ctl(w->fd, EPOLL_CTL_ADD, i->fd, &e);
	dequeue(i);
	i->hidden = 0;
	atomic_fetch_sub(&w->n_lane, 1);
}

/* Asks the hidden set anew, where that changes anything: with both directions on a lane it never does. */
static void ask_hidden(struct interest *i)
{
	struct epoll_event e = {.events = hidden_events(i), .data.ptr = i};
	if (e.events != i->asked && real.epoll_ctl(i->set->hidden, EPOLL_CTL_MOD, i->fd, &e) == 0)
		i->asked = e.events;
}

/* Modes changed: the registration follows. Under the big lock. */
static void follow(struct interest *i, bool swallow)
{
	/* Arrivals in the ring while kernel bytes are still unread are edges of their own: an edge-triggered member moves
	 * with the agreement already. */
	bool lane = sock_on_lane(i->sock) || (i->events & EPOLLET && sock_watched(i->sock));
	if (lane && !i->hidden) {
		to_hidden(i, swallow);
	} else if (lane) {
		ask_hidden(i);
		enqueue(i);
	} else if (i->hidden) {
		to_native(i);
	}
}

void waitset_modes_changed(struct sock *s, bool receiving)
{
	if (!s->interests)
		return;
	int saved = errno;
	bool locked = lock();
	for (struct interest *i = s->interests; i; i = i->next_of_sock)
		follow(i, receiving);
	unlock(locked);
	errno = saved;
}

void waitset_wants_room(struct sock *s)
{
	struct slot *t = s->slot;
	if (!s->interests)
		return;
	bool locked = lock();
	for (struct interest *i = s->interests; i; i = i->next_of_sock)
		i->wanted = 1;
	/* seq_cst: want_room before the look at the tail; the reader stores the tail before its look at want_room */
	atomic_store(&tx_dir(t)->want_room, tx_limit(t) * 2 / 3 + 1);
	bool room = ring_unread(tx_ring(t)) <= tx_limit(t) * 2 / 3;
	unlock(locked);
	if (room)
		waitset_kick(s);
}

void waitset_kick(struct sock *s)
{
	if (!alone() && s->slot && s->slot->lane)
		waker_poke_words(atomic_load(&s->slot->lane->end[s->slot->side].waiters));
	if (!s->interests)
		return;
	bool locked = lock();
	for (struct interest *i = s->interests; i; i = i->next_of_sock)
		if (i->hidden) {
			enqueue(i);
			if (locked && i->set->waker)
				waker_poke(i->set->waker);
		}
	unlock(locked);
}

static void interest_drop(struct interest *i)
{
	struct interest **p = &i->sock->interests;
	while (*p != i)
		p = &(*p)->next_of_sock;
	*p = i->next_of_sock;
	dequeue(i);
	if (i->hidden)
		atomic_fetch_sub(&i->set->n_lane, 1);
	i->set = NULL;
	i->sock = NULL;
	i->next_of_sock = free_interests;
	free_interests = i;
}

void waitset_forget(struct sock *s, int fd, bool last)
{
	if (!s->interests)
		return;
	bool locked = lock();
	/* A registration lives as long as the open file: a closed number whose socket lives on by another stays in the
	 * set, and only the last close removes it. */
	for (struct interest *i = s->interests, *next; last && i; i = next) {
		next = i->next_of_sock;
		if (i->hidden) {
			struct epoll_event e;
			real.epoll_ctl(i->set->hidden, EPOLL_CTL_DEL, i->fd, &e);
		}
		interest_drop(i);
	}
	(void)fd;
	unlock(locked);
}

void waitset_replacing(struct sock *s, bool in_sets)
{
	bool locked = lock();
	for (struct interest *i = s->interests, *next; i; i = next) {
		next = i->next_of_sock;
		struct epoll_event e;
		if (in_sets)
			real.epoll_ctl(i->hidden ? i->set->hidden : i->set->fd, EPOLL_CTL_DEL, i->fd, &e);
		if (!in_sets || i->parked) {
			interest_drop(i);
			continue;
		}
		dequeue(i);
		if (i->hidden)
			atomic_fetch_sub(&i->set->n_lane, 1);
		i->hidden = 0;
	}
	unlock(locked);
}

void waitset_replaced(struct sock *s)
{
	bool locked = lock();
	for (struct interest *i = s->interests; i; i = i->next_of_sock) {
		struct epoll_event e = {.events = i->events, .data = i->data};
		i->absent = i->disabled;
		if (!i->absent)
			real.epoll_ctl(i->set->fd, EPOLL_CTL_ADD, i->fd, &e);
	}
	unlock(locked);
}

static struct waitset *waitset_new(int fd)
{
	bool locked = lock();
	if (!free_sets) {
		struct waitset *c = carve(16 * sizeof(*c));
		for (int i = 0; c && i < 16; i++) {
			c[i].next_free = free_sets;
			free_sets = &c[i];
		}
	}
	struct waitset *w = free_sets;
	if (w)
		free_sets = w->next_free;
	unlock(locked);
	if (!w)
		return NULL;
	memset(w, 0, sizeof(*w));
	w->fd = fd;
	w->fds = 1;
	w->hidden = -1;
	fdtab_set(fd, (uintptr_t)w | FD_EPOLL);
	return w;
}

void waitset_dup(struct waitset *w, int fd)
{
	atomic_fetch_add(&w->fds, 1);
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

/* Under the big lock. A set that is closed under a thread's wait lives until that thread has left it. */
static void give_back(struct waitset *w)
{
	if (!w->closed || atomic_load(&w->inside))
		return;
	if (w->hidden >= 0)
		fdtab_disown(w->hidden);
	if (w->waker)
		waker_free(w->waker);
	w->waker = NULL;
	w->hidden = -1;
	w->closed = 0;
	w->next_free = free_sets;
	free_sets = w;
}

void waitset_close(struct waitset *w, int fd)
{
	fdtab_set(fd, 0);
	if (atomic_fetch_sub(&w->fds, 1) != 1) {
		for (int k = 0; w->fd == fd && k <= fdtab_highest; k++)
			if (k != fd && fdtab_waitset(k) == w)
				w->fd = k;
		return;
	}
	bool locked = lock();
	sock_each(drop_of_set, w);
	w->closed = 1;
	give_back(w);
	unlock(locked);
}

void waitset_fork_child(void)
{
	pthread_mutex_init(&waitset_lock, NULL);
}

static void leave_of_set(struct sock *s, void *arg)
{
	for (struct interest *i = s->interests; i; i = i->next_of_sock)
		if (i->set == arg) {
			if (s->slot)
				switch_leave(s, i->fd, REASON_NESTED_SET);
			else
				sock_plain(s, REASON_NESTED_SET);
			return;
		}
}

void waitset_watched(struct waitset *w)
{
	if (w->watched)
		return;
	w->watched = 1;
	sock_each(leave_of_set, w);
	if (atomic_load(&w->n_lane))
		return; /* bytes that could not be moved: that member stays ours */
	/* Ours would make the set look readable. */
	bool locked = lock();
	struct epoll_event e;
	if (w->waker) {
		waker_poke(w->waker); /* who sleeps in it looks again, in the kernel alone */
		real.epoll_ctl(w->fd, EPOLL_CTL_DEL, w->waker->eventfd, &e);
		waker_free(w->waker);
	}
	if (w->hidden >= 0)
		fdtab_disown(w->hidden);
	w->waker = NULL;
	w->hidden = -1;
	unlock(locked);
}

static struct interest *find(struct waitset *w, struct sock *s, int fd)
{
	for (struct interest *i = s->interests; i; i = i->next_of_sock)
		if (i->set == w && i->fd == fd)
			return i;
	return NULL;
}

/* Should the program register the data of one of our registrations, ours is changed. */
static void keep_apart(struct waitset *w, uint64_t data)
{
	struct epoll_event e = {.events = EPOLLIN};
	bool locked = lock();
	if (w->waker && data == w->data_waker) {
		e.events |= EPOLLET;
		e.data.u64 = w->data_waker = random64();
		real.epoll_ctl(w->fd, EPOLL_CTL_MOD, w->waker->eventfd, &e);
	}
	if (w->hidden >= 0 && data == w->data_hidden) {
		e.data.u64 = w->data_hidden = random64();
		real.epoll_ctl(w->fd, EPOLL_CTL_MOD, w->hidden, &e);
	}
	unlock(locked);
}

static int ctl_add(struct waitset *w, struct interest *i, int fd, struct sock *s, struct epoll_event *event)
{
	if (i && !i->parked)
		return -EEXIST;
	if (i && i->hidden) { /* it comes back: programs that wait for one thing at a time take out and add all the time */
		if (event->events & EPOLLEXCLUSIVE && event->events & EPOLLONESHOT)
			return -EINVAL;
		i->parked = i->disabled = 0;
		i->fresh = ~0u;
		i->events = event->events;
		i->data = event->data;
		ask_hidden(i);
		enqueue(i);
		return 0;
	}
	if (real.epoll_ctl(w->fd, EPOLL_CTL_ADD, fd, event) < 0)
		return -errno;
	if (!i) {
		i = interest_new();
		if (!i) {
			s->slot ? (void)(s->slot->never = REASON_NO_MEMORY) : sock_plain(s, REASON_NO_MEMORY);
			return 0;
		}
		i->set = w;
		i->sock = s;
		i->fd = fd;
		i->next_of_sock = s->interests;
		s->interests = i;
	}
	i->parked = i->disabled = 0;
	i->fresh = ~0u;
	i->events = event->events;
	i->data = event->data;
	follow(i, false);
	return 0;
}

static int ctl(struct waitset *w, int op, int fd, struct sock *s, struct epoll_event *event)
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
		if (!i->hidden && real.epoll_ctl(w->fd, i->absent ? EPOLL_CTL_ADD : op, fd, event) < 0)
			return -errno;
		i->absent = 0;
		i->events = event->events;
		i->data = event->data;
		i->disabled = 0;
		i->fresh = ~0u;
		if (i->hidden) {
			ask_hidden(i);
			enqueue(i);
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
			dequeue(i);
			return 0;
		}
		if (!i->absent && real.epoll_ctl(i->hidden ? w->hidden : w->fd, op, fd, event) < 0)
			return -errno;
		interest_drop(i);
		return 0;
	}
	return -EINVAL;
}

/* Which connection of the set has news: into the ready lists of the sets that hold it. */
static void has_news(struct sock *s, void *arg)
{
	struct waitset *self = arg;
	for (struct interest *i = s->interests; i; i = i->next_of_sock)
		if (i->hidden) {
			enqueue(i);
			if (i->set != self && i->set->waker && !alone())
				waker_poke(i->set->waker);
		}
}

/* Fills out from the ready list. Under the big lock. */
static int collect(struct waitset *w, struct epoll_event *out, int max)
{
	int n = 0;
	struct interest *last = w->ready ? w->ready->prev_ready : NULL;
	for (struct interest *i = w->ready; i && n < max;) {
		struct interest *next = i == last ? NULL : i->next_ready;
		struct sock *s = i->sock;
		struct slot *t = s->slot;
		bool edge = i->events & EPOLLET;
		uint64_t seen = edge && t->lane ? incoming(t) : 0; /* before readiness: a later arrival is a new edge */
		uint32_t now = sock_ready(s);
		bool writable = now & EPOLLOUT;
		if (t->rx.mode != MODE_LANE) /* level-triggered in the hidden set: it will say so again */
			s->kernel_events &= ~(EPOLLIN | EPOLLPRI | EPOLLOUT);
		now &= (i->events | ALWAYS) & ~(EPOLLET | EPOLLONESHOT | EPOLLEXCLUSIVE | EPOLLWAKEUP);
		if (edge && !(now & i->fresh) && i->seen == seen && !(i->wanted && writable && i->events & EPOLLOUT))
			now = 0;
		if (edge) {
			i->seen = seen;
			i->wanted = t->tx.mode == MODE_LANE && !writable;
			i->fresh = 0;
		}
		if (!now) {
			dequeue(i);
		} else {
			out[n].events = now;
			out[n++].data = i->data;
			if (i->events & EPOLLONESHOT) {
				i->disabled = 1;
				dequeue(i);
			} else if (i->events & EPOLLET) {
				dequeue(i);
			} else { /* level: asked again at the next wait, behind the others */
				dequeue(i);
				enqueue(i);
			}
		}
		i = next;
	}
	return n;
}

struct look {
	struct waitset *w;
	struct waker *waker;     /* the set's; it may lose it meanwhile (waitset_watched) */
	struct epoll_event *out;
	int max, n;
};

static bool look(void *arg)
{
	struct look *k = arg;
	bool locked = lock();
	news_take(k->waker->word, has_news, k->w);
	k->n = k->w->ready ? collect(k->w, k->out, k->max) : 0;
	unlock(locked);
	return k->n > 0;
}

/* Takes our own registrations out of what the kernel said. Returns the number left for the program. */
static int strip(struct waitset *w, struct epoll_event *e, int n, bool *ret_hidden)
{
	int k = 0;
	for (int i = 0; i < n; i++) {
		if (w->data_waker && e[i].data.u64 == w->data_waker)
			continue;
		if (w->data_hidden && e[i].data.u64 == w->data_hidden) {
			*ret_hidden = true;
			continue;
		}
		e[k++] = e[i];
	}
	return k;
}

static int kernel_wait(int fd, struct epoll_event *e, int max, uint64_t ns, const sigset_t *mask)
{
	int r;
	if (real.epoll_pwait2 && ns != UINT64_MAX && ns % 1000000) {
		struct timespec t = {ns / 1000000000, ns % 1000000000};
		r = real.epoll_pwait2(fd, e, max, &t, mask);
		if (r >= 0 || errno != ENOSYS)
			return r < 0 ? -errno : r;
	}
	int ms = ns == UINT64_MAX ? -1 : ns / 1000000 < INT_MAX ? (int)((ns + 999999) / 1000000) : INT_MAX;
	r = mask ? real.epoll_pwait(fd, e, max, ms, mask) : real.epoll_wait(fd, e, max, ms);
	return r < 0 ? -errno : r;
}

/* What the kernel has to say now, our registrations taken out; latches what the hidden set brought. */
static int poll_kernel(struct waitset *w, struct epoll_event *out, int max)
{
	bool hidden = false;
	atomic_store_explicit(&w->waits, 0, memory_order_relaxed);
	int n, all;
	do { /* ours may have taken the room */
		n = all = kernel_wait(w->fd, out, max, 0, NULL);
		if (n > 0)
			n = strip(w, out, n, &hidden);
	} while (all == max && n == 0 && !hidden);
	if (hidden) {
		bool locked = lock();
		drain_hidden(w);
		unlock(locked);
	}
	return n > 0 ? n : 0;
}

/* The wait of a set with lane members. ns: UINT64_MAX for ever. */
static int lane_wait_once(struct waitset *w, struct epoll_event *out, int max, uint64_t ns, const sigset_t *mask)
{
	struct waker *waker = w->waker;
	struct look k = {w, waker, out, max, 0};
	if (!waker)
		return kernel_wait(w->fd, out, max, ns, mask);
	uint64_t deadline = ns == UINT64_MAX || ns == 0 ? ns : now_ns() + ns;
	uint32_t signals = self_thread.signals;
	uint32_t waits = atomic_load_explicit(&w->waits, memory_order_relaxed) + 1; /* a lost count does not matter */
	atomic_store_explicit(&w->waits, waits, memory_order_relaxed);
	if (waits >= POLL_EVERY || ns == 0) { /* the kernel's turn comes first, so that it is never starved */
		int n = poll_kernel(w, out, max);
		k.out += n;
		k.max -= n;
		if (k.max > 0)
			look(&k);
		if (n + k.n || ns == 0)
			return n + k.n;
		k.out = out;
		k.max = max;
	}
	for (;;) {
		uint64_t left = deadline == UINT64_MAX ? UINT64_MAX : deadline > now_ns() ? deadline - now_ns() : 0;
		if (mask ? look(&k) : spin(look, &k, left))
			return k.n;
		if (self_thread.signals != signals)
			return -EINTR;
		if (w->closed)
			return -EBADF;
		waker_sleep(waker);
		if (look(&k)) { /* the last look, after "asleep" was published */
			waker_awake(waker);
			return k.n;
		}
		COUNT(sleeps, 1);
		int n = kernel_wait(w->fd, out, max, left, mask);
		waker_awake(waker);
		if (n < 0)
			return n;
		bool hidden = false, woken = n > 0;
		n = strip(w, out, n, &hidden);
		/* The wake-up may have been for a thread that went to sleep before the set had members of ours. */
		if (woken && atomic_load(&w->native_inside))
			waker_poke(w->waker);
		if (hidden) {
			bool locked = lock();
			drain_hidden(w);
			unlock(locked);
		}
		k.out = out + n;
		k.max = max - n;
		k.n = 0;
		if (k.max > 0)
			look(&k);
		if (n + k.n || !woken)
			return n + k.n;
		k.out = out;
		k.max = max;
	}
}

/* A thread that returns may have taken the wake-up that was meant for another one, or leave ready members behind: as
 * in the kernel the next sleeper is woken while there is something to report. */
static int lane_wait(struct waitset *w, struct epoll_event *out, int max, uint64_t ns, const sigset_t *mask)
{
	struct waker *waker = w->waker;
	int r = lane_wait_once(w, out, max, ns, mask);
	if (!alone() && waker && waker_sleepers(waker)) {
		bool locked = lock();
		bool left = w->ready != NULL;
		unlock(locked);
		if (left || news_any(waker->word))
			waker_poke(waker);
	}
	return r;
}

static int wait_inside(struct waitset *w, struct epoll_event *out, int max, uint64_t ns, const sigset_t *mask,
		       int (*kernel)(void *), void *arg)
{
	if (!atomic_load_explicit(&w->n_lane, memory_order_acquire)) {
		/* seq_cst pair with to_hidden: the count before the look, the member before the look at the count */
		inside_count(INSIDE_SET, &w->native_inside);
		if (!atomic_load(&w->n_lane)) {
			int n = kernel(arg);
			int saved = errno;
			inside_uncount(INSIDE_SET, &w->native_inside);
			if (n <= 0 || !w->waker)
				return errno = saved, n;
			bool hidden = false;
			n = strip(w, out, n, &hidden);
			if (n)
				return errno = saved, n;
			/* ours alone: a member went to a lane meanwhile, or an old wake-up took the room */
			if (w->native_inside)
				waker_poke(w->waker);
		} else {
			inside_uncount(INSIDE_SET, &w->native_inside);
		}
	}
	int r = lane_wait(w, out, max, ns, mask);
	return EDGE(r);
}

static int set_wait(int epfd, struct epoll_event *out, int max, uint64_t ns, const sigset_t *mask, int (*kernel)(void *), void *arg)
{
	struct waitset *w = fdtab_waitset(epfd);
	if (!w || max <= 0)
		return kernel(arg);
	if (alone())
		return wait_inside(w, out, max, ns, mask, kernel, arg);
	inside_count(INSIDE_SET, &w->inside); /* seq_cst: before the second look at the table */
	int r = fdtab_waitset(epfd) == w ? wait_inside(w, out, max, ns, mask, kernel, arg) : kernel(arg), saved = errno;
	inside_uncount(INSIDE_SET, &w->inside);
	if (unlikely(w->closed)) {
		bool locked = lock();
		give_back(w);
		unlock(locked);
	}
	errno = saved;
	return r;
}

/* A set without any member of ours in a program with one thread: nothing to count, nothing to take out. */
static inline bool plain_set(int epfd)
{
	struct waitset *w = fdtab_waitset(epfd);
	return !w || (alone() && !w->waker);
}

struct wait_args {
	int epfd;
	struct epoll_event *out;
	int max, ms;
	const struct timespec *ts;
	const sigset_t *mask;
};

static int k_wait(void *p)
{
	struct wait_args *a = p;
	return real.epoll_wait(a->epfd, a->out, a->max, a->ms);
}

static int k_pwait(void *p)
{
	struct wait_args *a = p;
	return real.epoll_pwait(a->epfd, a->out, a->max, a->ms, a->mask);
}

static int k_pwait2(void *p)
{
	struct wait_args *a = p;
	return real.epoll_pwait2(a->epfd, a->out, a->max, a->ts, a->mask);
}

static uint64_t ms_ns(int ms)
{
	return ms < 0 ? UINT64_MAX : ms * 1000000ull;
}

EXPORT int epoll_wait(int epfd, struct epoll_event *out, int max, int ms)
{
	ENSURE_REAL();
	if (likely(plain_set(epfd)))
		return real.epoll_wait(epfd, out, max, ms);
	struct wait_args a = {epfd, out, max, ms, NULL, NULL};
	return set_wait(epfd, out, max, ms_ns(ms), NULL, k_wait, &a);
}

EXPORT int epoll_pwait(int epfd, struct epoll_event *out, int max, int ms, const sigset_t *mask)
{
	ENSURE_REAL();
	if (likely(plain_set(epfd)))
		return real.epoll_pwait(epfd, out, max, ms, mask);
	struct wait_args a = {epfd, out, max, ms, NULL, mask};
	return set_wait(epfd, out, max, ms_ns(ms), mask, k_pwait, &a);
}

EXPORT int epoll_pwait2(int epfd, struct epoll_event *out, int max, const struct timespec *ts, const sigset_t *mask)
{
	ENSURE_REAL();
	struct wait_args a = {epfd, out, max, 0, ts, mask};
	uint64_t ns = ts ? ts->tv_sec * 1000000000ull + ts->tv_nsec : UINT64_MAX;
	return set_wait(epfd, out, max, ns, mask, k_pwait2, &a);
}

EXPORT int epoll_create(int size)
{
	ENSURE_REAL();
	int fd = real.epoll_create(size);
	if (fd >= 0 && !self_thread.vfork_child)
		waitset_new(fd);
	return fd;
}

EXPORT int epoll_create1(int flags)
{
	ENSURE_REAL();
	int fd = real.epoll_create1(flags);
	if (fd >= 0 && !self_thread.vfork_child)
		waitset_new(fd);
	return fd;
}

EXPORT int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	ENSURE_REAL();
	struct waitset *w = fdtab_waitset(epfd);
	struct sock *s = w ? sock_of(fd) : NULL;
	struct waitset *inner = w && op == EPOLL_CTL_ADD ? fdtab_waitset(fd) : NULL;
	if (inner && inner != w)
		waitset_watched(inner);
	if (w && op != EPOLL_CTL_DEL && event)
		keep_apart(w, event->data.u64);
	if (!s || (op != EPOLL_CTL_DEL && !event)) {
		if (s)
			sock_unpin(s);
		return real.epoll_ctl(epfd, op, fd, event);
	}
	bool locked = lock();
	int r = ctl(w, op, fd, s, event);
	unlock(locked);
	if (unlikely(w->watched) && r == 0 && op == EPOLL_CTL_ADD)
		leave_of_set(s, w);
	sock_unpin(s);
	return EDGE(r);
}
