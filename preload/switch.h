/* The switch between the kernel socket and a lane: offer, agreement, promotion, demotion, leaving.
 * PROTOCOL.md says the rules; each function here is one of them. */
#ifndef HASTEN_SWITCH_H
#define HASTEN_SWITCH_H
#include "preload/link/ring.h"
#include "preload/sock.h"
#include "preload/state.h"
#include <stddef.h>

/* Held by fork, and by whoever decides by the holders of a slot. Order: a direction's lock may be held already (tx),
 * or is taken inside (rx, agreement). */
extern pthread_mutex_t switch_fork_lock;

/* Acceptor: looks the peer up and offers a lane; stage OFFERED, PLAIN, or as before (try again later). */
void switch_offer(struct sock *s, int fd);
/* Connector: knocks and offers that wait for us. */
void switch_look(struct sock *s);
/* Acceptor: has the offer been answered? */
void switch_answered(struct sock *s);
/* Opens the gate of what we receive, where that is allowed now. Caller: no rx lock held. */
void switch_agree(struct sock *s, int fd, bool receiving);

/* Under tx lock, mode KERNEL, caller counted in tx_inside. Puts up to n bytes of c by the lane with the marker
 * behind them. Returns the bytes put; 0: not now, use the kernel. */
size_t switch_promote(struct sock *s, int fd, struct iov_cursor *c, size_t n);
/* Under tx lock, mode LANE: later bytes go by the kernel. */
void switch_demote(struct sock *s);
/* Under tx lock, after a put found the gate closed: true when the ring is empty and the direction is the kernel's. */
bool switch_gate_closed(struct sock *s);
/* Has the kernel socket seen FIN, RST or an error? */
bool switch_peer_gone(int fd);
/* Both directions to the kernel, for good, with nothing left behind in a ring: the descriptor is about to leave us
 * (exec, fd passing) or libc will use it past us. Where the rest cannot be put into the kernel socket the numbers get
 * another socket, behind which a relay process serves the old one (relay.h). 0; -errno: bytes stay in the ring. */
int switch_leave(struct sock *s, int fd, enum reason why);
/* The receiving half of it, without a relay. Where several connections leave, first this for each of them: an end that
 * has demoted what it sends forbids moving at the other. 0; -EBUSY: nothing was touched but the gate. */
int switch_leave_in(struct sock *s, int fd);
/* Gate closed: is nothing left but what the kernel has? Then the direction is the kernel's. */
bool switch_drained(struct sock *s);
/* All connections of this process (io_uring, credentials). */
void switch_leave_all(enum reason why);

/* Kernel stream offsets of both directions, read consistently; false: not now. */
bool switch_offsets(struct sock *s, int fd, uint64_t *ret_written, uint64_t *ret_consumed);

static inline struct link_dir *tx_dir(struct slot *t)
{
	return &slot_lane(t)->dir[t->side];
}

static inline struct link_dir *rx_dir(struct slot *t)
{
	return &slot_lane(t)->dir[t->side ^ 1];
}

static inline struct ring tx_ring(struct slot *t)
{
	return (struct ring){tx_dir(t), slot_place(t)->area[t->side]};
}

static inline struct ring rx_ring(struct slot *t)
{
	return (struct ring){rx_dir(t), slot_place(t)->area[t->side ^ 1]};
}
/* Does the end mark alone say that there is something to receive? It comes just before the kernel's FIN; one that was
 * looked at and had no FIN behind it (a peer that was stopped between the two, or lies) says nothing more. */
static inline bool rx_ends(struct slot *t)
{
	return atomic_load(&rx_dir(t)->end) && !atomic_load_explicit(&t->rx.end_early, memory_order_relaxed);
}

/* Has the writer said that it sends by the kernel for good? */
static inline bool switch_rx_final(struct slot *t)
{
	return atomic_load(&slot_lane(t)->final[t->side ^ 1]);
}

/* What was taken from the kernel socket so far, also at the end of the stream; false: not to be had. */
bool switch_consumed(int fd, uint64_t *ret);

/* Unread bytes that a direction may hold: what the kernel would (send buffer + the other end's receive buffer). */
static inline uint64_t tx_limit(struct slot *t)
{
	uint64_t receive = atomic_load_explicit(&slot_lane(t)->end[t->side ^ 1].rcvbuf, memory_order_relaxed);
	uint64_t limit = (t->sndbuf ? t->sndbuf : 2621440) + (receive ? receive : 2621440);
	return limit < (uint64_t)options.ring_max ? limit : (uint64_t)options.ring_max;
}
#endif
