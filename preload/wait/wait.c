/* Waiting for one socket, and spinning. */
#include "preload/io.h"
#include "preload/real.h"
#include "preload/state.h"
#include "preload/stats/stats.h"
#include "preload/switch.h"
#include "preload/wait/waitset.h"
#include "preload/wait/waker.h"

#include <errno.h>
#include <time.h>

#define SPIN_PROBE_FIRST 16u /* sleeps before a thread whose spins were in vain tries again; doubles with each failure */
#define SPIN_PROBE_MOST 1024u
#define SPIN_LEAST 1000     /* ns */

uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

bool spin(bool (*again)(void *arg), void *arg, uint64_t most)
{
	struct thread_state *self = &self_thread;
	uint64_t limit = (uint64_t)options.spin_us * 1000;
	if (usable_cpus < 2 || !limit)
		return again(arg);
	uint64_t budget = self->spin_ns < limit ? self->spin_ns : limit;
	if (!budget) {
		/* Nothing came during earlier spins: sleep, and probe now and then whether that is still so. A probe is as
		 * long as spins get: the other end may have to be woken first, and only where both spin is it worth it. */
		if (again(arg))
			return true;
		if (self->spin_skipped++ < (SPIN_PROBE_FIRST << self->spin_failures))
			return false;
		self->spin_skipped = 0;
		budget = limit;
	}
	if (budget > most)
		budget = most;
	uint64_t end = now_ns() + budget;
	uint32_t signals = self->signals;
	do {
		for (int i = 0; i < 16; i++) {
			if (again(arg)) {
				self->spin_ns = budget * 2 < limit ? budget * 2 : limit;
				self->spin_failures = 0;
				COUNT(spins_hit, 1);
				return true;
			}
			relax();
		}
	} while (now_ns() < end && self->signals == signals);
	if (!self->spin_ns && SPIN_PROBE_FIRST << self->spin_failures < SPIN_PROBE_MOST)
		self->spin_failures++;
	self->spin_ns = self->spin_ns && budget / 2 >= SPIN_LEAST ? budget / 2 : 0;
	COUNT(spins_missed, 1);
	return false;
}

struct one {
	struct sock *s;
	uint32_t events;
};

/* Worth another try of the data call? Readiness of poll, but room of any size counts for a blocked writer. */
static bool changed(void *arg)
{
	struct one *o = arg;
	struct slot *t = o->s->slot;
	if (o->events & EPOLLIN) {
		uint32_t mode = atomic_load_explicit(&t->rx.mode, memory_order_acquire);
		if (mode == MODE_KERNEL)
			return true;
		if (mode == MODE_LANE && (ring_unread(rx_ring(t)) || rx_ends(t) || t->rx.shut || io_demoted(t)))
			return true;
	}
	if (o->events & EPOLLOUT) {
		if (atomic_load_explicit(&t->tx.mode, memory_order_acquire) != MODE_LANE || t->tx.shut)
			return true;
		struct link_dir *d = tx_dir(t);
		if (head_gated(atomic_load(&d->head)))
			return atomic_load(&d->tail) == head_pos(atomic_load(&d->head));
		return ring_unread(tx_ring(t)) <= tx_limit(t) * 2 / 3;
	}
	return false;
}

int wait_sock(struct sock *s, int fd, uint32_t events, uint64_t deadline, bool *ret_kernel)
{
	struct slot *t = s->slot;
	struct one o = {s, events};
	uint32_t signals = self_thread.signals;
	*ret_kernel = false;
	bool agreed = events & EPOLLIN && t->rx.mode == MODE_AGREED; /* only the kernel can bring the marker */
	uint64_t now = deadline == UINT64_MAX ? 0 : now_ns();
	if (deadline != UINT64_MAX && now >= deadline)
		return -ETIMEDOUT;
	if (!agreed && spin(changed, &o, deadline == UINT64_MAX ? UINT64_MAX : deadline - now))
		return 0;
	int epfd = -1;
	struct waker *w = waker_thread(&epfd);
	struct timespec pause = {0, 1000000}, *timeout = NULL; /* no waker (no descriptors): look every millisecond */
	if (w) {
		link_announce(s->link, w->word);
		uint64_t bit = 1ull << w->word;
		_Atomic uint64_t *waiters = &slot_lane(t)->end[t->side].waiters;
		if (!(atomic_load(waiters) & bit))
			atomic_fetch_or(waiters, bit);
		if (events & EPOLLOUT && t->tx.mode == MODE_LANE)
			atomic_store(&tx_dir(t)->want_room, tx_limit(t) * 2 / 3 + 1);
		waker_sleep(w);
	} else {
		timeout = &pause;
	}
	/* Another holder may be killed between taking the marker and saying so: who waits for it looks again. */
	struct timespec often = {0, 10000000};
	if (agreed && !s->solo && !timeout && ring_unread(rx_ring(t)))
		timeout = &often;
	uint64_t trim = timeout ? UINT64_MAX : link_trim(UINT64_MAX);
	struct timespec left, until_trim = {trim / 1000000000, trim % 1000000000};
	if (trim != UINT64_MAX)
		timeout = &until_trim;
	if (deadline != UINT64_MAX) {
		uint64_t rest = (now = now_ns()) < deadline ? deadline - now : 0;
		if (!timeout || rest < timeout->tv_sec * 1000000000ull + timeout->tv_nsec) {
			left.tv_sec = rest / 1000000000;
			left.tv_nsec = rest % 1000000000;
			timeout = &left;
		}
	}
	int r = 0;
	struct pollfd p[2] = {{fd, events & EPOLLIN ? POLLIN | POLLRDHUP : POLLRDHUP, 0}, {epfd, POLLIN, 0}};
	if (self_thread.signals != signals) {
		r = -EINTR; /* a handler ran while we spun */
	} else if (!changed(&o)) { /* the last look, after "asleep" was published */
		COUNT(sleeps, 1);
		r = real.ppoll(p, w ? 2 : 1, timeout, NULL);
		if (r < 0)
			r = -errno;
	}
	if (w) {
		waker_awake(w);
		if (r > 0 && p[1].revents) {
			struct epoll_event e;
			real.epoll_wait(epfd, &e, 1, 0); /* takes the edge */
		}
	}
	if (r > 0 && p[0].revents)
		*ret_kernel = true;
	if (r == 0 && timeout == &left && now_ns() >= deadline && !changed(&o))
		return -ETIMEDOUT;
	return r == -EINTR ? -EINTR : 0;
}
