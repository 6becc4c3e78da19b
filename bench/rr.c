/* Request and response of one byte: how many a second. rr [-t SECONDS] [-c CONNECTIONS] [-b]
 * One connection waits in read; more, or one with -b, wait in epoll. All requests of a turn are under way at once. */
#include "bench/ends.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define SAMPLES (1u << 21)

static int serve(bool blocking)
{
	int listening = server_listen();
	char byte;

	if (!blocking) {
		serve_echo(listening);
		return 0;
	}
	int fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
	if (fd < 0)
		die("accept");
	no_delay(fd);
	while (read(fd, &byte, 1) == 1)
		if (write(fd, &byte, 1) != 1)
			die("write");
	close(fd);
	return 0;
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static uint64_t run_one(int fd, double seconds, uint32_t *samples)
{
	uint64_t end = now_ns() + (uint64_t)(seconds * 1e9), n = 0, before = now_ns(), after = before;
	char byte = 'x';

	while (after < end) {
		if (write(fd, &byte, 1) != 1)
			die("write");
		if (read(fd, &byte, 1) != 1)
			die("read");
		after = now_ns();
		samples[n++ % SAMPLES] = (uint32_t)(after - before);
		before = after;
	}
	return n;
}

static uint64_t run_many(int set, unsigned connections, double seconds)
{
	uint64_t end = now_ns() + (uint64_t)(seconds * 1e9), n = 0;
	struct epoll_event events[128];
	unsigned under_way = connections;
	char byte = 'x';

	while (under_way) {
		int ready = epoll_wait(set, events, 128, 10000);
		bool more = now_ns() < end;

		if (ready < 0 && errno == EINTR)
			continue;
		if (ready <= 0)
			die("epoll_wait: no answer");
		for (int i = 0; i < ready; i++) {
			int fd = events[i].data.fd;

			if (read(fd, &byte, 1) != 1)
				die("read");
			n++;
			if (!more)
				under_way--;
			else if (write(fd, &byte, 1) != 1)
				die("write");
		}
	}
	return n;
}

int main(int argc, char **argv)
{
	double seconds = 2;
	unsigned connections = 1;
	bool epoll = false;
	struct ends e;
	int option;

	if (is_server(argc, argv))
		return serve(argc > 2 && !strcmp(argv[2], "blocking"));
	while ((option = getopt(argc, argv, "t:c:b")) != -1) {
		if (option == 't')
			seconds = number_argument('t', optarg, 0.01, 3600);
		else if (option == 'c')
			connections = (unsigned)number_argument('c', optarg, 1, 10000);
		else if (option == 'b')
			epoll = true;
		else
			return 64;
	}
	epoll |= connections > 1;
	ends_start(&e, (const char *[]){epoll ? "epoll" : "blocking", NULL});

	int *fds = calloc(connections, sizeof(*fds)), set = -1;
	uint32_t *samples = calloc(SAMPLES, sizeof(*samples));
	if (!fds || !samples)
		die("memory");
	if (epoll && (set = epoll_create1(EPOLL_CLOEXEC)) < 0)
		die("epoll_create1");
	for (unsigned i = 0; i < connections; i++) {
		fds[i] = connect_to(e.port, 0);
		no_delay(fds[i]);
		if (!epoll)
			continue;
		struct epoll_event add = {.events = EPOLLIN, .data.fd = fds[i]};
		if (epoll_ctl(set, EPOLL_CTL_ADD, fds[i], &add) < 0)
			die("epoll_ctl");
	}
	if (epoll)
		for (unsigned i = 0; i < connections; i++)
			write_all(fds[i], "x", 1);
	double cpu = own_cpu_s();
	uint64_t start = now_ns();
	uint64_t n = epoll ? run_many(set, connections, seconds) : run_one(fds[0], seconds, samples);
	double took = (double)(now_ns() - start) / 1e9;
	cpu = own_cpu_s() - cpu;
	for (unsigned i = 0; i < connections; i++)
		close(fds[i]);
	ends_finish(&e);

	figure("requests", (double)n / took, "/s", "higher");
	if (!epoll) {
		size_t kept = n < SAMPLES ? n : SAMPLES;

		qsort(samples, kept, sizeof(*samples), by_value);
		figure("p50", samples[kept / 2] / 1e3, "us", "lower");
		figure("p99", samples[kept - 1 - kept / 100] / 1e3, "us", "lower");
	}
	figure("client-cpu", cpu * 1e6 / (double)n, "us/request", "lower");
	figure("server-cpu", e.server_cpu_s * 1e6 / (double)n, "us/request", "lower");
	free(fds);
	free(samples);
	return 0;
}
