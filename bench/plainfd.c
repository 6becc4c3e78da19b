/* What an intercepted call costs on a descriptor that is no TCP socket. plainfd [-t SECONDS]
 * A TCP connection to itself is open meanwhile, so that the library, where there is one, is set up. */
#include "bench/ends.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define BATCH 64
#define BATCHES_MAX 1000000

struct plain {
	int pipe[2], file, null, event, pair[2], set;
};

static void check(ssize_t got, ssize_t wanted)
{
	if (got != wanted)
		die("a call gave %zd in place of %zd", got, wanted);
}

static void call_pipe(const struct plain *p)
{
	char byte = 0;

	check(write(p->pipe[1], &byte, 1), 1);
	check(read(p->pipe[0], &byte, 1), 1);
}

static void call_eventfd(const struct plain *p)
{
	uint64_t one = 1;

	check(write(p->event, &one, 8), 8);
	check(read(p->event, &one, 8), 8);
}

static void call_unix(const struct plain *p)
{
	char byte = 0;

	check(send(p->pair[0], &byte, 1, 0), 1);
	check(recv(p->pair[1], &byte, 1, 0), 1);
}

static void call_null(const struct plain *p)
{
	check(write(p->null, "x", 1), 1);
}

/* At the end of the file: the cheapest read there is. */
static void call_file(const struct plain *p)
{
	char byte;

	check(read(p->file, &byte, 1), 0);
}

static void call_poll(const struct plain *p)
{
	struct pollfd fd = {.fd = p->pipe[1], .events = POLLOUT};

	check(poll(&fd, 1, 0), 1);
}

static void call_epoll(const struct plain *p)
{
	struct epoll_event event;

	check(epoll_wait(p->set, &event, 1, 0), 1);
}

static void call_fcntl(const struct plain *p)
{
	check(fcntl(p->pipe[0], F_GETFD) >= 0, 1);
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Of the middle batch: one in which something else ran does not count. */
static double cost_ns(void (*call)(const struct plain *), const struct plain *p, double seconds)
{
	static uint64_t took[BATCHES_MAX];
	uint64_t before = now_ns(), end = before + (uint64_t)(seconds * 1e9);
	size_t n = 0;

	do {
		for (int i = 0; i < BATCH; i++)
			call(p);
		uint64_t now = now_ns();
		took[n++] = now - before;
		before = now;
	} while (before < end && n < BATCHES_MAX);
	qsort(took, n, sizeof(took[0]), by_value);
	return (double)took[n / 2] / BATCH;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*call)(const struct plain *);
	} calls[] = {
	    {"pipe-write-read", call_pipe},  {"eventfd-write-read", call_eventfd},
	    {"unix-send-recv", call_unix},   {"null-write", call_null},
	    {"file-read", call_file},        {"pipe-poll", call_poll},
	    {"pipe-epoll_wait", call_epoll}, {"pipe-fcntl", call_fcntl},
	};
	struct epoll_event add = {.events = EPOLLOUT};
	double seconds = 2;
	struct plain p;
	struct ends e;
	int option;
	char byte = 'x';

	if (is_server(argc, argv)) {
		serve_echo(server_listen());
		return 0;
	}
	while ((option = getopt(argc, argv, "t:")) != -1) {
		if (option != 't')
			return 64;
		seconds = number_argument('t', optarg, 0.01, 3600);
	}
	ends_start(&e, (const char *[]){NULL});
	int fd = connect_to(e.port, 0);
	for (int i = 0; i < 100; i++) {
		write_all(fd, &byte, 1);
		read_all(fd, &byte, 1);
	}
	FILE *file = tmpfile();
	p.file = file ? fileno(file) : -1;
	p.null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	p.event = eventfd(0, EFD_CLOEXEC);
	p.set = epoll_create1(EPOLL_CLOEXEC);
	if (p.file < 0 || p.null < 0 || p.event < 0 || p.set < 0 || pipe2(p.pipe, O_CLOEXEC) < 0 ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p.pair) < 0 ||
	    epoll_ctl(p.set, EPOLL_CTL_ADD, p.pipe[1], &add) < 0)
		die("descriptors");
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		figure(calls[i].name, cost_ns(calls[i].call, &p, seconds / (double)(sizeof(calls) / sizeof(calls[0]))),
		       "ns", "lower");
	close(fd);
	ends_finish(&e);
	return 0;
}
