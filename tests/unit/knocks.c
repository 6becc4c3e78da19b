/* Every local user can connect to a process's rendezvous and stay silent: what that may cost, and whom it may keep out. */
#include "preload/discover/registry.h"
#include "preload/link/link_inner.h"
#include "preload/real.h"
#include "preload/state.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define CHECK(condition) \
	do { \
		if (!(condition)) { \
			printf("line %d: %s (errno %d)\n", __LINE__, #condition, errno); \
			return 1; \
		} \
	} while (0)

static long (*system_call)(long, ...);
static unsigned connects;

static long counting(long number, ...)
{
	va_list ap;
	long a[6];
	va_start(ap, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	connects += number == SYS_connect;
	return system_call(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* One that connects and says nothing; -1: the backlog is full. */
static int silent_knock(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	char name[25];
	snprintf(name, sizeof(name), "hasten/%016llx", (unsigned long long)identity());
	memcpy(a.sun_path + 1, name, 23);
	int fd = real.socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || real.connect(fd, (struct sockaddr *)&a, offsetof(struct sockaddr_un, sun_path) + 24) == 0)
		return fd;
	real.close(fd);
	return -1;
}

int main(void)
{
	int fds[400], n = 0, fd;
	real_bind();
	/* a connection whose connector has no room for a knock */
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(at);
	int l = socket(AF_INET, SOCK_STREAM, 0), c = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(bind(l, (struct sockaddr *)&at, len) == 0 && listen(l, 8) == 0 && getsockname(l, (struct sockaddr *)&at, &len) == 0);
	CHECK(connect(c, (struct sockaddr *)&at, len) == 0);
	int s = accept(l, NULL, NULL);
	CHECK(s >= 0 && link_rendezvous() == 0);
	while (n < 300 && (fd = silent_knock()) >= 0)
		fds[n++] = fd;
	CHECK(n > 100 && n < 300);
	system_call = real.syscall;
	real.syscall = counting;
	char b;
	for (int i = 0; i < 600; i++)
		CHECK(send(c, "x", 1, 0) == 1 && recv(s, &b, 1, 0) == 1 && send(s, "y", 1, 0) == 1 && recv(c, &b, 1, 0) == 1);
	real.syscall = system_call;
	if (connects == 0 || connects > 14) {
		printf("%u knocks at a full rendezvous in 600 reads\n", connects);
		return 1;
	}
	/* an honest knock behind silent ones */
	while (n)
		real.close(fds[--n]);
	while (link_look())
		;
	for (int i = 0; i < 8; i++)
		link_look();
	while (n < 100 && (fd = silent_knock()) >= 0)
		fds[n++] = fd;
	struct registry_hit hit = {.process = identity(), .uid = geteuid()};
	struct link *made;
	CHECK(n == 100 && link_knock(&hit, &made) == 0);
	unsigned looks = 1;
	while (!link_look() && looks < 200)
		looks++;
	if (looks > 7) {
		printf("%u looks until an honest knock was found\n", looks);
		return 1;
	}
	puts("ok");
	return 0;
}
