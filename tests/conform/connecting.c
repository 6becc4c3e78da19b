/* connect in all its ways: non-blocking, refused, twice, from a bound port, to itself, again after AF_UNSPEC, and
 * writes that come before the other end has accepted. */
#include "conform.h"

static void non_blocking(void)
{
	int l = listener(4), result, error = -1, c = try_dial(port_of(l), SOCK_NONBLOCK, &result);
	socklen_t n = sizeof(error);
	CHECK(result == 0 || errno == EINPROGRESS, "connect");
	CHECK(ready(c, POLLOUT, 1000) & POLLOUT, "writable when connected");
	CHECK(!getsockopt(c, SOL_SOCKET, SO_ERROR, &error, &n) && error == 0, "SO_ERROR %d", error);
	struct address a;
	set_address(&a, false, port_of(l));
	if (result)
		CHECK(!connect(c, (struct sockaddr *)&a.at, a.length), "the second connect tells of success, once");
	CHECK(connect(c, (struct sockaddr *)&a.at, a.length) == -1 && errno == EISCONN, "connect twice");
	int s = take(l);
	no_delay(c);
	set_nonblocking(c, false);
	warm(c, s);
	CHECK(connect(c, (struct sockaddr *)&a.at, a.length) == -1 && errno == EISCONN, "connect after traffic");
	CHECK(listen(c, 1) == -1 && errno == EINVAL, "listen on a connection");
	still_works(c, s);
	close(c);
	close(s);
	close(l);
}

static void refused(void)
{
	int l = listener(1), result, error = 0;
	uint16_t port = port_of(l);
	socklen_t n = sizeof(error);
	close(l);
	int c = try_dial(port, 0, &result);
	CHECK(result == -1 && errno == ECONNREFUSED, "blocking");
	/* The same socket may try again, and succeed. */
	struct address a;
	l = listener(1);
	set_address(&a, false, port_of(l));
	CHECK(!connect(c, (struct sockaddr *)&a.at, a.length), "second try of the same socket");
	int s = take(l);
	no_delay(c);
	warm(c, s);
	close(c);
	close(s);
	close(l);
	c = try_dial(port, SOCK_NONBLOCK, &result);
	CHECK(result == -1 && (errno == EINPROGRESS || errno == ECONNREFUSED), "non-blocking");
	if (errno == EINPROGRESS) {
		CHECK(ready(c, POLLOUT, 1000) & POLLERR, "poll");
		CHECK(!getsockopt(c, SOL_SOCKET, SO_ERROR, &error, &n) && error == ECONNREFUSED, "SO_ERROR %d", error);
	}
	close(c);
}

/* AF_UNSPEC dissolves a connection; the socket connects anew and must not mix the two streams. */
static void again(void)
{
	int l = listener(4), c = dial(port_of(l)), s = take(l);
	struct sockaddr none = {.sa_family = AF_UNSPEC};
	char b;
	for (int i = 0; i < 3; i++) {
		warm(c, s);
		send_all(s, "never read", 10);
		CHECK(!connect(c, &none, sizeof(none)), "AF_UNSPEC");
		for (int k = 0; k < 2; k++) {
			errno = 0;
			ssize_t sent = send(c, "x", 1, MSG_NOSIGNAL);
			printf("dissolved: send %zd %s, ", sent, strerrorname_np(errno));
			errno = 0;
			ssize_t got = recv(c, &b, 1, 0);
			printf("recv %zd %s\n", got, strerrorname_np(errno));
		}
		ssize_t k = recv(s, &b, 1, 0);
		CHECK(k == -1 && errno == ECONNRESET, "the other end is reset: %zd", k);
		close(s);
		struct address a;
		set_address(&a, false, port_of(l));
		CHECK(!connect(c, (struct sockaddr *)&a.at, a.length), "connect again");
		s = take(l);
		CHECK(recv(c, &b, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN, "bytes of the old connection");
	}
	warm(c, s);
	still_works(c, s);
	close(l);
	close(c);
	close(s);
}

static void from_bound_port(void)
{
	int l = listener(4), c = new_socket(false, 0);
	struct address mine, a;
	set_address(&mine, false, 0);
	CHECK(!bind(c, (struct sockaddr *)&mine.at, mine.length), "bind");
	uint16_t port = port_of(c);
	set_address(&a, false, port_of(l));
	CHECK(!connect(c, (struct sockaddr *)&a.at, a.length) && port_of(c) == port, "connect from a bound port");
	int s = take(l);
	no_delay(c);
	warm(c, s);
	close(l);
	close(c);
	close(s);
}

/* A socket may connect to itself: both ends are one descriptor. */
static void to_itself(void)
{
	int c = new_socket(false, 0);
	struct address a;
	set_address(&a, false, 0);
	CHECK(!bind(c, (struct sockaddr *)&a.at, a.length), "bind");
	set_address(&a, false, port_of(c));
	CHECK(!connect(c, (struct sockaddr *)&a.at, a.length), "connect to itself");
	no_delay(c);
	for (unsigned i = 0; i < 100; i++)
		carry(c, c, 500 + i, i, 1);
	shutdown(c, SHUT_WR);
	char b;
	CHECK(recv(c, &b, 1, 0) == 0, "end");
	close(c);
}

/* The backlog completes connections before accept: what is sent meanwhile is there. */
static void before_accept(void)
{
	enum { N = 5 };
	int l = listener(N), c[N], s;
	char b[20];
	for (int i = 0; i < N; i++) {
		c[i] = dial(port_of(l));
		char text[20];
		int n = snprintf(text, sizeof(text), "early %d", i);
		for (int k = 0; k < 10; k++)
			send_all(c[i], text, (size_t)n);
	}
	shutdown(c[1], SHUT_WR);
	close(c[2]);
	for (int i = 0; i < N; i++) {
		char text[20];
		int n = snprintf(text, sizeof(text), "early %d", i);
		s = take(l);
		for (int k = 0; k < 10; k++)
			CHECK(recv_all(s, b, (size_t)n) == (size_t)n && !memcmp(b, text, (size_t)n), "early bytes");
		if (i == 1 || i == 2)
			CHECK(recv(s, b, 1, 0) == 0, "end");
		else
			warm(c[i], s);
		close(s);
		if (i != 2)
			close(c[i]);
	}
	close(l);
}

static void test(void)
{
	non_blocking();
	refused();
	again();
	from_bound_port();
	to_itself();
	before_accept();
}

int main(void)
{
	return each_family(test);
}
