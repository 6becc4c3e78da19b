/* Much in flight: programs that write long before anybody reads must not block earlier than over the kernel. */
#include "conform.h"

static uint8_t out[1 << 20], in[1 << 20];

/* 200 KB each way from one thread before it reads. */
static void both_ways(int c, int s)
{
	enum { N = 200000 };
	pattern(out, N, 0, 1);
	send_all(c, out, N);
	pattern(out, N, 0, 2);
	send_all(s, out, N);
	CHECK(recv_all(s, in, N) == N, "end");
	check_pattern(in, N, 0, 1);
	CHECK(recv_all(c, in, N) == N, "end");
	check_pattern(in, N, 0, 2);
}

/* Non-blocking writes until refused: how much fits is the kernel's business, but it must be a good deal, be
 * announced by poll, and arrive whole. */
static void until_refused(int from, int to, unsigned seed)
{
	uint64_t sent = 0, got = 0;
	set_nonblocking(from, true);
	for (;;) {
		pattern(out, 50000, sent, seed);
		ssize_t k = send(from, out, 50000, MSG_NOSIGNAL);
		if (k < 0) {
			CHECK(errno == EAGAIN, "refused");
			break;
		}
		CHECK(k > 0, "send gave %zd", k);
		sent += (uint64_t)k;
		CHECK(sent < 64 << 20, "64 MiB were taken and nobody reads");
	}
	CHECK(sent >= 200000, "refused after %llu bytes", (unsigned long long)sent);
	CHECK(!(ready(from, POLLOUT, 0) & POLLOUT), "refused, but poll says writable");
	CHECK(ready(to, POLLIN, 1000) & POLLIN, "poll says nothing to read");
	while (got < sent) {
		ssize_t k = recv(to, in, 100000, 0);
		CHECK(k > 0, "recv");
		check_pattern(in, (size_t)k, got, seed);
		got += (uint64_t)k;
	}
	CHECK(got == sent && (ready(from, POLLOUT, 1000) & POLLOUT), "room is announced after reading");
	set_nonblocking(to, true);
	CHECK(recv(to, in, 10, 0) == -1 && errno == EAGAIN, "more than was sent");
	set_nonblocking(to, false);
	set_nonblocking(from, false);
}

enum { LONG = 8 << 20 };

static void *drain(void *arg)
{
	int fd = *(int *)arg;
	uint64_t got = 0;
	static uint8_t b[65536];
	while (got < LONG) {
		if (got < 300000)
			nap(5); /* the writer is to meet a full connection */
		ssize_t k = recv(fd, b, sizeof(b), 0);
		CHECK(k > 0, "recv");
		check_pattern(b, (size_t)k, got, 7);
		got += (uint64_t)k;
	}
	return NULL;
}

/* One blocking write far larger than any buffer. */
static void one_long_write(int from, int to)
{
	static uint8_t all[LONG];
	pthread_t reader;
	pattern(all, LONG, 0, 7);
	CHECK(!pthread_create(&reader, NULL, drain, &to), "thread");
	CHECK(send(from, all, LONG, 0) == LONG, "a blocking send takes everything");
	pthread_join(reader, NULL);
}

static void test(void)
{
	int c, s;
	pair(&c, &s);
	both_ways(c, s);
	warm(c, s);
	for (int i = 0; i < 3; i++)
		both_ways(c, s);
	until_refused(c, s, 3);
	until_refused(s, c, 4);
	still_works(c, s);
	if (family == V4 || family == V6)
		one_long_write(c, s);
	if (family == V4)
		one_long_write(s, c);
	still_works(c, s);
	close(c);
	close(s);
}

int main(void)
{
	return each_family(test);
}
