/* Socket options keep their values over traffic, and those that concern the stream act as over the kernel. */
#include "conform.h"

static int get(int fd, int level, int option)
{
	int v = -1;
	socklen_t n = sizeof(v);
	CHECK(!getsockopt(fd, level, option, &v, &n) && n == sizeof(v), "getsockopt %d %d", level, option);
	return v;
}

static void set(int fd, int level, int option, int v)
{
	CHECK(!setsockopt(fd, level, option, &v, sizeof(v)), "setsockopt %d %d", level, option);
}

static void values(int c, int s)
{
	static const struct {
		const char *name;
		int level, option, v;
	} rows[] = {
	    {"TCP_NODELAY", IPPROTO_TCP, TCP_NODELAY, 0},
	    {"TCP_NODELAY", IPPROTO_TCP, TCP_NODELAY, 1},
	    {"TCP_QUICKACK", IPPROTO_TCP, TCP_QUICKACK, 1},
	    {"TCP_KEEPIDLE", IPPROTO_TCP, TCP_KEEPIDLE, 100},
	    {"TCP_KEEPINTVL", IPPROTO_TCP, TCP_KEEPINTVL, 7},
	    {"TCP_KEEPCNT", IPPROTO_TCP, TCP_KEEPCNT, 5},
	    {"TCP_USER_TIMEOUT", IPPROTO_TCP, TCP_USER_TIMEOUT, 20000},
	    {"SO_KEEPALIVE", SOL_SOCKET, SO_KEEPALIVE, 1},
	    {"SO_KEEPALIVE", SOL_SOCKET, SO_KEEPALIVE, 0},
	    {"SO_REUSEADDR", SOL_SOCKET, SO_REUSEADDR, 1},
	    {"SO_PRIORITY", SOL_SOCKET, SO_PRIORITY, 3},
	    {"SO_RCVLOWAT", SOL_SOCKET, SO_RCVLOWAT, 1},
	    {"SO_OOBINLINE", SOL_SOCKET, SO_OOBINLINE, 1},
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		set(s, rows[i].level, rows[i].option, rows[i].v);
		carry(c, s, 500, 0, 1);
		carry(s, c, 500, 0, 2);
		CHECK(get(s, rows[i].level, rows[i].option) == rows[i].v || rows[i].option == TCP_QUICKACK,
		      "%s is %d after %d", rows[i].name, get(s, rows[i].level, rows[i].option), rows[i].v);
	}
	set(s, SOL_SOCKET, SO_SNDBUF, 50000);
	CHECK(get(s, SOL_SOCKET, SO_SNDBUF) == 100000, "SO_SNDBUF %d", get(s, SOL_SOCKET, SO_SNDBUF));
	still_works(c, s);
	CHECK(get(s, SOL_SOCKET, SO_TYPE) == SOCK_STREAM && get(s, SOL_SOCKET, SO_PROTOCOL) == IPPROTO_TCP, "type");
	CHECK(family == MIXED || get(s, SOL_SOCKET, SO_DOMAIN) == (family == V4 ? AF_INET : AF_INET6), "domain");
	CHECK(get(s, SOL_SOCKET, SO_ACCEPTCONN) == 0 && get(s, SOL_SOCKET, SO_ERROR) == 0, "state");
	struct tcp_info info;
	socklen_t n = sizeof(info);
	CHECK(!getsockopt(s, IPPROTO_TCP, TCP_INFO, &info, &n) && info.tcpi_state == TCP_ESTABLISHED, "TCP_INFO");
}

/* TCP_CORK holds small writes back, not for ever, and gives them out at once when it is taken away. */
static void cork(int from, int to)
{
	char b[100];
	for (int i = 0; i < 5; i++) {
		set(from, IPPROTO_TCP, TCP_CORK, 1);
		send_all(from, "one ", 4);
		send_all(from, "two ", 4);
		set(from, IPPROTO_TCP, TCP_CORK, 0);
		CHECK(recv_all(to, b, 8) == 8 && !memcmp(b, "one two ", 8), "corked");
		set(from, IPPROTO_TCP, TCP_CORK, 1);
		send_all(from, "three", 5);
		CHECK(recv_all(to, b, 5) == 5, "corked for 200 ms at most");
		set(from, IPPROTO_TCP, TCP_CORK, 0);
		if (i)
			warm(from, to);
		else
			i = 2;
	}
}

static void wrong_use(int c, int s)
{
	int v = 1;
	socklen_t n = sizeof(v);
	CHECK(setsockopt(s, IPPROTO_TCP, 9999, &v, sizeof(v)) == -1 && errno == ENOPROTOOPT, "unknown option");
	CHECK(getsockopt(s, IPPROTO_TCP, 9999, &v, &n) == -1 && errno == ENOPROTOOPT, "unknown option");
	CHECK(setsockopt(s, SOL_SOCKET, SO_KEEPALIVE, &v, 1) == -1 && errno == EINVAL, "short value");
	CHECK(setsockopt(s, IPPROTO_TCP, TCP_ULP, "none-such", 9) == -1, "unknown ULP");
	int pipes[2];
	CHECK(!pipe(pipes) && setsockopt(pipes[0], SOL_SOCKET, SO_KEEPALIVE, &v, sizeof(v)) == -1 && errno == ENOTSOCK,
	      "a pipe");
	close(pipes[0]);
	close(pipes[1]);
	still_works(c, s);
}

static void test(void)
{
	int c, s;
	pair(&c, &s);
	values(c, s);
	warm(c, s);
	values(c, s);
	values(s, c);
	if (family == V4)
		cork(c, s);
	wrong_use(c, s);
	close(c);
	close(s);
}

int main(void)
{
	return each_family(test);
}
