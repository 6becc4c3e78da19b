/* Random streams both ways at once between two processes: random sizes, random calls, random pauses, several seeds,
 * checked byte by byte. This is what finds a byte that was lost, doubled or put in the wrong place. */
#include "conform.h"

enum { LENGTH = 600000 };

struct side {
	int fd;
	unsigned seed; /* of the stream in this direction */
	unsigned random;
};

static unsigned next(unsigned *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

static size_t some_size(unsigned *state)
{
	static const size_t limits[] = {8, 100, 1500, 16384, 65536, 200000};
	return 1 + next(state) % limits[next(state) % ARRAY_SIZE(limits)];
}

static void pause_at_random(unsigned *state)
{
	unsigned r = next(state) % 64;
	if (r == 0)
		nap(1);
	else if (r < 4)
		sched_yield();
}

static void *sender(void *arg)
{
	struct side *me = arg;
	unsigned state = me->random;
	static __thread uint8_t b[200001];
	for (uint64_t at = 0; at < LENGTH;) {
		size_t n = some_size(&state);
		if (n > LENGTH - at)
			n = LENGTH - at;
		pattern(b, n, at, me->seed);
		struct iovec v[2] = {{b, n / 2}, {b + n / 2, n - n / 2}};
		struct msghdr m = {.msg_iov = v, .msg_iovlen = 2};
		ssize_t k;
		switch (next(&state) % 5) {
		case 0:
			k = write(me->fd, b, n);
			break;
		case 1:
			k = writev(me->fd, v, 2);
			break;
		case 2:
			k = sendmsg(me->fd, &m, MSG_NOSIGNAL);
			break;
		case 3:
			k = send(me->fd, b, n, MSG_DONTWAIT | MSG_NOSIGNAL);
			if (k < 0 && errno == EAGAIN) {
				CHECK(ready(me->fd, POLLOUT, 5000) & (POLLOUT | POLLERR), "poll for room");
				continue;
			}
			break;
		default:
			k = send(me->fd, b, n, MSG_NOSIGNAL);
			break;
		}
		CHECK(k > 0 && (size_t)k <= n, "send of %zu gave %zd", n, k);
		at += (uint64_t)k;
		pause_at_random(&state);
	}
	CHECK(!shutdown(me->fd, SHUT_WR), "shutdown");
	return NULL;
}

static void *receiver(void *arg)
{
	struct side *me = arg;
	unsigned state = me->random * 7 + 1;
	static __thread uint8_t b[200001];
	uint64_t at = 0;
	for (;;) {
		size_t n = some_size(&state);
		struct iovec v[2] = {{b, n / 2}, {b + n / 2, n - n / 2}};
		struct msghdr m = {.msg_iov = v, .msg_iovlen = 2};
		ssize_t k;
		switch (next(&state) % 7) {
		case 0:
			k = read(me->fd, b, n);
			break;
		case 1:
			k = readv(me->fd, v, 2);
			break;
		case 2:
			k = recvmsg(me->fd, &m, 0);
			break;
		case 3:
			k = recv(me->fd, b, n, MSG_DONTWAIT);
			if (k < 0 && errno == EAGAIN) {
				CHECK(ready(me->fd, POLLIN, 5000) & POLLIN, "poll for bytes");
				continue;
			}
			break;
		case 4:
			k = recv(me->fd, b, n, MSG_PEEK);
			if (k > 0) {
				check_pattern(b, (size_t)k, at, me->seed);
				continue;
			}
			break;
		case 5:
			k = recv(me->fd, b, n < 3000 ? n : 3000, MSG_WAITALL);
			break;
		default:
			k = recv(me->fd, b, n, 0);
			break;
		}
		CHECK(k >= 0, "recv");
		if (!k)
			break;
		check_pattern(b, (size_t)k, at, me->seed);
		at += (uint64_t)k;
		pause_at_random(&state);
	}
	CHECK(at == LENGTH, "the stream ended after %llu bytes", (unsigned long long)at);
	return NULL;
}

static unsigned round_seed;

static void both_directions(int fd, bool connected)
{
	struct side out = {fd, round_seed + connected, round_seed * 31 + connected};
	struct side in = {fd, round_seed + !connected, round_seed * 17 + connected};
	pthread_t t;
	CHECK(!pthread_create(&t, NULL, sender, &out), "thread");
	receiver(&in);
	pthread_join(t, NULL);
}

static void other_process(int fd)
{
	both_directions(fd, true);
}

static void test(void)
{
	for (unsigned seed = 1; seed <= 3; seed++) {
		int fd;
		round_seed = 5000 * seed + family;
		pid_t pid = peer(other_process, &fd);
		both_directions(fd, false);
		CHECK(reap(pid) == 0, "the other process");
		close(fd);
		printf("%s seed %u: %d bytes each way\n", family_names[family], seed, LENGTH);
	}
}

int main(void)
{
	return each_family(test);
}
