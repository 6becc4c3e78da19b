/* A lane moves bytes of a connection whose direction is in MODE_LANE. One file a transport and one row in lane.c. */
#ifndef HASTEN_LANE_H
#define HASTEN_LANE_H
#include "common/state.h"
#include "preload/link/ring.h"
#include "preload/sock.h"
#include <sys/types.h>

struct lane_ops {
	const char *name;
	enum state_transport transport;
	/* Under tx lock. Bytes put (0: no room now), -ESTALE: the gate is closed. */
	ssize_t (*put)(struct sock *s, struct iov_cursor *c, size_t n);
	/* Under rx lock. Bytes taken (with MSG_PEEK: copied), 0: nothing there, -EIO: the peer's words make no sense. */
	ssize_t (*take)(struct sock *s, struct iov_cursor *c, size_t n, int flags);
};

extern const struct lane_ops lane_shm, lane_fault;
/* The lane of this process: shm, or fault where a seed is set (tests only). */
extern const struct lane_ops *lane_active;

static inline ssize_t lane_put(struct sock *s, struct iov_cursor *c, size_t n)
{
	return lane_active->put(s, c, n);
}

static inline ssize_t lane_take(struct sock *s, struct iov_cursor *c, size_t n, int flags)
{
	return lane_active->take(s, c, n, flags);
}
#endif
