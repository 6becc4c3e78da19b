#include "preload/io_inner.h"
#include "preload/lane/lane.h"
#include "preload/link/link.h"
#include "preload/link/ring.h"
#include "preload/quiet.h"
#include "preload/real.h"
#include "preload/relay.h"
#include "preload/state.h"
#include "preload/stats/stats.h"
#include "preload/switch.h"
#include "preload/wait/waitset.h"
#include "preload/wait/waker.h"

#include <errno.h>
#include <limits.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>

#define LOOK_EVERY 8 /* would-blocks between looks at the kernel */

/* The kernel's own receive into the first max bytes from c on. */
static ssize_t kernel_receive(int fd, const struct iov_cursor *c, size_t max, int flags)
{
	struct iov_cursor at = *c;
	size_t done = 0;
	for (;;) {
		struct iovec part[16];
		size_t n = 0, asked = 0;
		for (size_t i = 0; i < at.n && n < 16 && done + asked < max; i++) {
			size_t skip = i ? 0 : at.at, room = at.iov[i].iov_len - skip, left = max - done - asked;
			if (!room)
				continue;
			part[n].iov_base = (uint8_t *)at.iov[i].iov_base + skip;
			part[n].iov_len = room < left ? room : left;
			asked += part[n++].iov_len;
		}
		struct msghdr m = {.msg_iov = part, .msg_iovlen = n};
		ssize_t r = quiet_recvmsg(fd, &m, (flags & (MSG_PEEK | MSG_TRUNC)) | MSG_DONTWAIT);
		if (r > 0)
			done += r;
		if (r < (ssize_t)asked || done >= max || flags & (MSG_PEEK | MSG_TRUNC))
			return done ? (ssize_t)done : r < 0 ? -errno : r;
		iov_advance(&at, r);
	}
}

/* The writer's slot of the generation that comes after gen, where it is published. */
static bool slot_of(struct link_dir *d, uint32_t gen, uint64_t *ret_x, uint32_t *ret_mlen)
{
	struct link_slot *slot = &d->slot[gen & 1];
	/* acquire: x and mlen belong to the generation; it is looked at again, so that both are of one promotion */
	if (atomic_load_explicit(&slot->gen, memory_order_acquire) != gen)
		return false;
	*ret_x = atomic_load_explicit(&slot->x, memory_order_acquire);
	*ret_mlen = atomic_load_explicit(&slot->mlen, memory_order_acquire);
	return *ret_x != OFFSET_NONE && atomic_load_explicit(&slot->gen, memory_order_acquire) == gen;
}

bool io_promoted(struct slot *t)
{
	uint64_t x;
	uint32_t mlen;
	return slot_of(rx_dir(t), t->rx.gen + 1, &x, &mlen);
}

static bool at_marker(struct slot *t)
{
	uint64_t x;
	uint32_t mlen;
	return slot_of(rx_dir(t), t->rx.gen + 1, &x, &mlen) && t->rx.consumed >= x;
}

/* Takes marker bytes that are ahead in the kernel: at most the queued bytes that SIOCINQ said before x and mlen were
 * loaded (of those, while mlen was not known, none can be younger than the marker). True: all of it is behind us. */
static bool take_marker(struct slot *t, int fd, uint64_t x, uint32_t mlen, int queued)
{
	uint8_t bytes[MARKER_SIZE];
	uint64_t have = t->rx.consumed - x;
	uint32_t end = mlen && mlen <= MARKER_SIZE ? mlen : MARKER_SIZE;
	if (have < end && queued > 0) {
		ssize_t r =
		    quiet_recv(fd, bytes, end - have < (uint64_t)queued ? end - have : (uint64_t)queued, MSG_DONTWAIT);
		if (r > 0) {
			if (memcmp(bytes, slot_lane(t)->marker + have, r))
				log_message(LOG_ERROR, "marker of connection fd %d differs: offsets disagree", fd);
			t->rx.consumed += r;
			t->rx.markers += r;
			have += r;
		}
	}
	return mlen && have >= mlen;
}

/* No honest writer leaves these words while kernel bytes behind the marker are there: mlen is stored before any. */
static bool marker_lies(struct slot *t)
{
	uint64_t x;
	uint32_t mlen;
	return !slot_of(rx_dir(t), t->rx.gen, &x, &mlen) || mlen > MARKER_SIZE ||
	       (!mlen && t->rx.consumed - x >= MARKER_SIZE);
}

bool io_demoted(struct slot *t)
{
	struct link_dir *d = rx_dir(t);
	uint64_t x;
	uint32_t mlen;
	if (atomic_load(&d->slot[t->rx.gen & 1].p) == OFFSET_NONE)
		return false;
	/* the rest of a marker that is still to come: the kernel says when; p is stored after mlen */
	return t->rx.marker_done || !slot_of(d, t->rx.gen, &x, &mlen) || !mlen || mlen > MARKER_SIZE ||
	       t->rx.consumed - x >= mlen;
}

/* The kernel socket under a lane, with nothing in the ring: -EAGAIN nothing there, 0 the end, 1 bytes, -errno. */
static int look_kernel(struct sock *s, int fd)
{
	struct slot *t = s->slot;
	uint64_t x;
	uint32_t mlen;
	uint8_t byte;
	atomic_store_explicit(&s->looks, 0, memory_order_relaxed);
	if (!t->rx.marker_done) {
		int queued = 0;
		real.ioctl(fd, SIOCINQ, &queued); /* before the slot is looked at */
		if (slot_of(rx_dir(t), t->rx.gen, &x, &mlen))
			t->rx.marker_done = take_marker(t, fd, x, mlen, queued);
	}
	ssize_t r = quiet_recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
	if (r < 0 && errno == EAGAIN)
		s->kernel_events &= ~(EPOLLIN);
	if (r > 0 && !t->rx.marker_done)
		return marker_lies(t) ? -ECONNRESET
				      : -EAGAIN; /* a part of the marker that came late, or mlen is not known yet */
	return r > 0 ? 1 : r == 0 ? 0 : -errno;
}

/* Is what the kernel reported still so? Else it is latched no more. */
static bool still(struct sock *s, short events, uint32_t latched)
{
	int saved = errno;
	struct pollfd p = {s->fd, events, 0}; /* a look by recv would take the error of a reset away */
	bool nothing = quiet_poll(&p, 1) <= 0 || !(events == POLLPRI ? p.revents & POLLPRI : p.revents);
	if (nothing)
		s->kernel_events &= ~latched;
	errno = saved;
	return !nothing;
}

bool io_kernel_bytes(struct sock *s)
{
	return still(s, POLLIN | POLLRDHUP, EPOLLIN);
}

bool io_kernel_urgent(struct sock *s)
{
	return still(s, POLLPRI, EPOLLPRI);
}

/* FIN on the kernel socket, ring drained. */
static ssize_t at_end(struct sock *s)
{
	struct slot *t = s->slot;
	struct link_dir *in = rx_dir(t);
	bool first = !atomic_exchange(&t->fin_seen, 1);
	stats_row_update(s);
	/* No end mark: the peer is dead, or was shut down past it, and must hear so from the kernel when it writes. */
	if (first && !atomic_load(&in->end))
		atomic_fetch_or(&in->head, 1);
	if (first && !atomic_load(&in->end) && t->tx.mode == MODE_LANE && !t->rx.shut) {
		/* No end mark: the peer died, or closed with our bytes unread; then TCP would have sent RST. */
		size_t unread = ring_unread(tx_ring(t));
		if (unread && unread != SIZE_MAX)
			return -ECONNRESET;
	}
	return 0;
}

/* The kernel says an error once; one that came before its turn, or that no call had room for, is kept. */
static int error_kept(struct slot *t)
{
	return unlikely(atomic_load_explicit(&t->error, memory_order_relaxed)) ? atomic_exchange(&t->error, 0) : 0;
}

/* Is more there than a receive has just taken? A short one says that all was taken (epoll(7); libuv takes one with
 * EPOLLHUP for the end of the stream), whichever way the parts came. Nothing here asks the kernel for an error, which
 * it tells once. */
static bool more_ahead(struct slot *t, int fd)
{
	uint64_t x;
	uint32_t mlen;
	int queued;
	if (t->rx.mode == MODE_LANE && ring_unread(rx_ring(t)))
		return true;
	if (t->rx.mode == MODE_AGREED
		? !at_marker(t)
		: t->rx.mode != MODE_LANE || atomic_load(&rx_dir(t)->slot[t->rx.gen & 1].p) == OFFSET_NONE)
		return false;
	if (real.ioctl(fd, SIOCINQ, &queued) < 0 || queued <= 0)
		return false;
	if (t->rx.mode == MODE_AGREED || t->rx.marker_done)
		return true;
	t->rx.marker_done = slot_of(rx_dir(t), t->rx.gen, &x, &mlen) && take_marker(t, fd, x, mlen, queued);
	return t->rx.marker_done && !real.ioctl(fd, SIOCINQ, &queued) && queued > 0;
}

static size_t lane_peek(struct slot *t, struct iov_cursor *c, size_t n, int flags)
{
	size_t unread = flags & MSG_TRUNC ? ring_unread(rx_ring(t)) : 0; /* counted only: the buffer is left alone */
	return flags & MSG_TRUNC ? (unread == SIZE_MAX ? 0 : unread < n ? unread : n) : ring_copy(rx_ring(t), c, 0, n);
}

/* One attempt under the rx lock. *ret_look: nothing there, and the kernel was looked at. */
static ssize_t receive_once(struct sock *s, int fd, struct iov_cursor *c, size_t n, int flags, bool look)
{
	struct slot *t = s->slot;
	struct link_dir *d = rx_dir(t);
	uint64_t x;
	uint32_t mlen;
	if (unlikely(t->rx.orphaned)) {
		/* The holder that was killed may have taken kernel bytes, the marker perhaps, and not said so. */
		uint64_t consumed;
		if (switch_consumed(fd, &consumed)) {
			t->rx.consumed = consumed;
			t->rx.orphaned = 0;
		}
	}
	for (;;) {
		if (t->rx.mode == MODE_KERNEL)
			return USE_KERNEL;
		if (t->rx.mode == MODE_AGREED) {
			int queued = 0;
			bool final = switch_rx_final(t); /* before the slot: what is not published then never will be */
			/* First what is queued, then the slot: whatever of that is marker was published before. */
			if (real.ioctl(fd, SIOCINQ, &queued) < 0)
				return -errno;
			bool published = slot_of(d, t->rx.gen + 1, &x, &mlen);
			if (final && !published) {
				atomic_fetch_or(&d->head, 1);
				atomic_store(&t->rx.mode, MODE_KERNEL);
				t->rx.reason = REASON_PEER_ASKED;
				stats_row_update(s);
				waitset_modes_changed(s, true);
				return USE_KERNEL;
			}
			if (published && t->rx.consumed >= x) {
				if (queued <= 0 && t->rx.consumed == x)
					goto kernel_end; /* a writer that was killed before its marker */
				t->rx.gen++;
				t->rx.marker_done = take_marker(t, fd, x, mlen, queued);
				s->kernel_events &= ~EPOLLIN; /* it was the marker's */
				atomic_store(&t->rx.mode, MODE_LANE);
				t->rx.reason = REASON_NONE;
				stats_row_update(s);
				waitset_modes_changed(s, true);
				if (!alone()) /* threads that wait for the marker in the kernel: it has been taken */
					waker_poke_words(atomic_load(&slot_lane(t)->end[t->side].waiters));
				continue;
			}
			if (queued > 0) {
				uint64_t most = published && x - t->rx.consumed < (uint64_t)queued ? x - t->rx.consumed
												   : (uint64_t)queued;
				ssize_t r = kernel_receive(fd, c, most < n ? most : n, flags);
				if (r > 0 && !(flags & MSG_PEEK))
					t->rx.consumed += r;
				if (r > 0 && !(flags & MSG_TRUNC))
					iov_advance(c, r);
				if (r > 0 && flags & MSG_PEEK && (size_t)r < n && published &&
				    t->rx.consumed + r == x && queued > r)
					r += lane_peek(t, c, n - r, flags); /* a peek sees both parts */
				return r;
			}
		kernel_end:;
			uint8_t byte;
			int kept = error_kept(t);
			if (kept)
				return -kept;
			ssize_t r = quiet_recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
			if (r > 0) {
				if (real.ioctl(fd, SIOCINQ, &queued) < 0 || queued > 0)
					continue;
				/* A byte that SIOCINQ does not count: the urgent mark. Offsets mean nothing from here
				 * on. */
				t->never = REASON_URGENT;
				atomic_fetch_or(&d->head, 1);
				if (slot_of(d, t->rx.gen + 1, &x, &mlen) || ring_unread(rx_ring(t)))
					return -EIO; /* nobody promotes after MSG_OOB: not ours */
				atomic_store(&t->rx.mode, MODE_KERNEL);
				t->rx.reason = REASON_URGENT;
				stats_row_update(s);
				waitset_modes_changed(s, true);
				return USE_KERNEL;
			}
			if (r == 0)
				atomic_store(&t->fin_seen, 1);
			return r == 0 ? 0 : -errno;
		}
		ssize_t got = lane_take(s, c, n, flags);
		if (got > 0 && flags & MSG_PEEK && (size_t)got < n && t->rx.marker_done && io_demoted(t) &&
		    ring_unread(rx_ring(t)) == (size_t)got) {
			ssize_t k = kernel_receive(fd, c, n - got, flags);
			return k > 0 ? got + k : got; /* a peek sees both parts here too */
		}
		if (got)
			return got == -EIO ? -ECONNRESET : got;
		/* Nothing in the ring. Has the writer gone back to the kernel? */
		struct link_slot *slot = &d->slot[t->rx.gen & 1];
		uint64_t p = atomic_load(&slot->p);
		if (p != OFFSET_NONE) {
			if (ring_unread(rx_ring(t)))
				continue; /* bytes below p came before it */
			int k = t->rx.marker_done ? 1 : look_kernel(s, fd);
			if (!t->rx.marker_done) {
				if (!slot_of(d, t->rx.gen, &x, &mlen) || !mlen || mlen > MARKER_SIZE)
					return -ECONNRESET; /* p is stored after mlen: the peer's words make no sense */
				if (k != -EAGAIN)
					atomic_store(&t->fin_seen, 1);
				return k; /* the rest of the marker is still to come, or never will */
			}
			atomic_store(&t->rx.mode, MODE_AGREED);
			t->rx.reason = REASON_WAITING_WRITE;
			stats_row_update(s);
			waitset_modes_changed(s, true);
			atomic_store(&d->ack, t->rx.gen); /* now he may promote again */
			continue;
		}
		if (t->rx.shut)
			return 0;
		int kept = error_kept(t);
		if (kept)
			return -kept;
		if (!look && !atomic_load(&d->end) && !s->kernel_events && TICK(s->looks) < LOOK_EVERY)
			return -EAGAIN;
		bool marked = atomic_load(&d->end);
		int r = look_kernel(s, fd);
		if (r == -EAGAIN) {
			if (marked)
				atomic_store_explicit(&t->rx.end_early, 1, memory_order_relaxed);
			return r;
		}
		/* The peer's bytes were in the ring before its system call: look once more. */
		if (ring_unread(rx_ring(t)) || atomic_load(&slot->p) != OFFSET_NONE) {
			if (r < 0)
				atomic_store(&t->error, -r); /* comes after them, and the kernel says it once */
			continue;
		}
		if (r == 0)
			return at_end(s);
		if (r < 0) {
			atomic_store(&t->fin_seen, 1);
			return r;
		}
		/* Bytes past the library: a raw system call, or another holder. They were written after X. */
		ssize_t k = kernel_receive(fd, c, n, flags);
		if (k > 0 && !(flags & MSG_PEEK))
			t->rx.consumed += k;
		if (k > 0 && !(flags & MSG_TRUNC))
			iov_advance(c, k);
		return k;
	}
}

ssize_t io_receive(struct sock *s, int fd, const struct iovec *iov, size_t n_iov, int flags)
{
	struct slot *t = s->slot;
	size_t total = iov_total(iov, n_iov), done = 0;
	struct iov_cursor c = {iov, n_iov, 0};
	uint64_t deadline = 0;
	uint32_t norestart = self_thread.signals_norestart;
	bool look = false;
	if (flags & (MSG_OOB | MSG_ERRQUEUE)) {
		ssize_t r = real.recv(fd, n_iov ? iov[0].iov_base : NULL, n_iov ? iov[0].iov_len : 0, flags);
		return r < 0 ? -errno : r;
	}
	if (!total) { /* as the kernel does it: waits for a byte, and leaves it there */
		uint8_t byte;
		struct iovec one = {&byte, 1};
		ssize_t r = io_receive(s, fd, &one, 1, (flags & ~(MSG_WAITALL | MSG_TRUNC)) | MSG_PEEK);
		return r > 0 ? 0 : r;
	}
	if (unlikely(atomic_load_explicit(&t->rx.guests, memory_order_relaxed)))
		relay_settle(t);
	size_t low = s->lowat ? s->lowat : 1, want = flags & MSG_WAITALL || low > total ? total : low;
	for (;;) {
		bool locked = lock_dir(s, &t->rx);
		if (flags & MSG_PEEK)
			c = (struct iov_cursor){iov, n_iov, 0}, done = 0;
		ssize_t r = receive_once(s, s->fd, &c, total - done, flags, look);
		/* under the same lock: between the parts no other thread takes any */
		while (r > 0 && done + r < total && !(flags & MSG_PEEK) && more_ahead(t, s->fd)) {
			ssize_t more = receive_once(s, s->fd, &c, total - done - r, flags, false);
			if (more == USE_KERNEL)
				more = kernel_receive(s->fd, &c, total - done - r, flags);
			if (more <= 0)
				break;
			r += more;
		}
		bool fin_new = t->fin_seen && t->tx.mode == MODE_LANE;
		unlock_dir(&t->rx, locked);
		if (fin_new) {
			/* Whoever sees FIN demotes what it sends: the kernel then says what a dead peer means. */
			locked = lock_dir(s, &t->tx);
			if (t->tx.mode == MODE_LANE)
				switch_demote(s);
			unlock_dir(&t->tx, locked);
		}
		if (r == USE_KERNEL)
			return done ? (ssize_t)done : r;
		if (r == 0)
			return done;
		if (r > 0) {
			done += r;
			if (done >= want || flags & MSG_DONTWAIT || t->nonblock)
				return done;
			if (!(flags & MSG_PEEK))
				continue;
			/* peeking until all is there: nothing tells of bytes beyond those that are readable already */
			struct timespec pause = {0, 500000};
			if (real.ppoll(NULL, 0, &pause, NULL) < 0 && self_thread.signals_norestart != norestart)
				return done;
			continue;
		} else if (r != -EAGAIN) {
			if (done)
				atomic_store(&t->error, (int)-r); /* for the next call */
			return done ? (ssize_t)done : r;
		} else if (done >= want || flags & MSG_DONTWAIT || t->nonblock) {
			return done ? (ssize_t)done : r;
		}
		if (!deadline)
			deadline = timeout_of(t, s->fd, SO_RCVTIMEO);
		look = false;
		if (self_thread.signals_norestart != norestart)
			return done ? (ssize_t)done
				    : -EINTR; /* it came before the wait: the kernel would not begin one */
		int w = wait_sock(s, s->fd, EPOLLIN, deadline, &look);
		if (w == -ETIMEDOUT)
			return done ? (ssize_t)done : -EAGAIN;
		if (w == -EINTR && (self_thread.signals_norestart != norestart || deadline != UINT64_MAX))
			return done ? (ssize_t)done : -EINTR;
	}
}

long io_readable_bytes(struct sock *s, int fd)
{
	struct slot *t = s->slot;
	uint64_t x;
	uint32_t mlen;
	int queued = 0;
	if (!t || t->rx.mode == MODE_KERNEL)
		return -1;
	bool locked = lock_dir(s, &t->rx);
	long n = 0;
	if (real.ioctl(fd, SIOCINQ, &queued) < 0)
		queued = 0;
	uint32_t gen = t->rx.mode == MODE_LANE ? t->rx.gen : t->rx.gen + 1;
	bool published = slot_of(rx_dir(t), gen, &x, &mlen);
	if (t->rx.mode == MODE_LANE) {
		n = ring_unread(rx_ring(t));
		if (!t->rx.marker_done && published && queued) {
			uint64_t left = x + (mlen ? mlen : MARKER_SIZE) - t->rx.consumed;
			queued = left < (uint64_t)queued ? queued - (int)left : 0;
		}
		n += queued;
	} else if (published && x - t->rx.consumed < (uint64_t)queued) {
		n = x - t->rx.consumed + ring_unread(rx_ring(t)); /* the marker is there: what is in the ring counts */
	} else {
		n = queued;
	}
	unlock_dir(&t->rx, locked);
	return n;
}
