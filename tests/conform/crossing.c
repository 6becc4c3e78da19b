/* Connections given up by both ends at moments that cross, in the middle of traffic both ways: every byte comes once and
 * in order, and both ends come through. */
#include "conform.h"
#include <sys/prctl.h>

#define BYTES (300u << 10)

static unsigned seed;

static unsigned draw(unsigned n)
{
	seed = seed * 1103515245u + 12345u;
	return (seed >> 8) % n;
}

/* Asynchronous I/O is asked for and given up again: from then on the kernel alone may carry the connection. */
static void give_up(int fd)
{
	int flags = fcntl(fd, F_GETFL);
	CHECK(!fcntl(fd, F_SETFL, flags | O_ASYNC) && !fcntl(fd, F_SETFL, flags), "O_ASYNC");
}

/* Sends one stream and checks the other, whatever is possible first. */
static void traffic(int fd, unsigned out_seed, unsigned in_seed, uint64_t moment)
{
	static uint8_t out[40000], in[40000];
	uint64_t sent = 0, got = 0;
	bool given_up = false;
	set_nonblocking(fd, true);
	while (sent < BYTES || got < BYTES) {
		if (!given_up && sent + got >= moment) {
			give_up(fd);
			given_up = true;
		}
		if (sent < BYTES) {
			size_t n = 1 + draw(draw(4) ? 700 : sizeof(out));
			if (n > BYTES - sent)
				n = BYTES - sent;
			pattern(out, n, sent, out_seed);
			ssize_t k = send(fd, out, n, MSG_NOSIGNAL);
			CHECK(k > 0 || errno == EAGAIN, "send at %llu", (unsigned long long)sent);
			sent += k > 0 ? (uint64_t)k : 0;
		}
		if (draw(3) && sent < BYTES)
			continue;
		struct pollfd w = {fd, (got < BYTES ? POLLIN : 0) | (sent < BYTES ? POLLOUT : 0), 0};
		if (w.events)
			poll(&w, 1, 5000);
		if (got == BYTES)
			continue;
		ssize_t k = recv(fd, in, 1 + draw(sizeof(in)), 0);
		CHECK(k > 0 || (k < 0 && errno == EAGAIN), "recv at %llu", (unsigned long long)got);
		if (k > 0) {
			check_pattern(in, (size_t)k, got, in_seed);
			got += (uint64_t)k;
		}
	}
	set_nonblocking(fd, false);
	CHECK(!shutdown(fd, SHUT_WR), "shutdown");
	CHECK(recv(fd, in, 1, 0) == 0, "end");
	close(fd);
}

static unsigned round_number;
static bool hidden;

static void other_end(int fd)
{
	if (hidden)
		prctl(PR_SET_DUMPABLE, 0);
	uint8_t b[100];
	for (int i = 0; i < 20; i++) {
		CHECK(recv_all(fd, b, 100) == 100, "recv");
		send_all(fd, b, 100);
	}
	seed = 1000 + round_number;
	traffic(fd, 2, 1, draw(2 * BYTES));
}

static void all(void)
{
	for (round_number = 0; round_number < 60; round_number++) {
		int fd;
		hidden = round_number % 3 == 0;
		seed = round_number;
		pid_t pid = peer(other_end, &fd);
		ask_echo(fd, 20, 100, 3);
		traffic(fd, 1, 2, round_number % 4 ? draw(2 * BYTES) : 2 * BYTES + 1);
		CHECK(reap(pid) == 0, "the other end");
	}
}

int main(void)
{
	if (geteuid() == 0) /* for whom nobody is hidden */
		CHECK(!setresgid(1000, 1000, 1000) && !setresuid(1000, 1000, 1000) && !prctl(PR_SET_DUMPABLE, 1), "an ordinary user");
	return once(all);
}
