/* What the two halves of a data call share; nobody else includes it. receive.c: receives, and what lies ahead in a
 * direction; io.c: the ways in, sends and the end. */
#ifndef HASTEN_IO_INNER_H
#define HASTEN_IO_INNER_H
#include "preload/io.h"
#include "preload/real.h"
#include "preload/switch.h"
#include "preload/wait/waitset.h"
#include <limits.h>
#include <sys/time.h>

/* Counts on; one that is lost between threads does not matter. */
#define TICK(count) ({ \
	uint32_t ticked_ = atomic_load_explicit(&(count), memory_order_relaxed) + 1; \
	atomic_store_explicit(&(count), ticked_, memory_order_relaxed); \
	ticked_; })

/* A slot that no other process and no other thread uses needs no lock. */
static inline bool lock_dir(struct sock *s, struct slot_dir *d)
{
	critical_enter();
	if (likely(alone())) {
		if (likely(s->solo))
			return false;
		if ((TICK(s->looks) & 255) == 0 && slot_sole(s->slot))
			s->solo = 1; /* the children that held it have gone */
	}
	dir_lock(d);
	return true;
}

static inline void unlock_dir(struct slot_dir *d, bool locked)
{
	if (locked)
		dir_unlock(d);
	critical_leave();
}

static inline size_t iov_total(const struct iovec *iov, size_t n)
{
	size_t total = 0;
	for (size_t i = 0; i < n; i++)
		total += iov[i].iov_len;
	return total < SSIZE_MAX ? total : SSIZE_MAX;
}

static inline uint64_t timeout_of(struct slot *t, int fd, int option)
{
	uint8_t set = atomic_load_explicit(&t->timeouts, memory_order_relaxed), bit = option == SO_RCVTIMEO ? 1 : 2;
	if (!(set & bit))
		return UINT64_MAX;
	if (unlikely(set & bit * 4))
		return 1; /* long ago */
	struct timeval tv;
	socklen_t len = sizeof(tv);
	if (real.getsockopt(fd, SOL_SOCKET, option, &tv, &len) < 0 || (!tv.tv_sec && !tv.tv_usec))
		return UINT64_MAX;
	return now_ns() + tv.tv_sec * 1000000000ull + tv.tv_usec * 1000ull;
}

#endif
