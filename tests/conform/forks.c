/* fork: after accept, with both processes on one connection, before and after traffic, with a child that only looks
 * on, and with a child that outlives its parent. */
#include "conform.h"

static void client_of_fork(int fd)
{
	ask_echo(fd, 50, 900, 2);
}

static void after_accept(void)
{
	enum { N = 4 };
	int l = listener(N);
	pid_t clients[N], servers[N];
	for (int i = 0; i < N; i++) {
		clients[i] = child();
		if (!clients[i]) {
			uint16_t port = port_of(l);
			close(l);
			client_of_fork(dial(port));
			exit(0);
		}
	}
	for (int i = 0; i < N; i++) {
		int fd = take(l);
		servers[i] = child();
		if (!servers[i]) {
			close(l);
			echo_until_end(fd);
			exit(0);
		}
		close(fd);
	}
	close(l);
	for (int i = 0; i < N; i++)
		CHECK(reap(clients[i]) == 0 && reap(servers[i]) == 0, "client or server %d", i);
}

static void echo_peer(int fd)
{
	echo_until_end(fd);
}

/* Parent and child use one connection in turn; what each sends and takes is one stream. */
static void in_turn(bool heated)
{
	int fd, turn[2], back[2];
	pid_t echo = peer(echo_peer, &fd);
	if (heated)
		ask_echo(fd, 40, 300, 1);
	CHECK(!pipe(turn) && !pipe(back), "pipe");
	pid_t kid = child();
	if (!kid) {
		char t;
		for (unsigned i = 0; i < 10; i++) {
			CHECK(read(turn[0], &t, 1) == 1, "turn");
			ask_echo(fd, 3, 1000, i);
			CHECK(write(back[1], "t", 1) == 1, "turn");
		}
		exit(0);
	}
	for (unsigned i = 0; i < 10; i++) {
		char t;
		ask_echo(fd, 3, 1000, 100 + i);
		CHECK(write(turn[1], "t", 1) == 1 && read(back[0], &t, 1) == 1, "turn");
	}
	CHECK(reap(kid) == 0, "child");
	ask_echo(fd, 40, 500, 7);
	close(fd);
	CHECK(reap(echo) == 0, "echo");
	for (int i = 0; i < 2; i++) {
		close(turn[i]);
		close(back[i]);
	}
}

/* A child that does nothing with the connection, dies and comes again, as a server's that saves to disk. */
static void onlookers(void)
{
	int fd;
	pid_t echo = peer(echo_peer, &fd);
	for (unsigned i = 0; i < 10; i++) {
		pid_t kid = child();
		if (!kid) {
			nap(3);
			_exit(0);
		}
		ask_echo(fd, 20, 600, i);
		if (i % 3 == 0)
			kill(kid, SIGKILL);
		int how = reap(kid);
		CHECK(how == 0 || how == 128 + SIGKILL, "child");
		ask_echo(fd, 20, 600, i);
	}
	close(fd);
	CHECK(reap(echo) == 0, "echo");
}

/* Unread bytes at the time of fork belong to whoever reads first. */
static void unread_at_fork(void)
{
	int c, s;
	char b[10];
	pair(&c, &s);
	warm(c, s);
	send_all(c, "firstsecond", 11);
	CHECK(ready(s, POLLIN, 1000), "arrived");
	pid_t kid = child();
	if (!kid) {
		_exit(recv_all(s, b, 5) == 5 && !memcmp(b, "first", 5) ? 0 : 1);
	}
	CHECK(reap(kid) == 0, "child");
	CHECK(recv_all(s, b, 6) == 6 && !memcmp(b, "second", 6), "the rest");
	still_works(c, s);
	close(c);
	close(s);
}

/* The end of the stream comes when the last of parent and child has closed. */
static void last_holder(bool child_last)
{
	int c, s, go[2];
	char b[10];
	pair(&c, &s);
	warm(c, s);
	CHECK(!pipe(go), "pipe");
	pid_t kid = child();
	if (!kid) {
		close(c);
		close(go[1]);
		if (child_last) {
			CHECK(read(go[0], b, 1) == 0, "go");
			send_all(s, "bye", 3);
		}
		exit(0);
	}
	close(go[0]);
	if (child_last) {
		close(s);
		CHECK(!(ready(c, POLLIN, 10) & POLLIN), "no end while the child holds it");
		close(go[1]);
		CHECK(recv_all(c, b, 10) == 3 && !memcmp(b, "bye", 3), "the child's bytes, then the end");
		CHECK(reap(kid) == 0, "child");
	} else {
		CHECK(reap(kid) == 0, "child");
		CHECK(!(ready(c, POLLIN, 10) & POLLIN), "no end while the parent holds it");
		still_works(c, s);
		close(s);
		close(go[1]);
		CHECK(recv(c, b, 10, 0) == 0, "end");
	}
	close(c);
}

/* Double fork and setsid, as a daemon does, between accept and the answers. */
static void daemonized(void)
{
	int c, s;
	pair(&c, &s);
	carry(c, s, 100, 0, 1);
	pid_t first = child();
	if (!first) {
		setsid();
		pid_t second = child();
		if (second)
			_exit(0);
		close(c);
		echo_until_end(s);
		exit(0);
	}
	close(s);
	CHECK(reap(first) == 0, "first child");
	ask_echo(c, 60, 400, 3);
	shutdown(c, SHUT_WR);
	char b;
	CHECK(recv(c, &b, 1, 0) == 0, "end");
	close(c);
}

static void test(void)
{
	after_accept();
	in_turn(false);
	in_turn(true);
	onlookers();
	unread_at_fork();
	last_holder(true);
	last_holder(false);
	daemonized();
}

int main(void)
{
	return each_family(test);
}
