/* Numbers of descriptors: always the lowest free one, exactly as many as RLIMIT_NOFILE allows, and connections that
 * work at the limit. */
#include "conform.h"
#include <sys/resource.h>

static void lowest(void)
{
	int c[10], s[10], first = 3;
	closefrom(3); /* what the program inherited would be in the way */
	for (int i = 0; i < 10; i++) {
		int l = listener(4);
		CHECK(l == first + 2 * i, "listener is %d, %d was free", l, first + 2 * i);
		c[i] = dial(port_of(l));
		CHECK(c[i] == l + 1, "connection is %d", c[i]);
		s[i] = take(l);
		CHECK(s[i] == l + 2, "accepted is %d", s[i]);
		close(l);
		/* The accepted one moves down, so that the next round starts without a hole. */
		CHECK(dup(s[i]) == l, "dup");
		close(s[i]);
		s[i] = l;
		warm(c[i], s[i]);
		int file = open("/dev/null", O_RDONLY);
		CHECK(file == l + 2, "a file opened after traffic is %d", file);
		close(file);
	}
	close(s[3]);
	close(c[1]);
	int file = open("/dev/null", O_RDONLY);
	CHECK(file == (s[3] < c[1] ? s[3] : c[1]), "the lowest of two gaps");
	close(file);
	for (int i = 0; i < 10; i++) {
		if (i != 1)
			close(c[i]);
		if (i != 3)
			close(s[i]);
	}
}

/* Exactly up to the limit, then EMFILE, and what is open works. */
static void at_the_limit(void)
{
	enum { LIMIT = 64 };
	struct rlimit r, back;
	CHECK(!getrlimit(RLIMIT_NOFILE, &r), "getrlimit");
	r.rlim_cur = LIMIT;
	CHECK(!setrlimit(RLIMIT_NOFILE, &r), "setrlimit");
	CHECK(!getrlimit(RLIMIT_NOFILE, &back) && back.rlim_cur == LIMIT && back.rlim_max == r.rlim_max, "getrlimit");
	CHECK(sysconf(_SC_OPEN_MAX) == LIMIT, "sysconf");
	int l = listener(64), c[LIMIT], s[LIMIT], n = 0;
	for (;;) {
		int fd = new_socket(false, 0);
		if (fd >= LIMIT - 2) {
			close(fd);
			break;
		}
		close(fd);
		c[n] = dial(port_of(l));
		s[n] = take(l);
		if (n % 4 == 0)
			warm(c[n], s[n]);
		n++;
	}
	int fill[LIMIT], filled = 0, fd;
	while ((fd = open("/dev/null", O_RDONLY)) >= 0)
		fill[filled++] = fd;
	CHECK(errno == EMFILE, "open at the limit");
	CHECK(socket(AF_INET, SOCK_STREAM, 0) == -1 && errno == EMFILE, "socket at the limit");
	CHECK(dup(l) == -1 && errno == EMFILE, "dup at the limit");
	CHECK(epoll_create1(0) == -1 && errno == EMFILE, "epoll_create1 at the limit");
	CHECK(dup2(l, LIMIT) == -1 && errno == EBADF, "dup2 beyond the limit");
	printf("%d connections and %d files below %d\n", n, filled, LIMIT);
	for (int i = 0; i < n; i++)
		warm(c[i], s[i]);
	/* One is waiting that cannot be accepted; after a close it can. */
	close(fill[--filled]);
	int late = dial(port_of(l));
	CHECK(accept(l, NULL, NULL) == -1 && errno == EMFILE, "accept at the limit");
	close(c[0]);
	int accepted = take(l);
	warm(late, accepted);
	close(late);
	close(accepted);
	close(s[0]);
	for (int i = 1; i < n; i++) {
		close(c[i]);
		close(s[i]);
	}
	while (filled)
		close(fill[--filled]);
	close(l);
}

static void test(void)
{
	lowest();
	pid_t pid = child();
	if (!pid) {
		at_the_limit();
		exit(0);
	}
	CHECK(reap(pid) == 0, "child");
}

int main(void)
{
	return each_family(test);
}
