/* Stop and go: bursts, pauses long enough for every waiter to fall asleep, direction changes, and a switch of path
 * in the middle of bytes in flight. */
#include "conform.h"

static void echo_peer(int fd)
{
	echo_until_end(fd);
}

/* Waits in a way that changes each time, on either side of the sleep. */
static void *slow_echo(void *arg)
{
	int fd = *(int *)arg, set = epoll_create1(0);
	struct epoll_event e = {EPOLLIN, {.fd = fd}};
	CHECK(!epoll_ctl(set, EPOLL_CTL_ADD, fd, &e), "ADD");
	char b[20000];
	for (unsigned i = 0;; i++) {
		if (i % 3 == 1)
			CHECK(epoll_wait(set, &e, 1, 5000) == 1, "epoll_wait in vain");
		else if (i % 3 == 2)
			CHECK(ready(fd, POLLIN, 5000) & POLLIN, "poll in vain");
		ssize_t k = recv(fd, b, sizeof(b), 0);
		CHECK(k >= 0, "recv");
		if (!k)
			break;
		if (i % 7 == 3)
			nap(2);
		send_all(fd, b, (size_t)k);
	}
	close(set);
	return NULL;
}

static void with_threads(void)
{
	int c, s;
	pthread_t t;
	pair(&c, &s);
	CHECK(!pthread_create(&t, NULL, slow_echo, &s), "thread");
	for (unsigned i = 0; i < 60; i++) {
		ask_echo(c, 1, 1 + i * 37 % 3000, i);
		if (i % 10 == 9)
			nap(8);
	}
	shutdown(c, SHUT_WR);
	pthread_join(t, NULL);
	close(c);
	close(s);
}

/* A long burst is on its way when the answers, which make the connection known as busy, come in. */
static void burst_ahead(void)
{
	int fd;
	pid_t pid = peer(echo_peer, &fd);
	static uint8_t out[60000], in[60000];
	for (unsigned round = 0; round < 12; round++) {
		size_t sent = 0;
		pattern(out, sizeof(out), 0, round);
		while (sent < sizeof(out)) {
			size_t n = 1000 + (round * 977 + sent) % 5000;
			if (n > sizeof(out) - sent)
				n = sizeof(out) - sent;
			send_all(fd, out + sent, n);
			sent += n;
			if (round % 4 == 1 && sent > 30000 && sent < 36000)
				nap(3);
		}
		if (round % 3 == 0)
			nap(5);
		CHECK(recv_all(fd, in, sizeof(in)) == sizeof(in), "end");
		check_pattern(in, sizeof(in), 0, round);
	}
	close(fd);
	CHECK(reap(pid) == 0, "echo");
}

/* Only one direction is used for long, then only the other. */
static void one_direction_at_a_time(void)
{
	int c, s;
	pair(&c, &s);
	for (unsigned turn = 0; turn < 4; turn++) {
		int from = turn % 2 ? s : c, to = turn % 2 ? c : s;
		for (unsigned i = 0; i < 80; i++)
			carry(from, to, 300 + i, i * 400, turn);
		nap(3);
	}
	warm(c, s);
	close(c);
	close(s);
}

/* Answers arrive while the asker sleeps in a blocking recv: a lost wake would hang it. */
static void sleepy_echo(int fd)
{
	char b[100];
	for (unsigned i = 0;; i++) {
		size_t k = recv_all(fd, b, 64);
		if (!k)
			return;
		if (i % 4 == 0)
			nap(1);
		send_all(fd, b, k);
	}
}

static void sleepers(void)
{
	int fd;
	pid_t pid = peer(sleepy_echo, &fd);
	for (unsigned i = 0; i < 200; i++) {
		ask_echo(fd, 1, 64, i);
		if (i % 16 == 5)
			nap(1);
	}
	close(fd);
	CHECK(reap(pid) == 0, "echo");
}

static void test(void)
{
	with_threads();
	burst_ahead();
	one_direction_at_a_time();
	sleepers();
}

int main(void)
{
	return each_family(test);
}
