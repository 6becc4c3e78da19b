/* io_uring: a program that sets a ring up has its connections read and written by it from then on, also those with bytes
 * unread. Where the kernel refuses rings, it says so natively too. */
#include "conform.h"
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static int ring;
static struct io_uring_params params;
static uint8_t *sq, *cq;
static struct io_uring_sqe *sqes;

static bool set_up(void)
{
	memset(&params, 0, sizeof(params));
	ring = (int)syscall(SYS_io_uring_setup, 4, &params);
	if (ring < 0)
		return false;
	size_t sq_size = params.sq_off.array + params.sq_entries * sizeof(uint32_t);
	size_t cq_size = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
	sq = mmap(NULL, sq_size, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
	cq = mmap(NULL, cq_size, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_CQ_RING);
	sqes = mmap(NULL, params.sq_entries * sizeof(*sqes), PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
	CHECK(sq != MAP_FAILED && cq != MAP_FAILED && sqes != MAP_FAILED, "mmap of the ring");
	return true;
}

#define WORD(base, offset) ((_Atomic uint32_t *)((base) + (offset)))

/* One operation, waited for. */
static int32_t by_ring(uint8_t operation, int fd, void *data, uint32_t n)
{
	uint32_t tail = *WORD(sq, params.sq_off.tail), at = tail & *WORD(sq, params.sq_off.ring_mask);
	sqes[at] = (struct io_uring_sqe){.opcode = operation, .fd = fd, .addr = (uintptr_t)data, .len = n};
	*WORD(sq, params.sq_off.array + at * sizeof(uint32_t)) = at;
	*WORD(sq, params.sq_off.tail) = tail + 1;
	long r = syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0);
	CHECK(r == 1, "io_uring_enter: %ld", r);
	uint32_t head = *WORD(cq, params.cq_off.head);
	CHECK(head != *WORD(cq, params.cq_off.tail), "no completion");
	struct io_uring_cqe *e = (struct io_uring_cqe *)(cq + params.cq_off.cqes) + (head & *WORD(cq, params.cq_off.ring_mask));
	int32_t result = e->res;
	*WORD(cq, params.cq_off.head) = head + 1;
	return result;
}

static void in_child(void)
{
	int c[2], s[2];
	uint8_t out[3000], in[3000];
	for (int i = 0; i < 2; i++)
		pair(&c[i], &s[i]);
	warm(c[0], s[0]);
	pattern(out, sizeof(out), 0, 3);
	send_all(c[0], out, 1000); /* unread at that moment */
	send_all(s[0], out, 1000);
	CHECK(ready(s[0], POLLIN, 1000) && ready(c[0], POLLIN, 1000), "arrived");
	if (!set_up()) {
		printf("io_uring: %s\n", strerrorname_np(errno));
		fflush(stdout);
		_exit(0);
	}
	for (int i = 0; i < 2; i++) {
		if (i) {
			warm(c[i], s[i]);
			send_all(c[i], out, 1000);
			send_all(s[i], out, 1000);
		}
		CHECK(by_ring(IORING_OP_RECV, s[i], in, 1000) == 1000, "recv by the ring");
		check_pattern(in, 1000, 0, 3);
		CHECK(by_ring(IORING_OP_READ, c[i], in, 1000) == 1000, "read by the ring");
		check_pattern(in, 1000, 0, 3);
		for (unsigned k = 0; k < 20; k++) {
			pattern(out, sizeof(out), k * sizeof(out), 4);
			CHECK(by_ring(IORING_OP_SEND, c[i], out, sizeof(out)) == sizeof(out), "send by the ring");
			CHECK(recv_all(s[i], in, sizeof(in)) == sizeof(in), "recv");
			check_pattern(in, sizeof(in), k * sizeof(out), 4);
			send_all(s[i], out, sizeof(out));
			CHECK(ready(c[i], POLLIN, 1000), "arrived");
			size_t got = 0;
			while (got < sizeof(in)) {
				int32_t n = by_ring(IORING_OP_RECV, c[i], in + got, (uint32_t)(sizeof(in) - got));
				CHECK(n > 0, "recv by the ring: %d", n);
				got += (size_t)n;
			}
			check_pattern(in, sizeof(in), k * sizeof(out), 4);
			pattern(out, sizeof(out), 0, 3);
		}
		CHECK(by_ring(IORING_OP_CLOSE, c[i], NULL, 0) == 0 && recv(s[i], in, 1, 0) == 0, "close by the ring");
		close(s[i]);
	}
	puts("io_uring");
	fflush(stdout);
	_exit(0);
}

/* For each family a process of its own: a ring is for the rest of its life. */
static void test(void)
{
	pid_t pid = child();
	if (!pid)
		in_child();
	CHECK(reap(pid) == 0, "child");
}

int main(void)
{
	return each_family(test);
}
