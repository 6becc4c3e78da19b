/* Shared memory of two processes on one host. */
#include "preload/lane/lane.h"
#include "preload/link/link.h"
#include "preload/real.h"
#include "preload/stats/stats.h"
#include "preload/switch.h"
#include "preload/wait/waker.h"

#include <errno.h>
#include <sys/socket.h>

static ssize_t put(struct sock *s, struct iov_cursor *c, size_t n)
{
	struct slot *t = s->slot;
	struct ring r = tx_ring(t);
	struct iov_cursor at = *c;
	size_t k = ring_fill(r, &at, n, tx_limit(t));
	if (!k)
		return 0;
	if (!ring_publish(r, k))
		return -ESTALE;
	*c = at;
	stats_lane(s, true, k);
	news_post(s->link, s->lane, t->side ^ 1);
	return k;
}

static ssize_t take(struct sock *s, struct iov_cursor *c, size_t n, int flags)
{
	struct slot *t = s->slot;
	struct ring r = rx_ring(t);
	size_t unread = ring_unread(r);
	if (!unread)
		return 0;
	if (unread == SIZE_MAX)
		return -EIO;
	size_t k;
	if (flags & MSG_TRUNC) {
		k = n < unread ? n : unread; /* unseen, as TCP does with MSG_TRUNC */
	} else {
		k = ring_copy(r, c, 0, n);
	}
	if (flags & MSG_PEEK)
		return k;
	ring_advance(r, k);
	stats_lane(s, false, k);
	/* seq_cst on both sides: tail before this look, want_room before the writer's last look at tail. The writer says
	 * at how many unread bytes it wants to go on (plus one). */
	uint32_t want = atomic_load(&r.dir->want_room);
	if (unlikely(want) && unread - k < want) {
		atomic_store(&r.dir->want_room, 0);
		news_post(s->link, s->lane, t->side ^ 1);
	}
	return k;
}

const struct lane_ops lane_shm = {
	.name = "shm",
	.transport = TRANSPORT_SHM,
	.put = put,
	.take = take,
};
