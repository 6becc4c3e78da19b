/* The processes: three kinds of servers that live as long as the run, and clients that come and go. */
#include "soak.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int listener(int kind)
{
	struct sockaddr_in6 six = {.sin6_family = AF_INET6};
	struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr *at = shared->v6 ? (struct sockaddr *)&six : (struct sockaddr *)&four;
	socklen_t len = shared->v6 ? sizeof(six) : sizeof(four);
	int fd = socket(at->sa_family, SOCK_STREAM, 0);
	if (fd < 0 || bind(fd, at, len) < 0 || listen(fd, 512) < 0 || getsockname(fd, at, &len) < 0)
		fail("no listener: %s", strerrorname_np(errno));
	fcntl(fd, F_SETFL, O_NONBLOCK);
	atomic_store(&shared->port[kind], ntohs(shared->v6 ? six.sin6_port : four.sin_port));
	return fd;
}

int dial(int server, bool v6)
{
	struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
	struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	four.sin_port = six.sin6_port = htons(shared->port[server]);
	v6 = v6 && shared->v6;
	int fd = socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0), r;
	if (fd < 0)
		fail("socket says %s", strerrorname_np(errno));
	do
		r = connect(fd, v6 ? (struct sockaddr *)&six : (struct sockaddr *)&four, v6 ? sizeof(six) : sizeof(four));
	while (r < 0 && errno == EINTR);
	if (r < 0)
		fail("connect to server %d says %s", server, strerrorname_np(errno));
	return fd;
}

static uint32_t own_serial;
static uint64_t own_series;

static int accepted(int l)
{
	for (;;) {
		struct pollfd p = {l, POLLIN, 0};
		if (atomic_load(&shared->stop))
			exit(0);
		if (poll(&p, 1, 50) < 0 && errno != EINTR)
			fail("poll says %s", strerrorname_np(errno));
		int fd = accept(l, NULL, NULL);
		if (fd >= 0)
			return fd;
		if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
			fail("accept says %s", strerrorname_np(errno));
	}
}

static void *conversation(void *arg)
{
	struct talk *t = arg;
	talk_through(t, SOME, 0);
	talk_end(t);
	free(t);
	return NULL;
}

static struct talk *new_talk(int fd, bool acceptor, uint64_t seed)
{
	struct talk *t = malloc(sizeof(*t));
	if (!t)
		fail("no memory");
	talk_start(t, fd, acceptor, own_serial, seed);
	if (acceptor)
		t->in_series = mix(own_series++);
	return t;
}

static void by_threads(int l)
{
	pthread_attr_t a;
	pthread_attr_init(&a);
	pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&a, 512u << 10);
	for (;;) {
		pthread_t thread;
		if (pthread_create(&thread, &a, conversation, new_talk(accepted(l), true, 0)))
			fail("no thread");
	}
}

static int set = -1;

static void arm(struct talk *t, int op)
{
	struct epoll_event e = {.events = EPOLLONESHOT | (t->eof ? 0 : EPOLLIN) | (talk_may_send(t) ? EPOLLOUT : 0), .data.ptr = t};
	if (epoll_ctl(set, op, t->fd, &e) < 0)
		fail("epoll_ctl says %s", strerrorname_np(errno));
}

static void *epoll_worker(void *arg)
{
	uint64_t series = mix((uintptr_t)&series);
	while (!atomic_load(&shared->stop)) {
		struct epoll_event e[8];
		int n = epoll_wait(set, e, 1 + draw(&series, 8), 50);
		if (n < 0 && errno != EINTR)
			fail("epoll_wait says %s", strerrorname_np(errno));
		for (int i = 0; i < n; i++) {
			struct talk *t = e[i].data.ptr;
			if (!talk_both(t, draw(&series, 3) ? UINT32_MAX : 1)) {
				arm(t, EPOLL_CTL_MOD);
				continue;
			}
			talk_end(t);
			free(t);
		}
	}
	return NULL;
}

static void by_epoll(int l)
{
	pthread_t thread;
	set = epoll_create1(0);
	for (int i = 0; i < 2; i++)
		if (set < 0 || pthread_create(&thread, NULL, epoll_worker, NULL))
			fail("no epoll set or thread");
	for (;;) {
		int fd = accepted(l);
		fcntl(fd, F_SETFL, O_NONBLOCK);
		arm(new_talk(fd, true, 0), EPOLL_CTL_ADD);
	}
}

static struct kid *kid_enter(uint32_t serial)
{
	for (;;) {
		for (int i = 0; i < KIDS_MAX; i++) {
			pid_t none = 0;
			struct kid *k = &shared->kid[i];
			if (!atomic_compare_exchange_strong(&k->pid, &none, -1))
				continue;
			atomic_store(&k->serial, serial);
			atomic_store(&k->pid, getpid());
			return k;
		}
		usleep(1000);
	}
}

static void by_fork(int l)
{
	for (;;) {
		int fd = accepted(l);
		own_series++;
		pid_t pid = fork();
		if (pid < 0)
			fail("fork says %s", strerrorname_np(errno));
		if (pid) {
			close(fd);
			/* those that were killed leave their place */
			for (pid_t gone; (gone = waitpid(-1, NULL, WNOHANG)) > 0;)
				for (int i = 0; i < KIDS_MAX; i++) {
					pid_t dead = gone;
					atomic_compare_exchange_strong(&shared->kid[i].pid, &dead, 0);
				}
			continue;
		}
		close(l);
		own_serial = new_serial();
		struct kid *k = kid_enter(own_serial);
		struct talk t;
		talk_start(&t, fd, true, own_serial, 0);
		t.in_series = mix(own_series);
		t.out_series = mix(t.in_series);
		talk_through(&t, SOME, 0);
		talk_end(&t);
		atomic_store(&k->pid, 0);
		if (own_series & 1)
			exit(0);
		_exit(0);
	}
}

void serve(int kind, uint64_t seed)
{
	own_serial = new_serial();
	own_series = mix(seed);
	int l = listener(kind);
	if (kind == BY_THREADS)
		by_threads(l);
	if (kind == BY_EPOLL)
		by_epoll(l);
	by_fork(l);
	abort();
}

static struct talk *next_talk(void)
{
	int server = draw(&own_series, SERVERS);
	int fd = dial(server, draw(&own_series, 2));
	return new_talk(fd, false, (uint64_t)draw(&own_series, UINT32_MAX) << 32 | draw(&own_series, UINT32_MAX));
}

static void one_by_one(uint32_t left)
{
	while (left--) {
		struct talk *t = next_talk();
		talk_through(t, ALL, left);
		if (t->fd >= 0)
			talk_end(t);
		free(t);
	}
}

/* Many at once in an epoll set, level- or edge-triggered, or in poll. */
static void many(uint32_t left)
{
	enum { MOST = 24 };
	struct talk *t[MOST];
	struct pollfd p[MOST];
	uint32_t most = 1 + draw(&own_series, MOST), n = 0, calls = draw(&own_series, 2) ? UINT32_MAX : 1;
	bool by_poll = draw(&own_series, 3) == 0, edge = calls == UINT32_MAX && draw(&own_series, 2);
	int ep = by_poll ? -1 : epoll_create1(0);
	while (left || n) {
		while (left && n < most) {
			t[n] = next_talk();
			fcntl(t[n]->fd, F_SETFL, O_NONBLOCK);
			struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | (edge ? EPOLLET : 0), .data.u32 = n};
			if (ep >= 0 && epoll_ctl(ep, EPOLL_CTL_ADD, t[n]->fd, &e) < 0)
				fail("epoll_ctl says %s", strerrorname_np(errno));
			n++;
			left--;
		}
		bool over[MOST] = {false};
		if (by_poll) {
			for (uint32_t i = 0; i < n; i++)
				p[i] = (struct pollfd){t[i]->fd, (t[i]->eof ? 0 : POLLIN) | (talk_may_send(t[i]) ? POLLOUT : 0), 0};
			if (poll(p, n, -1) < 0 && errno != EINTR)
				fail("poll says %s", strerrorname_np(errno));
			for (uint32_t i = 0; i < n; i++)
				over[i] = p[i].revents && talk_both(t[i], calls);
		} else {
			struct epoll_event e[MOST];
			int k = epoll_wait(ep, e, 1 + draw(&own_series, MOST), -1);
			if (k < 0 && errno != EINTR)
				fail("epoll_wait says %s", strerrorname_np(errno));
			for (int i = 0; i < k; i++) {
				uint32_t at = e[i].data.u32;
				over[at] = talk_both(t[at], calls);
				if (over[at] || edge)
					continue;
				struct epoll_event now = {.events = (t[at]->eof ? 0 : EPOLLIN) | (talk_may_send(t[at]) ? EPOLLOUT : 0),
							  .data.u32 = at};
				if (epoll_ctl(ep, EPOLL_CTL_MOD, t[at]->fd, &now) < 0)
					fail("epoll_ctl says %s", strerrorname_np(errno));
			}
		}
		for (uint32_t i = n; i-- > 0;) {
			if (!over[i])
				continue;
			talk_end(t[i]);
			free(t[i]);
			t[i] = t[--n];
			struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | (edge ? EPOLLET : 0), .data.u32 = i};
			if (i < n && ep >= 0 && epoll_ctl(ep, EPOLL_CTL_MOD, t[i]->fd, &e) < 0)
				fail("epoll_ctl says %s", strerrorname_np(errno));
		}
	}
	if (ep >= 0)
		close(ep);
}

static void leave(void)
{
	if (draw(&own_series, 2))
		exit(0);
	_exit(0);
}

void client(uint32_t serial, uint64_t seed)
{
	own_serial = serial;
	own_series = mix(seed);
	uint32_t left = 1 + draw(&own_series, 40);
	if (draw(&own_series, 2))
		one_by_one(left / 2 + 1);
	else
		many(left);
	leave();
	abort();
}

void client_resumed(char **argv)
{
	struct talk t;
	uint32_t left = strtoul(argv[5], NULL, 10);
	talk_resumed(&t, argv);
	own_serial = t.own;
	own_series = mix(t.plan.seed + t.sent);
	talk_through(&t, ALL, left);
	if (t.fd >= 0)
		talk_end(&t);
	one_by_one(left);
	leave();
	abort();
}
