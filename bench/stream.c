/* One bulk stream from client to server, beside one memcpy of the same bytes. stream [-t SECONDS] [-s BLOCK] [-m]
 * The rate is that of bytes the server has read, from the first sent to the last read. The memcpy runs in the client
 * while nothing else does, in the same blocks: "memcpy" between buffers that no cache holds, as a stream of bytes that
 * each are new; "cached" from one block to another over and over, which nothing between two CPUs can reach.
 * With -m only the two memcpy are run. */
#include "bench/ends.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MEMORY_SPAN (256u << 20) /* far beyond any cache */

static int serve(size_t block)
{
	int listening = server_listen();
	int fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
	char *buf = malloc(block);
	uint64_t total = 0;
	ssize_t n;

	if (fd < 0 || !buf)
		die("accept");
	while ((n = read(fd, buf, block)) > 0)
		total += (uint64_t)n;
	if (n < 0)
		die("read");
	/* The client's clock runs until it has this. */
	write_all(fd, &total, sizeof(total));
	close(fd);
	free(buf);
	return 0;
}

/* GB/s of the best 64 MiB of memcpy, block by block, between two buffers of span bytes each. */
static double copy_rate(size_t block, size_t span, double seconds)
{
	span = span < block ? block : span / block * block;
	char *from = malloc(span), *to = malloc(span);
	double best = 0;

	if (!from || !to)
		die("memory");
	memset(from, 'x', span);
	memset(to, 'y', span);
	uint64_t end = now_ns() + (uint64_t)(seconds * 1e9);
	size_t at = 0;
	do {
		uint64_t start = now_ns();
		size_t n = 0;

		for (; n < 64u << 20; n += block) {
			memcpy(to + at, from + at, block);
			/* No way for the compiler to leave any out. */
			__asm__ volatile("" ::"r"(to), "r"(from) : "memory");
			at = at + 2 * block > span ? 0 : at + block;
		}
		double rate = (double)n / (double)(now_ns() - start);
		best = rate > best ? rate : best;
	} while (now_ns() < end);
	free(from);
	free(to);
	return best;
}

int main(int argc, char **argv)
{
	double seconds = 2;
	size_t block = 131072;
	bool memcpy_only = false;
	char size[32];
	struct ends e;
	int option;

	if (is_server(argc, argv))
		return serve(argc > 2 ? strtoul(argv[2], NULL, 10) : block);
	while ((option = getopt(argc, argv, "t:s:m")) != -1) {
		if (option == 't')
			seconds = number_argument('t', optarg, 0.01, 3600);
		else if (option == 's')
			block = (size_t)number_argument('s', optarg, 1, 1 << 30);
		else if (option == 'm')
			memcpy_only = true;
		else
			return 64;
	}
	snprintf(size, sizeof(size), "%zu", block);
	if (!memcpy_only)
		ends_start(&e, (const char *[]){size, NULL});
	double part = seconds < 1 ? seconds / 2 : 0.5;
	double copy = copy_rate(block, MEMORY_SPAN, part), cached = copy_rate(block, block, part);
	if (memcpy_only) {
		figure("memcpy", copy, "GB/s", "higher");
		figure("memcpy-cached", cached, "GB/s", "higher");
		return 0;
	}
	char *buf = malloc(block);
	if (!buf)
		die("memory");
	memset(buf, 'x', block);
	int fd = connect_to(e.port, 0);
	uint64_t sent = 0, got = 0, start = now_ns(), end = start + (uint64_t)(seconds * 1e9);
	double cpu = own_cpu_s();
	while (now_ns() < end) {
		write_all(fd, buf, block);
		sent += block;
	}
	if (shutdown(fd, SHUT_WR) < 0)
		die("shutdown");
	read_all(fd, &got, sizeof(got));
	double ns = (double)(now_ns() - start);
	cpu = own_cpu_s() - cpu;
	close(fd);
	ends_finish(&e);
	errno = 0;
	if (got != sent)
		die("%llu bytes sent, %llu received", (unsigned long long)sent, (unsigned long long)got);
	figure("rate", (double)got / ns, "GB/s", "higher");
	figure("of-memcpy", (double)got / ns / copy, "", "higher");
	figure("of-memcpy-cached", (double)got / ns / cached, "", "higher");
	figure("client-cpu", cpu / ((double)got / 1e9), "s/GB", "lower");
	figure("server-cpu", e.server_cpu_s / ((double)got / 1e9), "s/GB", "lower");
	free(buf);
	return 0;
}
