/* accept and accept4: flags, addresses, what is inherited from the listener, waiting for it in every way. */
#include "conform.h"
#include <sys/select.h>

static void check_address(const struct sockaddr_storage *at, uint16_t port)
{
	char text[INET6_ADDRSTRLEN] = "";
	const struct sockaddr_in *in = (const struct sockaddr_in *)at;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)at;
	if (at->ss_family == AF_INET)
		inet_ntop(AF_INET, &in->sin_addr, text, sizeof(text));
	else
		inet_ntop(AF_INET6, &in6->sin6_addr, text, sizeof(text));
	const char *want = family == V4 ? "127.0.0.1" : family == V6 ? "::1" : "::ffff:127.0.0.1";
	if (at->ss_family == AF_INET)
		want = "127.0.0.1";
	CHECK(!strcmp(text, want), "address %s", text);
	CHECK(ntohs(at->ss_family == AF_INET ? in->sin_port : in6->sin6_port) == port, "port");
}

static void flags(void)
{
	static const int wanted[] = {0, SOCK_CLOEXEC, SOCK_NONBLOCK, SOCK_CLOEXEC | SOCK_NONBLOCK};
	int l = listener(8);
	set_nonblocking(l, true);
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		CHECK(accept4(l, NULL, NULL, wanted[i]) == -1 && errno == EAGAIN, "nobody there");
		int c = dial(port_of(l));
		CHECK(ready(l, POLLIN, 1000) & POLLIN, "somebody there");
		struct sockaddr_storage at;
		socklen_t n = sizeof(at);
		int s = accept4(l, (struct sockaddr *)&at, &n, wanted[i]);
		CHECK(s >= 0, "accept4");
		check_address(&at, port_of(c));
		CHECK(!(fcntl(s, F_GETFL) & O_NONBLOCK) == !(wanted[i] & SOCK_NONBLOCK), "O_NONBLOCK");
		CHECK(!(fcntl(s, F_GETFD) & FD_CLOEXEC) == !(wanted[i] & SOCK_CLOEXEC), "FD_CLOEXEC");
		n = sizeof(at);
		CHECK(!getpeername(s, (struct sockaddr *)&at, &n), "getpeername");
		check_address(&at, port_of(c));
		n = sizeof(at);
		CHECK(!getsockname(s, (struct sockaddr *)&at, &n), "getsockname");
		check_address(&at, port_of(l));
		n = sizeof(at);
		CHECK(!getpeername(c, (struct sockaddr *)&at, &n), "getpeername");
		check_address(&at, port_of(l));
		warm(c, s);
		n = sizeof(at);
		CHECK(!getpeername(s, (struct sockaddr *)&at, &n), "getpeername after traffic");
		check_address(&at, port_of(c));
		close(c);
		close(s);
	}
	CHECK(accept4(l, NULL, NULL, 0x10) == -1 && errno == EINVAL, "unknown flag");
	close(l);
}

static void *dial_later(void *arg)
{
	nap(15);
	return (void *)(intptr_t)dial(port_of(*(int *)arg));
}

static void waited_for(void)
{
	int l = listener(8);
	for (int how = 0; how < 4; how++) {
		pthread_t t;
		void *c;
		fd_set r;
		FD_ZERO(&r);
		FD_SET(l, &r);
		int set = epoll_create1(0);
		struct epoll_event e = {EPOLLIN, {.fd = l}};
		CHECK(!epoll_ctl(set, EPOLL_CTL_ADD, l, &e), "ADD");
		CHECK(!pthread_create(&t, NULL, dial_later, &l), "thread");
		if (how == 1)
			CHECK(ready(l, POLLIN, 3000) == POLLIN, "poll");
		else if (how == 2)
			CHECK(select(l + 1, &r, NULL, NULL, NULL) == 1, "select");
		else if (how == 3)
			CHECK(epoll_wait(set, &e, 1, 3000) == 1, "epoll_wait");
		int s = take(l);
		pthread_join(t, &c);
		warm((int)(intptr_t)c, s);
		close((int)(intptr_t)c);
		close(s);
		close(set);
	}
	close(l);
}

static void inherited(void)
{
	int l = listener(4), size = 30000, on = 1, got = 0;
	socklen_t n = sizeof(got);
	CHECK(!setsockopt(l, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)), "SO_RCVBUF");
	CHECK(!setsockopt(l, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)), "SO_KEEPALIVE");
	int c = dial(port_of(l)), s = take(l);
	CHECK(!getsockopt(s, SOL_SOCKET, SO_RCVBUF, &got, &n) && got == 60000, "SO_RCVBUF %d", got);
	CHECK(!getsockopt(s, SOL_SOCKET, SO_KEEPALIVE, &got, &n) && got == 1, "SO_KEEPALIVE %d", got);
	warm(c, s);
	close(c);
	close(s);
	close(l);
}

static void wrong_use(void)
{
	int c = new_socket(false, 0), l = listener(1);
	struct sockaddr_storage at;
	socklen_t n = (socklen_t)-1;
	CHECK(accept(c, NULL, NULL) == -1 && errno == EINVAL, "accept of no listener");
	CHECK(accept(-1, NULL, NULL) == -1 && errno == EBADF, "accept of -1");
	set_nonblocking(l, true);
	close(c);
	c = dial(port_of(l));
	CHECK(ready(l, POLLIN, 1000) & POLLIN, "somebody there");
	CHECK(accept(l, (struct sockaddr *)&at, &n) == -1 && errno == EINVAL, "negative room for the address");
	close(c);
	close(l);
}

static void test(void)
{
	flags();
	waited_for();
	inherited();
	wrong_use();
}

int main(void)
{
	return each_family(test);
}
