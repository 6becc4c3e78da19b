/* A process that stays between a descriptor that has left us and its connection, where the rest of what was received
 * could not be put into the kernel socket: the writer is gone or may not be looked into, it has gone back to the kernel
 * or was stopped in the middle of a switch, or the rest does not fit.
 *
 * The program's numbers get one end of a fresh loopback connection; the relay has the other end and the old socket, as
 * a member of the family: it drains the lane by the library's own receive and copies both ways until both ends are
 * through. To the program the descriptor is another socket: getpeername shows a loopback pair. */
#ifndef HASTEN_RELAY_H
#define HASTEN_RELAY_H
#include "common/reasons.h"
#include "preload/sock.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RELAY_BUFFER (256u << 10)
#define RELAY_PIPE   (1u << 20)
#define RELAY_BULK   (32u << 10) /* transfers of this size and more go through the pipe: pages change hands, nothing is copied */

/* One direction. */
struct relay_flow {
	uint8_t *buf;
	size_t at, n;            /* bytes in buf from at on; or in the pipe */
	int pipe[2];             /* -1: none to be had */
	bool bulk;               /* the last transfer was a large one */
	bool piped;              /* n are in the pipe */
	bool over;               /* its end has been passed on, or nobody takes it */
	bool reset;              /* it ended by an error of the side that it comes from */
};

struct relay {
	struct sock *s;
	int old;                 /* the connection */
	int ours;                /* the pair's end that is not the program's */
	struct relay_flow in, out;     /* connection to program, program to connection */
	bool plain;              /* nothing is on the lane any more */
	/* While another process of the family holds the connection too, nobody knows which of them will read. A guest lends
	 * the program what lies ahead, and takes it from the connection only when the program has read it: that the other
	 * holder reads on, or waits until the program is through, are both right then. */
	bool guest;
	int theirs;              /* guest: a copy of the program's end, which says what was read; -1 its process has ended */
	int program;             /* guest: pidfd of the process that has the program's end */
	uint64_t read;           /* guest: bytes that the program has read */
	uint64_t at;             /* guest: place in the connection's stream of the first byte that is lent */
	size_t lent;             /* guest: sent to the program, not taken from the connection */
	size_t stale;            /* of what was sent to the program: read by the other holder meanwhile */
	uint64_t pause;          /* guest: ns until the next look */
	bool counted;            /* guest: among the slot's guests */
	uint32_t answered;       /* guest: the last question that we have answered */
};

/* s stands behind fd, its gate is closed, what it sends is demoted, no lock is held. In this process every number of
 * the socket is replaced and s is plain afterwards (in a vfork child: the child's numbers only). 0 or -errno, then
 * nothing has changed. */
int relay_start(struct sock *s, int fd, enum reason why);

/* Before a receive of a holder, where relays have lent bytes of this direction: what their programs have read counts. */
void relay_settle(struct slot *t);

/* The relay's process: the forked child ends in it. index: its place in the family. */
_Noreturn void relay_main(struct relay *r, int index);
#endif
