/* What the files of epoll sets share; nobody else includes it. interest.c: memberships and readiness; waitset.c: sets,
 * their life and epoll_ctl; shared.c: sets that more than one process uses; epoll.c: the waits. */
#ifndef HASTEN_WAITSET_INNER_H
#define HASTEN_WAITSET_INNER_H
#include "preload/family.h"
#include "preload/state.h"
#include "preload/wait/waitset.h"
#include "preload/wait/waker.h"
#include <pthread.h>

struct waitset {
	int fd;                          /* the program's */
	_Atomic uint32_t fds;            /* numbers that refer to it */
	_Atomic int hidden;                   /* nested in fd, holds lane connections' kernel sockets; -1 none yet */
	struct waker *_Atomic waker;     /* registered in fd; NULL none yet */
	_Atomic uint64_t data_hidden, data_waker; /* written once under the lock, before the registration; compared without it */
	_Atomic uint32_t n_lane;         /* interests in the hidden set */
	_Atomic uint32_t native_inside;  /* threads that entered the kernel's wait before the set had lane members */
	_Atomic uint32_t inside;         /* threads in a wait on it, while the process has more than one */
	uint8_t closed;                  /* by its last number; given back when nobody is inside; lock: waitset_lock */
	uint8_t watched;                 /* nested in another set, or polled: members stay on the kernel */
	_Atomic uint8_t shared;          /* enum set_shared */
	_Atomic uint8_t bare;                    /* no descriptors for its wake-up: members stay on the kernel */
	uint32_t process;                /* waitset_process where it is in use; less: its parent's, which this one has not used */
	int32_t creator;                 /* pid */
	uint64_t id;                     /* by which the family knows it */
	_Atomic uint32_t waits;                  /* since the kernel was polled */
	struct interest *ready;          /* doubly linked ring, first is next to report */
	struct waitset *next_free;
};

/* More than one process waits in it: the kernel alone can say to whom an event goes. GIVING: members are still to leave. */
enum set_shared { SET_OURS = 0, SET_GIVING = 1, SET_GIVEN = 2 };

/* Counts with each fork that made this process: sets of an earlier one are its parent's too, by the same open file. What
 * the kernel knows of them is not changed here unless the program uses them here. */
extern uint32_t waitset_process;
extern _Atomic uint32_t waitset_heard; /* of what the family says (family.h, shared_sets) */

static inline bool set_foreign(const struct waitset *w)
{
	return __builtin_expect(w->process != waitset_process, 0);
}

/* One lock for sets, interests and ready lists of this process; taken after a direction's lock, never before. A
 * program with one thread does not take it. */
extern pthread_mutex_t waitset_lock;

static inline bool sets_lock(void)
{
	critical_enter();
	if (alone())
		return false;
	pthread_mutex_lock(&waitset_lock);
	return true;
}

static inline void sets_unlock(bool locked)
{
	if (locked)
		pthread_mutex_unlock(&waitset_lock);
	critical_leave();
}

/* Memory for a table of objects; NULL where there is none. */
void *waitset_carve(size_t size);

/* All of these under the lock. */
struct interest *interest_new(void);
void interest_drop(struct interest *i);
/* Its waker and hidden set; false: no descriptors. */
bool waitset_equip(struct waitset *w);
/* What it waits for; TCP knows EPOLLRDNORM and EPOLLWRNORM as other names of EPOLLIN and EPOLLOUT, and no bands. */
static inline uint32_t interest_asked(const struct interest *i)
{
	uint32_t e = i->events;
	return e | (e & EPOLLRDNORM ? EPOLLIN : 0) | (e & EPOLLWRNORM ? EPOLLOUT : 0);
}
/* The names of now under which the program asked. */
static inline uint32_t interest_told(const struct interest *i, uint32_t now)
{
	now |= (now & EPOLLIN ? EPOLLRDNORM : 0) | (now & EPOLLOUT ? EPOLLWRNORM : 0);
	return now & (i->events | EPOLLERR | EPOLLHUP);
}
void interest_enqueue(struct interest *i);
void interest_dequeue(struct interest *i);
/* The number by which a hidden member is registered is about to be closed, its socket is not: goes on by a copy. */
void interest_keep(struct interest *i, bool here);
/* Asks the hidden set anew, where that changes anything: with both directions on a lane it never does. */
void interest_ask(struct interest *i);
/* The registration follows the modes; swallow: from a receive of the program on this very socket. */
void interest_follow(struct interest *i, bool swallow);
/* A number that changes with every arrival and with the end. */
uint64_t sock_incoming(struct slot *t);
bool sock_both_on_lane(struct sock *s);
/* Latches what the kernel says of hidden members. */
void waitset_drain_hidden(struct waitset *w);
/* A set that is closed under a thread's wait lives until that thread has left it. */
void waitset_give_back(struct waitset *w);
int waitset_ctl(struct waitset *w, int op, int fd, struct sock *s, struct epoll_event *event);

/* These take it. */
struct waitset *waitset_new(int fd);
void waitset_keep_apart(struct waitset *w, uint64_t data);
void waitset_leave_member(struct sock *s, void *set);
/* All members to the kernel; then the set is the kernel's alone. */
void waitset_empty(struct waitset *w);
/* Before the program's first call on a set of its parent's. */
void waitset_first_use(struct waitset *w);
/* A set that another process uses too: its members go to the kernel. */
void waitset_give(struct waitset *w);
/* Has another process of the family said that it uses a set of ours? Then they are marked (SET_GIVING). */
void waitset_hear(void);
/* Another process changed the modes of a connection that this one holds too: registrations follow. */
void waitset_follow_others(void);
extern _Atomic uint32_t waitset_followed;
/* Are members to leave it? Looks at what others have said. */
static inline bool waitset_to_give(struct waitset *w)
{
	if (family && __builtin_expect(atomic_load_explicit(&family->shared_sets, memory_order_relaxed) != waitset_heard, 0))
		waitset_hear();
	if (family && __builtin_expect(atomic_load_explicit(&family->modes_changed, memory_order_relaxed) != waitset_followed, 0))
		waitset_follow_others();
	return __builtin_expect(atomic_load(&w->shared) == SET_GIVING, 0);
}
#endif
