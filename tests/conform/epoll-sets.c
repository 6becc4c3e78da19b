/* A descriptor in several sets, a set in a set, a set under poll, changes while another thread waits, errors of
 * epoll_ctl, what close and dup leave in a set. */
#include "conform.h"

static void control(int set, int op, int fd, uint32_t events)
{
	struct epoll_event e = {events, {.fd = fd}};
	CHECK(!epoll_ctl(set, op, fd, &e), "epoll_ctl %d", op);
}

static uint32_t events_of(int set, int fd, int ms)
{
	struct epoll_event e[8];
	int n = epoll_wait(set, e, 8, ms);
	CHECK(n >= 0, "epoll_wait");
	for (int i = 0; i < n; i++)
		if (e[i].data.fd == fd)
			return e[i].events;
	return 0;
}

static void several(int c, int s)
{
	int level = epoll_create1(0), edge = epoll_create1(0);
	char b[100];
	control(level, EPOLL_CTL_ADD, s, EPOLLIN);
	control(edge, EPOLL_CTL_ADD, s, EPOLLIN | EPOLLET);
	for (int i = 0; i < 5; i++) {
		send_all(c, "abc", 3);
		CHECK(events_of(level, s, 1000) == EPOLLIN && events_of(edge, s, 1000) == EPOLLIN, "both sets");
		CHECK(events_of(level, s, 0) == EPOLLIN && events_of(edge, s, 0) == 0, "each in its mode");
		CHECK(recv(s, b, 100, 0) == 3 && events_of(level, s, 0) == 0, "read");
	}
	close(level);
	close(edge);
}

static void nested(int c, int s)
{
	int inner = epoll_create1(0), outer = epoll_create1(0);
	char b[100];
	control(inner, EPOLL_CTL_ADD, s, EPOLLIN);
	control(outer, EPOLL_CTL_ADD, inner, EPOLLIN);
	for (int i = 0; i < 5; i++) {
		CHECK(events_of(outer, inner, 0) == 0 && !ready(inner, POLLIN, 0), "nothing");
		send_all(c, "abc", 3);
		CHECK(events_of(outer, inner, 1000) == EPOLLIN, "outer");
		CHECK(ready(inner, POLLIN, 1000) == POLLIN, "a set is readable under poll");
		CHECK(ready(outer, POLLIN, 1000) == POLLIN, "an outer set too");
		CHECK(events_of(inner, s, 0) == EPOLLIN, "inner");
		CHECK(recv(s, b, 100, 0) == 3, "recv");
	}
	close(inner);
	close(outer);
}

struct waiting {
	int set, fd;
	uint32_t got;
};

static void *wait_for(void *arg)
{
	struct waiting *w = arg;
	w->got = events_of(w->set, w->fd, 3000);
	return NULL;
}

static void while_waiting(int c, int s)
{
	char b[10];
	pthread_t t;
	struct waiting w = {epoll_create1(0), s, 0};
	CHECK(!pthread_create(&t, NULL, wait_for, &w), "thread");
	nap(20);
	send_all(c, "x", 1);
	control(w.set, EPOLL_CTL_ADD, s, EPOLLIN);
	pthread_join(t, NULL);
	CHECK(w.got == EPOLLIN, "added while another thread waits");
	CHECK(recv(s, b, 10, 0) == 1, "recv");
	control(w.set, EPOLL_CTL_MOD, s, 0);
	CHECK(!pthread_create(&t, NULL, wait_for, &w), "thread");
	nap(20);
	control(w.set, EPOLL_CTL_MOD, s, EPOLLOUT);
	pthread_join(t, NULL);
	CHECK(w.got == EPOLLOUT, "changed while another thread waits");
	control(w.set, EPOLL_CTL_MOD, s, EPOLLIN);
	CHECK(!pthread_create(&t, NULL, wait_for, &w), "thread");
	nap(20);
	send_all(c, "y", 1);
	pthread_join(t, NULL);
	CHECK(w.got == EPOLLIN, "bytes arrive while another thread waits");
	CHECK(recv(s, b, 10, 0) == 1, "recv");
	close(w.set);
}

static void wrong_use(int c, int s)
{
	int set = epoll_create1(0);
	struct epoll_event e = {EPOLLIN, {.fd = s}};
	CHECK(epoll_create(0) == -1 && errno == EINVAL, "epoll_create(0)");
	CHECK(epoll_create1(-1) == -1 && errno == EINVAL, "epoll_create1(-1)");
	CHECK(epoll_ctl(set, EPOLL_CTL_MOD, s, &e) == -1 && errno == ENOENT, "MOD before ADD");
	CHECK(epoll_ctl(set, EPOLL_CTL_DEL, s, NULL) == -1 && errno == ENOENT, "DEL before ADD");
	CHECK(!epoll_ctl(set, EPOLL_CTL_ADD, s, &e), "ADD");
	CHECK(epoll_ctl(set, EPOLL_CTL_ADD, s, &e) == -1 && errno == EEXIST, "ADD twice");
	CHECK(epoll_ctl(set, EPOLL_CTL_ADD, set, &e) == -1 && errno == EINVAL, "a set in itself");
	CHECK(epoll_ctl(set, EPOLL_CTL_ADD, -1, &e) == -1 && errno == EBADF, "-1");
	CHECK(epoll_ctl(s, EPOLL_CTL_ADD, c, &e) == -1 && errno == EINVAL, "a socket is no set");
	CHECK(epoll_wait(set, &e, 0, 0) == -1 && errno == EINVAL, "no room for events");
	CHECK(epoll_wait(s, &e, 1, 0) == -1 && errno == EINVAL, "epoll_wait on a socket");
	CHECK(epoll_wait(-1, &e, 1, 0) == -1 && errno == EBADF, "epoll_wait on -1");
	CHECK(!epoll_ctl(set, EPOLL_CTL_DEL, s, NULL), "DEL");
	close(set);
}

static void after_close(void)
{
	int c, s, set = epoll_create1(0);
	pair(&c, &s);
	warm(c, s);
	control(set, EPOLL_CTL_ADD, s, EPOLLIN);
	int copy = dup(s);
	send_all(c, "abc", 3);
	close(s);
	CHECK(events_of(set, s, 1000) == EPOLLIN, "the open file lives in its copy, under the old number");
	char b[10];
	CHECK(recv(copy, b, 10, 0) == 3, "recv by the copy");
	close(copy);
	CHECK(events_of(set, s, 10) == 0, "gone with the last copy");
	close(c);
	/* The number is used again by another connection: the set knows nothing of it. */
	int c2, s2;
	pair(&c2, &s2);
	send_all(c2, "q", 1);
	CHECK(ready(s2, POLLIN, 1000) && events_of(set, s2, 10) == 0, "a reused number is not in the set");
	control(set, EPOLL_CTL_ADD, s2, EPOLLIN);
	CHECK(events_of(set, s2, 1000) == EPOLLIN, "until it is added");
	close(c2);
	close(s2);
	close(set);
}

/* More ready descriptors than room for events: none starves. */
static void fair(void)
{
	enum { N = 12 };
	int c[N], s[N], seen[N] = {0}, set = epoll_create1(0);
	for (int i = 0; i < N; i++) {
		pair(&c[i], &s[i]);
		warm(c[i], s[i]);
		struct epoll_event e = {EPOLLIN, {.u32 = (uint32_t)i}};
		CHECK(!epoll_ctl(set, EPOLL_CTL_ADD, s[i], &e), "ADD");
		send_all(c[i], "x", 1);
		CHECK(ready(s[i], POLLIN, 1000), "arrived");
	}
	struct epoll_event e[3];
	for (int round = 0; round < 12; round++) {
		int n = epoll_wait(set, e, 3, 1000);
		CHECK(n == 3, "%d of 12 ready ones", n);
		for (int i = 0; i < n; i++)
			seen[e[i].data.u32]++;
	}
	for (int i = 0; i < N; i++) {
		CHECK(seen[i] >= 1, "descriptor %d starved", i);
		close(c[i]);
		close(s[i]);
	}
	close(set);
}

static void test(void)
{
	int c, s;
	pair(&c, &s);
	for (int round = 0; round < 2; round++) {
		several(c, s);
		several(s, c);
		nested(c, s);
		while_waiting(c, s);
		wrong_use(c, s);
		warm(c, s);
	}
	close(c);
	close(s);
	after_close();
	fair();
}

int main(void)
{
	return each_family(test);
}
