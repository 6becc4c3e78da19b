/* poll, ppoll, select, pselect: events, time limits, odd sets, sockets beside pipes and files. */
#include "conform.h"
#include <sys/select.h>

static void by_select(int fd, int other)
{
	fd_set r, w, e;
	struct timeval t = {0, 0};
	struct timespec ts = {0, 2000000};
	char b[100];
	FD_ZERO(&r);
	FD_ZERO(&w);
	FD_ZERO(&e);
	FD_SET(fd, &r);
	FD_SET(fd, &w);
	FD_SET(fd, &e);
	CHECK(select(fd + 1, &r, &w, &e, &t) == 1 && !FD_ISSET(fd, &r) && FD_ISSET(fd, &w) && !FD_ISSET(fd, &e),
	      "writable only");
	FD_SET(fd, &r);
	FD_CLR(fd, &w);
	CHECK(pselect(fd + 1, &r, NULL, NULL, &ts, NULL) == 0 && !FD_ISSET(fd, &r), "time limit");
	send_all(other, "abc", 3);
	FD_SET(fd, &r);
	t.tv_sec = 2;
	CHECK(select(fd + 1, &r, NULL, NULL, &t) == 1 && FD_ISSET(fd, &r), "readable");
	FD_SET(fd, &r);
	FD_SET(fd, &w);
	CHECK(select(fd + 1, &r, &w, NULL, NULL) == 2, "both count");
	CHECK(recv(fd, b, 100, 0) == 3, "recv");
	t.tv_sec = 0;
	t.tv_usec = 3000;
	CHECK(select(0, NULL, NULL, NULL, &t) == 0, "select as a nap");
	int closed = dup(fd);
	close(closed);
	FD_ZERO(&r);
	FD_SET(closed, &r);
	CHECK(select(closed + 1, &r, NULL, NULL, &t) == -1 && errno == EBADF, "a closed number");
	CHECK(select(-1, NULL, NULL, NULL, &t) == -1 && errno == EINVAL, "negative count");
}

static void by_poll(int fd, int other)
{
	int pipes[2];
	char b[100];
	CHECK(!pipe(pipes), "pipe");
	struct pollfd p[5] = {
	    {fd, POLLIN, 0}, {pipes[0], POLLIN, 0}, {-1, POLLIN, 77}, {1000, POLLIN, 0}, {fd, POLLIN | POLLOUT, 0}};
	CHECK(poll(p, 5, 0) == 2 && p[0].revents == 0 && p[1].revents == 0 && p[2].revents == 0 &&
		  p[3].revents == POLLNVAL && p[4].revents == POLLOUT,
	      "%x %x %x %x %x", p[0].revents, p[1].revents, p[2].revents, p[3].revents, p[4].revents);
	double begin = now();
	CHECK(poll(p, 2, 20) == 0 && now() - begin >= 0.019, "time limit of poll");
	struct timespec t = {0, 20000000};
	begin = now();
	CHECK(ppoll(p, 2, &t, NULL) == 0 && now() - begin >= 0.019, "time limit of ppoll");
	CHECK(write(pipes[1], "x", 1) == 1, "pipe");
	CHECK(poll(p, 2, 1000) == 1 && p[1].revents == POLLIN && p[0].revents == 0, "the pipe");
	send_all(other, "abc", 3);
	CHECK(ready(fd, POLLIN, 1000) == POLLIN, "the socket");
	CHECK(ppoll(p, 2, NULL, NULL) == 2 && p[0].revents == POLLIN && p[1].revents == POLLIN, "both");
	CHECK(read(pipes[0], b, 1) == 1 && recv(fd, b, 100, 0) == 3, "take");
	close(pipes[1]);
	CHECK(poll(p, 2, 1000) == 1 && p[1].revents == POLLHUP, "the pipe's end");
	CHECK(poll(NULL, 0, 2) == 0, "poll as a nap");
	close(pipes[0]);
}

struct later {
	int fd;
	const char *bytes;
};

static void *send_later(void *arg)
{
	struct later *l = arg;
	nap(15);
	send_all(l->fd, l->bytes, strlen(l->bytes));
	return NULL;
}

/* A sleeper of each kind is woken by an arrival. */
static void woken(int fd, int other)
{
	for (int how = 0; how < 6; how++) {
		pthread_t t;
		struct later l = {other, "wake"};
		struct pollfd p = {fd, POLLIN, 0};
		struct epoll_event e = {EPOLLIN, {.fd = fd}};
		struct timeval tv = {3, 0};
		fd_set r;
		char b[10];
		int n, set = epoll_create1(0);
		FD_ZERO(&r);
		FD_SET(fd, &r);
		CHECK(!epoll_ctl(set, EPOLL_CTL_ADD, fd, &e), "ADD");
		CHECK(!pthread_create(&t, NULL, send_later, &l), "thread");
		if (how == 0)
			n = poll(&p, 1, 3000);
		else if (how == 1)
			n = ppoll(&p, 1, NULL, NULL);
		else if (how == 2)
			n = select(fd + 1, &r, NULL, NULL, &tv);
		else if (how == 3)
			n = pselect(fd + 1, &r, NULL, NULL, NULL, NULL);
		else if (how == 4)
			n = epoll_wait(set, &e, 1, 3000);
		else
			n = epoll_wait(set, &e, 1, -1);
		CHECK(n == 1, "way %d woke with %d", how, n);
		CHECK(recv(fd, b, 10, 0) == 4, "recv");
		pthread_join(t, NULL);
		close(set);
	}
}

static void the_end(int fd, int other)
{
	char b[10];
	send_all(other, "z", 1);
	shutdown(other, SHUT_WR);
	short want = POLLIN | POLLRDHUP;
	for (int i = 0; i < 100 && ready(fd, want, 10) != want; i++)
		nap(1);
	CHECK(ready(fd, want, 10) == want, "half closed");
	CHECK(recv(fd, b, 10, 0) == 1 && ready(fd, want, 10) == want && recv(fd, b, 10, 0) == 0, "end");
	shutdown(fd, SHUT_WR);
	for (int i = 0; i < 100 && !(ready(fd, 0, 1) & POLLHUP); i++)
		nap(1);
	CHECK(ready(fd, POLLIN | POLLOUT, 10) == (POLLIN | POLLOUT | POLLHUP), "closed both ways: %x",
	      ready(fd, POLLIN | POLLOUT, 10));
}

static void test(void)
{
	int c, s;
	pair(&c, &s);
	for (int round = 0; round < 2; round++) {
		by_select(s, c);
		by_select(c, s);
		by_poll(s, c);
		by_poll(c, s);
		woken(s, c);
		warm(c, s);
	}
	the_end(s, c);
	close(c);
	close(s);
	c = new_socket(false, 0);
	CHECK(ready(c, POLLIN | POLLOUT, 0) == (POLLOUT | POLLHUP), "never connected");
	close(c);
}

int main(void)
{
	return each_family(test);
}
