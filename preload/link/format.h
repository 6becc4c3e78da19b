/* What two processes share: the memory of one link. PROTOCOL.md says the rules; this file says the bytes.
 *
 * A link belongs to the ordered pair (acceptor, connector) and carries up to LINK_LANES connections, each with
 * a lane of two directions. One sealed memfd, sparse: a page costs when it is touched.
 *
 *   0                        struct link_header
 *   LINK_NEWS_OFFSET         struct link_news[2]        who has news, by side
 *   LINK_LANE_OFFSET         struct link_lane[LINK_LANES]
 *   LINK_RING_OFFSET         2 * LINK_LANES areas of RING_STRIDE bytes
 *
 * Side 0 is the acceptor, side 1 the connector; direction d carries the bytes that side d writes.
 * Every word here can be written by the peer at any time. It is read once, checked, then used; a lie spoils
 * the bytes of that connection and nothing else. No lock, pointer or size of ours is ever read from here. */
#ifndef HASTEN_LINK_FORMAT_H
#define HASTEN_LINK_FORMAT_H
#include "common/state.h"
#include <stdint.h>

#define LINK_MAGIC   0x6b6e696c6e747368ull
#define LINK_VERSION 2
#define LINK_LANES   4096u
#define LINK_WAITERS 64                  /* wake-up words of a process family */

/* Ring areas. A direction uses one class at a time; positions are absolute, so that the class can change at
 * any position (see struct link_dir.start). */
#define RING_CLASSES 5
#define RING_CLASS_SIZE(c)   (16384u << (2 * (c)))                      /* 16 KiB .. 4 MiB */
#define RING_CLASS_OFFSET(c) ((uint64_t)16384 * (((1ull << (2 * (c))) - 1) / 3))
#define RING_STRIDE  (8ull << 20)

#define OFFSET_NONE  (~0ull)
#define START_OLD    (OFFSET_NONE - 1)
#define MARKER_SIZE  16u

/* One promotion. Written by the writer before the marker is sent, read by the reader as it passes X. */
struct link_slot {
	_Atomic uint64_t x;      /* kernel stream offset of the marker; OFFSET_NONE: none (withdrawn) */
	_Atomic uint64_t p;      /* ring position at which the writer went back to the kernel; OFFSET_NONE: not yet */
	_Atomic uint32_t gen;    /* generation that this slot describes */
	_Atomic uint32_t mlen;   /* marker bytes that the kernel took; 0: not known yet */
};

struct link_dir {
	/* written by the writer; the gate bit by the reader */
	_Atomic uint64_t head __attribute__((aligned(64))); /* position << 1 | gate closed */
	_Atomic uint32_t end;        /* the writer has shut down: nothing follows head */
	_Atomic uint32_t want_room;  /* the writer waits for room */
	/* written by the writer, seldom */
	/* From which position on a class was last used, at the beginning of its area; a position belongs to the class
	 * with the largest start not above it. A start is written anew only when no unread byte depends on it: the class
	 * shrinks, and begins again at the front of its area, when nothing is unread; else it only grows. OFFSET_NONE: nothing
	 * was ever written there, or its pages have been given back; START_OLD: not in use, but it has pages. */
	_Atomic uint64_t start[RING_CLASSES] __attribute__((aligned(64)));
	struct link_slot slot[2] __attribute__((aligned(64))); /* by generation & 1: written anew only after its ack */
	/* written by the reader */
	_Atomic uint64_t tail __attribute__((aligned(64)));
	_Atomic uint32_t ack;        /* last generation that the reader has gone through */
	_Atomic uint32_t please;     /* the reader asks the writer to go back to the kernel */
	_Atomic int32_t mover;       /* process that puts the rest of the ring into the writer's kernel socket, 0 none */
};

/* Written by one side of a lane, read by the other. */
struct link_end {
	_Atomic uint64_t waiters __attribute__((aligned(64))); /* which wake-up words of this side want news of this lane */
	_Atomic uint32_t closed;     /* this side uses the lane no more */
	_Atomic int32_t  fd;         /* a hint: where the socket is in process pid */
	_Atomic int32_t  pid;
	_Atomic uint32_t rcvbuf;     /* SO_RCVBUF that this side has set by hand; 0: the kernel tunes it */
};

enum lane_state { LANE_FREE = 0, LANE_OFFERED = 1, LANE_BOUND = 2, LANE_REFUSED = 3 };

struct link_lane {
	_Atomic uint32_t state;      /* enum lane_state */
	_Atomic uint32_t reason;     /* where refused: enum reason */
	_Atomic uint64_t token;      /* of the connection, from the connector's registry entry */
	uint32_t entry;              /* index of that registry entry */
	_Atomic uint16_t final[2];   /* by side: sends by the kernel for good */
	struct state_addr acceptor, connector;
	uint8_t marker[MARKER_SIZE]; /* what the marker of this lane looks like; confirms, decides nothing */
	struct link_end end[2];
	struct link_dir dir[2];
};

struct link_news {
	_Atomic uint64_t summary[LINK_WAITERS] __attribute__((aligned(64)));
	_Atomic uint64_t ready[LINK_WAITERS][LINK_LANES / 64];
};

struct link_header {
	uint64_t magic;
	uint32_t version;
	uint32_t lanes;
	uint64_t acceptor_token, connector_token;
	_Atomic uint32_t joined;     /* the connector has sent its answer */
	_Atomic uint32_t messages[2]; /* sent on the link's socket so far, by side: an unchanged count saves a look */
	_Atomic uint32_t offers;     /* offers made, by the acceptor; offer n stands in offer[n % LINK_LANES] */
	uint32_t offer[LINK_LANES];  /* lane index */
};

/* The words on which a process family sleeps: a memfd of its own, writable by nobody else. */
struct link_epochs {
	struct {
		_Atomic uint32_t epoch __attribute__((aligned(64))); /* odd: asleep */
		_Atomic uint32_t incarnation; /* counts the processes that have had the word, each with its own descriptor */
	} w[LINK_WAITERS];
};

#define LINK_ALIGN(x) (((uint64_t)(x) + 4095) & ~(uint64_t)4095)
#define LINK_NEWS_OFFSET LINK_ALIGN(sizeof(struct link_header))
#define LINK_LANE_OFFSET LINK_ALIGN(LINK_NEWS_OFFSET + 2 * sizeof(struct link_news))
#define LINK_RING_OFFSET LINK_ALIGN(LINK_LANE_OFFSET + LINK_LANES * sizeof(struct link_lane))
#define LINK_SIZE (LINK_RING_OFFSET + 2ull * LINK_LANES * RING_STRIDE)

/* Messages on the link's AF_UNIX socket (SOCK_SEQPACKET), with descriptors beside them. */
enum link_msg_kind { LINK_HELLO = 1, LINK_ANSWER = 2, LINK_WAKEFD = 3 };
struct link_msg {
	uint64_t magic;
	uint32_t version;
	uint32_t kind;
	uint64_t from, to;       /* identity tokens of the two processes */
	uint32_t index;          /* LINK_WAKEFD: which wake-up word, and the incarnation of it */
	uint32_t incarnation;
};
/* HELLO: link memfd, epochs memfd, bell. ANSWER: epochs memfd, bell. WAKEFD: one. */
#define LINK_MSG_FDS 4
#endif
