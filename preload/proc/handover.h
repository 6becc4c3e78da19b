/* Connections that go over to the next image of a process, on their lanes.
 *
 * Where an exec starts a program that will be preloaded with this very library (image.h), nothing goes back to the
 * kernel. The family's memory, the links' memory, their sockets and the peers' wake-up descriptors stay open over the
 * exec under the numbers they have, and a sealed memfd says what they are; HASTEN_HANDOVER in the environment names its
 * number. The next image adopts all of it before main:
 *
 *   - the memfd counts only if it is sealed, of this user, of this build and written for this pid, or for a child
 *     of our parent's making; never under AT_SECURE
 *   - a descriptor belongs to a connection by its SO_COOKIE: whatever was done to numbers on the way needs no record
 *   - the family is mapped again; this process keeps its index and its holder bits, or, where its parent goes on with
 *     the connection (vfork, spawn), has got an index and bits of its own before the exec
 *   - links are mapped again and serve the lanes that came along, as in a forked child; so are the family's epochs. The
 *     bell stays; identity, rendezvous, words and their wake-up descriptors are new (PROTOCOL.md 27, 29)
 *   - what a published connection has in the registry becomes the new identity's
 *
 * A connection that stays open and cannot go over (a link whose memory was not kept, a member of an epoll set that
 * stays open too, lent by a relay, held by another process while this one has threads) leaves as for any other program.
 *
 * Threads: exec ends them wherever they are. So all locks of the directions that go over are held by the thread that
 * calls exec: nobody is inside. The kernel does not give robust locks back that a thread other than the first holds
 * over an exec; the next image makes them anew, and nobody else can wait for them, since another holder forbids it. Without
 * other threads no lock is held: nothing of a connection's state is private.
 *
 * posix_spawn is the same as a vfork child's exec, prepared by its parent: the flags of its own descriptors are lowered for
 * the time of the call, in which no other thread forks.
 *
 * Every step before the exec can be taken back; one that fails leaves everything as it was. */
#ifndef HASTEN_HANDOVER_H
#define HASTEN_HANDOVER_H
#include "preload/sock.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HANDOVER_VARIABLE "HASTEN_HANDOVER="

struct kept {
	struct sock *sock;
	struct slot *slot;           /* as it was when it was found; NULL none */
	bool goes;                   /* over; else it leaves */
};

struct handover {
	struct kept *kept;           /* each socket that stays open, once */
	size_t n_kept;
	size_t mapped;               /* bytes that kept has of its own, 0: the caller's memory */
	int highest;                 /* number that stays open */
	int fd;                      /* the memfd, -1 nothing goes over */
	int index;                   /* of the next image in the family where this process goes on too, else -1 */
	uint32_t table_locks;
	bool spawn;                  /* libc makes the child: posix_spawn */
	bool threads, locked;
	char variable[32];           /* for the environment */
};

/* Calls fn for each number of a socket of ours that stays open over an exec in this process; once or more a socket. A
 * vfork child has numbers of its own, which no table knows. actions: also what spawn actions could give to a program. */
void kept_each(bool actions, void (*fn)(struct sock *s, int fd, void *arg), void *arg);

/* Lists what stays open, in room where that is enough. False: nothing that could go over, or no memory. spawn: for a child
 * that libc makes. */
bool handover_look(struct handover *h, struct kept *room, size_t n, bool spawn, bool actions);
/* Marks what can go over; the caller lets the rest leave. False: nothing can. */
bool handover_choose(struct handover *h);
/* Right before the exec: no lock of ours is taken by the caller from here on. False: it cannot be done. */
bool handover_prepare(struct handover *h);
/* The exec, or the preparation, failed. */
void handover_undo(struct handover *h);
/* A child was made; it has what it needs. */
void handover_spawned(struct handover *h, int pid);
/* Gives the list back. */
void handover_end(struct handover *h);
/* Before main: takes over what the image before us has left. */
void handover_adopt(void);
#endif
