/* What a connection costs that carried megabytes and is idle now, and a lane that both ends gave up: its pages go back. */
#include "preload/link/link_inner.h"
#include "preload/real.h"
#include "preload/sock.h"
#include "preload/switch.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition) \
	do { \
		if (!(condition)) { \
			printf("line %d: %s\n", __LINE__, #condition); \
			fflush(stdout); \
			_exit(1); \
		} \
	} while (0)

#define CONNECTIONS 3
#define MUCH        (8u << 20)
#define PAGE        4096ul
#define IDLE_MOST   (40u << 10) /* of a connection, both directions */

static char buf[1 << 20];

static void ping_pong(int fd, bool first)
{
	for (int i = 0; i < 20; i++) {
		CHECK(!first || send(fd, "x", 1, 0) == 1);
		CHECK(recv(fd, buf, 1, 0) == 1);
		CHECK(first || send(fd, "y", 1, 0) == 1);
	}
}

static void sends(int fd, size_t n)
{
	for (ssize_t k; n; n -= k)
		CHECK((k = send(fd, buf, n < sizeof(buf) ? n : sizeof(buf), 0)) > 0);
}

static void takes(int fd, size_t n)
{
	for (ssize_t k; n; n -= k)
		CHECK((k = recv(fd, buf, n < sizeof(buf) ? n : sizeof(buf), 0)) > 0);
}

/* Sits in an epoll wait as a server does, until it is told. */
static void idle(int fd)
{
	struct epoll_event e = {.events = EPOLLIN};
	int ep = epoll_create1(0);
	CHECK(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e) == 0 && epoll_wait(ep, &e, 1, 9000) == 1);
	CHECK(recv(fd, buf, 1, 0) == 1);
	close(ep);
}

static void client(const struct sockaddr_in *at)
{
	int fd[CONNECTIONS];
	for (int i = 0; i < CONNECTIONS; i++) {
		fd[i] = socket(AF_INET, SOCK_STREAM, 0);
		CHECK(connect(fd[i], (const struct sockaddr *)at, sizeof(*at)) == 0);
		ping_pong(fd[i], true);
		sends(fd[i], MUCH);
		takes(fd[i], MUCH);
	}
	idle(fd[0]);
	takes(fd[1], MUCH);
	close(fd[1]);
	CHECK(send(fd[0], "z", 1, 0) == 1);
	idle(fd[0]);
	exit(0);
}

static size_t pages_of(struct link *l, uint32_t lane)
{
	static unsigned char in[2 * RING_STRIDE / PAGE];
	size_t n = 0;
	CHECK(mincore(link_area(l, lane, 0), 2 * RING_STRIDE, in) == 0);
	for (size_t i = 0; i < sizeof(in); i++)
		n += in[i] & 1;
	return n * PAGE;
}

int main(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(at);
	int l = socket(AF_INET, SOCK_STREAM, 0), fd[CONNECTIONS], status;
	alarm(25);
	CHECK(bind(l, (struct sockaddr *)&at, len) == 0 && listen(l, 8) == 0 && getsockname(l, (struct sockaddr *)&at, &len) == 0);
	pid_t pid = fork();
	if (!pid) {
		alarm(25);
		client(&at);
	}
	struct link *link = NULL;
	uint32_t lane[CONNECTIONS];
	for (int i = 0; i < CONNECTIONS; i++) {
		CHECK((fd[i] = accept(l, NULL, NULL)) >= 0);
		ping_pong(fd[i], false);
		takes(fd[i], MUCH);
		sends(fd[i], MUCH);
		struct sock *s = fdtab_sock(fd[i]);
		CHECK(s && s->link && s->slot->rx.mode == MODE_LANE && s->slot->tx.mode == MODE_LANE);
		link = s->link;
		lane[i] = s->lane;
	}
	size_t grown = pages_of(link, lane[0]);
	CHECK(grown > IDLE_MOST);
	/* both ends wait, this one by poll */
	struct pollfd p[CONNECTIONS];
	for (int i = 0; i < CONNECTIONS; i++)
		p[i] = (struct pollfd){fd[i], POLLIN, 0};
	CHECK(poll(p, CONNECTIONS, 3500) == 0);
	for (int i = 0; i < CONNECTIONS; i++) {
		size_t n = pages_of(link, lane[i]);
		if (n > IDLE_MOST) {
			printf("connection %d: %zu KiB while it carried bytes, %zu KiB idle\n", i, grown >> 10, n >> 10);
			return 1;
		}
	}
	/* it still works, and grows again */
	CHECK(send(fd[0], "g", 1, 0) == 1);
	sends(fd[1], MUCH);
	takes(fd[0], 1);
	CHECK(pages_of(link, lane[1]) > IDLE_MOST);
	close(fd[1]);
	CHECK(poll(p, 1, 3500) == 0);
	if (pages_of(link, lane[1]) > IDLE_MOST) {
		printf("a closed lane keeps %zu KiB\n", pages_of(link, lane[1]) >> 10);
		return 1;
	}
	CHECK(send(fd[0], "g", 1, 0) == 1);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	puts("ok");
	return 0;
}
