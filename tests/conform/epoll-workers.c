/* Workers that share work by epoll: EPOLLEXCLUSIVE on one listener, one-shot connections in one set, and a set that
 * a forked child goes on using. */
#include "conform.h"

enum { WORKERS = 3, CLIENTS = 12, ROUNDS = 30 };

static uint16_t port;
static pid_t workers[WORKERS];

static void worker(int l)
{
	int set = epoll_create1(0);
	struct epoll_event e = {EPOLLIN | EPOLLEXCLUSIVE, {.fd = l}}, out[4];
	CHECK(!epoll_ctl(set, EPOLL_CTL_ADD, l, &e), "EPOLLEXCLUSIVE");
	for (;;) {
		int n = epoll_wait(set, out, 4, -1);
		for (int i = 0; i < n; i++) {
			int fd = out[i].data.fd;
			if (fd == l) {
				fd = accept4(l, NULL, NULL, SOCK_NONBLOCK);
				if (fd < 0)
					continue;
				e.events = EPOLLIN;
				e.data.fd = fd;
				CHECK(!epoll_ctl(set, EPOLL_CTL_ADD, fd, &e), "ADD");
				continue;
			}
			char b[4096];
			ssize_t k = recv(fd, b, sizeof(b), 0);
			if (k <= 0)
				close(fd);
			else
				send_all(fd, b, (size_t)k);
		}
	}
}

static void exclusive(void)
{
	int l = listener(64), fds[CLIENTS];
	set_nonblocking(l, true);
	port = port_of(l);
	for (int i = 0; i < WORKERS; i++)
		if (!(workers[i] = child()))
			worker(l);
	close(l);
	for (int i = 0; i < CLIENTS; i++)
		fds[i] = dial(port);
	for (unsigned r = 0; r < ROUNDS; r++)
		for (int i = 0; i < CLIENTS; i++)
			ask_echo(fds[i], 1, 500 + r, r + (unsigned)i);
	for (int i = 0; i < CLIENTS; i++)
		close(fds[i]);
	for (int i = 0; i < WORKERS; i++) {
		kill(workers[i], SIGTERM);
		CHECK(reap(workers[i]) == 128 + SIGTERM, "worker");
	}
}

static int shared_set;

/* One thread at a time owns a one-shot connection; all wait in the same set. */
static void *shot_worker(void *arg)
{
	for (;;) {
		struct epoll_event e;
		int n = epoll_wait(shared_set, &e, 1, 5000);
		/* A SIGCHLD that nobody handles interrupts a thread that was created while it was blocked. */
		if (n < 0 && errno == EINTR)
			continue;
		CHECK(n == 1, "a worker waited in vain");
		char b[1024];
		ssize_t k = recv(e.data.fd, b, sizeof(b), 0);
		CHECK(k >= 0, "recv");
		if (!k) {
			return NULL; /* as many workers as connections: each sees one end */
		}
		send_all(e.data.fd, b, (size_t)k);
		e.events = EPOLLIN | EPOLLONESHOT;
		CHECK(!epoll_ctl(shared_set, EPOLL_CTL_MOD, e.data.fd, &e), "MOD");
	}
}

static void client_of_shots(int fd)
{
	ask_echo(fd, 60, 300, 5);
}

static void one_shots(void)
{
	int fds[CLIENTS];
	pid_t pids[CLIENTS];
	pthread_t threads[CLIENTS];
	shared_set = epoll_create1(EPOLL_CLOEXEC);
	for (int i = 0; i < CLIENTS; i++)
		pids[i] = peer(client_of_shots, &fds[i]);
	for (int i = 0; i < CLIENTS; i++) {
		struct epoll_event e = {EPOLLIN | EPOLLONESHOT, {.fd = fds[i]}};
		CHECK(!epoll_ctl(shared_set, EPOLL_CTL_ADD, fds[i], &e), "ADD");
		CHECK(!pthread_create(&threads[i], NULL, shot_worker, NULL), "thread");
	}
	for (int i = 0; i < CLIENTS; i++)
		CHECK(reap(pids[i]) == 0, "client");
	/* No thread is bound to a connection: only when all have ended, none uses any of them. */
	for (int i = 0; i < CLIENTS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < CLIENTS; i++)
		close(fds[i]);
	close(shared_set);
}

static void echo_peer(int fd)
{
	echo_until_end(fd);
}

/* Parent and child use one set over one connection in turn. */
static void set_over_fork(void)
{
	int fd, set = epoll_create1(0);
	pid_t pid = peer(echo_peer, &fd);
	ask_echo(fd, 40, 200, 1);
	struct epoll_event e = {EPOLLIN, {.fd = fd}};
	CHECK(!epoll_ctl(set, EPOLL_CTL_ADD, fd, &e), "ADD");
	for (int i = 0; i < 4; i++) {
		pid_t kid = child();
		if (!kid) {
			char b[10];
			send_all(fd, "child", 5);
			CHECK(epoll_wait(set, &e, 1, 2000) == 1 && e.events == EPOLLIN, "the child's wait");
			CHECK(recv_all(fd, b, 5) == 5 && !memcmp(b, "child", 5), "the child's answer");
			exit(0);
		}
		CHECK(reap(kid) == 0, "child");
		char b[10];
		CHECK(epoll_wait(set, &e, 1, 0) == 0, "the child took its answer");
		send_all(fd, "parent", 6);
		CHECK(epoll_wait(set, &e, 1, 2000) == 1 && e.events == EPOLLIN, "the parent's wait");
		CHECK(recv_all(fd, b, 6) == 6 && !memcmp(b, "parent", 6), "the parent's answer");
	}
	close(set);
	close(fd);
	CHECK(reap(pid) == 0, "echo");
}

static void test(void)
{
	exclusive();
	one_shots();
	set_over_fork();
}

int main(void)
{
	return each_family(test);
}
