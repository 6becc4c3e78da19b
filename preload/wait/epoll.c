/* The waits of epoll sets. */
#include "preload/discover/registry.h"
#include "preload/interpose.h"
#include "preload/io.h"
#include "preload/link/link.h"
#include "preload/proc/process.h"
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

#define POLL_EVERY 8         /* the kernel is polled at the latest every so many waits */
#define ALWAYS (EPOLLERR | EPOLLHUP)
#define SHARED_NS 10000000

/* Which connection of the set has news: into the ready lists of the sets that hold it. */
static void has_news(struct sock *s, void *arg)
{
	struct waitset *self = arg;
	for (struct interest *i = s->interests; i; i = i->next_of_sock)
		if (i->hidden) {
			interest_enqueue(i);
			if (i->set != self && i->set->waker && !alone() && !set_foreign(i->set))
				waker_poke(i->set->waker);
		}
}

/* Fills out from the ready list. Under the sets' lock. */
static int collect(struct waitset *w, struct epoll_event *out, int max)
{
	int n = 0;
	struct interest *last = w->ready ? w->ready->prev_ready : NULL;
	for (struct interest *i = w->ready; i && n < max;) {
		struct interest *next = i == last ? NULL : i->next_ready;
		struct sock *s = i->sock;
		struct slot *t = s->slot;
		bool edge = i->events & EPOLLET;
		uint64_t seen = edge && s->link && slot_lane(t) ? sock_incoming(t) : 0; /* before readiness: a later arrival is a new edge */
		uint32_t now = sock_ready(s);
		/* The marker is in the kernel, behind at most kernel bytes. Level-triggered the kernel says so itself, once it
		 * has come: a writer may be stopped before it. */
		if (edge && t->rx.mode == MODE_AGREED && ring_unread(rx_ring(t)) && io_promoted(t))
			now |= EPOLLIN;
		bool writable = now & EPOLLOUT;
		if (t->rx.mode != MODE_LANE) /* level-triggered in the hidden set: it will say so again */
			s->kernel_events &= ~(EPOLLIN | EPOLLPRI | EPOLLOUT);
		uint32_t asked = interest_asked(i);
		now &= (asked | ALWAYS) & ~(EPOLLET | EPOLLONESHOT | EPOLLEXCLUSIVE | EPOLLWAKEUP);
		if (edge && !(now & i->fresh) && i->seen == seen && !(i->wanted && writable && asked & EPOLLOUT))
			now = 0;
		if (edge) {
			i->seen = seen;
			i->wanted = t->tx.mode == MODE_LANE && !writable;
			i->fresh = 0;
		}
		if (!now) {
			interest_dequeue(i);
		} else {
			out[n].events = interest_told(i, now);
			out[n++].data = i->data;
			if (i->events & EPOLLONESHOT) {
				i->disabled = 1;
				interest_dequeue(i);
			} else if (i->events & EPOLLET) {
				interest_dequeue(i);
			} else { /* level: asked again at the next wait, behind the others */
				interest_dequeue(i);
				interest_enqueue(i);
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
	bool locked = sets_lock();
	news_take(k->waker->word, has_news, k->w);
	k->n = k->w->ready ? collect(k->w, k->out, k->max) : 0;
	sets_unlock(locked);
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

/* A wake-up of ours that a wait took out may have been meant for another thread: for one that went to sleep in the kernel
 * before the set had members of ours, and hears of them only by this; or, where the taker did not sleep on the word
 * itself, for one that does: peers have woken its epoch and will not do so again. */
static void pass_on(struct waitset *w, int taken, bool slept)
{
	struct waker *k = w->waker;
	if (taken > 0 && k && (atomic_load(&w->native_inside) || (!slept && waker_sleepers(k))))
		waker_poke(k);
}

/* A set that is left to the kernel: there may be registrations of another process that has not heard of it yet. */
static int kernel_wait_only(struct waitset *w, struct epoll_event *out, int max, uint64_t deadline, const sigset_t *mask)
{
	for (;;) {
		uint64_t left = !deadline || deadline == UINT64_MAX ? deadline : deadline > now_ns() ? deadline - now_ns() : 0;
		bool hidden = false;
		int n = kernel_wait(w->fd, out, max, left, mask);
		if (n <= 0 || (n = strip(w, out, n, &hidden)) > 0 || !deadline)
			return n;
	}
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
		pass_on(w, all - n, false);
	} while (all == max && n == 0 && !hidden);
	if (hidden) {
		bool locked = sets_lock();
		waitset_drain_hidden(w);
		sets_unlock(locked);
	}
	return n > 0 ? n : 0;
}

/* The wait of a set with lane members. ns: UINT64_MAX for ever. */
static int lane_wait_once(struct waitset *w, struct epoll_event *out, int max, uint64_t ns, const sigset_t *mask)
{
	struct waker *waker = w->waker;
	struct look k = {w, waker, out, max, 0};
	uint64_t deadline = ns == UINT64_MAX || ns == 0 ? ns : now_ns() + ns;
	if (!waker)
		return kernel_wait_only(w, out, max, deadline, mask);
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
		if (waitset_to_give(w)) {
			waitset_give(w);
			if (!w->waker)
				return kernel_wait_only(w, out, max, deadline, mask);
		}
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
		uint64_t most = link_trim(left);
		/* Members that could not leave yet: another process takes wake-ups that are ours. */
		if (unlikely(w->shared) && most > SHARED_NS)
			most = SHARED_NS;
		int n = kernel_wait(w->fd, out, max, most, mask);
		waker_awake(waker);
		if (n < 0)
			return n;
		bool hidden = false, woken = n > 0;
		int all = n;
		n = strip(w, out, n, &hidden);
		pass_on(w, all - n, true);
		if (hidden) {
			bool locked = sets_lock();
			waitset_drain_hidden(w);
			sets_unlock(locked);
		}
		k.out = out + n;
		k.max = max - n;
		k.n = 0;
		if (k.max > 0)
			look(&k);
		if (n + k.n || (!woken && most == left))
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
		bool locked = sets_lock();
		bool left = w->ready != NULL;
		sets_unlock(locked);
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
			if (n <= 0 || (!w->waker && !w->shared))
				return errno = saved, n;
			bool hidden = false;
			int all = n;
			n = strip(w, out, n, &hidden);
			pass_on(w, all - n, false);
			if (n)
				return errno = saved, n;
			/* ours alone: a member went to a lane meanwhile, or an old wake-up took the room */
		} else {
			inside_uncount(INSIDE_SET, &w->native_inside);
		}
	}
	int r = KEEPS_ERRNO(lane_wait(w, out, max, ns, mask));
	return EDGE(r);
}

static int set_wait(int epfd, struct epoll_event *out, int max, uint64_t ns, const sigset_t *mask, int (*kernel)(void *), void *arg)
{
	struct waitset *w = fdtab_waitset(epfd);
	if (!w || max <= 0)
		return kernel(arg);
	cancellation_point();
	if (set_foreign(w))
		waitset_first_use(w);
	if (alone())
		return wait_inside(w, out, max, ns, mask, kernel, arg);
	waitset_enter(w); /* seq_cst: before the second look at the table */
	int r = fdtab_waitset(epfd) == w ? wait_inside(w, out, max, ns, mask, kernel, arg) : kernel(arg), saved = errno;
	waitset_leave(w);
	errno = saved;
	return r;
}

/* A set without any member of ours in a program with one thread: nothing to count, nothing to take out. */
static inline bool plain_set(int epfd)
{
	struct waitset *w = fdtab_waitset(epfd);
	return !w || (alone() && !w->waker && !w->shared && !set_foreign(w));
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
	if (ts && !time_valid(ts))
		return real.epoll_pwait2(epfd, out, max, ts, mask);
	uint64_t ns = ts ? ts->tv_sec * 1000000000ull + ts->tv_nsec : UINT64_MAX;
	return set_wait(epfd, out, max, ns, mask, k_pwait2, &a);
}

EXPORT int epoll_create(int size)
{
	ENSURE_REAL();
	process_number_begin();
	int fd = real.epoll_create(size);
	number_fresh(fd);
	if (fd >= 0 && !self_thread.vfork_child)
		waitset_new(fd);
	process_number_end();
	return fd;
}

EXPORT int epoll_create1(int flags)
{
	ENSURE_REAL();
	process_number_begin();
	int fd = real.epoll_create1(flags);
	number_fresh(fd);
	if (fd >= 0 && !self_thread.vfork_child)
		waitset_new(fd);
	process_number_end();
	return fd;
}

/* A set that was made elsewhere (an image before this one, another process): who waits in it does not ask us. */
static int into_unknown(int epfd, int fd, struct epoll_event *event)
{
	int r = real.epoll_ctl(epfd, EPOLL_CTL_ADD, fd, event), saved = errno;
	struct sock *s = r == 0 ? sock_of(fd) : NULL;
	if (s) {
		if (s->slot)
			switch_leave(s, fd, REASON_SHARED_SET);
		else if (atomic_load(&s->stage) != SOCK_LISTENER)
			sock_plain(s, REASON_SHARED_SET);
		sock_unpin(s);
	}
	errno = saved;
	return r;
}

EXPORT int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	ENSURE_REAL();
	struct waitset *w = fdtab_waitset(epfd);
	if (unlikely(!w) && op == EPOLL_CTL_ADD && fdtab_sock(fd) && !self_thread.vfork_child && !fdtab_get(epfd))
		return into_unknown(epfd, fd, event);
	struct sock *s = w ? sock_of(fd) : NULL;
	struct waitset *inner = w && op == EPOLL_CTL_ADD ? fdtab_waitset(fd) : NULL;
	if (s && set_foreign(w))
		waitset_first_use(w);
	if (inner && inner != w)
		waitset_watched(inner);
	if (w && op != EPOLL_CTL_DEL && event)
		waitset_keep_apart(w, event->data.u64);
	if (!s || (op != EPOLL_CTL_DEL && !event)) {
		if (s)
			sock_unpin(s);
		return real.epoll_ctl(epfd, op, fd, event);
	}
	bool locked = sets_lock();
	int r = KEEPS_ERRNO(waitset_ctl(w, op, fd, s, event));
	sets_unlock(locked);
	if (unlikely(w->watched || w->shared || w->bare) && r == 0 && op == EPOLL_CTL_ADD)
		waitset_leave_member(s, w);
	sock_unpin(s);
	return EDGE(r);
}
