/* Members of epoll sets whose number is closed while the socket lives on: by another number, or in a child. */
#include "conform.h"

static int add(int set, int fd, uint32_t events, uint64_t data)
{
	struct epoll_event e = {.events = events, .data.u64 = data};
	return epoll_ctl(set, EPOLL_CTL_ADD, fd, &e);
}

/* The next event that is not of connection 1, which a child may keep alive. */
static struct epoll_event next(int set, int ms)
{
	struct epoll_event e;
	for (double end = now() + ms / 1000.0; now() < end;) {
		int n = epoll_wait(set, &e, 1, 10);
		CHECK(n >= 0, "epoll_wait");
		if (n && e.data.u64 != 1)
			return e;
	}
	return (struct epoll_event){0};
}

enum order { MEMBER_CLOSE_WARM, MEMBER_WARM_CLOSE, WARM_MEMBER_CLOSE };

static void another_number(enum order order, uint32_t how)
{
	int c, s, set = epoll_create1(0);
	char b[4];
	pair(&c, &s);
	int other = dup(s);
	if (order != WARM_MEMBER_CLOSE)
		CHECK(!add(set, s, EPOLLIN | how, 7), "ADD");
	if (order == MEMBER_CLOSE_WARM)
		CHECK(other >= 0 && !close(s), "dup and close");
	warm(c, other);
	if (order == WARM_MEMBER_CLOSE)
		CHECK(!add(set, s, EPOLLIN | how, 7), "ADD");
	if (order != MEMBER_CLOSE_WARM)
		CHECK(other >= 0 && !close(s), "dup and close");
	(void)next(set, 20);
	for (int i = 0; i < 60; i++) { /* acceleration has every occasion to begin, and to begin again */
		send_all(c, "ask", 3);
		struct epoll_event e = next(set, 1000);
		CHECK(e.data.u64 == 7 && e.events == EPOLLIN, "round %d: events %x of %d", i, e.events, (int)e.data.u64);
		CHECK(recv_all(other, b, 3) == 3, "receive");
		send_all(other, "answer", 6);
		char answer[6];
		CHECK(recv_all(c, answer, 6) == 6, "answer");
	}
	CHECK(!add(set, other, EPOLLIN, 8), "the other number is a member of its own");
	send_all(c, "x", 1);
	struct epoll_event e[4];
	int seen = 0;
	for (int n = 0; n < 20 && seen != 3; n++) {
		int k = epoll_wait(set, e, 4, 50);
		for (int i = 0; i < k; i++)
			seen |= e[i].data.u64 == 7 ? 1 : e[i].data.u64 == 8 ? 2 : 4;
	}
	CHECK(seen == 3, "both are told: %d", seen);
	recv_all(other, b, 1);
	close(other);
	CHECK(epoll_wait(set, e, 4, 0) == 0, "the last close takes both out");
	CHECK(recv(c, b, 1, 0) == 0, "and is the end");
	close(c);
	close(set);
}

static void in_a_child(void)
{
	int c, s, c2, s2, set = epoll_create1(0), go[2];
	char b[4];
	CHECK(!pipe(go), "pipe");
	pair(&c, &s);
	warm(c, s);
	CHECK(!add(set, s, EPOLLIN | EPOLLRDHUP, 1), "ADD");
	int other = dup(s);
	pid_t pid = child();
	if (!pid) {
		close(go[1]);
		close(c);
		CHECK(read(go[0], b, 1) == 0, "told to end");
		_exit(0);
	}
	CHECK(!close(s) && !close(other), "close");
	pair(&c2, &s2);
	CHECK(!add(set, s2, EPOLLIN | EPOLLRDHUP, 2), "ADD");
	warm(c2, s2);
	(void)next(set, 10);
	close(c); /* the end of the first, not of the second */
	CHECK(!next(set, 100).events, "an event of another connection");
	send_all(c2, "ask", 3);
	struct epoll_event e = next(set, 1000);
	CHECK(e.data.u64 == 2 && e.events == EPOLLIN, "events %x of %d", e.events, (int)e.data.u64);
	CHECK(recv_all(s2, b, 3) == 3, "receive");
	still_works(c2, s2);
	close(go[1]);
	CHECK(!reap(pid), "child");
	close(go[0]);
	close(c2);
	close(s2);
	close(set);
}

static void test(void)
{
	another_number(MEMBER_WARM_CLOSE, 0);
	another_number(WARM_MEMBER_CLOSE, 0);
	another_number(WARM_MEMBER_CLOSE, EPOLLET);
	another_number(MEMBER_CLOSE_WARM, 0);
	in_a_child();
}

int main(void)
{
	return once(test);
}
