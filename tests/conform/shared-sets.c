/* Epoll sets that were made before a fork: a child that only closes what it inherited, parent and child that sleep in one
 * set at the same time, connections that each of them adds to it, and a parent that ends (daemons). */
#include "conform.h"
#include <sys/mman.h>

enum { ROUNDS = 40 };

static void stay(int fd)
{
	char b[100];
	for (int i = 0; i < ROUNDS; i++) {
		CHECK(recv_all(fd, b, 100) == 100, "recv");
		send_all(fd, b, 100);
	}
	pause();
}

static void echo_peer(int fd)
{
	echo_until_end(fd);
}

static void add(int set, int fd, uint64_t tag, uint32_t events)
{
	struct epoll_event e = {events, {.u64 = tag}};
	CHECK(!epoll_ctl(set, EPOLL_CTL_ADD, fd, &e), "ADD");
}

/* The child closes the connection and the set: that is nothing to the parent's registration. */
static void child_closes(uint32_t events)
{
	int fd, set = epoll_create1(0);
	struct epoll_event e;
	pid_t pid = peer(stay, &fd);
	add(set, fd, 7, EPOLLIN | EPOLLRDHUP | events);
	for (int i = 0; i < ROUNDS; i++) {
		char b[100] = "";
		send_all(fd, b, 100);
		CHECK(epoll_wait(set, &e, 1, 2000) == 1 && e.data.u64 == 7, "answer");
		CHECK(recv_all(fd, b, 100) == 100, "recv");
	}
	pid_t kid = child();
	if (!kid) {
		close(fd);
		close(set);
		exit(0);
	}
	CHECK(reap(kid) == 0, "child");
	CHECK(epoll_wait(set, &e, 1, 0) == 0, "nothing has come");
	kill(pid, SIGKILL);
	CHECK(reap(pid) == 128 + SIGKILL, "peer");
	CHECK(epoll_wait(set, &e, 1, 3000) == 1 && e.events & EPOLLRDHUP, "the end of a killed peer");
	close(fd);
	close(set);
}

static _Atomic int *count; /* answers that were read, by both */

static void serve(int set, int fd)
{
	struct epoll_event e;
	char b[100];
	while (*count < ROUNDS) {
		int n = epoll_wait(set, &e, 1, 300);
		CHECK(n <= 0 || e.data.u64 == 7, "whose event is %llx", (unsigned long long)e.data.u64);
		if (n > 0 && recv(fd, b, 1, MSG_DONTWAIT) == 1) {
			(*count)++;
			send_all(fd, b, 1);
		}
	}
}

/* Both sleep in the set; one byte at a time comes, and one of them answers. */
static void tick(int fd)
{
	char b[100];
	for (int i = 0; i < ROUNDS; i++) {
		CHECK(recv_all(fd, b, 100) == 100, "recv");
		send_all(fd, b, 100);
	}
	CHECK(recv_all(fd, b, 1) == 1, "go");
	for (int i = 0; i < ROUNDS; i++) {
		nap(2);
		send_all(fd, "t", 1);
		CHECK(recv_all(fd, b, 1) == 1, "taken");
	}
}

static void both_sleep(void)
{
	int fd, set = epoll_create1(0);
	pid_t pid = peer(tick, &fd);
	add(set, fd, 7, EPOLLIN);
	ask_echo(fd, ROUNDS, 100, 1);
	*count = 0;
	pid_t kid = child();
	if (!kid) {
		serve(set, fd);
		exit(0);
	}
	nap(5);
	send_all(fd, "g", 1);
	double begin = now();
	serve(set, fd);
	CHECK(now() - begin < 2.5, "every byte is noticed when it comes");
	CHECK(reap(kid) == 0, "child");
	close(fd);
	close(set);
	CHECK(reap(pid) == 0, "peer");
}

/* Each has connections of its own in the set. An event of the other's is the other's. */
static void own_ones(int set, unsigned mine)
{
	int fds[2];
	pid_t pids[2];
	unsigned got[2] = {0, 0};
	for (unsigned i = 0; i < 2; i++) {
		pids[i] = peer(echo_peer, &fds[i]);
		ask_echo(fds[i], 10, 100, 1);
		add(set, fds[i], mine + i, EPOLLIN);
	}
	for (unsigned i = 0; i < 2; i++)
		send_all(fds[i], "x", 1);
	while (got[0] < ROUNDS || got[1] < ROUNDS) {
		struct epoll_event e;
		int n = epoll_wait(set, &e, 1, 2000);
		CHECK(n == 1, "mine %u: %u and %u", mine, got[0], got[1]);
		CHECK((e.data.u64 & ~0x101ull) == 0x1000, "whose event is %llx", (unsigned long long)e.data.u64);
		if ((e.data.u64 & ~1ull) != mine) {
			nap(1);
			continue;
		}
		unsigned i = e.data.u64 & 1;
		char b;
		if (recv(fds[i], &b, 1, MSG_DONTWAIT) == 1 && ++got[i] < ROUNDS)
			send_all(fds[i], "x", 1);
	}
	for (unsigned i = 0; i < 2; i++) {
		CHECK(!epoll_ctl(set, EPOLL_CTL_DEL, fds[i], NULL), "DEL");
		close(fds[i]);
	}
	for (unsigned i = 0; i < 2; i++) /* the second holds the first's connection too */
		CHECK(reap(pids[i]) == 0, "echo");
}

static void each_adds(void)
{
	int set = epoll_create1(0);
	pid_t kid = child();
	if (!kid) {
		own_ones(set, 0x1100);
		exit(0);
	}
	own_ones(set, 0x1000);
	CHECK(reap(kid) == 0, "child");
	close(set);
}

/* The process that made the set ends; its child goes on with the set and a connection in it. */
static void daemon_goes_on(void)
{
	int fd, told[2], set = epoll_create1(0);
	char ok = 0;
	CHECK(!pipe(told), "pipe");
	pid_t kid = child();
	if (!kid) {
		pid_t pid = peer(echo_peer, &fd);
		(void)pid;
		add(set, fd, 7, EPOLLIN);
		ask_echo(fd, 20, 100, 1);
		if (child())
			_exit(0);
		nap(10);
		for (int i = 0; i < ROUNDS; i++) {
			struct epoll_event e;
			char b[100] = "";
			send_all(fd, b, 100);
			CHECK(epoll_wait(set, &e, 1, 2000) == 1 && e.data.u64 == 7, "answer");
			CHECK(recv_all(fd, b, 100) == 100, "recv");
		}
		CHECK(write(told[1], "k", 1) == 1, "pipe");
		exit(0);
	}
	close(told[1]);
	close(set);
	CHECK(reap(kid) == 0, "first");
	CHECK(read(told[0], &ok, 1) == 1 && ok == 'k', "the daemon");
	close(told[0]);
}

static void test(void)
{
	child_closes(0);
	child_closes(EPOLLET);
	both_sleep();
	each_adds();
	daemon_goes_on();
}

int main(void)
{
	count = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return each_family(test);
}
