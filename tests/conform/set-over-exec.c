/* An epoll set that goes over an exec, as a number that the next image is told: with an old connection, and with one that
 * the next image accepts and adds to it. */
#include "conform.h"

static void serve(int l, int set, int old)
{
	int second = -1;
	for (;;) {
		struct epoll_event e;
		char b[1000];
		CHECK(epoll_wait(set, &e, 1, 5000) == 1, "no event");
		int fd = e.data.fd;
		if (fd == l) {
			second = take(l);
			e.events = EPOLLIN;
			e.data.fd = second;
			CHECK(!epoll_ctl(set, EPOLL_CTL_ADD, second, &e), "ADD");
			continue;
		}
		CHECK(fd == old || fd == second, "nobody's event %llx", (unsigned long long)e.data.u64);
		ssize_t k = recv(fd, b, sizeof(b), 0);
		CHECK(k >= 0, "recv");
		if (!k)
			exit(0);
		send_all(fd, b, (size_t)k);
	}
}

static void first_image(int l)
{
	int set = epoll_create1(0);
	struct epoll_event e = {EPOLLIN, {.fd = l}};
	char numbers[3][12], b[100];
	CHECK(!epoll_ctl(set, EPOLL_CTL_ADD, l, &e), "ADD");
	int old = take(l);
	e.data.fd = old;
	CHECK(!epoll_ctl(set, EPOLL_CTL_ADD, old, &e), "ADD");
	for (int i = 0; i < 30; i++) {
		CHECK(epoll_wait(set, &e, 1, 5000) == 1 && e.data.fd == old, "event");
		CHECK(recv_all(old, b, 100) == 100, "recv");
		send_all(old, b, 100);
	}
	snprintf(numbers[0], 12, "%d", l);
	snprintf(numbers[1], 12, "%d", set);
	snprintf(numbers[2], 12, "%d", old);
	execl("/proc/self/exe", "set-over-exec", numbers[0], numbers[1], numbers[2], NULL);
	CHECK(false, "exec");
}

static void test(void)
{
	int l = listener(8);
	uint16_t port = port_of(l);
	pid_t pid = child();
	if (!pid)
		first_image(l);
	close(l);
	int a = dial(port);
	ask_echo(a, 30, 100, 1);
	ask_echo(a, 10, 100, 2);
	int b = dial(port);
	for (unsigned i = 0; i < 40; i++) {
		ask_echo(b, 1, 200, i);
		ask_echo(a, 1, 100, i);
	}
	close(b);
	CHECK(reap(pid) == 0, "server");
	close(a);
}

int main(int argc, char **argv)
{
	if (argc == 4) {
		alarm(LIMIT_SECONDS - 2);
		serve(atoi(argv[1]), atoi(argv[2]), atoi(argv[3]));
	}
	return each_family(test);
}
