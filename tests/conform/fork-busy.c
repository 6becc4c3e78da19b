/* fork, vfork and posix_spawn in a process whose other threads are inside calls on the same connections at that moment:
 * waiting in each way, and in the middle of traffic. What the child does with its copies is its own affair; the threads
 * notice nothing, and the child can use a connection that no thread was using. */
#include "conform.h"
#include <spawn.h>
#include <sys/select.h>

enum { WAITERS = 5 };
static int c[WAITERS], s[WAITERS], set;
static _Atomic int woken;
static _Atomic bool stop;
extern char **environ;

static void *waiter(void *arg)
{
	int i = (int)(intptr_t)arg;
	char b[10];
	struct pollfd p = {s[i], POLLIN, 0};
	struct epoll_event e;
	fd_set r;
	FD_ZERO(&r);
	FD_SET(s[i], &r);
	switch (i) {
	case 0:
		break;
	case 1:
		CHECK(poll(&p, 1, -1) == 1, "poll");
		break;
	case 2:
		CHECK(select(s[i] + 1, &r, NULL, NULL, NULL) == 1, "select");
		break;
	case 3:
		CHECK(epoll_wait(set, &e, 1, -1) == 1, "epoll_wait");
		break;
	default:
		CHECK(recv(s[i], b, 4, MSG_PEEK | MSG_WAITALL) == 4, "peek");
		break;
	}
	CHECK(recv(s[i], b, 10, 0) == 4 && !memcmp(b, "wake", 4), "waiter %d", i);
	woken++;
	return NULL;
}

struct traffic {
	int c, s;
	unsigned rounds;
};

static void *traffic(void *arg)
{
	struct traffic *t = arg;
	while (!stop) {
		carry(t->c, t->s, 700, t->rounds * 700, 1);
		carry(t->s, t->c, 300, t->rounds * 300, 2);
		t->rounds++;
	}
	return NULL;
}

/* A thread writes and another reads at the same time, so that both locks are taken most of the time. */
static void *pour(void *arg)
{
	struct traffic *t = arg;
	uint8_t b[1000];
	for (unsigned i = 0; !stop; i++) {
		pattern(b, sizeof(b), (uint64_t)i * sizeof(b), 5);
		send_all(t->c, b, sizeof(b));
	}
	shutdown(t->c, SHUT_WR);
	return NULL;
}

static void *drink(void *arg)
{
	struct traffic *t = arg;
	uint8_t b[3000];
	for (uint64_t at = 0;;) {
		ssize_t k = recv(t->s, b, sizeof(b), 0);
		CHECK(k >= 0, "recv");
		if (!k)
			return NULL;
		check_pattern(b, (size_t)k, at, 5);
		at += (size_t)k;
	}
}

static __attribute__((noinline)) pid_t vforked(void)
{
	char *const argv[] = {"true", NULL};
	pid_t pid = vfork();
	if (!pid) {
		execve("/bin/true", argv, environ);
		_exit(1);
	}
	return pid;
}

static void each_child(int quiet_c, int quiet_s, int i)
{
	char *const argv[] = {"true", NULL};
	pid_t pid;
	switch (i % 5) {
	case 0: /* looks on */
		pid = fork();
		if (!pid)
			_exit(0);
		break;
	case 1: /* works with what nobody else is using */
		pid = child();
		if (!pid) {
			for (unsigned k = 0; k < 10; k++) {
				carry(quiet_c, quiet_s, 400, k, 6);
				carry(quiet_s, quiet_c, 400, k, 7);
			}
			_exit(0);
		}
		break;
	case 2: /* closes all of it, and makes connections of its own */
		pid = child();
		if (!pid) {
			int own_c, own_s;
			closefrom(3);
			pair(&own_c, &own_s);
			warm(own_c, own_s);
			_exit(0);
		}
		break;
	case 3:
		pid = vforked();
		break;
	default:
		CHECK(!posix_spawn(&pid, "/bin/true", NULL, NULL, argv, environ), "posix_spawn");
		break;
	}
	CHECK(pid > 0 && reap(pid) == 0, "child %d", i);
}

static void test(void)
{
	pthread_t t[WAITERS + 4];
	struct traffic a = {0}, b = {0};
	int quiet_c, quiet_s;
	struct epoll_event e = {EPOLLIN, {.u32 = 3}};
	set = epoll_create1(0);
	woken = 0;
	stop = false;
	pair(&a.c, &a.s);
	pair(&b.c, &b.s);
	pair(&quiet_c, &quiet_s);
	warm(quiet_c, quiet_s);
	for (int i = 0; i < WAITERS; i++) {
		pair(&c[i], &s[i]);
		if (i != 1) /* one whose thread waits for a fresh connection */
			warm(c[i], s[i]);
	}
	CHECK(!epoll_ctl(set, EPOLL_CTL_ADD, s[3], &e), "ADD");
	for (int i = 0; i < WAITERS; i++)
		CHECK(!pthread_create(&t[i], NULL, waiter, (void *)(intptr_t)i), "thread");
	CHECK(!pthread_create(&t[WAITERS], NULL, traffic, &a), "thread");
	CHECK(!pthread_create(&t[WAITERS + 1], NULL, pour, &b), "thread");
	CHECK(!pthread_create(&t[WAITERS + 2], NULL, drink, &b), "thread");
	for (int i = 0; i < (family == V4 ? 20 : 5); i++)
		each_child(quiet_c, quiet_s, i);
	CHECK(!woken, "a waiter woke by a child's doing");
	for (int i = 0; i < WAITERS; i++)
		send_all(c[i], "wake", 4);
	stop = true;
	for (int i = 0; i < WAITERS + 3; i++)
		CHECK(!pthread_join(t[i], NULL), "join");
	CHECK(woken == WAITERS && a.rounds, "%d woken", woken);
	for (int i = 0; i < WAITERS; i++) {
		still_works(c[i], s[i]);
		close(c[i]);
		close(s[i]);
	}
	still_works(quiet_c, quiet_s);
	close(quiet_c);
	close(quiet_s);
	close(a.c);
	close(a.s);
	close(b.c);
	close(b.s);
	close(set);
}

int main(void)
{
	return each_family(test);
}
