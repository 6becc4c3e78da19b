/* close_range, closefrom and loops over all descriptors, with connections among what they close, in a process that
 * goes on working with the ones that it kept. */
#include "conform.h"
#include <linux/close_range.h>

static void peer_sees_end(int fd)
{
	char b;
	CHECK(recv(fd, &b, 1, 0) == 0, "the peer sees the end");
}

static void echo_peer(int fd)
{
	echo_until_end(fd);
}

/* A child closes all but what it needs, with a connection that it got from its parent. */
static void in_child(int how)
{
	int c, s;
	pair(&c, &s);
	warm(c, s);
	pid_t pid = child();
	if (!pid) {
		CHECK(dup2(s, 3) == 3, "dup2");
		if (how == 0) {
			CHECK(!close_range(4, ~0u, 0), "close_range");
		} else if (how == 1) {
			closefrom(4);
		} else {
			for (int fd = 4; fd < 1024; fd++)
				close(fd);
		}
		echo_until_end(3);
		/* New connections work although everything else was closed under us. */
		int c2, s2;
		pair(&c2, &s2);
		warm(c2, s2);
		_exit(0);
	}
	close(s);
	ask_echo(c, 40, 500, 1);
	shutdown(c, SHUT_WR);
	peer_sees_end(c);
	CHECK(reap(pid) == 0, "child");
	close(c);
}

/* The process itself, with two live connections: one in the range, one not. */
static void in_place(void)
{
	int kept, closed;
	pid_t one = peer(echo_peer, &kept), two = peer(echo_peer, &closed);
	ask_echo(kept, 40, 300, 1);
	ask_echo(closed, 40, 300, 2);
	CHECK(dup2(kept, 100) == 100 && dup2(closed, 200) == 200, "dup2");
	close(kept);
	close(closed);
	CHECK(!close_range(150, 250, 0), "close_range");
	char b;
	CHECK(recv(200, &b, 1, 0) == -1 && errno == EBADF, "closed");
	CHECK(reap(two) == 0, "its peer saw the end");
	ask_echo(100, 40, 300, 3);
	/* CLOSE_RANGE_CLOEXEC only marks. */
	CHECK(!close_range(90, 110, CLOSE_RANGE_CLOEXEC) && fcntl(100, F_GETFD) == FD_CLOEXEC, "CLOSE_RANGE_CLOEXEC");
	ask_echo(100, 40, 300, 4);
	CHECK(close_range(110, 90, 0) == -1 && errno == EINVAL, "a range the wrong way round");
	CHECK(close(100) == 0 && close(100) == -1 && errno == EBADF, "close twice");
	CHECK(reap(one) == 0, "echo");
}

static void test(void)
{
	for (int how = 0; how < 3; how++)
		in_child(how);
	in_place();
}

int main(void)
{
	return each_family(test);
}
