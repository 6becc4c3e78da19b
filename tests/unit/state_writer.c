/* Writes a state file as common/state.h lays it out, for tests of its readers: DIR is the only argument.
 * Two connections to itself over loopback carry known bytes by the kernel (their rows show a lane one and a
 * plain one); prints its pid, then waits for the end of standard input. */
#include "common/options.h"
#include "common/reasons.h"
#include "common/state.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

static void fail(const char *what)
{
	fprintf(stderr, "state_writer: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t own_start_time(void)
{
	char text[1024];
	FILE *f = fopen("/proc/self/stat", "re");

	if (!f)
		fail("/proc/self/stat");
	size_t n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = 0;
	char *p = strrchr(text, ')');
	for (int field = 2; p && field < 22; field++) {
		p = strchr(p, ' ');
		if (p)
			p++;
	}
	if (!p)
		fail("field 22 of /proc/self/stat");
	return strtoull(p, NULL, 10);
}

static uint64_t cookie_of(int fd, int name)
{
	uint64_t cookie = 0;
	socklen_t size = sizeof(cookie);

	if (getsockopt(fd, SOL_SOCKET, name, &cookie, &size) < 0)
		return 0;
	return cookie;
}

static void fill_addr(struct state_addr *ret, const struct sockaddr_in *in)
{
	memset(ret->ip, 0, 10);
	memset(ret->ip + 10, 0xff, 2);
	memcpy(ret->ip + 12, &in->sin_addr, 4);
	ret->port = ntohs(in->sin_port);
	ret->v4 = 1;
}

static void fill_row(struct state_row *row, int fd, uint8_t role)
{
	struct sockaddr_in local, peer;
	socklen_t n = sizeof(local), m = sizeof(peer);

	if (getsockname(fd, (struct sockaddr *)&local, &n) < 0 || getpeername(fd, (struct sockaddr *)&peer, &m) < 0)
		fail("address of a connection");
	row->fd = fd;
	row->cookie = cookie_of(fd, SO_COOKIE);
	fill_addr(&row->local, &local);
	fill_addr(&row->peer, &peer);
	row->role = role;
	row->state = CONN_ESTABLISHED;
}

static void connect_pair(int ret[2])
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof(in);
	int listening = socket(AF_INET, SOCK_STREAM, 0);

	if (listening < 0 || bind(listening, (struct sockaddr *)&in, sizeof(in)) < 0 || listen(listening, 1) < 0 ||
	    getsockname(listening, (struct sockaddr *)&in, &n) < 0)
		fail("listen");
	ret[0] = socket(AF_INET, SOCK_STREAM, 0);
	if (ret[0] < 0 || connect(ret[0], (struct sockaddr *)&in, sizeof(in)) < 0)
		fail("connect");
	ret[1] = accept(listening, NULL, NULL);
	if (ret[1] < 0)
		fail("accept");
	close(listening);
}

static void send_bytes(int from, int to, size_t n)
{
	char buf[1024] = {0};

	if (write(from, buf, n) != (ssize_t)n || recv(to, buf, n, MSG_WAITALL) != (ssize_t)n)
		fail("bytes over loopback");
}

int main(int argc, char **argv)
{
	char path[512], byte;
	int first[2], second[2];

	if (argc != 2) {
		fprintf(stderr, "Usage: state_writer DIR\n");
		return 64;
	}
	snprintf(path, sizeof(path), "%s/proc-%u-%d", argv[1], (unsigned)geteuid(), (int)getpid());
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	size_t size = STATE_ROWS_OFFSET + 128 * sizeof(struct state_row);
	if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
		fail(path);
	char *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		fail(path);

	struct state_header *h = (struct state_header *)map;
	struct state_row *rows = (struct state_row *)(map + STATE_ROWS_OFFSET);
	struct hasten_options options;
	connect_pair(first);
	connect_pair(second);
	send_bytes(second[0], second[1], 100);
	send_bytes(second[1], second[0], 7);

	h->version = STATE_VERSION;
	h->pid = getpid();
	h->uid = geteuid();
	h->start_time = own_start_time();
	h->netns = cookie_of(first[0], SO_NETNS_COOKIE);
	snprintf(h->program, sizeof(h->program), "state_writer");
	snprintf(h->library, sizeof(h->library), "test");
	options_load(&options, NULL, NULL);
	options_format(&options, h->options, sizeof(h->options));
	h->counters.sockets = 5;
	h->counters.lane_tx_bytes = 1000;
	h->counters.lane_tx_msgs = 10;
	h->memory.own_fds = 3;

	fill_row(&rows[0], first[0], ROLE_CONNECT);
	rows[0].tx = (struct state_dir){.lane_bytes = 500, .lane_msgs = 5, .promotions = 1, .transport = TRANSPORT_SHM};
	rows[0].rx = (struct state_dir){.lane_bytes = 50, .lane_msgs = 2, .promotions = 1, .transport = TRANSPORT_SHM};
	rows[0].link = 1;
	rows[0].lane = 4;
	rows[0].seq = 2;
	/* A row in the middle of a change, and one never used. */
	rows[1] = rows[0];
	rows[1].seq = 3;
	fill_row(&rows[3], second[0], ROLE_CONNECT);
	rows[3].tx.reason = REASON_PEER_PLAIN;
	rows[3].rx.reason = REASON_PEER_PLAIN;
	rows[3].seq = 2;
	/* A row beyond the first block of rows that a reader takes. */
	fill_row(&rows[100], second[1], ROLE_ACCEPT);
	rows[100].tx.reason = REASON_PEER_PLAIN;
	rows[100].rx.reason = REASON_PEER_PLAIN;
	rows[100].seq = 2;
	h->rows_used = 101;
	h->magic = STATE_MAGIC;

	printf("%d\n", (int)getpid());
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	return 0;
}
