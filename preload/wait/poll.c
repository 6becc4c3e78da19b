/* poll and select. A set without a lane connection goes to the kernel as it is; else ours are asked here, and the
 * kernel waits for the rest beside this thread's hidden epoll fd. */
#include "preload/interpose.h"
#include "preload/io.h"
#include "preload/link/link.h"
#include "preload/proc/limits.h"
#include "preload/quiet.h"
#include "preload/real.h"
#include "preload/state.h"
#include "preload/stats/stats.h"
#include "preload/switch.h"
#include "preload/wait/waitset.h"
#include "preload/wait/waker.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define ON_STACK 256

struct poll_set {
	struct pollfd *fds;      /* the program's */
	struct pollfd *kernel;   /* what the kernel is asked, and one more */
	struct sock **socks;     /* lane connections by index, NULL for the others */
	nfds_t n;
	int found;
};

/* Events of the kernel's mask that a lane decides. */
static short lane_mask(struct sock *s)
{
	struct slot *t = s->slot;
	return (t->tx.mode == MODE_LANE ? POLLOUT | POLLWRNORM | POLLWRBAND : 0);
}

static bool look(void *arg)
{
	struct poll_set *p = arg;
	int found = 0;
	for (nfds_t i = 0; i < p->n; i++) {
		struct sock *s = p->socks[i];
		p->fds[i].revents = 0;
		if (!s)
			continue;
		uint32_t e = sock_ready(s);
		if (s->slot->rx.mode != MODE_LANE)
			e &= ~(EPOLLIN | EPOLLRDHUP); /* the kernel's to say, in this very call */
		short now = (e & EPOLLIN ? POLLIN | POLLRDNORM : 0) | (e & EPOLLRDHUP ? POLLRDHUP : 0);
		if (s->slot->tx.mode == MODE_LANE)
			now |= e & EPOLLOUT ? POLLOUT | POLLWRNORM : 0;
		now &= p->fds[i].events;
		/* an error or hang-up of the kernel socket is asked from the kernel itself */
		p->fds[i].revents = now;
		found += now != 0;
	}
	p->found = found;
	return found > 0;
}

/* Adds what the kernel says. Returns how many descriptors have events. */
static int merge(struct poll_set *p)
{
	int n = 0;
	for (nfds_t i = 0; i < p->n; i++) {
		short k = p->kernel[i].revents;
		if (p->socks[i]) {
			if (k & (POLLIN | POLLRDHUP | POLLHUP | POLLERR))
				p->socks[i]->kernel_events |= (k & POLLIN ? EPOLLIN : 0) | (k & POLLRDHUP ? EPOLLRDHUP : 0) |
							      (k & POLLHUP ? EPOLLHUP : 0);
			if (k & (POLLERR | POLLHUP))
				k |= POLLOUT | POLLWRNORM;
			k &= p->fds[i].events | POLLERR | POLLHUP | POLLNVAL;
		}
		p->fds[i].revents |= k;
		n += p->fds[i].revents != 0;
	}
	return n;
}

static int kernel_poll(struct poll_set *p, nfds_t extra, uint64_t ns, const sigset_t *mask)
{
	struct timespec t = {ns / 1000000000, ns % 1000000000};
	int r = real.ppoll(p->kernel, p->n + extra, ns == UINT64_MAX ? NULL : &t, mask);
	if (unlikely(r < 0 && errno == EINVAL && extra)) { /* as many as may be open: one more is too many */
		t = (struct timespec){0, ns < 1000000 ? ns : 1000000};
		r = real.ppoll(p->kernel, p->n, &t, mask);
	}
	return r < 0 ? -errno : r;
}

static int lane_poll(struct poll_set *p, uint64_t ns, const sigset_t *mask)
{
	uint64_t deadline = ns == UINT64_MAX || !ns ? ns : now_ns() + ns;
	uint32_t signals = self_thread.signals;
	for (nfds_t i = 0; i < p->n; i++) {
		p->kernel[i] = p->fds[i];
		p->kernel[i].revents = 0;
		struct sock *s = p->socks[i];
		if (!s)
			continue;
		p->kernel[i].events &= ~lane_mask(s);
		if (p->fds[i].events & (POLLIN | POLLRDNORM))
			p->kernel[i].events |= POLLRDHUP;
	}
	/* Ours ready: the kernel's answer for the others belongs to the same call. */
	if (look(p) || !ns) {
		int r = kernel_poll(p, 0, 0, NULL);
		return r < 0 ? r : merge(p);
	}
	int epfd = -1;
	struct waker *w = waker_thread(&epfd);
	for (;;) {
		uint64_t left = deadline == UINT64_MAX ? UINT64_MAX : deadline > now_ns() ? deadline - now_ns() : 0;
		if (!mask && spin(look, p, left))
			return kernel_poll(p, 0, 0, NULL) < 0 ? p->found : merge(p);
		if (self_thread.signals != signals)
			return -EINTR;
		for (nfds_t i = 0; i < p->n && w; i++) {
			struct sock *s = p->socks[i];
			if (!s || !s->link)
				continue;
			_Atomic uint64_t *waiters = &slot_lane(s->slot)->end[s->slot->side].waiters;
			link_announce(s->link, w->word);
			if (!(atomic_load(waiters) & 1ull << w->word))
				atomic_fetch_or(waiters, 1ull << w->word);
		}
		if (w)
			waker_sleep(w);
		int r = 0;
		bool ready = look(p); /* after "asleep" was published */
		if (!ready) {
			COUNT(sleeps, 1);
			p->kernel[p->n] = (struct pollfd){epfd, POLLIN, 0};
			uint64_t most = w ? link_trim(left) : 1000000; /* no waker: look every millisecond */
			r = kernel_poll(p, w ? 1 : 0, left < most ? left : most, mask);
		}
		if (w) {
			waker_awake(w);
			if (r > 0 && p->kernel[p->n].revents) {
				struct epoll_event e;
				real.epoll_wait(epfd, &e, 1, 0);
			}
		}
		if (ready)
			return kernel_poll(p, 0, 0, NULL) < 0 ? p->found : merge(p);
		if (r < 0)
			return r;
		look(p);
		int n = merge(p);
		if (n || (deadline != UINT64_MAX && now_ns() >= deadline))
			return n;
	}
}

/* Is one of ours among them? Also those that are not on a lane yet: they are counted in, so that no agreement is made
 * meanwhile. */
static inline bool any_of_ours(struct pollfd *fds, nfds_t n)
{
	if (fds && fdtab_highest >= 0)
		for (nfds_t i = 0; i < n; i++) {
			uintptr_t e = fdtab_get(fds[i].fd);
			if (unlikely(fd_kind(e) == FD_EPOLL))
				waitset_watched(fdtab_waitset(fds[i].fd));
			struct sock *s = fdtab_sock(fds[i].fd);
			if (!s || atomic_load_explicit(&s->stage, memory_order_relaxed) < SOCK_ACCEPTED)
				continue;
			return true;
		}
	return false;
}

static __attribute__((noinline)) int do_poll(struct pollfd *fds, nfds_t n, uint64_t ns, const sigset_t *mask,
					     int (*kernel)(void *), void *arg)
{
	cancellation_point();
	bool lanes = false;
	struct sock *socks_room[ON_STACK];
	struct pollfd kernel_room[ON_STACK + 1];
	struct poll_set p = {fds, kernel_room, socks_room, n, 0};
	size_t big = 0;
	if (n > ON_STACK) {
		big = (n + 1) * sizeof(*p.kernel) + n * sizeof(*p.socks);
		uint8_t *m = mmap(NULL, big, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (m == MAP_FAILED) {
			errno = ENOMEM;
			return -1;
		}
		p.socks = (struct sock **)m;
		p.kernel = (struct pollfd *)(p.socks + n);
	}
	struct inside_poll *inside = inside_poll_begin(n);
	if (!inside) {
		if (big)
			munmap(p.socks, big);
		errno = ENOMEM;
		return -1;
	}
	critical_enter();
	for (nfds_t i = 0; i < n; i++)
		p.socks[i] = inside_poll_add(inside, fds[i].fd);
	critical_leave();
	/* seq_cst: counted in, then the modes are looked at */
	for (nfds_t i = 0; i < n; i++)
		lanes |= p.socks[i] && sock_watched(p.socks[i]);
	int r;
	if (!lanes) {
		r = kernel(arg);
	} else {
		struct sock *s;
		for (nfds_t i = 0; i < n; i++)
			if ((s = p.socks[i]) && !sock_watched(s)) {
				p.socks[i] = NULL; /* the kernel's */
				fds[i].revents = 0;
			}
		r = KEEPS_ERRNO(lane_poll(&p, ns, mask));
		r = EDGE(r);
	}
	int saved = errno;
	inside_poll_end(inside);
	if (big)
		munmap(p.socks, big);
	errno = saved;
	return r;
}

struct poll_args {
	struct pollfd *fds;
	nfds_t n;
	int ms;
	const struct timespec *ts;
	const sigset_t *mask;
};

static int k_poll(void *p)
{
	struct poll_args *a = p;
	return real.poll(a->fds, a->n, a->ms);
}

static int k_ppoll(void *p)
{
	struct poll_args *a = p;
	return real.ppoll(a->fds, a->n, a->ts, a->mask);
}

static uint64_t ts_ns(const struct timespec *t)
{
	return t ? t->tv_sec * 1000000000ull + t->tv_nsec : UINT64_MAX;
}

/* More than may be open: the kernel refuses that without a look at them, and so do we. */
static bool too_many(nfds_t n)
{
	return unlikely(n > ON_STACK) && (n > INT_MAX || !limits_within(n - 1));
}

EXPORT int poll(struct pollfd *fds, nfds_t n, int ms)
{
	ENSURE_REAL();
	if (unlikely(too_many(n)))
		return real.poll(fds, n, ms); /* EINVAL */
	if (likely(!any_of_ours(fds, n)))
		return real.poll(fds, n, ms);
	struct poll_args a = {fds, n, ms, NULL, NULL};
	return do_poll(fds, n, ms < 0 ? UINT64_MAX : ms * 1000000ull, NULL, k_poll, &a);
}

EXPORT int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *ts, const sigset_t *mask)
{
	ENSURE_REAL();
	if ((ts && !time_valid(ts)) || too_many(n))
		return real.ppoll(fds, n, ts, mask); /* EINVAL */
	if (likely(!any_of_ours(fds, n)))
		return real.ppoll(fds, n, ts, mask);
	struct poll_args a = {fds, n, 0, ts, mask};
	return do_poll(fds, n, ts_ns(ts), mask, k_ppoll, &a);
}

EXPORT int __poll_chk(struct pollfd *fds, nfds_t n, int ms, size_t size)
{
	if (size / sizeof(*fds) < n)
		abort_overflow();
	return poll(fds, n, ms);
}

EXPORT int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *ts, const sigset_t *mask, size_t size)
{
	if (size / sizeof(*fds) < n)
		abort_overflow();
	return ppoll(fds, n, ts, mask);
}

/* select is poll over the numbers in the sets. The sets may be longer than fd_set: only their first n bits are read. */
static bool in_set(const fd_set *set, int fd)
{
	return set && ((const unsigned long *)set)[fd / (8 * sizeof(long))] >> fd % (8 * sizeof(long)) & 1;
}

static void put_set(fd_set *set, int fd)
{
	if (set)
		((unsigned long *)set)[fd / (8 * sizeof(long))] |= 1ul << fd % (8 * sizeof(long));
}

static bool any_lane(int n, fd_set *r, fd_set *w, fd_set *e)
{
	if (fdtab_highest < 0 || n <= 0)
		return false;
	if (n > fdtab_highest + 1)
		n = fdtab_highest + 1;
	for (int fd = 0; fd < n; fd++) {
		if (!in_set(r, fd) && !in_set(w, fd) && !in_set(e, fd))
			continue;
		uintptr_t entry = fdtab_get(fd);
		if (unlikely(fd_kind(entry) == FD_EPOLL))
			waitset_watched(fdtab_waitset(fd));
		struct sock *s = fdtab_sock(fd);
		if (s && atomic_load_explicit(&s->stage, memory_order_relaxed) >= SOCK_ACCEPTED)
			return true;
	}
	return false;
}

/* Does what poll said of it count for that set (fs/select.c)? */
static bool selected(struct pollfd p, short set)
{
	short counts = set == POLLIN ? POLLIN | POLLHUP | POLLERR : set == POLLOUT ? POLLOUT | POLLERR : POLLPRI;
	return p.fd >= 0 && p.events & set && p.revents & counts;
}

static int by_poll(int n, fd_set *r, fd_set *w, fd_set *e, const struct timespec *ts, const sigset_t *mask)
{
	struct pollfd room[ON_STACK], *p = room;
	nfds_t count = 0, k = 0;
	for (int fd = 0; fd < n; fd++)
		count += in_set(r, fd) || in_set(w, fd) || in_set(e, fd);
	if (count > ON_STACK &&
	    (p = mmap(NULL, count * sizeof(*p), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) == MAP_FAILED)
		return -1;
	for (int fd = 0; fd < n; fd++) {
		short events = (in_set(r, fd) ? POLLIN : 0) | (in_set(w, fd) ? POLLOUT : 0) | (in_set(e, fd) ? POLLPRI : 0);
		if (events)
			p[k++] = (struct pollfd){fd, events, 0};
	}
	uint64_t deadline = ts ? now_ns() + ts_ns(ts) : UINT64_MAX;
	struct timespec left;
	int bits;
	for (;;) {
		int got = ppoll(p, count, ts, mask);
		bits = got;
		for (nfds_t i = 0; i < count && got > 0; i++)
			if (p[i].revents & POLLNVAL && p[i].fd >= 0) {
				errno = EBADF;
				bits = got = -1;
			}
		if (got < 0)
			break;
		bits = 0;
		for (nfds_t i = 0; i < count; i++)
			bits += selected(p[i], POLLIN) + selected(p[i], POLLOUT) + selected(p[i], POLLPRI);
		if (bits || !got)
			break;
		/* an end or an error, which poll tells unasked and select counts for other sets: without those */
		for (nfds_t i = 0; i < count; i++)
			if (p[i].revents)
				p[i].fd = -1;
		uint64_t now = ts ? now_ns() : 0, rest = now < deadline ? deadline - now : 0;
		left = (struct timespec){rest / 1000000000, rest % 1000000000};
		ts = ts ? &left : NULL;
	}
	if (bits >= 0) {
		size_t bytes = (n + 8 * sizeof(long) - 1) / (8 * sizeof(long)) * sizeof(long);
		if (r)
			memset(r, 0, bytes);
		if (w)
			memset(w, 0, bytes);
		if (e)
			memset(e, 0, bytes);
		for (nfds_t i = 0; i < count; i++) {
			if (selected(p[i], POLLIN))
				put_set(r, p[i].fd);
			if (selected(p[i], POLLOUT))
				put_set(w, p[i].fd);
			if (selected(p[i], POLLPRI))
				put_set(e, p[i].fd);
		}
	}
	if (p != room) {
		int saved = errno;
		munmap(p, count * sizeof(*p));
		errno = saved;
	}
	return bits;
}

/* Programs that say select(getdtablesize(), ...) with an fd_set of 1024 bits live by the kernel's cutting n down to the
 * size of the descriptor table. Our own high numbers make that table long: n is cut down to what the program's own
 * numbers would have made it. */
static int own_size(int n)
{
	if (n <= FD_SETSIZE || !memory_use->own_fds)
		return n;
	int highest = FD_SETSIZE - 1, saved = errno;
	char text[4096];
	int dir = quiet_open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return n;
	long got;
	while ((got = real.syscall(SYS_getdents64, dir, text, sizeof(text))) > 0)
		for (long at = 0; at < got;) {
			struct dirent64 *e = (struct dirent64 *)(text + at);
			int fd = e->d_name[0] >= '0' && e->d_name[0] <= '9' ? atoi(e->d_name) : -1;
			if (fd > highest && fd != dir && fdtab_get(fd) != FD_OWN)
				highest = fd;
			at += e->d_reclen;
		}
	quiet_close(dir);
	errno = saved;
	int size = (highest / FD_SETSIZE + 1) * FD_SETSIZE;
	return n < size ? n : size;
}

EXPORT int select(int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *tv)
{
	ENSURE_REAL();
	n = own_size(n);
	if (!any_lane(n, r, w, e) || (tv && (tv->tv_sec < 0 || tv->tv_usec < 0)))
		return real.select(n, r, w, e, tv);
	uint64_t begin = now_ns();
	struct timespec ts;
	if (tv)
		ts = (struct timespec){tv->tv_sec + tv->tv_usec / 1000000, tv->tv_usec % 1000000 * 1000};
	int got = by_poll(n, r, w, e, tv ? &ts : NULL, NULL);
	if (tv) { /* Linux writes back what is left */
		uint64_t all = ts_ns(&ts), gone = now_ns() - begin, left = gone < all ? all - gone : 0;
		tv->tv_sec = left / 1000000000;
		tv->tv_usec = left % 1000000000 / 1000;
	}
	return got;
}

EXPORT int pselect(int n, fd_set *r, fd_set *w, fd_set *e, const struct timespec *ts, const sigset_t *mask)
{
	ENSURE_REAL();
	n = own_size(n);
	if (!any_lane(n, r, w, e) || (ts && (ts->tv_sec < 0 || ts->tv_nsec < 0 || ts->tv_nsec > 999999999)))
		return real.pselect(n, r, w, e, ts, mask);
	return by_poll(n, r, w, e, ts, mask);
}
