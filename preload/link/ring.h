/* One direction's bytes in shared memory. No waiting, no waking, no system calls: those are the lane's.
 * The writer's functions are called under the direction's tx lock, the reader's under its rx lock. */
#ifndef HASTEN_RING_H
#define HASTEN_RING_H
#include "preload/link/format.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

struct ring {
	struct link_dir *dir;    /* link memory */
	uint8_t *area;           /* RING_STRIDE bytes of it */
};

/* A cursor over the caller's buffers. */
struct iov_cursor {
	const struct iovec *iov;
	size_t n;                /* buffers left, iov[0] the current one */
	size_t at;               /* bytes of iov[0] already used */
};

static inline uint64_t head_pos(uint64_t head)
{
	return head >> 1;
}

static inline bool head_gated(uint64_t head)
{
	return head & 1;
}

/* Empty direction with its gate closed; what has pages keeps them. */
void ring_reset(struct ring r);

/* Copies up to n bytes behind the published position and returns how many fitted; they do not count before
 * ring_publish. limit bounds the unread bytes. Grows the ring where that helps. */
size_t ring_fill(struct ring r, struct iov_cursor *from, size_t n, uint64_t limit);

/* Makes n filled bytes the reader's. False: the gate is closed, nothing was published. */
bool ring_publish(struct ring r, size_t n);

/* Takes back the last n published bytes (a promotion whose marker the kernel refused: the reader uses no ring
 * byte before it has seen a marker byte). The gate bit is kept. */
void ring_withdraw(struct ring r, size_t n);

/* Unread bytes; SIZE_MAX: the peer's word makes no sense. */
size_t ring_unread(struct ring r);

/* How many bytes the writer could put now, at most limit unread. */
size_t ring_room(struct ring r, uint64_t limit);

/* Copies up to n unread bytes from position tail + skip, without taking them. Returns bytes copied. */
size_t ring_copy(struct ring r, struct iov_cursor *to, size_t skip, size_t n);

/* Has a class above the smallest pages? */
bool ring_grown(struct link_dir *d);
/* Some ring of this process has grown, or goes on in a larger class, since this was cleared. */
extern _Atomic uint32_t ring_grew;
/* The writer's, with nothing unread: the smallest class again, the pages of the others have been given back. */
void ring_shrink(struct ring r);

/* Moves tail over n bytes. */
void ring_advance(struct ring r, size_t n);

/* Moves a cursor over n bytes; copies to (dst) or from (src) the buffers where given. */
void iov_advance(struct iov_cursor *c, size_t n);
#endif
