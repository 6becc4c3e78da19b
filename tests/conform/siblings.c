/* Workers of a master that has an epoll set and no socket yet, all connected at the same time: each is found by its own
 * name. */
#include "conform.h"

enum { WORKERS = 4 };

static void *serve(void *arg)
{
	int fd = (int)(intptr_t)arg;
	echo_until_end(fd);
	close(fd);
	return NULL;
}

static void master(int port_from)
{
	pid_t worker[WORKERS];
	uint16_t port;
	CHECK(epoll_create1(EPOLL_CLOEXEC) >= 0, "epoll_create1");
	CHECK(read(port_from, &port, sizeof(port)) == sizeof(port), "port");
	for (unsigned i = 0; i < WORKERS; i++) {
		worker[i] = child();
		if (!worker[i]) {
			int fd = dial(port);
			ask_echo(fd, 5, 100, i);
			nap(200); /* all of them live at the same time */
			ask_echo(fd, 100, 500, i);
			close(fd);
			exit(0);
		}
	}
	for (int i = 0; i < WORKERS; i++)
		CHECK(reap(worker[i]) == 0, "worker");
	exit(0);
}

int main(void)
{
	int p[2];
	pthread_t thread[WORKERS];
	alarm(LIMIT_SECONDS);
	CHECK(!pipe(p), "pipe");
	pid_t pid = child();
	if (!pid)
		master(p[0]);
	int l = listener(WORKERS);
	uint16_t port = port_of(l);
	CHECK(write(p[1], &port, sizeof(port)) == sizeof(port), "port");
	for (int i = 0; i < WORKERS; i++)
		CHECK(!pthread_create(&thread[i], NULL, serve, (void *)(intptr_t)take(l)), "thread");
	for (int i = 0; i < WORKERS; i++)
		pthread_join(thread[i], NULL);
	CHECK(reap(pid) == 0, "master");
	puts("ok");
	return 0;
}
