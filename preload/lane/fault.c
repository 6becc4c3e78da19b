/* Tests only: the shm lane with delays, partial transfers and refusals drawn from a seed (option fault_seed). What
 * it does is allowed by the interface, so every program must behave the same on it. */
#include "preload/lane/lane.h"
#include "preload/state.h"

#include <errno.h>
#include <sched.h>
#include <sys/socket.h>

static __thread uint64_t draws __attribute__((tls_model("initial-exec")));

static uint32_t draw(void)
{
	if (!draws)
		draws = (uint64_t)options.fault_seed * 0x9e3779b97f4a7c15ull | 1;
	draws ^= draws << 13; /* xorshift64 */
	draws ^= draws >> 7;
	draws ^= draws << 17;
	return draws >> 32;
}

static size_t part(size_t n)
{
	uint32_t d = draw();
	if (d % 8 == 0)
		sched_yield();
	/* Small transfers stay whole: a record that TCP queued in one piece is never handed out in two. */
	if (d % 4 == 0 && n > 4096)
		return 1 + (d >> 8) % n;
	return n;
}

static ssize_t put(struct sock *s, struct iov_cursor *c, size_t n)
{
	return lane_shm.put(s, c, part(n));
}

static ssize_t take(struct sock *s, struct iov_cursor *c, size_t n, int flags)
{
	return lane_shm.take(s, c, flags & MSG_PEEK ? n : part(n), flags);
}

const struct lane_ops lane_fault = {
	.name = "fault",
	.transport = TRANSPORT_FAULT,
	.put = put,
	.take = take,
};
