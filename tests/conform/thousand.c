/* A thousand connections at once to an epoll server in another process, each with traffic, in changing order; and
 * most of them idle while one works. */
#include "conform.h"
#include <sys/resource.h>

enum { N = 1000 };
static int fds[N];

static void serve(int l)
{
	int set = epoll_create1(0), open_connections = 0;
	bool begun = false;
	struct epoll_event e = {EPOLLIN, {.fd = l}}, out[64];
	CHECK(!epoll_ctl(set, EPOLL_CTL_ADD, l, &e), "ADD");
	while (!begun || open_connections) {
		int n = epoll_wait(set, out, 64, 10000);
		CHECK(n > 0, "the server waits in vain");
		for (int i = 0; i < n; i++) {
			int fd = out[i].data.fd;
			char b[2000];
			if (fd == l) {
				e.data.fd = take(l);
				CHECK(!epoll_ctl(set, EPOLL_CTL_ADD, e.data.fd, &e), "ADD");
				open_connections++;
				begun = true;
				continue;
			}
			ssize_t k = recv(fd, b, sizeof(b), 0);
			CHECK(k >= 0, "recv");
			if (k) {
				send_all(fd, b, (size_t)k);
			} else {
				close(fd);
				open_connections--;
			}
		}
	}
}

int main(void)
{
	struct rlimit r;
	alarm(14);
	CHECK(!getrlimit(RLIMIT_NOFILE, &r), "getrlimit");
	r.rlim_cur = r.rlim_max;
	CHECK(!setrlimit(RLIMIT_NOFILE, &r) && r.rlim_cur >= N + 100, "needs %d descriptors", N + 100);
	int l = listener(512);
	uint16_t port = port_of(l);
	pid_t pid = child();
	if (!pid) {
		serve(l);
		exit(0);
	}
	close(l);
	for (int i = 0; i < N; i++)
		fds[i] = dial(port);
	for (unsigned round = 0; round < 4; round++)
		for (int i = 0; i < N; i++)
			ask_echo(fds[(i * 37 + (int)round) % N], 2, 200, (unsigned)i);
	/* All have asked before any is answered. */
	static uint8_t b[300];
	for (unsigned i = 0; i < N; i++) {
		pattern(b, 256, 0, i);
		send_all(fds[i], b, 256);
	}
	for (unsigned i = N; i-- > 0;) {
		CHECK(recv_all(fds[i], b, 256) == 256, "recv");
		check_pattern(b, 256, 0, i);
	}
	ask_echo(fds[N / 2], 500, 100, 9);
	for (int i = 0; i < N; i++)
		close(fds[(i * 11) % N]);
	CHECK(reap(pid) == 0, "server");
	puts("ok");
	return 0;
}
