/* Memory that a process shares with its fork children, with what they exec (proc/handover.h) and nobody else: a memfd,
 * made at the first connection that may be accelerated, invisible to peers. Locks live here and never in link memory,
 * and no pointers: each image has it at an address of its own.
 *
 * A slot is one TCP connection, whoever of the family holds it. Its holders are a set of processes: a bit each,
 * copied at fork, cleared at the last close, exec or exit of a process; a process that was killed is found by its
 * life lock, a robust mutex that the kernel marks when its owner dies. */
#ifndef HASTEN_FAMILY_H
#define HASTEN_FAMILY_H
#include "common/state.h"
#include "preload/link/ring.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define FAMILY_PROCESSES 256
#define FAMILY_OTHERS    (FAMILY_PROCESSES - 1) /* stands for holders that have no bit of their own: never ends */
#define FAMILY_SLOTS     65536
#define FAMILY_SETS      64

/* Modes of a direction. The tx side uses KERNEL and LANE, the rx side all three. */
enum dir_mode {
	MODE_KERNEL = 0, /* no agreement */
	MODE_AGREED = 1, /* gate open: kernel bytes up to X, then the marker */
	MODE_LANE = 2,   /* ring bytes */
};

struct slot_dir {
	pthread_mutex_t lock;     /* robust, process-shared: held for copies and switches, never while waiting */
	_Atomic uint32_t mode;    /* enum dir_mode; written under lock */
	_Atomic uint32_t gen;     /* tx: generation of the running or last promotion; rx: of the one being read */
	uint64_t consumed;        /* rx, from agreement on: kernel bytes taken, marker bytes included */
	uint32_t markers;         /* marker bytes that this direction's kernel stream carried */
	_Atomic uint8_t reason;   /* enum reason while mode is not LANE */
	_Atomic uint8_t shut;             /* this direction was shut down by us */
	uint8_t orphaned;         /* its last holder was killed inside: what it had taken from the kernel is not known */
	uint8_t marker_done;      /* rx, in MODE_LANE: no marker byte is ahead in the kernel any more */
	_Atomic uint8_t end_early; /* rx: the end mark was seen and the kernel knew of no end: its event says when */
	uint8_t asked_back;       /* tx: the reader has asked for the kernel once: for good */
	_Atomic uint32_t guests;  /* rx: relays that have lent bytes ahead to another program (relay.c) */
	_Atomic uint32_t asked, answered; /* rx: to them, what was read of that; their answers */
};

struct slot {
	_Atomic uint64_t holders[FAMILY_PROCESSES / 64];
	_Atomic uint32_t used;
	_Atomic uint32_t nonblock;   /* O_NONBLOCK of the open file description */
	_Atomic uint32_t fin_seen;   /* FIN or RST was seen on the kernel socket */
	_Atomic int32_t error;       /* kernel's error that a look took and nobody has returned yet */
	uint32_t never;              /* a reason why it is never promoted (again), 0 none */
	uint32_t role;               /* enum state_role */
	_Atomic uint8_t timeouts;    /* SO_RCVTIMEO (1) or SO_SNDTIMEO (2) was set by hand, to a negative time (4, 8) */
	uint8_t sent_syn;            /* written offset is one less than the kernel says */
	uint8_t side;                /* of the lane: 0 acceptor, 1 connector */
	uint32_t sndbuf, rcvbuf;     /* set by hand, 0 not */
	uint64_t cookie;             /* SO_COOKIE */
	struct state_addr local, peer;
	uint32_t index;              /* its own */
	_Atomic uint32_t serial;     /* of the connection that has it: counts on each time that it is given out */
	struct slot_dir tx, rx;
};

/* Private to a process: where it has a slot's lane mapped. */
struct slot_place {
	struct link_lane *lane;      /* NULL none */
	uint8_t *area[2];            /* ring areas of direction 0 and 1 */
};

struct family_process {
	pthread_mutex_t life;        /* robust; held for ever by the thread that entered the process here */
	_Atomic int32_t pid;         /* 0 free */
	_Atomic int32_t maker;       /* 0; of a child without a life lock (clone): who made it, and alone knows its pid's end */
	_Atomic uint64_t born;       /* /proc's clock (10 ms since boot) when that lock was taken, 0 not yet: who has the same pid
	                                and began later is another process */
	_Atomic uint32_t by_main;    /* that thread is the process's first */
};

struct family {
	pthread_mutex_t lock;        /* slots and processes: allocation only */
	_Atomic uint64_t waiters_used;   /* wake-up words in use: how many, where that saves work */
	_Atomic int32_t waiter_owner[LINK_WAITERS]; /* whose they are: index of a process plus one; -pid where it has none; 0 free */
	_Atomic uint32_t modes_changed;  /* by one of several holders: others' registrations in epoll sets follow */
	_Atomic uint32_t shared_sets;    /* epoll sets that a child began to use beside its parent, so far; the last ones */
	_Atomic uint64_t shared_set[FAMILY_SETS]; /* stand here by their ids */
	uint32_t next_slot;
	uint32_t free_slots;             /* length of free list */
	uint32_t free_slot[FAMILY_SLOTS];
	struct family_process process[FAMILY_PROCESSES];
	struct slot slot[FAMILY_SLOTS];
};

/* NULL before family_start succeeded. */
extern struct family *family;
extern int family_self;              /* this process's index, -1 none */
extern bool family_lifeless;         /* nobody would learn of its death by its locks: it takes nothing new */
extern int family_fd;                /* its memfd; -1: anonymous memory, which no other image can have */
extern struct slot_place *slot_places; /* by slot index */

static inline struct slot_place *slot_place(struct slot *s)
{
	return &slot_places[s->index];
}

static inline struct link_lane *slot_lane(struct slot *s)
{
	return slot_places[s->index].lane;
}

/* Makes the family memory, once. 0 or -errno. */
int family_start(void);

/* After exec: the family that the image before us was in, as its process index. 0 or -errno; fd is the family's then. */
int family_adopt(int fd, int index);
/* Gives each used slot back that nobody holds: left by images that were replaced. */
void family_sweep(void);

/* A new slot held by this process alone; NULL: the table is full. */
struct slot *slot_new(void);

/* At the last close of this process: true when no living process holds it besides, which one alone is told; else this process
 * holds it no more. */
bool slot_last(struct slot *s);

/* This process holds the slot no more; the last holder frees it. */
void slot_drop(struct slot *s);

/* For whom else decides by who is left: nothing is taken inside. */
void family_lock(void);
void family_unlock(void);
/* Has the connection that this serial was of ended, or does no living process hold it? Frees it then. Under the lock. */
bool slot_abandoned(uint32_t index, uint32_t serial);

/* The same without freeing it and without a lock: exec and exit. */
void slot_release(struct slot *s);

/* Locks of a slot that nobody else holds and whose last owner was a thread of the image before us. */
void slot_locks_anew(struct slot *s);

/* Is this process counted among the holders? */
bool slot_ours(struct slot *s);

/* Is this process the only living holder? Finds killed processes. */
bool slot_sole(struct slot *s);

/* Has every other process of the family ended? */
bool family_only(void);

/* Has this process of the family ended? */
bool family_dead(int index);
/* ... or become another program, which may still hold descriptors? */
bool family_left(int index);

/* The child's half of fork: an index of its own, and a share in each of the n slots. ret_failed: no room. */
int family_fork_prepare(bool lifeless);       /* parent, before fork: an index for the child or -1 */
void family_fork_parent(int index, int pid);  /* parent, after fork (pid < 0: it failed) */
void family_fork_child(int index, bool lifeless); /* child, first of all */
void slot_share(struct slot *s, int index);   /* before fork, for every slot this process holds */

/* Locks a direction; recovers it when a holder was killed inside. */
void dir_lock(struct slot_dir *d);
bool dir_trylock(struct slot_dir *d);
void dir_unlock(struct slot_dir *d);
#endif
