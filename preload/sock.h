/* A TCP socket as this process sees it. Objects are type-stable (never unmapped), so that a thread that still
 * holds a pointer after another one closed the descriptor reads an ended socket and not foreign memory; pins keep
 * one from being reused while a call is inside.
 *
 * Stages of a socket, forwards only; PLAIN can follow each:
 *   NEW        socket() made it: nothing known yet
 *   LISTENER   listen() was called: the address stands in the listener table
 *   ACCEPTED   accept() made it: the second read looks the peer up
 *   PUBLISHED  connect() went to a listed address: entry in the registry, waits for an offer
 *   OFFERED    acceptor: a lane was offered
 *   BOUND      both ends agreed on a lane; each direction is promoted by its writer
 *   SETTLED    a plain connection whose reason is known: its second data call enters it in the state file
 *   PLAIN      a kernel socket and nothing else */
#ifndef HASTEN_SOCK_H
#define HASTEN_SOCK_H
#include "common/reasons.h"
#include "common/state.h"
#include "preload/family.h"
#include "preload/fdtab.h"
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct link;
struct interest;

enum sock_stage { SOCK_PLAIN = 0, SOCK_NEW, SOCK_LISTENER, SOCK_SETTLED, SOCK_ACCEPTED, SOCK_PUBLISHED, SOCK_OFFERED, SOCK_BOUND };

struct sock {
	_Atomic uint32_t stage;          /* enum sock_stage */
	_Atomic uint32_t pins;           /* calls inside, while the process has more than one thread */
	_Atomic uint32_t fds;            /* descriptors of this process that refer to it */
	_Atomic uint32_t rx_inside, tx_inside; /* calls of this process inside the kernel, in stages ACCEPTED.. BOUND */
	_Atomic uint32_t opening;        /* a thread is looking the peer up */
	_Atomic int fd;                  /* one of its numbers */
	_Atomic uint32_t calls;          /* data calls so far: when to look */
	_Atomic uint32_t reads;          /* receives by the kernel that brought bytes */
	_Atomic uint32_t agree_tries;
	_Atomic uint32_t offer_at;       /* ACCEPTED: at which data call the peer is looked up again */
	uint32_t lowat;                  /* SO_RCVLOWAT set by hand, 0 not */
	uint8_t forked;                  /* a child was forked meanwhile: a listener's table entry outlives our close, an
	                                    unconnected socket stays plain */
	uint8_t inherited;               /* our parent's: its bytes are its own to count */
	uint8_t relisted;                /* ... and this process has an entry of its own */
	uint8_t handed;                  /* goes over to the next image (proc/handover.h) */
	uint8_t in_actions;              /* spawn actions give it to a program */
	uint8_t solo;                    /* no other process holds the slot: with one thread no lock is needed */
	_Atomic uint32_t looks;          /* would-blocks since the kernel was last looked at */
	struct slot *_Atomic slot;       /* family memory; from ACCEPTED or PUBLISHED on */
	struct link *link;               /* from OFFERED or BOUND on */
	uint32_t lane;                   /* index in the link */
	int32_t entry;                   /* registry entry, -1 none */
	uint64_t token;                  /* of that entry */
	uint8_t reason;                  /* enum reason, where SETTLED or PLAIN */
	uint8_t role;                    /* enum state_role */
	uint8_t domain;                  /* AF_INET or AF_INET6 */
	uint32_t sndbuf, rcvbuf;         /* set by hand on this descriptor or its listener, 0 not */
	uint8_t timeouts;                /* as in the slot, before there is one */
	struct state_addr local;         /* PUBLISHED: our end */
	struct state_addr at;            /* LISTENER: its address; ACCEPTED, PUBLISHED: the peer's */
	_Atomic uint32_t kernel_events;  /* EPOLLIN|EPOLLRDHUP|EPOLLHUP|EPOLLERR that a kernel set reported: latched */
	struct interest *interests;      /* memberships in epoll sets; lock: waitset_lock */
	struct state_row *row;           /* state file, NULL none */
	struct sock *next_free;
};

/* One-thread programs need no lock on what no other process holds. */
extern char __libc_single_threaded;

static inline bool alone(void)
{
	return __libc_single_threaded;
}

/* Pins and records the pin (proc/inside.c); NULL: fd is another file by now. */
struct sock *sock_pinned(struct sock *s, int fd);

/* The socket behind fd, pinned; NULL: not ours, use the kernel. */
static inline struct sock *sock_of(int fd)
{
	struct sock *s = fdtab_sock(fd);
	if (!s || atomic_load_explicit(&s->stage, memory_order_relaxed) == SOCK_PLAIN)
		return NULL;
	return alone() ? s : sock_pinned(s, fd);
}

void sock_unpin_slow(struct sock *s);
/* The same for a pin that is recorded no more (proc/inside.c). */
void sock_unpin_now(struct sock *s);

static inline void sock_unpin(struct sock *s)
{
	if (atomic_load_explicit(&s->pins, memory_order_relaxed))
		sock_unpin_slow(s);
}

/* A new object in the given stage, entered in the table under fd. NULL: no memory (the fd stays plain). */
struct sock *sock_new(int fd, enum sock_stage stage);
/* Another number for the same socket, which the caller has pinned. False: it has ended. */
bool sock_dup(struct sock *s, int fd);
/* fd is about to be closed or replaced: drops the number, and with the last one everything else. Called before the
 * kernel's close. */
void sock_close(struct sock *s, int fd);
/* The same after the number was closed past us: it may be another file by now. */
void sock_lost(struct sock *s, int fd);
/* Its numbers mean another file by now; calls of other threads that are inside go on with file, a number of our own, and the
 * last of them ends s. */
void sock_detach(struct sock *s, int file);
/* Never to be accelerated (again): leaves registry and sets of looks; not for a socket with a promoted direction. */
void sock_plain(struct sock *s, enum reason why);
/* A slot for it; false: plain now. */
bool sock_slot(struct sock *s, int fd, enum state_role role, const struct state_addr *peer);

/* The socket that published a registry entry, pinned (sock_unpin_now); NULL. */
struct sock *sock_published(uint32_t entry);

/* Addresses of the kernel socket; 0 or -errno. */
int sock_addrs(int fd, struct state_addr *ret_local, struct state_addr *ret_peer);
bool addr_from(const struct sockaddr *sa, socklen_t len, struct state_addr *ret);
bool addr_equal(const struct state_addr *a, const struct state_addr *b);

/* Enters it in the registry; false: no room. */
bool sock_publish(struct sock *s);
/* The way back. */
void sock_unpublish(struct sock *s);
void sock_drop_slot(struct sock *s);
void sock_fork_child(void);

/* Calls fn for each socket of this process (fork, exec, exit). */
void sock_each(void (*fn)(struct sock *s, void *arg), void *arg);
#endif
