/* Threads: a server thread for each connection, threads that share one connection, and one connection with a reading
 * and a writing thread at each end. */
#include "conform.h"

enum { N = 4 };

static void *serve(void *arg)
{
	echo_until_end(*(int *)arg);
	return NULL;
}

static void *ask(void *arg)
{
	ask_echo(*(int *)arg, 100, 700, 3);
	shutdown(*(int *)arg, SHUT_WR);
	return NULL;
}

static void one_each(void)
{
	int c[N], s[N];
	pthread_t t[N], u[N];
	for (int i = 0; i < N; i++) {
		pair(&c[i], &s[i]);
		CHECK(!pthread_create(&t[i], NULL, serve, &s[i]), "thread");
		CHECK(!pthread_create(&u[i], NULL, ask, &c[i]), "thread");
	}
	for (int i = 0; i < N; i++) {
		pthread_join(u[i], NULL);
		pthread_join(t[i], NULL);
		close(c[i]);
		close(s[i]);
	}
}

static int shared;
static uint32_t sums[N], counts[N];

/* Records of fixed size: whoever gets one gets all of it, since all together stay below the first window of a
 * loopback connection (64 KiB), so that no segment ends within a record. */
enum { RECORD = 64, RECORDS = 400 };

static void *take_records(void *arg)
{
	int me = *(int *)arg;
	uint32_t b[RECORD / 4];
	for (;;) {
		ssize_t k = recv(shared, b, RECORD, MSG_WAITALL);
		if (!k)
			return NULL;
		CHECK(k == RECORD, "part of a record: %zd", k);
		for (int i = 1; i < RECORD / 4; i++)
			CHECK(b[i] == b[0] * 31 + (uint32_t)i, "record %u is torn", b[0]);
		sums[me] += b[0];
		counts[me]++;
	}
}

static void *give_records(void *arg)
{
	int fd = *(int *)arg;
	static __thread uint32_t b[RECORD / 4];
	static _Atomic uint32_t next;
	for (uint32_t k = 0; k < RECORDS / 2; k++) {
		uint32_t number = next++ % RECORDS;
		b[0] = number;
		for (int i = 1; i < RECORD / 4; i++)
			b[i] = number * 31 + (uint32_t)i;
		CHECK(send(fd, b, RECORD, 0) == RECORD, "send");
	}
	return NULL;
}

/* Two threads write whole records to one end, three take them from the other. */
static void shared_connection(void)
{
	int c, s, numbers[N] = {0, 1, 2, 3};
	pthread_t takers[3], givers[2];
	memset(sums, 0, sizeof(sums));
	memset(counts, 0, sizeof(counts));
	pair(&c, &s);
	warm(c, s);
	shared = s;
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_create(&takers[i], NULL, take_records, &numbers[i]), "thread");
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_create(&givers[i], NULL, give_records, &c), "thread");
	for (int i = 0; i < 2; i++)
		pthread_join(givers[i], NULL);
	shutdown(c, SHUT_WR);
	for (int i = 0; i < 3; i++)
		pthread_join(takers[i], NULL);
	CHECK(counts[0] + counts[1] + counts[2] == RECORDS, "%u records", counts[0] + counts[1] + counts[2]);
	CHECK(sums[0] + sums[1] + sums[2] == RECORDS * (RECORDS - 1u) / 2, "records lost or doubled");
	close(c);
	close(s);
}

struct half {
	int fd;
	unsigned seed;
};

enum { LONG = 1 << 20 };

static void *write_half(void *arg)
{
	struct half *h = arg;
	static __thread uint8_t b[5000];
	for (uint64_t at = 0; at < LONG; at += 4096) {
		pattern(b, 4096, at, h->seed);
		send_all(h->fd, b, 4096);
	}
	return NULL;
}

static void *read_half(void *arg)
{
	struct half *h = arg;
	static __thread uint8_t b[5000];
	for (uint64_t at = 0; at < LONG;) {
		ssize_t k = recv(h->fd, b, sizeof(b), 0);
		CHECK(k > 0, "recv");
		check_pattern(b, (size_t)k, at, h->seed);
		at += (uint64_t)k;
	}
	return NULL;
}

static void both_ways_at_once(void)
{
	int c, s;
	pair(&c, &s);
	struct half halves[4] = {{c, 1}, {s, 2}, {s, 1}, {c, 2}};
	pthread_t t[4];
	for (int i = 0; i < 4; i++)
		CHECK(!pthread_create(&t[i], NULL, i < 2 ? write_half : read_half, &halves[i]), "thread");
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	still_works(c, s);
	close(c);
	close(s);
}

static void test(void)
{
	one_each();
	for (int i = 0; i < 5; i++)
		shared_connection();
	both_ways_at_once();
}

int main(void)
{
	return each_family(test);
}
