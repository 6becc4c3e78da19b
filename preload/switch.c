#include "preload/quiet.h"
#include "preload/switch.h"
#include "preload/discover/owner.h"
#include "preload/discover/registry.h"
#include "preload/link/link.h"
#include "preload/real.h"
#include "preload/state.h"
#include "preload/stats/stats.h"
#include "preload/wait/waitset.h"
#include "preload/wait/waker.h"

#include <errno.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { TCP_TIME_WAIT = 6, TCP_CLOSE_WAIT = 8, TCP_LAST_ACK = 9, TCP_CLOSING = 11 }; /* net/tcp_states.h */

static bool tcp_info(int fd, struct tcp_info *ret)
{
	socklen_t len = sizeof(*ret);
	return real.getsockopt(fd, IPPROTO_TCP, TCP_INFO, ret, &len) == 0 &&
	       len >= offsetof(struct tcp_info, tcpi_bytes_received) + 8;
}

bool switch_offsets(struct sock *s, int fd, uint64_t *ret_written, uint64_t *ret_consumed)
{
	/* One pass is wrong in up to 1.5 % of samples under traffic: taken only when nothing moved meanwhile. */
	for (int i = 0; i < 4; i++) {
		struct tcp_info a, b;
		int out, in;
		if (!tcp_info(fd, &a) || a.tcpi_state != 1 /* ESTABLISHED */ || real.ioctl(fd, SIOCOUTQ, &out) < 0 ||
		    real.ioctl(fd, SIOCINQ, &in) < 0 || !tcp_info(fd, &b))
			return false;
		if (a.tcpi_bytes_acked != b.tcpi_bytes_acked || a.tcpi_bytes_received != b.tcpi_bytes_received ||
		    b.tcpi_state != 1)
			continue;
		*ret_written = a.tcpi_bytes_acked + out - s->slot->sent_syn;
		*ret_consumed = a.tcpi_bytes_received - in;
		return true;
	}
	return false;
}

bool switch_consumed(int fd, uint64_t *ret)
{
	for (int i = 0; i < 4; i++) {
		struct tcp_info a, b;
		int in;
		if (!tcp_info(fd, &a) || real.ioctl(fd, SIOCINQ, &in) < 0 || !tcp_info(fd, &b))
			return false;
		if (a.tcpi_bytes_received != b.tcpi_bytes_received || a.tcpi_state != b.tcpi_state)
			continue;
		/* a FIN that has arrived counts as a byte received, and SIOCINQ leaves it out */
		bool fin = b.tcpi_state == TCP_CLOSE_WAIT || b.tcpi_state == TCP_LAST_ACK || b.tcpi_state == TCP_CLOSING ||
			   b.tcpi_state == TCP_TIME_WAIT;
		*ret = a.tcpi_bytes_received - in - fin;
		return true;
	}
	return false;
}

static void set_reason(struct sock *s, enum reason why)
{
	log_message(LOG_DEBUG, "fd %d: %s", s->fd, reason_text(why));
	s->slot->tx.reason = s->slot->rx.reason = why;
	stats_row_update(s);
}

static void bind_lane(struct sock *s, int fd, struct link *l, uint32_t index, int side)
{
	struct link_lane *lane = &l->lane[index];
	s->link = l;
	s->lane = index;
	s->slot->side = side;
	*slot_place(s->slot) = (struct slot_place){lane, {link_area(l, index, 0), link_area(l, index, 1)}};
	atomic_store(&lane->end[side].pid, getpid());
	atomic_store(&lane->end[side].fd, fd);
	atomic_store(&lane->end[side].rcvbuf, s->slot->rcvbuf);
	own_lock(&links_lock);
	l->by_lane[index] = s;
	if (side == 1)
		l->lanes_open++; /* the acceptor's was counted by link_to */
	USE(lanes_bound, 1);
	own_unlock(&links_lock);
}

void switch_offer(struct sock *s, int fd)
{
	struct registry_hit hit;
	struct slot *t = s->slot;
	s->offer_at = 2 * s->calls; /* where it comes to nothing yet: a look and a connect at every read would cost */
	if (t->never || !slot_sole(t)) {
		stats_row_new(s, fd); /* it may stay so for as long as the other process lives: shown with its reason */
		set_reason(s, t->never ? t->never : REASON_HOLDERS);
		return;
	}
	if (!state_start(fd) || !active) { /* anew in a child and after a change of credentials: it may accept and connect no more */
		sock_plain(s, inactive_reason);
		return;
	}
	if (!registry_find(&t->peer, &t->local, &hit)) {
		if (s->reads) /* it has written: had it published, it would have done so before */
			sock_plain(s, REASON_PEER_PLAIN);
		return;
	}
	/* We are root and the entry is another user's: anybody can write names into a registry of his own. */
	if (hit.uid != geteuid() && hit.uid != 0 && !owner_is(&t->peer, &t->local, hit.uid)) {
		sock_plain(s, REASON_OTHER_USER);
		return;
	}
	struct link *l;
	uint32_t index;
	int r = link_to(&hit, &l, &index);
	if (r == -EAGAIN) { /* its backlog is full: later */
		stats_row_new(s, fd);
		return;
	}
	if (r < 0) {
		sock_plain(s, r == -EPERM ? REASON_OTHER_USER : r == -ENFILE ? REASON_NO_FDS : r == -ESRCH ? REASON_PEER_PLAIN :
										REASON_NO_MEMORY);
		return;
	}
	struct link_lane *lane = &l->lane[index];
	lane->token = hit.token;
	lane->entry = hit.entry;
	lane->acceptor = t->local;
	lane->connector = t->peer;
	for (int i = 0; i < 2; i++) {
		uint64_t nonce = random64();
		memcpy(lane->marker + 8 * i, &nonce, 8);
	}
	bind_lane(s, fd, l, index, 0);
	stats_row_new(s, fd);
	atomic_store_explicit(&lane->state, LANE_OFFERED, memory_order_release);
	uint32_t n = atomic_load_explicit(&l->header->offers, memory_order_relaxed);
	l->header->offer[n % LINK_LANES] = index;
	atomic_store_explicit(&l->header->offers, n + 1, memory_order_release); /* the lane before the offer */
	atomic_store(&s->stage, SOCK_OFFERED);
	set_reason(s, REASON_WAITING_PEER);
	registry_knock(&hit);
	log_message(LOG_DEBUG, "fd %d: lane %d of link %u offered", fd, index, l->serial);
	COUNT(offers_made, 1);
}

void switch_answered(struct sock *s)
{
	struct slot *t = s->slot;
	switch (atomic_load_explicit(&slot_lane(t)->state, memory_order_acquire)) {
	case LANE_BOUND:
		atomic_store(&s->stage, SOCK_BOUND);
		set_reason(s, REASON_WAITING_WRITE);
		break;
	case LANE_REFUSED: {
		uint32_t why = atomic_load(&slot_lane(t)->reason);
		sock_plain(s, why < REASON_COUNT && why ? why : REASON_PEER_ASKED);
		break;
	}
	default:
		break;
	}
}

static void refuse_gone(struct link *l, uint32_t index)
{
	uint32_t offered = LANE_OFFERED;
	atomic_store(&l->lane[index].reason, REASON_ENDED);
	atomic_compare_exchange_strong(&l->lane[index].state, &offered, LANE_REFUSED);
}

/* Connector: one offer. Its socket is found by the registry entry that the acceptor read; everything is compared
 * with our own socket before we agree. */
struct take {
	struct link *l;
	uint32_t index;
	bool done;
};

static void take_offer(struct sock *s, void *arg)
{
	struct take *k = arg;
	struct link_lane *lane = &k->l->lane[k->index];
	uint64_t w, c;
	if (k->done || atomic_load(&s->stage) != SOCK_PUBLISHED || (uint32_t)s->entry != lane->entry || s->token != lane->token)
		return;
	k->done = true;
	enum reason why = REASON_NONE;
	if (!s->slot && (s->forked || !sock_slot(s, s->fd, ROLE_CONNECT, &s->at))) {
		refuse_gone(k->l, k->index);
		return;
	}
	struct slot *t = s->slot;
	if (!addr_equal(&t->local, &lane->connector) || !addr_equal(&t->peer, &lane->acceptor))
		why = REASON_PEER_PLAIN;
	else if (k->l->uid != geteuid() && k->l->uid != 0 && !owner_is(&t->peer, &t->local, k->l->uid))
		why = REASON_OTHER_USER; /* our entry can be read by everybody: the offer must come from the other end's owner */
	else if (t->never)
		why = t->never;
	else if (!switch_offsets(s, s->fd, &w, &c))
		why = REASON_ENDED;
	registry_withdraw(s->entry);
	s->entry = -1;
	if (why) {
		atomic_store(&lane->reason, why);
		atomic_store_explicit(&lane->state, LANE_REFUSED, memory_order_release);
		COUNT(offers_refused, 1);
		sock_plain(s, why);
		return;
	}
	bind_lane(s, s->fd, k->l, k->index, 1);
	stats_row_new(s, s->fd);
	atomic_store(&s->stage, SOCK_BOUND);
	set_reason(s, REASON_WAITING_WRITE);
	COUNT(offers_taken, 1);
	atomic_store_explicit(&lane->state, LANE_BOUND, memory_order_release);
}

void switch_look(struct sock *s)
{
	uint32_t calls = s->calls;
	critical_enter();
	if (pthread_mutex_trylock(&link_walk_lock)) { /* one thread looks at a time */
		critical_leave();
		return;
	}
	/* An acceptor of our own user marks the entry as it knocks. One of another user cannot write there, and who listens
	 * does not tell who accepts: servers give root's rights up in between. Before the 4th call nobody has offered. */
	if (registry_knocked(s->entry) ||
	    ((calls & (calls - 1)) == 0 && calls >= 4 && calls <= 64))
		link_look();
	for (struct link *l = links; l; l = l->next) {
		if (l->side != 1 || l->dead || l->inherited)
			continue;
		uint32_t offers = atomic_load_explicit(&l->header->offers, memory_order_acquire);
		if (offers - l->offers_seen > LINK_LANES)
			l->dead = 1; /* a lying peer */
		for (; !l->dead && l->offers_seen != offers; l->offers_seen++) {
			uint32_t index = l->header->offer[l->offers_seen % LINK_LANES];
			if (index >= LINK_LANES || l->by_lane[index] ||
			    atomic_load_explicit(&l->lane[index].state, memory_order_acquire) != LANE_OFFERED)
				continue;
			struct take k = {l, index, false};
			struct sock *hit = sock_published(l->lane[index].entry);
			if (hit) {
				take_offer(hit, &k);
				sock_unpin_now(hit);
			}
			if (!k.done)
				refuse_gone(l, index);
		}
	}
	own_unlock(&link_walk_lock);
}

/* On a lane nobody but the sets that hold it can tell of its events. */
static bool switch_sets_refuse(struct sock *s)
{
	uint32_t why = s->interests ? waitset_refuses(s) : REASON_NONE;
	if (why)
		s->slot->rx.reason = s->slot->tx.reason = why;
	return why != REASON_NONE;
}

pthread_mutex_t switch_fork_lock = PTHREAD_MUTEX_INITIALIZER;

void switch_agree(struct sock *s, int fd, bool receiving)
{
	struct slot *t = s->slot;
	uint64_t written, consumed;
	if (t->never || t->fin_seen || s->lowat || switch_rx_final(t)) /* the marker would count towards the low-water mark */
		return;
	critical_enter();
	own_lock(&switch_fork_lock);
	dir_lock(&t->rx);
	if (!slot_sole(t) || switch_sets_refuse(s))
		goto out;
	if (t->rx.mode == MODE_KERNEL && !t->rx.shut) {
		struct link_dir *d = rx_dir(t);
		/* Tentative first, then the look at the calls inside: a call that enters sees the mode, or we see the call. */
		atomic_store(&t->rx.mode, MODE_AGREED);
		if (atomic_load(&s->rx_inside) == 0 && switch_offsets(s, fd, &written, &consumed)) {
			t->rx.consumed = consumed;
			t->rx.gen = atomic_load(&d->ack);
			t->rx.reason = REASON_WAITING_WRITE;
			atomic_fetch_and(&d->head, ~1ull);
			waitset_modes_changed(s, receiving);
		} else {
			atomic_store(&t->rx.mode, MODE_KERNEL);
		}
	}
out:
	dir_unlock(&t->rx);
	own_unlock(&switch_fork_lock);
	critical_leave();
}

size_t switch_promote(struct sock *s, int fd, struct iov_cursor *c, size_t n)
{
	struct slot *t = s->slot;
	struct link_dir *d = tx_dir(t);
	uint64_t written, consumed;
	if (head_gated(atomic_load(&d->head)) || t->never || t->fin_seen || t->tx.shut || t->tx.asked_back || !n)
		return 0;
	if (atomic_load(&d->ack) != t->tx.gen)
		return 0; /* the reader has not gone through the last generation */
	if (switch_sets_refuse(s)) {
		t->never = t->tx.reason;
		atomic_store(&slot_lane(t)->final[t->side], 1);
		return 0;
	}
	if (!s->link->complete) {
		link_receive(s->link);
		if (!s->link->complete)
			return 0;
	}
	/* No fork between the look at the holders and the marker. Tentative mode, then the look at the senders inside
	 * (one: ourselves). */
	own_lock(&switch_fork_lock);
	atomic_store(&t->tx.mode, MODE_LANE);
	int sndbuf, out;
	socklen_t len = sizeof(sndbuf);
	if (atomic_load(&s->tx_inside) != 1 || !slot_sole(t) || !switch_offsets(s, fd, &written, &consumed) ||
	    real.getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &sndbuf, &len) < 0 || real.ioctl(fd, SIOCOUTQ, &out) < 0 ||
	    out >= sndbuf / 2)
		goto no;
	struct iov_cursor copy = *c;
	size_t k = ring_fill(tx_ring(t), &copy, n, tx_limit(t));
	if (!k)
		goto no;
	uint32_t gen = t->tx.gen + 1;
	struct link_slot *slot = &d->slot[gen & 1];
	atomic_store_explicit(&slot->mlen, 0, memory_order_relaxed);
	atomic_store_explicit(&slot->p, OFFSET_NONE, memory_order_relaxed);
	atomic_store_explicit(&slot->x, written, memory_order_relaxed);
	atomic_store_explicit(&slot->gen, gen, memory_order_release); /* the slot before the marker */
	if (!ring_publish(tx_ring(t), k)) {
		atomic_store(&slot->gen, gen - 1);
		goto no;
	}
	uint8_t marker[MARKER_SIZE];
	memcpy(marker, slot_lane(t)->marker, MARKER_SIZE);
	ssize_t m = quiet_send(fd, marker, MARKER_SIZE, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (m <= 0) {
		/* withdrawn before those bytes go by the kernel: the reader uses no ring byte without a marker byte */
		atomic_store(&slot->x, OFFSET_NONE);
		atomic_store(&slot->gen, gen - 1);
		ring_withdraw(tx_ring(t), k);
		COUNT(withdrawn, 1);
		goto no;
	}
	atomic_store(&slot->mlen, (uint32_t)m); /* before any later kernel byte */
	own_unlock(&switch_fork_lock);
	t->tx.gen = gen;
	t->tx.markers += m;
	t->tx.reason = REASON_NONE;
	*c = copy;
	COUNT(promotions, 1);
	log_message(LOG_DEBUG, "fd %d: sends by the lane from offset %llu on", fd, (unsigned long long)written);
	if (s->row)
		s->row->tx.promotions++;
	stats_row_update(s);
	waitset_modes_changed(s, false);
	news_post(s->link, s->lane, t->side ^ 1);
	return k;
no:
	atomic_store(&t->tx.mode, MODE_KERNEL);
	own_unlock(&switch_fork_lock);
	return 0;
}

/* A leaving reader that has begun to move the ring's rest before it could see P: nothing of ours may overtake that. It
 * takes as long as one send; one that was killed moves nothing any more, and one that lies spoils its own bytes. */
static void wait_for_mover(struct link_dir *d)
{
	int pid, saved = errno;
	for (int i = 0; i < 400 && (pid = atomic_load(&d->mover)) > 0 && (kill(pid, 0) == 0 || errno == EPERM); i++)
		usleep(50);
	errno = saved;
}

void switch_demote(struct sock *s)
{
	struct slot *t = s->slot;
	struct link_dir *d = tx_dir(t);
	atomic_store(&d->slot[t->tx.gen & 1].p, head_pos(atomic_load(&d->head))); /* seq_cst: before the look at the mover */
	wait_for_mover(d);
	atomic_store(&t->tx.mode, MODE_KERNEL);
	t->tx.reason = t->never ? t->never : t->fin_seen ? REASON_ENDED : REASON_PEER_ASKED;
	COUNT(demotions, 1);
	log_message(LOG_DEBUG, "fd %d: sends by the kernel: %s", s->fd, reason_text(t->tx.reason));
	if (s->row)
		s->row->tx.demotions++;
	stats_row_update(s);
	waitset_modes_changed(s, false);
	news_post(s->link, s->lane, t->side ^ 1);
}

bool switch_gate_closed(struct sock *s)
{
	struct slot *t = s->slot;
	struct link_dir *d = tx_dir(t);
	/* The reader moves the rest into our kernel socket; nothing of ours may overtake it. */
	if (atomic_load(&d->tail) < head_pos(atomic_load(&d->head)))
		return false;
	atomic_store(&t->tx.mode, MODE_KERNEL);
	t->tx.reason = REASON_PEER_ASKED;
	COUNT(demotions, 1);
	if (s->row)
		s->row->tx.demotions++;
	stats_row_update(s);
	waitset_modes_changed(s, false);
	return true;
}

bool switch_peer_gone(int fd)
{
	struct pollfd p = {fd, POLLRDHUP, 0};
	return quiet_poll(&p, 1) == 1;
}
