#include "bench/ends.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void die(const char *format, ...)
{
	int error = errno;
	va_list ap;

	fprintf(stderr, "%s: ", program_invocation_short_name);
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fprintf(stderr, error ? ": %s\n" : "\n", strerror(error));
	exit(1);
}

uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static double clock_s(clockid_t clock)
{
	struct timespec t;

	if (clock_gettime(clock, &t) < 0)
		die("CPU clock");
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

double own_cpu_s(void)
{
	return clock_s(CLOCK_PROCESS_CPUTIME_ID);
}

double process_cpu_s(pid_t pid)
{
	clockid_t clock;

	errno = clock_getcpuclockid(pid, &clock);
	if (errno)
		die("CPU clock of process %d", (int)pid);
	return clock_s(clock);
}

double number_argument(char option, const char *text, double min, double max)
{
	char *end;
	double v = strtod(text, &end);

	errno = 0;
	if (end == text || *end || !isfinite(v) || v < min || v > max)
		die("-%c %s: a number from %g to %g is needed", option, text, min, max);
	return v;
}

bool is_server(int argc, char **argv)
{
	return argc > 1 && !strcmp(argv[1], "--server");
}

static void become_server(const char *const words[], int stop, int report)
{
	const char *preload = getenv("BENCH_SERVER_PRELOAD");
	const char *argv[16] = {program_invocation_name, "--server"};
	size_t n = 2;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (preload && *preload)
		setenv("LD_PRELOAD", preload, 1);
	unsetenv("BENCH_CLIENT_PRELOAD");
	while (*words && n < 15)
		argv[n++] = *words++;
	if (dup2(stop, 0) < 0 || dup2(report, 1) < 0)
		die("pipe of the server");
	execv("/proc/self/exe", (char **)argv);
	die("the server end cannot be started");
}

/* Becomes the client anew, with LD_PRELOAD, now that the server runs without: the library would hand itself on to a
 * server that a preloaded client started. */
static void become_client(const struct ends *e, const char *preload)
{
	static char line[4096];
	char ends[64], *argv[32], *p = line;
	size_t argc = 0;
	FILE *f = fopen("/proc/self/cmdline", "re");
	size_t n = f ? fread(line, 1, sizeof(line) - 1, f) : 0;

	if (!n || fcntl(e->stop, F_SETFD, 0) < 0 || fcntl(e->report, F_SETFD, 0) < 0)
		die("own command line");
	fclose(f);
	for (; p < line + n && argc < 31; p += strlen(p) + 1)
		argv[argc++] = p;
	argv[argc] = NULL;
	snprintf(ends, sizeof(ends), "%d %u %d %d", (int)e->server, e->port, e->report, e->stop);
	setenv("BENCH_ENDS", ends, 1);
	setenv("LD_PRELOAD", preload, 1);
	unsetenv("BENCH_CLIENT_PRELOAD");
	execv("/proc/self/exe", argv);
	die("the client end cannot be started");
}

void ends_start(struct ends *e, const char *const words[])
{
	const char *started = getenv("BENCH_ENDS"), *preload = getenv("BENCH_CLIENT_PRELOAD");

	if (started) {
		unsigned port;

		errno = 0;
		if (sscanf(started, "%d %u %d %d", &e->server, &port, &e->report, &e->stop) != 4)
			die("BENCH_ENDS is wrong");
		e->port = (uint16_t)port;
		unsetenv("BENCH_ENDS");
		return;
	}
	int stop[2], report[2];
	char line[32];
	size_t n = 0;

	if (pipe2(stop, O_CLOEXEC) < 0 || pipe2(report, O_CLOEXEC) < 0)
		die("pipe");
	fflush(stdout);
	e->server = fork();
	if (e->server < 0)
		die("fork");
	if (!e->server)
		become_server(words, stop[0], report[1]);
	close(stop[0]);
	close(report[1]);
	e->stop = stop[1];
	e->report = report[0];
	while (n < sizeof(line) - 1 && read(e->report, line + n, 1) == 1 && line[n] != '\n')
		n++;
	line[n] = 0;
	errno = 0;
	e->port = (uint16_t)atoi(line);
	if (!e->port)
		die("the server end did not say its port");
	if (preload && *preload)
		become_client(e, preload);
}

void ends_finish(struct ends *e)
{
	struct rusage usage;
	int status;

	close(e->stop);
	if (wait4(e->server, &status, 0, &usage) < 0)
		die("wait for the server end");
	close(e->report);
	errno = 0;
	if (status)
		die("the server end failed (wait status %d)", status);
	e->server_cpu_s = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
			  (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

int server_listen(void)
{
	struct sockaddr_in in = {.sin_family = AF_INET};
	socklen_t size = sizeof(in);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&in, sizeof(in)) < 0 || listen(fd, 4096) < 0 ||
	    getsockname(fd, (struct sockaddr *)&in, &size) < 0)
		die("listen");
	printf("%u\n", ntohs(in.sin_port));
	fflush(stdout);
	return fd;
}

int connect_to(uint16_t port, uint32_t address)
{
	struct sockaddr_in in = {.sin_family = AF_INET,
				 .sin_port = htons(port),
				 .sin_addr.s_addr = htonl(address ? address : INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&in, sizeof(in)) < 0)
		die("connect to port %u", port);
	return fd;
}

void no_delay(int fd)
{
	int on = 1;

	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) < 0)
		die("TCP_NODELAY");
}

void write_all(int fd, const void *buf, size_t n)
{
	while (n) {
		ssize_t done = write(fd, buf, n);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			die("write");
		buf = (const char *)buf + done;
		n -= (size_t)done;
	}
}

void read_all(int fd, void *buf, size_t n)
{
	while (n) {
		ssize_t done = read(fd, buf, n);

		if (done < 0 && errno == EINTR)
			continue;
		if (!done)
			errno = ECONNRESET;
		if (done <= 0)
			die("read");
		buf = (char *)buf + done;
		n -= (size_t)done;
	}
}

static void add_to(int set, int fd)
{
	struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};

	if (epoll_ctl(set, EPOLL_CTL_ADD, fd, &e) < 0)
		die("epoll_ctl");
}

void serve_echo(int listening)
{
	struct rlimit limit;
	struct epoll_event events[128];
	char buf[4096];
	int set = epoll_create1(EPOLL_CLOEXEC);

	if (set < 0)
		die("epoll_create1");
	if (!getrlimit(RLIMIT_NOFILE, &limit)) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	add_to(set, listening);
	add_to(set, SERVER_STOP_FD);
	for (;;) {
		int n = epoll_wait(set, events, 128, -1);

		if (n < 0 && errno != EINTR)
			die("epoll_wait");
		for (int i = 0; i < n; i++) {
			int fd = events[i].data.fd;

			if (fd == SERVER_STOP_FD)
				return;
			if (fd == listening) {
				int c = accept4(listening, NULL, NULL, SOCK_CLOEXEC);

				if (c < 0)
					die("accept");
				no_delay(c);
				add_to(set, c);
				continue;
			}
			ssize_t got = read(fd, buf, sizeof(buf));
			if (got < 0 && errno != EINTR && errno != ECONNRESET)
				die("read");
			if (got > 0)
				write_all(fd, buf, (size_t)got);
			else if (!got || errno == ECONNRESET)
				close(fd);
		}
	}
}

void figure(const char *name, double value, const char *unit, const char *better)
{
	printf("%s %.9g %s %s\n", name, value, unit, better);
}
