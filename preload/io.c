#include "preload/io.h"
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
#include <sys/time.h>

/* Counts on; one that is lost between threads does not matter. */
#define TICK(count) ({ \
	uint32_t ticked_ = atomic_load_explicit(&(count), memory_order_relaxed) + 1; \
	atomic_store_explicit(&(count), ticked_, memory_order_relaxed); \
	ticked_; })
#define LOOK_EVERY 8 /* would-blocks between looks at the kernel */

/* A slot that no other process and no other thread uses needs no lock. */
static bool lock_dir(struct sock *s, struct slot_dir *d)
{
	critical_enter();
	if (likely(alone())) {
		if (likely(s->solo))
			return false;
		if ((TICK(s->looks) & 255) == 0 && slot_sole(s->slot))
			s->solo = 1; /* the children that held it have gone */
	}
	dir_lock(d);
	return true;
}

static void unlock_dir(struct slot_dir *d, bool locked)
{
	if (locked)
		dir_unlock(d);
	critical_leave();
}

/* Steps that a data call makes on the way from a plain connection to a lane. */
static void advance(struct sock *s, int fd, bool receiving)
{
	uint32_t calls = TICK(s->calls);
	int quiet = quiet_begin();
	switch (atomic_load_explicit(&s->stage, memory_order_acquire)) {
	case SOCK_ACCEPTED: {
		uint32_t one = 0;
		/* the second read that brought bytes: a short connection ends with one that brings none */
		if ((options.promote == PROMOTE_EAGER ? !receiving : s->reads < 2) ||
		    !atomic_compare_exchange_strong(&s->opening, &one, 1))
			break;
		if (s->forked && !s->slot) {
			sock_plain(s, REASON_HOLDERS); /* forked before anybody counted who holds it */
			break;
		}
		/* short connections end before this: they never pay for a slot and a look-up */
		if (s->slot || sock_slot(s, fd, ROLE_ACCEPT, &s->at))
			switch_offer(s, fd);
		atomic_store(&s->opening, 0);
		break;
	}
	case SOCK_SETTLED:
		if (calls == 2)
			sock_plain(s, s->reason);
		break;
	case SOCK_OFFERED:
		switch_answered(s);
		break;
	case SOCK_PUBLISHED:
		switch_look(s);
		break;
	default:
		break;
	}
	uint32_t stage = atomic_load_explicit(&s->stage, memory_order_acquire);
	/* The acceptor opens its gate with the offer: the connector's first write after taking it can be promoted. Where
	 * agreeing failed (another holder, a call inside) it is tried again now and then. */
	if ((stage == SOCK_OFFERED || stage == SOCK_BOUND) && s->slot->rx.mode == MODE_KERNEL &&
	    (s->agree_tries < 4 || (calls & 15) == 0)) {
		s->agree_tries++;
		switch_agree(s, fd, receiving);
	}
	quiet_end(quiet);
}

bool io_rx_enter(struct sock *s, int fd)
{
	struct slot *t = s->slot;
	if (t && atomic_load_explicit(&t->rx.mode, memory_order_acquire) != MODE_KERNEL) {
		cancellation_point();
		return true;
	}
	advance(s, fd, true);
	inside_count(INSIDE_SOCK, &s->rx_inside); /* seq_cst: before the look at the mode (switch_agree looks the other way) */
	t = s->slot;
	if (!t || atomic_load(&t->rx.mode) == MODE_KERNEL)
		return false;
	io_rx_exit(s);
	return true;
}

bool io_tx_enter(struct sock *s, int fd)
{
	struct slot *t = s->slot;
	if (t && atomic_load_explicit(&t->tx.mode, memory_order_acquire) != MODE_KERNEL) {
		cancellation_point();
		return true;
	}
	advance(s, fd, false);
	t = s->slot;
	uint32_t stage = atomic_load_explicit(&s->stage, memory_order_acquire);
	if (t && (stage == SOCK_BOUND || stage == SOCK_OFFERED) && !head_gated(atomic_load(&tx_dir(t)->head)))
		return true; /* io_send tries to promote */
	inside_count(INSIDE_SOCK, &s->tx_inside);
	if (!t || atomic_load(&t->tx.mode) == MODE_KERNEL)
		return false;
	io_tx_exit(s);
	return true;
}

static size_t iov_total(const struct iovec *iov, size_t n)
{
	size_t total = 0;
	for (size_t i = 0; i < n; i++)
		total += iov[i].iov_len;
	return total < SSIZE_MAX ? total : SSIZE_MAX;
}

/* The kernel's own receive into the first max bytes from c on. */
static ssize_t kernel_receive(int fd, const struct iov_cursor *c, size_t max, int flags)
{
	struct iovec part[16];
	size_t n = 0, left = max;
	for (size_t i = 0; i < c->n && n < 16 && left; i++) {
		size_t skip = i ? 0 : c->at;
		part[n].iov_base = (uint8_t *)c->iov[i].iov_base + skip;
		part[n].iov_len = c->iov[i].iov_len - skip < left ? c->iov[i].iov_len - skip : left;
		left -= part[n++].iov_len;
	}
	struct msghdr m = {.msg_iov = part, .msg_iovlen = n};
	ssize_t r = quiet_recvmsg(fd, &m, (flags & (MSG_PEEK | MSG_TRUNC)) | MSG_DONTWAIT);
	return r < 0 ? -errno : r;
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
static bool take_marker(struct sock *s, int fd, uint64_t x, uint32_t mlen, int queued)
{
	struct slot *t = s->slot;
	uint8_t bytes[MARKER_SIZE];
	uint64_t have = t->rx.consumed - x;
	uint32_t end = mlen && mlen <= MARKER_SIZE ? mlen : MARKER_SIZE;
	if (have < end && queued > 0) {
		ssize_t r = quiet_recv(fd, bytes, end - have < (uint64_t)queued ? end - have : (uint64_t)queued, MSG_DONTWAIT);
		if (r > 0) {
			if (memcmp(bytes, t->lane->marker + have, r))
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
	return !slot_of(rx_dir(t), t->rx.gen, &x, &mlen) || mlen > MARKER_SIZE || (!mlen && t->rx.consumed - x >= MARKER_SIZE);
}

bool io_demoted(struct slot *t)
{
	struct link_dir *d = rx_dir(t);
	uint64_t x;
	uint32_t mlen;
	if (atomic_load(&d->slot[t->rx.gen & 1].p) == OFFSET_NONE)
		return false;
	/* the rest of a marker that is still to come: the kernel says when; p is stored after mlen */
	return t->rx.marker_done || !slot_of(d, t->rx.gen, &x, &mlen) || !mlen || mlen > MARKER_SIZE || t->rx.consumed - x >= mlen;
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
			t->rx.marker_done = take_marker(s, fd, x, mlen, queued);
	}
	ssize_t r = quiet_recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
	if (r < 0 && errno == EAGAIN)
		s->kernel_events &= ~(EPOLLIN);
	if (r > 0 && !t->rx.marker_done)
		return marker_lies(t) ? -ECONNRESET : -EAGAIN; /* a part of the marker that came late, or mlen is not known yet */
	return r > 0 ? 1 : r == 0 ? 0 : -errno;
}

bool io_kernel_bytes(struct sock *s)
{
	uint8_t byte;
	int saved = errno;
	ssize_t r = quiet_recv(s->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
	bool nothing = r < 0 && errno == EAGAIN;
	if (nothing)
		s->kernel_events &= ~EPOLLIN;
	errno = saved;
	return !nothing;
}

/* FIN on the kernel socket, ring drained. */
static ssize_t at_end(struct sock *s)
{
	struct slot *t = s->slot;
	struct link_dir *in = rx_dir(t);
	bool first = !atomic_exchange(&t->fin_seen, 1);
	stats_row_update(s);
	if (first && !atomic_load(&in->end) && t->tx.mode == MODE_LANE && !t->rx.shut) {
		/* No end mark: the peer died, or closed with our bytes unread; then TCP would have sent RST. */
		size_t unread = ring_unread(tx_ring(t));
		if (unread && unread != SIZE_MAX)
			return -ECONNRESET;
	}
	return 0;
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
			/* First what is queued, then the slot: whatever of that is marker was published before. */
			if (real.ioctl(fd, SIOCINQ, &queued) < 0)
				return -errno;
			bool published = slot_of(d, t->rx.gen + 1, &x, &mlen);
			if (published && t->rx.consumed >= x) {
				if (queued <= 0 && t->rx.consumed == x)
					goto kernel_end; /* a writer that was killed before its marker */
				t->rx.gen++;
				t->rx.marker_done = take_marker(s, fd, x, mlen, queued);
				s->kernel_events &= ~EPOLLIN; /* it was the marker's */
				atomic_store(&t->rx.mode, MODE_LANE);
				t->rx.reason = REASON_NONE;
				stats_row_update(s);
				waitset_modes_changed(s, true);
				if (!alone()) /* threads that wait for the marker in the kernel: it has been taken */
					waker_poke_words(atomic_load(&t->lane->end[t->side].waiters));
				continue;
			}
			if (queued > 0) {
				uint64_t most = published && x - t->rx.consumed < (uint64_t)queued ? x - t->rx.consumed : (uint64_t)queued;
				ssize_t r = kernel_receive(fd, c, most < n ? most : n, flags);
				if (r > 0 && !(flags & MSG_PEEK))
					t->rx.consumed += r;
				if (r > 0 && !(flags & MSG_TRUNC))
					iov_advance(c, r);
				if (r > 0 && flags & MSG_PEEK && (size_t)r < n && published && t->rx.consumed + r == x && queued > r)
					r += ring_copy(rx_ring(t), c, 0, n - r); /* a peek sees both parts */
				return r;
			}
		kernel_end:;
			uint8_t byte;
			ssize_t r = quiet_recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
			if (r > 0) {
				if (real.ioctl(fd, SIOCINQ, &queued) < 0 || queued > 0)
					continue;
				/* A byte that SIOCINQ does not count: the urgent mark. Offsets mean nothing from here on. */
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
		if (!look && !atomic_load(&d->end) && !s->kernel_events && TICK(s->looks) < LOOK_EVERY)
			return -EAGAIN;
		int r = look_kernel(s, fd);
		if (r == -EAGAIN)
			return r;
		/* The peer's bytes were in the ring before its system call: look once more. */
		if (ring_unread(rx_ring(t)) || atomic_load(&slot->p) != OFFSET_NONE)
			continue;
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

static uint64_t timeout_of(struct slot *t, int fd, int option)
{
	if (!(atomic_load_explicit(&t->timeouts, memory_order_relaxed) & (option == SO_RCVTIMEO ? 1 : 2)))
		return UINT64_MAX;
	struct timeval tv;
	socklen_t len = sizeof(tv);
	if (real.getsockopt(fd, SOL_SOCKET, option, &tv, &len) < 0 || (!tv.tv_sec && !tv.tv_usec))
		return UINT64_MAX;
	return now_ns() + tv.tv_sec * 1000000000ull + tv.tv_usec * 1000ull;
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
	if (!total)
		return 0;
	if (unlikely(atomic_load_explicit(&t->rx.guests, memory_order_relaxed)))
		relay_settle(t);
	size_t low = s->lowat ? s->lowat : 1, want = flags & MSG_WAITALL || low > total ? total : low;
	for (;;) {
		bool locked = lock_dir(s, &t->rx);
		if (flags & MSG_PEEK)
			c = (struct iov_cursor){iov, n_iov, 0}, done = 0;
		ssize_t r = receive_once(s, s->fd, &c, total - done, flags, look);
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
			if (done < total && !(flags & MSG_PEEK) && t->rx.mode == MODE_AGREED && at_marker(t))
				continue; /* the rest of what TCP would have queued in one piece is in the ring */
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
			return done ? (ssize_t)done : r;
		} else if (done >= want || flags & MSG_DONTWAIT || t->nonblock) {
			return done ? (ssize_t)done : r;
		}
		if (!deadline)
			deadline = timeout_of(t, s->fd, SO_RCVTIMEO);
		look = false;
		if (self_thread.signals_norestart != norestart)
			return done ? (ssize_t)done : -EINTR; /* it came before the wait: the kernel would not begin one */
		int w = wait_sock(s, s->fd, EPOLLIN, deadline, &look);
		if (w == -ETIMEDOUT)
			return done ? (ssize_t)done : -EAGAIN;
		if (w == -EINTR && (self_thread.signals_norestart != norestart || deadline != UINT64_MAX))
			return done ? (ssize_t)done : -EINTR;
	}
}

ssize_t io_send(struct sock *s, int fd, const struct iovec *iov, size_t n_iov, int flags)
{
	struct slot *t = s->slot;
	size_t total = iov_total(iov, n_iov), done = 0;
	struct iov_cursor c = {iov, n_iov, 0};
	uint64_t deadline = 0;
	uint32_t norestart = self_thread.signals_norestart;
	for (;;) {
		bool locked = lock_dir(s, &t->tx);
		ssize_t r = 0;
		if (t->tx.mode == MODE_KERNEL) {
			size_t k = 0;
			if (!done) {
				inside_count(INSIDE_SOCK, &s->tx_inside);
				if (total)
					k = switch_promote(s, s->fd, &c, total);
				if (!k) {
					unlock_dir(&t->tx, locked);
					return USE_KERNEL_COUNTED;
				}
				io_tx_exit(s);
			}
			if (!k) {
				/* Demoted in the middle of this call: the rest goes by the kernel, whole as before. */
				unlock_dir(&t->tx, locked);
				inside_count(INSIDE_SOCK, &s->tx_inside);
				while (done < total) {
					struct iovec rest[16];
					size_t n = 0, asked = 0;
					for (size_t i = 0; i < c.n && n < 16; i++) {
						rest[n].iov_base = (uint8_t *)c.iov[i].iov_base + (i ? 0 : c.at);
						rest[n].iov_len = c.iov[i].iov_len - (i ? 0 : c.at);
						asked += rest[n++].iov_len;
					}
					struct msghdr m = {.msg_iov = rest, .msg_iovlen = n};
					r = real.sendmsg(s->fd, &m, flags); /* another thread may have closed fd */
					if (r > 0)
						done += r;
					if (r < (ssize_t)asked)
						break;
					iov_advance(&c, r);
				}
				io_tx_exit(s);
				return done;
			}
			r = k;
		} else if (t->tx.shut || atomic_load(&tx_dir(t)->end)) {
			r = -EPIPE;
		} else if (t->fin_seen || t->never || atomic_load_explicit(&tx_dir(t)->please, memory_order_relaxed)) {
			switch_demote(s);
			unlock_dir(&t->tx, locked);
			continue;
		} else if (total) {
			/* the lock is kept while there is room: the records of two threads do not mix, as in the kernel */
			size_t put = 0;
			while (done + put < total && (r = lane_put(s, &c, total - done - put)) > 0)
				put += r;
			if (put)
				r = put;
			if (r == -ESTALE) { /* gate closed */
				r = switch_gate_closed(s) ? 0 : -EAGAIN;
				if (t->tx.mode == MODE_KERNEL) {
					unlock_dir(&t->tx, locked);
					continue;
				}
			}
		}
		unlock_dir(&t->tx, locked);
		if (r < 0 && r != -EAGAIN) {
			if (r == -EPIPE && !(flags & MSG_NOSIGNAL) && !done)
				raise(SIGPIPE);
			return done ? (ssize_t)done : r;
		}
		if (r > 0)
			done += r;
		if (done >= total)
			return done;
		if (r > 0)
			continue; /* the ring may grow */
		if (flags & MSG_DONTWAIT || t->nonblock) {
			locked = lock_dir(s, &t->tx);
			bool gone = t->tx.mode == MODE_LANE && switch_peer_gone(s->fd);
			if (gone)
				switch_demote(s); /* the kernel says what a dead peer means */
			unlock_dir(&t->tx, locked);
			if (gone)
				continue;
			waitset_wants_room(s);
			return done ? (ssize_t)done : -EAGAIN;
		}
		if (!deadline)
			deadline = timeout_of(t, s->fd, SO_SNDTIMEO);
		bool look;
		if (self_thread.signals_norestart != norestart)
			return done ? (ssize_t)done : -EINTR;
		int w = wait_sock(s, s->fd, EPOLLOUT, deadline, &look);
		if (w == -ETIMEDOUT)
			return done ? (ssize_t)done : -EAGAIN;
		if (w == -EINTR && (self_thread.signals_norestart != norestart || deadline != UINT64_MAX))
			return done ? (ssize_t)done : -EINTR;
		if (look) {
			/* An event of the kernel socket while the ring is full: is the peer gone? */
			locked = lock_dir(s, &t->tx);
			if (t->tx.mode == MODE_LANE && switch_peer_gone(s->fd))
				switch_demote(s);
			unlock_dir(&t->tx, locked);
		}
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

long io_unsent_bytes(struct sock *s, int fd)
{
	struct slot *t = s->slot;
	if (!t || t->tx.mode != MODE_LANE)
		return -1;
	/* What TCP would have delivered into the other end's receive buffer counts as acknowledged. */
	size_t n = ring_unread(tx_ring(t)), buffered = tx_limit(t) / 2;
	return n == SIZE_MAX || n < buffered ? 0 : n - buffered;
}

int io_shutdown(struct sock *s, int fd, int how)
{
	struct slot *t = s->slot;
	critical_enter();
	dir_lock(&t->tx);
	bool lane = how != SHUT_RD && t->tx.mode == MODE_LANE;
	/* The end mark before the FIN, both inside the lock: a put looks at the mark inside it. */
	if (lane)
		atomic_store(&tx_dir(t)->end, 1);
	int r = real.shutdown(fd, how) < 0 ? -errno : 0;
	if (r == 0 && how != SHUT_RD)
		t->tx.shut = 1;
	if (lane)
		news_post(s->link, s->lane, t->side ^ 1);
	dir_unlock(&t->tx);
	if (r == 0 && how != SHUT_WR) {
		dir_lock(&t->rx);
		t->rx.shut = 1;
		dir_unlock(&t->rx);
	}
	critical_leave();
	stats_row_update(s);
	waitset_kick(s);
	return r;
}

bool io_close(struct sock *s, int fd)
{
	struct slot *t = s->slot;
	bool reset = false;
	/* without a link: forked while another thread was about to offer the lane or to give it back */
	if (!t || !t->lane || !s->link)
		return false;
	/* First the gate of what we receive: later bytes go by the kernel, which answers them with RST itself. */
	uint64_t head = atomic_fetch_or(&rx_dir(t)->head, 1);
	uint64_t tail = atomic_load(&rx_dir(t)->tail);
	if (t->rx.mode == MODE_LANE)
		reset = head_pos(head) > tail;
	else if (t->rx.mode == MODE_AGREED)
		reset = head_pos(head) > tail && !t->rx.shut;
	if (t->tx.mode == MODE_LANE && !reset)
		atomic_store(&tx_dir(t)->end, 1);
	news_post(s->link, s->lane, t->side ^ 1);
	return reset;
}
