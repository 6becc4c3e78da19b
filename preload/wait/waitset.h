/* Epoll sets and the readiness of lane connections.
 *
 * A set is the program's real epoll fd. Sockets that run on the kernel are registered in it exactly as the program
 * asked. A socket with a direction on a lane is registered instead in a second, hidden epoll fd that is nested in
 * the first (what the kernel still has to say of it: FIN, RST, bytes that passed us), and its readiness is computed
 * here. The set's wake-up eventfd is registered in the program's epoll fd as well. The two hidden registrations
 * carry random data that is changed should the program ever use the same. */
#ifndef HASTEN_WAITSET_H
#define HASTEN_WAITSET_H
#include "preload/sock.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <time.h>

/* A socket's membership in a set. */
struct interest {
	struct waitset *set;
	struct sock *sock;
	int fd;                              /* the number it was added by */
	int number;                          /* ... and by which it is registered: a copy of ours once that one is closed */
	uint16_t generation;                 /* of this object: registrations say which they mean */
	uint32_t events;
	epoll_data_t data;
	uint32_t asked;                      /* what the hidden epoll fd is asked for */
	uint8_t hidden;                      /* registered there */
	uint64_t seen;                       /* edge-triggered: what the last report had seen of the incoming direction */
	uint32_t fresh;                      /* edge-triggered: events to report once (all after ADD and MOD; the kernel's) */
	uint8_t wanted;                      /* was not writable at the last look: becoming so is an edge */
	uint8_t disabled;                    /* EPOLLONESHOT, reported */
	uint8_t absent;                      /* ... and back on the kernel: registered again when the program re-arms it */
	uint8_t parked;                      /* taken out by the program; the hidden registration stays for its return */
	uint8_t queued;                      /* in the set's ready list */
	struct interest *next_of_sock;
	struct interest *prev_ready, *next_ready;
};

/* What is true of the connection now, of EPOLLIN OUT RDHUP HUP ERR. Cheap: shared memory and latched kernel events. */
uint32_t sock_ready(struct sock *s);
/* Does a direction of it run on a lane? */
bool sock_on_lane(struct sock *s);
/* May its events come without the kernel's help (agreed or on a lane)? */
bool sock_watched(struct sock *s);

/* A set that is itself watched (nested in another, polled): its members stay on the kernel from now on, which alone
 * can say when the set is readable. */
void waitset_watched(struct waitset *w);
/* Modes of a direction changed: registrations follow. Called with a direction's lock held; takes their lock.
 * receiving: from a receive of the program on this socket. */
void waitset_modes_changed(struct sock *s, bool receiving);
/* A send found no room: becoming writable is an event from now on. */
void waitset_wants_room(struct sock *s);
/* The descriptor, or the last of its numbers, is closed. here: it still is the socket's. */
void waitset_forget(struct sock *s, int fd, bool here, bool last);
/* The numbers of s are about to get another, plain socket, and have got it. in_sets: its registrations follow, else (the
 * sets are another process's too) they are left alone and forgotten here. */
void waitset_replacing(struct sock *s, bool in_sets);
void waitset_replaced(struct sock *s);
/* What is known of its memberships; the kernel's registrations stay. */
void waitset_drop(struct sock *s);
/* Local news of a socket (another thread took bytes from the kernel, a shutdown): its sets look again. */
void waitset_kick(struct sock *s);
/* Before an exec: sets that stay open have nothing of ours in them that the next image would be told of. */
void waitset_exec(void);
/* Is it a member of a set that stays open over an exec? */
bool waitset_kept(struct sock *s);
struct waitset *waitset_of(int epfd);
/* Around a call on it, where the process has more than one thread: it is not given back meanwhile. */
void waitset_enter(struct waitset *w);
void waitset_leave(struct waitset *w);
void waitset_close(struct waitset *w, int fd);
/* Always; and where there is a family. */
void waitset_forked(void);
void waitset_fork_child(void);
/* May a direction of s go to a lane: can all sets that hold it tell its readiness then? Else why not. Direction locks may be held. */
uint32_t waitset_refuses(struct sock *s);

/* One waiting for one socket: until readable (EPOLLIN) or writable (EPOLLOUT), an end or an error; deadline in
 * CLOCK_MONOTONIC ns, UINT64_MAX never. 0: look again; -EINTR; -ETIMEDOUT. */
int wait_sock(struct sock *s, int fd, uint32_t events, uint64_t deadline, bool *ret_kernel);
uint64_t now_ns(void);
static inline bool time_valid(const struct timespec *t)
{
	return t->tv_sec >= 0 && t->tv_nsec >= 0 && t->tv_nsec < 1000000000;
}

/* A bounded spin: true when again(arg) said so. */
bool spin(bool (*again)(void *arg), void *arg, uint64_t most_ns);
#endif
