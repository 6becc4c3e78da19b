/* What children do to a connection must not be taken for what the parent did: a vfork child has the parent's memory and
 * descriptors of its own; a forked child changes how a connection travels that the parent has in an epoll set. */
#include "conform.h"

static int ahead[2];

/* Two connections from one process. */
static void two(uint16_t port)
{
	int a = dial(port), b = dial(port);
	char in[20] = "";
	for (unsigned i = 0; i < 2; i++)
		ask_echo(a, 1, 100, i);
	send_all(a, "for the child", 13);
	CHECK(write(ahead[1], "1", 1) == 1, "pipe");
	CHECK(recv_all(a, in, 13) == 13 && !strcmp(in, "for the child"), "cat's answer \"%s\"", in);
	for (unsigned i = 0; i < 30; i++)
		ask_echo(b, 1, 100, i);
	close(b);
	shutdown(a, SHUT_WR);
	CHECK(recv(a, in, 1, 0) == 0, "cat's end");
}

/* Between the peer's first bytes and our first look at them a vfork child leaves with the connection. */
static void vforked(void)
{
	char b[100];
	int l = listener(8);
	CHECK(!pipe(ahead), "pipe");
	pid_t pid = child();
	if (!pid) {
		uint16_t port = port_of(l);
		close(l);
		two(port);
		exit(0);
	}
	int first = take(l), second = take(l);
	for (int i = 0; i < 2; i++) {
		CHECK(recv_all(first, b, 100) == 100, "recv");
		send_all(first, b, 100);
	}
	CHECK(read(ahead[0], b, 1) == 1, "pipe");
	nap(20); /* the peer sleeps in its receive */
	pid_t cat = vfork();
	if (!cat) {
		dup2(first, 0);
		dup2(first, 1);
		for (int fd = 3; fd < 64; fd++)
			close(fd);
		execl("/bin/cat", "cat", NULL);
		_exit(1);
	}
	close(first);
	for (unsigned i = 0; i < 30; i++) {
		CHECK(recv_all(second, b, 100) == 100, "recv");
		nap(2);
		send_all(second, b, 100);
	}
	close(second);
	CHECK(reap(pid) == 0, "peer");
	CHECK(reap(cat) == 0, "cat");
	close(l);
	close(ahead[0]);
	close(ahead[1]);
}

static int go[2];

static void sends_three(int fd)
{
	char b[100];
	for (int i = 0; i < 40; i++) {
		CHECK(recv_all(fd, b, 100) == 100, "recv");
		send_all(fd, b, 100);
	}
	CHECK(read(go[0], b, 1) == 1, "pipe");
	send_all(fd, "abc", 3);
	CHECK(recv(fd, b, 1, 0) == 0, "end");
}

/* A forked child makes a stdio stream of it: from then on it is the kernel's, for the parent too. */
static void forked(void)
{
	int fd, set = epoll_create1(0);
	struct epoll_event e = {EPOLLIN, {.u64 = 5}};
	CHECK(!pipe(go), "pipe");
	pid_t pid = peer(sends_three, &fd);
	CHECK(!epoll_ctl(set, EPOLL_CTL_ADD, fd, &e), "ADD");
	ask_echo(fd, 40, 100, 1);
	CHECK(epoll_wait(set, &e, 1, 0) == 0, "nothing");
	pid_t kid = child();
	if (!kid) {
		FILE *f = fdopen(fd, "r");
		CHECK(f, "fdopen");
		exit(0);
	}
	CHECK(reap(kid) == 0, "child");
	CHECK(write(go[1], "g", 1) == 1, "pipe");
	for (int i = 0; i < 3; i++) {
		char c = 0;
		CHECK(epoll_wait(set, &e, 1, 2000) == 1 && e.events == EPOLLIN && e.data.u64 == 5, "event %d", i);
		CHECK(recv(fd, &c, 1, 0) == 1 && c == "abc"[i], "byte %d", i);
	}
	close(fd);
	CHECK(reap(pid) == 0, "peer");
	close(set);
	close(go[0]);
	close(go[1]);
}

static void test(void)
{
	vforked();
	forked();
}

int main(void)
{
	return each_family(test);
}
