/* Shared by the programs in this folder. Each is a plain socket program that knows nothing of hasten: it checks
 * itself, prints the same text on every run, ends within two seconds, and must behave the same natively, preloaded
 * and with HASTEN_PROMOTE=eager. Header only, so that a program also builds alone: cc -pthread x.c.
 *
 * Every check ends the process with status 1 and a line on stdout, so that the driver's comparison shows it. */
#ifndef CONFORM_H
#define CONFORM_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition, ...)                                                                   \
	do {                                                                                    \
		if (!(condition)) {                                                             \
			int failed_errno = errno;                                               \
			printf("FAIL %s:%d: ", __FILE_NAME__, __LINE__);                        \
			printf(__VA_ARGS__);                                                    \
			printf(" [%s: errno %s]\n", #condition, strerrorname_np(failed_errno)); \
			fflush(stdout);                                                         \
			_exit(1);                                                               \
		}                                                                               \
	} while (0)
#ifndef __FILE_NAME__
#define __FILE_NAME__ (strrchr("/" __FILE__, '/') + 1)
#endif

/* Against hanging: a case takes two seconds, under ThreadSanitizer on a busy machine ten times as long. */
#ifdef __SANITIZE_THREAD__
#define LIMIT_SECONDS 100
#else
#define LIMIT_SECONDS 14
#endif

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* How the two ends address each other: MAPPED is an IPv6 socket at both ends that speaks IPv4, MIXED an IPv4
 * client of an IPv6 server. */
enum family { V4, V6, MAPPED, MIXED, FAMILIES };
static enum family family = V4;
static const char *const family_names[] = {"v4", "v6", "mapped", "mixed"};

struct address {
	struct sockaddr_storage at;
	socklen_t length;
};

static inline void set_address(struct address *ret, bool server, uint16_t port)
{
	memset(ret, 0, sizeof(*ret));
	if (family == V4 || (family == MIXED && !server)) {
		struct sockaddr_in *in = (struct sockaddr_in *)&ret->at;
		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		ret->length = sizeof(*in);
	} else {
		struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&ret->at;
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(port);
		in6->sin6_addr = in6addr_loopback;
		if (family != V6)
			inet_pton(AF_INET6, "::ffff:127.0.0.1", &in6->sin6_addr);
		ret->length = sizeof(*in6);
	}
}

static inline int new_socket(bool server, int flags)
{
	int fd = socket(family == V4 || (family == MIXED && !server) ? AF_INET : AF_INET6, SOCK_STREAM | flags, 0);
	CHECK(fd >= 0, "socket");
	return fd;
}

static inline uint16_t port_of(int fd)
{
	struct sockaddr_storage at;
	socklen_t n = sizeof(at);
	CHECK(!getsockname(fd, (struct sockaddr *)&at, &n), "getsockname");
	return ntohs(at.ss_family == AF_INET ? ((struct sockaddr_in *)&at)->sin_port
					     : ((struct sockaddr_in6 *)&at)->sin6_port);
}

/* A listening socket on a free port of loopback. */
static inline int listener(int backlog)
{
	struct address a;
	int fd = new_socket(true, 0);
	set_address(&a, true, 0);
	CHECK(!bind(fd, (struct sockaddr *)&a.at, a.length), "bind");
	CHECK(!listen(fd, backlog), "listen");
	return fd;
}

static inline int try_dial(uint16_t port, int flags, int *ret_result)
{
	struct address a;
	int fd = new_socket(false, flags);
	set_address(&a, false, port);
	*ret_result = connect(fd, (struct sockaddr *)&a.at, a.length);
	return fd;
}

/* Without it a small write behind a small write waits 40 ms for the other end's acknowledgement. */
static inline void no_delay(int fd)
{
	int on = 1;
	CHECK(!setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)), "TCP_NODELAY");
}

static inline int dial(uint16_t port)
{
	int result, fd = try_dial(port, 0, &result);
	CHECK(!result, "connect");
	no_delay(fd);
	return fd;
}

static inline int take(int listening)
{
	int fd = accept(listening, NULL, NULL);
	CHECK(fd >= 0, "accept");
	no_delay(fd);
	return fd;
}

/* Both ends in this process: *c called connect, *s was accepted. */
static inline void pair(int *c, int *s)
{
	int l = listener(8);
	*c = dial(port_of(l));
	*s = take(l);
	close(l);
}

static inline void send_all(int fd, const void *data, size_t n)
{
	const char *p = data;
	while (n) {
		ssize_t k = send(fd, p, n, MSG_NOSIGNAL);
		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0 && errno == EAGAIN) {
			struct pollfd w = {fd, POLLOUT, 0};
			poll(&w, 1, -1);
			continue;
		}
		CHECK(k > 0, "send of %zu", n);
		p += k;
		n -= (size_t)k;
	}
}

/* Reads n bytes, fewer only at the end of the stream; returns how many. */
static inline size_t recv_all(int fd, void *data, size_t n)
{
	char *p = data;
	size_t got = 0;
	while (got < n) {
		ssize_t k = recv(fd, p + got, n - got, 0);
		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0 && errno == EAGAIN) {
			struct pollfd w = {fd, POLLIN, 0};
			poll(&w, 1, -1);
			continue;
		}
		CHECK(k >= 0, "recv of %zu after %zu", n, got);
		if (!k)
			break;
		got += (size_t)k;
	}
	return got;
}

/* The byte at each place of the endless stream number seed; both ends can compute it. */
static inline uint8_t pattern_at(uint64_t place, unsigned seed)
{
	uint64_t x = (place >> 3) * 0x9e3779b97f4a7c15ull + seed * 0xbf58476d1ce4e5b9ull;
	x ^= x >> 29;
	x *= 0x94d049bb133111ebull;
	return (uint8_t)(x >> (8 * (place & 7)));
}

static inline void pattern(void *data, size_t n, uint64_t place, unsigned seed)
{
	uint8_t *p = data;
	for (size_t i = 0; i < n; i++)
		p[i] = pattern_at(place + i, seed);
}

static inline void check_pattern(const void *data, size_t n, uint64_t place, unsigned seed)
{
	const uint8_t *p = data;
	for (size_t i = 0; i < n; i++)
		CHECK(p[i] == pattern_at(place + i, seed), "byte %llu of stream %u is altered, lost or doubled",
		      (unsigned long long)(place + i), seed);
}

/* Sends n bytes of a stream from one end and checks them at the other, both ends in this thread; n at most 64 KiB,
 * which every loopback connection holds. */
static inline void carry(int from, int to, size_t n, uint64_t place, unsigned seed)
{
	static __thread uint8_t out[65536], in[65536];
	pattern(out, n, place, seed);
	send_all(from, out, n);
	memset(in, 0, n);
	CHECK(recv_all(to, in, n) == n, "stream %u ended early", seed);
	check_pattern(in, n, place, seed);
}

/* Request and response so often that acceleration, which begins at the second read, has had every occasion. */
static inline void warm(int c, int s)
{
	for (unsigned i = 0; i < 40; i++) {
		carry(c, s, 100 + i, i * 200, 1);
		carry(s, c, 80 + i, i * 200, 2);
	}
}

static inline void still_works(int c, int s)
{
	for (unsigned i = 0; i < 10; i++) {
		carry(c, s, 3000, i * 3000, 3);
		carry(s, c, 2000, i * 2000, 4);
	}
}

/* In an echo server's place until the end of the stream. */
static inline void echo_until_end(int fd)
{
	char b[16384];
	for (;;) {
		ssize_t k = recv(fd, b, sizeof(b), 0);
		if (k < 0 && errno == EINTR)
			continue;
		CHECK(k >= 0, "recv in the echo");
		if (!k)
			return;
		send_all(fd, b, (size_t)k);
	}
}

/* Rounds against an echo at the other end. */
static inline void ask_echo(int fd, unsigned rounds, size_t n, unsigned seed)
{
	static __thread uint8_t out[65536], in[65536];
	for (unsigned i = 0; i < rounds; i++) {
		pattern(out, n, (uint64_t)i * n, seed);
		send_all(fd, out, n);
		CHECK(recv_all(fd, in, n) == n, "echo ended at round %u", i);
		check_pattern(in, n, (uint64_t)i * n, seed);
	}
}

static inline pid_t child(void)
{
	fflush(NULL);
	pid_t pid = fork();
	CHECK(pid >= 0, "fork");
	if (!pid)
		alarm(LIMIT_SECONDS - 2);
	return pid;
}

/* Exit status, or 128 + the number of the signal. */
static inline int reap(pid_t pid)
{
	int status = 0;
	while (waitpid(pid, &status, 0) < 0)
		CHECK(errno == EINTR, "waitpid");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* A process of its own at the other end of a new connection, which it made itself, so that it is the only holder. */
static inline pid_t peer(void (*body)(int fd), int *ret_fd)
{
	int l = listener(8);
	pid_t pid = child();
	if (!pid) {
		uint16_t port = port_of(l);
		close(l);
		body(dial(port));
		exit(0);
	}
	*ret_fd = take(l);
	close(l);
	return pid;
}

static inline void nap(unsigned ms)
{
	struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};
	while (nanosleep(&t, &t) < 0 && errno == EINTR) {
	}
}

/* Until that thread of ours sleeps in the kernel, however busy the machine is; it has said by *begun that it is about to. */
static inline void await_sleep(const _Atomic pid_t *begun)
{
	for (int i = 0, asleep = 0; i < 10000 && asleep < 3; i++) {
		char path[64], text[400] = "", *at;
		nap(1);
		if (!*begun)
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%d/stat", *begun);
		FILE *f = fopen(path, "re");
		if (!f)
			return; /* it has ended */
		asleep = fgets(text, sizeof(text), f) && (at = strrchr(text, ')')) && at[1] && at[2] == 'S' ? asleep + 1 : 0;
		fclose(f);
	}
}

static inline double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* What poll says about one descriptor within ms. */
static inline int ready(int fd, short events, int ms)
{
	struct pollfd w = {fd, events, 0};
	int n;
	do
		n = poll(&w, 1, ms);
	while (n < 0 && errno == EINTR);
	CHECK(n >= 0, "poll");
	return w.revents;
}

static inline void set_nonblocking(int fd, bool on)
{
	int flags = fcntl(fd, F_GETFL);
	CHECK(flags >= 0 && !fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK), "F_SETFL");
}

/* Runs test once for each way of addressing. A machine without IPv6 says so, natively as well as preloaded. */
static inline int each_family(void (*test)(void))
{
	alarm(LIMIT_SECONDS);
	for (int f = V4; f < FAMILIES; f++) {
		int probe = f == V4 ? -1 : socket(AF_INET6, SOCK_STREAM, 0);
		struct sockaddr_in6 loopback = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
		if (f != V4 && (probe < 0 || bind(probe, (struct sockaddr *)&loopback, sizeof(loopback)))) {
			printf("%s: this machine has no IPv6 loopback\n", family_names[f]);
			continue;
		}
		if (probe >= 0)
			close(probe);
		family = (enum family)f;
		test();
		printf("%s: done\n", family_names[f]);
		fflush(stdout);
	}
	puts("ok");
	return 0;
}

static inline int once(void (*test)(void))
{
	alarm(LIMIT_SECONDS);
	test();
	puts("ok");
	return 0;
}
#endif
