/* The other end's connection leaves its lanes (O_ASYNC) while it has nothing to say: nothing is readable here, and what it
 * says afterwards is. */
#include "conform.h"
#include <sys/select.h>

static int orders[2], done[2];

static void leaves(int fd)
{
	char b[100];
	for (int i = 0; i < 40; i++) {
		CHECK(recv_all(fd, b, 100) == 100, "recv");
		send_all(fd, b, 100);
	}
	CHECK(read(orders[0], b, 1) == 1, "order");
	int flags = fcntl(fd, F_GETFL);
	CHECK(!fcntl(fd, F_SETFL, flags | O_ASYNC) && !fcntl(fd, F_SETFL, flags), "O_ASYNC");
	CHECK(write(done[1], "d", 1) == 1, "done");
	CHECK(read(orders[0], b, 1) == 1, "order");
	send_all(fd, "after", 5);
	echo_until_end(fd);
}

static int by_select(int fd, int ms)
{
	fd_set in;
	struct timeval t = {ms / 1000, ms % 1000 * 1000};
	FD_ZERO(&in);
	FD_SET(fd, &in);
	return select(fd + 1, &in, NULL, NULL, &t);
}

static int by_epoll(int set, int ms)
{
	struct epoll_event e;
	return epoll_wait(set, &e, 1, ms);
}

static void test(void)
{
	for (int how = 0; how < 4; how++) {
		int fd, set = epoll_create1(EPOLL_CLOEXEC);
		char b[100];
		CHECK(!pipe(orders) && !pipe(done), "pipe");
		pid_t pid = peer(leaves, &fd);
		struct epoll_event e = {.events = EPOLLIN | (how == 3 ? EPOLLET : 0)};
		if (how > 1)
			CHECK(!epoll_ctl(set, EPOLL_CTL_ADD, fd, &e), "ADD");
		ask_echo(fd, 40, 100, 1);
		if (how > 1)
			by_epoll(set, 0);
		CHECK(write(orders[1], "l", 1) == 1 && read(done[0], b, 1) == 1, "order");
		CHECK((how == 0 ? ready(fd, POLLIN, 20) : how == 1 ? by_select(fd, 20) : by_epoll(set, 20)) == 0, "nothing is there, %d", how);
		CHECK(write(orders[1], "s", 1) == 1, "order");
		CHECK((how == 0 ? ready(fd, POLLIN, 2000) == POLLIN : how == 1 ? by_select(fd, 2000) == 1 : by_epoll(set, 2000) == 1), "bytes, %d",
		      how);
		CHECK(recv(fd, b, 100, 0) == 5 && !memcmp(b, "after", 5), "bytes after");
		ask_echo(fd, 5, 100, 2);
		close(fd);
		close(set);
		CHECK(reap(pid) == 0, "peer");
		for (int i = 0; i < 2; i++) {
			close(orders[i]);
			close(done[i]);
		}
	}
}

int main(void)
{
	return each_family(test);
}
