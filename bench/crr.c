/* Connect, one request and response of one byte, close: how many a second. crr [-t SECONDS] [-a ADDRESSES]
 * The client closes first and keeps the TIME_WAIT, so addresses of 127/8 are taken in turn: one alone runs out of
 * ports. */
#include "bench/ends.h"

#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	double seconds = 2;
	unsigned addresses = 64;
	struct ends e;
	int option;

	if (is_server(argc, argv)) {
		serve_echo(server_listen());
		return 0;
	}
	while ((option = getopt(argc, argv, "t:a:")) != -1) {
		if (option == 't')
			seconds = number_argument('t', optarg, 0.01, 3600);
		else if (option == 'a')
			addresses = (unsigned)number_argument('a', optarg, 1, 65535);
		else
			return 64;
	}
	ends_start(&e, (const char *[]){NULL});
	double cpu = own_cpu_s();
	uint64_t start = now_ns(), end = start + (uint64_t)(seconds * 1e9), n = 0;
	while (now_ns() < end) {
		int fd = connect_to(e.port, 0x7f000001 + (uint32_t)(n % addresses));
		char byte = 'x';

		write_all(fd, &byte, 1);
		read_all(fd, &byte, 1);
		close(fd);
		n++;
	}
	double took = (double)(now_ns() - start) / 1e9;
	cpu = own_cpu_s() - cpu;
	ends_finish(&e);
	figure("connections", (double)n / took, "/s", "higher");
	figure("client-cpu", cpu * 1e6 / (double)n, "us/connection", "lower");
	figure("server-cpu", e.server_cpu_s * 1e6 / (double)n, "us/connection", "lower");
	return 0;
}
