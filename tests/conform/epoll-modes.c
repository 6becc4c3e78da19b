/* Level-triggered, edge-triggered, one-shot and RDHUP, through epoll_wait, epoll_pwait and epoll_pwait2. */
#include "conform.h"

static int set;

static uint32_t wait_by(int how, int ms)
{
	struct epoll_event e[8];
	struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
	int n;
	if (how == 0)
		n = epoll_wait(set, e, 8, ms);
	else if (how == 1)
		n = epoll_pwait(set, e, 8, ms, NULL);
	else
		n = epoll_pwait2(set, e, 8, &t, NULL);
	CHECK(n == 0 || n == 1, "%d events of one descriptor", n);
	return n ? e[0].events : 0;
}

static void control(int op, int fd, uint32_t events)
{
	struct epoll_event e = {events, {.fd = fd}};
	CHECK(!epoll_ctl(set, op, fd, &e), "epoll_ctl %d", op);
}

static void level(int from, int to, int how)
{
	char b[100];
	control(EPOLL_CTL_ADD, to, EPOLLIN);
	CHECK(wait_by(how, 0) == 0, "nothing yet");
	send_all(from, "12345678", 8);
	for (int i = 0; i < 4; i++) {
		CHECK(wait_by(how, 1000) == EPOLLIN, "level-triggered stays until read");
		CHECK(recv(to, b, 2, 0) == 2, "recv");
	}
	CHECK(wait_by(how, 3) == 0, "all was read");
	control(EPOLL_CTL_MOD, to, EPOLLIN | EPOLLOUT);
	CHECK(wait_by(how, 1000) == EPOLLOUT, "writable");
	CHECK(wait_by(how, 1000) == EPOLLOUT, "writable stays");
	send_all(from, "1", 1);
	for (int i = 0; i < 200 && wait_by(how, 10) != (EPOLLIN | EPOLLOUT); i++)
		nap(1);
	CHECK(wait_by(how, 10) == (EPOLLIN | EPOLLOUT), "both");
	CHECK(recv(to, b, 10, 0) == 1, "recv");
	control(EPOLL_CTL_DEL, to, 0);
	send_all(from, "1", 1);
	CHECK(wait_by(how, 3) == 0, "not in the set any more");
	CHECK(recv(to, b, 10, 0) == 1, "recv");
}

static void edge(int from, int to, int how)
{
	char b[100];
	control(EPOLL_CTL_ADD, to, EPOLLIN | EPOLLET);
	CHECK(wait_by(how, 3) == 0, "nothing yet");
	for (int i = 0; i < 5; i++) {
		send_all(from, "123456", 6);
		CHECK(wait_by(how, 1000) & EPOLLIN, "an edge for each arrival");
		CHECK(wait_by(how, 2) == 0, "no second edge without an arrival");
		CHECK(recv(to, b, 3, 0) == 3, "recv");
		CHECK(wait_by(how, 2) == 0, "reading a part makes no edge");
		if (i % 2)
			CHECK(recv(to, b, 100, 0) == 3 + 3, "the rest of two rounds");
	}
	CHECK(recv(to, b, 100, 0) == 3, "recv");
	/* A change of the interest looks anew, also at what did not change. */
	send_all(from, "1", 1);
	CHECK(wait_by(how, 1000) & EPOLLIN, "edge");
	control(EPOLL_CTL_MOD, to, EPOLLIN | EPOLLET);
	CHECK(wait_by(how, 1000) & EPOLLIN, "EPOLL_CTL_MOD arms again");
	CHECK(recv(to, b, 100, 0) == 1, "recv");
	control(EPOLL_CTL_MOD, to, EPOLLOUT | EPOLLET);
	CHECK(wait_by(how, 1000) == EPOLLOUT, "writable once");
	CHECK(wait_by(how, 2) == 0, "and not again");
	control(EPOLL_CTL_DEL, to, 0);
}

static void one_shot(int from, int to, int how)
{
	char b[100];
	control(EPOLL_CTL_ADD, to, EPOLLIN | EPOLLONESHOT);
	for (int i = 0; i < 5; i++) {
		send_all(from, "123", 3);
		CHECK(wait_by(how, 1000) == EPOLLIN, "one shot");
		send_all(from, "4", 1);
		CHECK(wait_by(how, 3) == 0, "disabled until armed");
		if (i % 2) {
			control(EPOLL_CTL_MOD, to, EPOLLIN | EPOLLONESHOT);
			CHECK(wait_by(how, 1000) == EPOLLIN, "armed again with bytes waiting");
		}
		CHECK(recv_all(to, b, 4) == 4, "recv");
		control(EPOLL_CTL_MOD, to, EPOLLIN | EPOLLONESHOT);
		CHECK(wait_by(how, 2) == 0, "nothing there");
	}
	control(EPOLL_CTL_DEL, to, 0);
}

static void the_end(int from, int to, int how)
{
	char b[100];
	control(EPOLL_CTL_ADD, to, EPOLLIN | EPOLLRDHUP | (how ? EPOLLET : 0));
	send_all(from, "last", 4);
	CHECK(wait_by(how, 1000) == EPOLLIN, "bytes");
	CHECK(!shutdown(from, SHUT_WR), "shutdown");
	uint32_t got = 0;
	for (int i = 0; i < 100 && got != (EPOLLIN | EPOLLRDHUP); i++)
		got |= wait_by(how, 10);
	CHECK(got == (EPOLLIN | EPOLLRDHUP), "half close says RDHUP, not HUP: %x", got);
	CHECK(recv_all(to, b, 100) == 4 && !memcmp(b, "last", 4), "bytes before the end");
	send_all(to, "answer", 6);
	CHECK(recv_all(from, b, 6) == 6, "the other direction lives");
	CHECK(!shutdown(to, SHUT_WR), "shutdown");
	got = 0;
	for (int i = 0; i < 100 && !(got & EPOLLHUP); i++)
		got |= wait_by(how, 10);
	CHECK(got == (EPOLLIN | EPOLLRDHUP | EPOLLHUP), "both closed: %x", got);
}

static void test(void)
{
	for (int how = 0; how < 3; how++) {
		int c, s;
		if (family != V4 && how + 1 != (int)family)
			continue;
		pair(&c, &s);
		set = epoll_create1(EPOLL_CLOEXEC);
		CHECK(set >= 0, "epoll_create1");
		for (int round = 0; round < 2; round++) {
			level(c, s, how);
			level(s, c, how);
			edge(c, s, how);
			edge(s, c, how);
			one_shot(c, s, how);
			one_shot(s, c, how);
			warm(c, s);
		}
		the_end(c, s, how);
		close(c);
		close(s);
		close(set);
	}
}

int main(void)
{
	return each_family(test);
}
