/* Many connections that have carried 1 KiB each way and now say nothing: CPU and memory of both ends, and one active
 * connection beside them. idle [-n CONNECTIONS] [-t SECONDS]
 *
 * Memory is the growth from before the connections to after: PSS of both ends without their memfd mappings, and all
 * pages of those memfds once (a page that neither end has touched lately is in no PSS, yet it is there). */
#include "bench/ends.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define KILOBYTE_IN 16 /* round trips */
#define MEMFDS_MAX 4096

struct memory {
	double pss;   /* bytes, of both ends, outside memfds */
	double memfd; /* bytes, each memfd once */
	ino_t seen[MEMFDS_MAX];
	unsigned n_seen;
	unsigned unreadable; /* memfd mappings that could not be looked into: their PSS stands in pss */
};

/* true: this mapping is a memfd and its pages were counted now or before. */
static bool count_memfd(struct memory *m, pid_t pid, const char *range)
{
	char path[96];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/map_files/%s", (int)pid, range);
	if (stat(path, &st) < 0 || m->n_seen == MEMFDS_MAX) {
		m->unreadable++;
		return false;
	}
	for (unsigned i = 0; i < m->n_seen; i++)
		if (m->seen[i] == st.st_ino)
			return true;
	m->seen[m->n_seen++] = st.st_ino;
	m->memfd += (double)st.st_blocks * 512;
	return true;
}

static void add_process(struct memory *m, pid_t pid)
{
	char path[64], line[512], range[64] = "";
	bool in_memfd = false;
	double kib;

	snprintf(path, sizeof(path), "/proc/%d/smaps", (int)pid);
	FILE *f = fopen(path, "re");
	if (!f)
		die("%s", path);
	while (fgets(line, sizeof(line), f)) {
		unsigned long from, to;

		if (sscanf(line, "%lx-%lx ", &from, &to) == 2) {
			snprintf(range, sizeof(range), "%lx-%lx", from, to);
			in_memfd = strstr(line, " /memfd:") && count_memfd(m, pid, range);
		} else if (!in_memfd && sscanf(line, "Pss: %lf kB", &kib) == 1) {
			m->pss += kib * 1024;
		}
	}
	fclose(f);
}

static double measure(pid_t server, unsigned *ret_unreadable)
{
	struct memory *m = calloc(1, sizeof(*m));

	if (!m)
		die("memory");
	add_process(m, getpid());
	add_process(m, server);
	double bytes = m->pss + m->memfd;
	*ret_unreadable = m->unreadable;
	free(m);
	return bytes;
}

static void wait_for(int set, int fd)
{
	struct epoll_event event;
	int n;

	do
		n = epoll_wait(set, &event, 1, 10000);
	while (n < 0 && errno == EINTR);
	if (n != 1)
		die("epoll_wait: no answer");
	errno = 0;
	if (event.data.fd != fd)
		die("descriptor %d became ready in place of %d", event.data.fd, fd);
}

static double active_rate(int set, int fd, double seconds)
{
	uint64_t start = now_ns(), end = start + (uint64_t)(seconds * 1e9), n = 0;
	char byte = 'x';

	while (now_ns() < end) {
		write_all(fd, &byte, 1);
		wait_for(set, fd);
		read_all(fd, &byte, 1);
		n++;
	}
	return (double)n * 1e9 / (double)(now_ns() - start);
}

static int open_one(int set, uint16_t port)
{
	char buf[1024 / KILOBYTE_IN] = {0};
	int fd = connect_to(port, 0);
	struct epoll_event add = {.events = EPOLLIN, .data.fd = fd};

	no_delay(fd);
	if (epoll_ctl(set, EPOLL_CTL_ADD, fd, &add) < 0)
		die("epoll_ctl");
	for (int i = 0; i < KILOBYTE_IN; i++) {
		write_all(fd, buf, sizeof(buf));
		wait_for(set, fd);
		read_all(fd, buf, sizeof(buf));
	}
	return fd;
}

int main(int argc, char **argv)
{
	double seconds = 2;
	unsigned connections = 1000, unreadable;
	struct epoll_event event;
	struct rlimit limit;
	struct ends e;
	int option;

	if (is_server(argc, argv)) {
		serve_echo(server_listen());
		return 0;
	}
	while ((option = getopt(argc, argv, "n:t:")) != -1) {
		if (option == 'n')
			connections = (unsigned)number_argument('n', optarg, 1, 60000);
		else if (option == 't')
			seconds = number_argument('t', optarg, 0.01, 3600);
		else
			return 64;
	}
	if (!getrlimit(RLIMIT_NOFILE, &limit)) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
		errno = 0;
		if (limit.rlim_max < connections + 300)
			die("%u connections need a limit of %u open files; it is %lu", connections, connections + 300,
			    (unsigned long)limit.rlim_max);
	}
	ends_start(&e, (const char *[]){NULL});
	int set = epoll_create1(EPOLL_CLOEXEC), *fds = calloc(connections + 1, sizeof(*fds));
	if (set < 0 || !fds)
		die("epoll_create1");

	/* The first connection brings what is had once: it is the active one and stands outside the count. */
	fds[0] = open_one(set, e.port);
	double alone = active_rate(set, fds[0], seconds);
	double before = measure(e.server, &unreadable);
	for (unsigned i = 1; i <= connections; i++)
		fds[i] = open_one(set, e.port);
	double after = measure(e.server, &unreadable);

	double own = own_cpu_s(), theirs = process_cpu_s(e.server);
	uint64_t start = now_ns();
	if (epoll_wait(set, &event, 1, (int)(seconds * 1000)))
		die("a connection that should be idle is not");
	double took = (double)(now_ns() - start) / 1e9;
	own = own_cpu_s() - own;
	theirs = process_cpu_s(e.server) - theirs;
	double beside = active_rate(set, fds[0], seconds);
	for (unsigned i = 0; i <= connections; i++)
		close(fds[i]);
	ends_finish(&e);

	figure("memory", (after - before) / connections / 1024, "KiB/connection", "lower");
	if (unreadable)
		figure("memory-unreadable", unreadable, "mappings", "lower");
	figure("client-idle-cpu", own / took * 100, "%", "lower");
	figure("server-idle-cpu", theirs / took * 100, "%", "lower");
	figure("active-alone", alone, "/s", "higher");
	figure("active-beside", beside, "/s", "higher");
	figure("beside-to-alone", beside / alone, "", "higher");
	free(fds);
	return 0;
}
