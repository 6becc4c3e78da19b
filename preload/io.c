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

/* Steps that a data call makes on the way from a plain connection to a lane. */
static void advance(struct sock *s, int fd, bool receiving)
{
	uint32_t calls = TICK(s->calls), stage = atomic_load_explicit(&s->stage, memory_order_acquire);
	/* the second read that brought bytes: a short connection ends with one that brings none, and pays no more than this */
	if (stage == SOCK_ACCEPTED && (calls < s->offer_at || (options.promote == PROMOTE_EAGER ? !receiving : s->reads < 2)))
		return;
	int saved = errno, quiet = quiet_begin();
	switch (stage) {
	case SOCK_ACCEPTED: {
		uint32_t one = 0;
		if (!atomic_compare_exchange_strong(&s->opening, &one, 1))
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
	stage = atomic_load_explicit(&s->stage, memory_order_acquire);
	/* The acceptor opens its gate with the offer: the connector's first write after taking it can be promoted. Where
	 * agreeing failed (another holder, a call inside) it is tried again now and then. */
	if ((stage == SOCK_OFFERED || stage == SOCK_BOUND) && s->slot->rx.mode == MODE_KERNEL &&
	    (s->agree_tries < 4 || (calls & 15) == 0)) {
		s->agree_tries++;
		switch_agree(s, fd, receiving);
	}
	quiet_end(quiet);
	errno = saved;
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
			t->tx.asked_back = !t->fin_seen && !t->never; /* a reader that asks never takes a lane again */
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
	if (!t || !slot_lane(t) || !s->link)
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
