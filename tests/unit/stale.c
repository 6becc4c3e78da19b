/* Numbers that were closed past the library: what it knew of them goes when they come back as something else, and does
 * not become the next one's. Both ends of each connection are in this process. */
#include "preload/family.h"
#include "preload/fdtab.h"
#include "preload/real.h"
#include "preload/sock.h"
#include "preload/switch.h"
#define family addressing /* the library has another one */
#include "tests/conform/conform.h"
#undef family

#include <sys/syscall.h>

/* Ended, or another one's already. */
static bool over(const struct sock *s, int now)
{
	return s->fds == UINT32_MAX || fdtab_sock(now) == s;
}

/* Closed past us, and the lowest number that is free. */
static void close_past(int fd)
{
	int n;
	while ((n = open("/dev/null", O_RDONLY)) < fd)
		CHECK(n >= 0, "open");
	real.close(n);
	real.close(fd);
}

/* A socket, an accepted one, a copy and an epoll set each take the number of a connection that was closed past us. */
static void comes_back(void)
{
	for (int as = 0; as < 4; as++) {
		int c, s, l = listener(8);
		pair(&c, &s);
		warm(c, s);
		int d = as == 1 ? dial(port_of(l)) : -1;
		struct sock *old = fdtab_sock(s);
		close_past(s);
		int n = as == 0 ? socket(AF_INET, SOCK_STREAM, 0) : as == 1 ? accept(l, NULL, NULL) : as == 2 ? dup(c) : epoll_create1(0);
		CHECK(n == s, "the lowest free number");
		CHECK(over(old, n), "case %d: the connection that was closed is held by %u numbers", as, old->fds);
		CHECK(as == 3 ? fdtab_waitset(n) != NULL : fdtab_sock(n) && (as == 2 || fdtab_sock(n) != fdtab_sock(c)), "what it is now");
		if (as == 1)
			warm(d, n);
		close(n);
		close(c);
		close(d);
		close(l);
	}
}

/* The number is closed past us, the file lives on by a copy past us: the registration in a set cannot be taken out. */
static void reports_for_nobody(void)
{
	int c, s, set = epoll_create1(0);
	struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP, .data.u64 = 1}, got;
	pair(&c, &s);
	warm(c, s);
	CHECK(!epoll_ctl(set, EPOLL_CTL_ADD, s, &e), "ADD");
	int past = (int)real.syscall(SYS_fcntl, s, F_DUPFD, 500);
	close_past(s);
	int c2, s2, l = listener(8); /* the listener takes the number */
	CHECK(l == s, "the lowest free number");
	c2 = dial(port_of(l));
	s2 = take(l);
	e.data.u64 = 2;
	CHECK(!epoll_ctl(set, EPOLL_CTL_ADD, s2, &e), "ADD");
	warm(c2, s2);
	CHECK(fdtab_sock(s2)->slot->rx.mode == MODE_LANE, "on a lane");
	close(c);
	int events = 0, rounds = 0;
	struct timespec from, to;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
	for (double begin = now(); now() - begin < 0.2; rounds++)
		events += epoll_wait(set, &got, 1, 50) > 0;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
	double cpu = (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) * 1e-9;
	CHECK(!events && cpu < 0.1, "%d events of another connection, %.0f ms of processor time", events, cpu * 1e3);
	send_all(c2, "x", 1);
	CHECK(epoll_wait(set, &got, 1, 1000) == 1 && got.data.u64 == 2 && got.events == EPOLLIN, "its own event");
	close(c2);
	close(s2);
	close(l);
	close(set);
	real.close(past);
}

static void by_stream(void)
{
	int c, s;
	pair(&c, &s);
	warm(c, s);
	CHECK(fdtab_sock(c)->slot->rx.mode == MODE_LANE, "on a lane");
	FILE *f = fdopen(s, "r+");
	CHECK(f && fdtab_get(s), "fdopen");
	char b[6];
	for (int i = 0; i < 40; i++) {
		CHECK(fputs("stream", f) >= 0 && !fflush(f) && recv_all(c, b, 6) == 6 && !memcmp(b, "stream", 6), "by the stream");
		CHECK(fdtab_sock(c)->slot->rx.mode == MODE_KERNEL, "the other end goes on looking for a promotion");
	}
	int (*volatile end)(FILE *) = pclose; /* closes it, whatever it says */
	(void)end(f);
	CHECK(!fdtab_get(s), "pclose leaves the number in the table");
	close(c);
}

int main(void)
{
	setenv("HASTEN_PROMOTE", "eager", 1);
	alarm(20);
	real_bind();
	comes_back();
	reports_for_nobody();
	by_stream();
	puts("ok");
	return 0;
}
