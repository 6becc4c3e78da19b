/* What is no plain TCP, or stops being it: MPTCP, SCTP, UDP, AF_UNIX and raw protocol numbers of socket; a stream that is
 * taken over by TCP_ULP or TCP_REPAIR before and after traffic. What this machine has not, it says natively too. */
#include "conform.h"

#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262
#endif
#ifndef TCP_ULP
#define TCP_ULP 31
#endif

static void talk(int c, int s)
{
	for (unsigned i = 0; i < 20; i++) {
		carry(c, s, 500, i, 1);
		carry(s, c, 500, i, 2);
	}
}

/* A stream of that protocol, among connections that are accelerated, and with members of one epoll set. */
static void stream_of(const char *name, int protocol)
{
	struct address a;
	int l = socket(family == V4 ? AF_INET : AF_INET6, SOCK_STREAM, protocol), c2, s2;
	if (l < 0) {
		printf("%s: %s\n", name, strerrorname_np(errno));
		return;
	}
	int c = socket(family == V4 || family == MIXED ? AF_INET : AF_INET6, SOCK_STREAM, protocol), set = epoll_create1(0), got = 0;
	set_address(&a, true, 0);
	CHECK(c >= 0 && !bind(l, (struct sockaddr *)&a.at, a.length) && !listen(l, 4), "%s: listen", name);
	set_address(&a, false, port_of(l));
	CHECK(!connect(c, (struct sockaddr *)&a.at, a.length), "%s: connect", name);
	int s = accept(l, NULL, NULL);
	socklen_t n = sizeof(got);
	CHECK(s >= 0 && !getsockopt(s, SOL_SOCKET, SO_PROTOCOL, &got, &n) && got == protocol, "%s: protocol %d", name, got);
	pair(&c2, &s2);
	warm(c2, s2);
	struct epoll_event e = {EPOLLIN, {.fd = s}}, e2 = {EPOLLIN, {.fd = s2}}, told[4];
	CHECK(!epoll_ctl(set, EPOLL_CTL_ADD, s, &e) && !epoll_ctl(set, EPOLL_CTL_ADD, s2, &e2), "ADD");
	talk(c, s);
	talk(c2, s2);
	send_all(c, "x", 1);
	CHECK(epoll_wait(set, told, 4, 1000) == 1 && told[0].data.fd == s, "%s in an epoll set", name);
	char b[4];
	CHECK(recv(s, b, 4, 0) == 1 && recv(s, b, 4, MSG_DONTWAIT) == -1 && errno == EAGAIN, "%s", name);
	CHECK(!shutdown(c, SHUT_WR) && recv(s, b, 4, 0) == 0, "%s: end", name);
	close(c);
	close(s);
	close(l);
	close(c2);
	close(s2);
	close(set);
	printf("%s: a stream\n", name);
}

static void others(void)
{
	int fd, both[2];
	char b[10];
	struct address a;
	for (int kind = 0; kind < 2; kind++) {
		int u[2];
		CHECK(!socketpair(AF_UNIX, kind ? SOCK_SEQPACKET : SOCK_STREAM, 0, u), "socketpair");
		CHECK(send(u[0], "12", 2, 0) == 2 && send(u[0], "34", 2, 0) == 2, "send");
		ssize_t k = recv(u[1], b, 10, 0);
		CHECK(k == (kind ? 2 : 4), "a record or a stream: %zd", k);
		close(u[0]);
		close(u[1]);
	}
	for (int i = 0; i < 2; i++) {
		both[i] = socket(family == V4 ? AF_INET : AF_INET6, SOCK_DGRAM, 0);
		set_address(&a, true, 0);
		CHECK(both[i] >= 0 && !bind(both[i], (struct sockaddr *)&a.at, a.length), "UDP");
	}
	set_address(&a, true, port_of(both[1]));
	CHECK(!connect(both[0], (struct sockaddr *)&a.at, a.length), "connect of UDP");
	CHECK(send(both[0], "one", 3, 0) == 3 && send(both[0], "", 0, 0) == 0 && send(both[0], "three", 5, 0) == 5, "send");
	CHECK(recv(both[1], b, 2, MSG_TRUNC) == 3 && recv(both[1], b, 10, 0) == 0 && recv(both[1], b, 10, 0) == 5, "datagrams");
	close(both[0]);
	close(both[1]);
	fd = socket(AF_INET, SOCK_STREAM, IPPROTO_UDP);
	CHECK(fd == -1 && errno == EPROTONOSUPPORT, "a stream of UDP");
	fd = socket(AF_INET, SOCK_STREAM | 0x100, 0);
	CHECK(fd == -1 && errno == EINVAL, "an unknown flag of socket");
	fd = socket(AF_INET, SOCK_STREAM, 1000);
	CHECK(fd == -1, "no such protocol");
}

enum when { FIRST, EARLY, LATE, UNREAD, WHENS };

/* The name of a protocol above TCP; "tls" stays without keys, which changes nothing for the bytes. */
static void upper(enum when when)
{
	int c, s;
	char b[10];
	pair(&c, &s);
	if (when == EARLY)
		carry(c, s, 50, 0, 1);
	if (when >= LATE)
		warm(c, s);
	if (when == UNREAD) {
		send_all(c, "unread", 6);
		CHECK(ready(s, POLLIN, 1000), "arrived");
	}
	errno = 0;
	int r = setsockopt(s, IPPROTO_TCP, TCP_ULP, "tls", 3);
	printf("TCP_ULP %d %s\n", r, strerrorname_np(errno));
	if (when == UNREAD)
		CHECK(recv_all(s, b, 6) == 6 && !memcmp(b, "unread", 6), "bytes from before");
	still_works(c, s);
	close(c);
	close(s);
}

/* Under TCP_REPAIR the queues and sequence numbers are the program's to read, as checkpoint tools do: all bytes that are
 * unread are in the kernel's queue. Out of it again the connection goes on. */
static void repaired(enum when when)
{
	enum { RECEIVE_QUEUE = 1 };
	int c, s, on = 1, off = 0, queue = RECEIVE_QUEUE;
	char b[20];
	pair(&c, &s);
	if (when == EARLY)
		carry(c, s, 50, 0, 1);
	if (when >= LATE)
		warm(c, s);
	if (when == UNREAD) {
		send_all(c, "unread", 6);
		CHECK(ready(s, POLLIN, 1000), "arrived");
		nap(5);
	}
	errno = 0;
	int r = setsockopt(s, IPPROTO_TCP, TCP_REPAIR, &on, sizeof(on));
	printf("TCP_REPAIR %d %s\n", r, strerrorname_np(errno));
	if (!r) {
		if (when == UNREAD) {
			CHECK(!setsockopt(s, IPPROTO_TCP, TCP_REPAIR_QUEUE, &queue, sizeof(queue)), "TCP_REPAIR_QUEUE");
			CHECK(recv(s, b, 20, MSG_PEEK | MSG_DONTWAIT) == 6 && !memcmp(b, "unread", 6), "the queue holds what is unread");
		}
		CHECK(!setsockopt(s, IPPROTO_TCP, TCP_REPAIR, &off, sizeof(off)), "out of repair");
	}
	if (when == UNREAD)
		CHECK(recv_all(s, b, 6) == 6 && !memcmp(b, "unread", 6), "bytes from before");
	still_works(c, s);
	close(c);
	close(s);
}

static void test(void)
{
	stream_of("MPTCP", IPPROTO_MPTCP);
	stream_of("SCTP", 132 /* IPPROTO_SCTP */);
	others();
	for (int when = FIRST; when < WHENS; when++) {
		upper((enum when)when);
		repaired((enum when)when);
	}
}

int main(void)
{
	return each_family(test);
}
