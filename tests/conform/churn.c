/* Many short connections one after another, ended by either side or by reset, between two processes and within one:
 * whatever is kept for a connection must be given back. */
#include "conform.h"

enum { ROUNDS = 300 };
static uint16_t port;

static void serve(int l)
{
	char b[200];
	for (int i = 0;; i++) {
		int s = take(l);
		size_t k = recv_all(s, b, 100);
		if (!k) {
			close(s);
			return;
		}
		send_all(s, b, k);
		if (i % 3 == 0)
			CHECK(recv(s, b, 1, 0) == 0, "the client closes first");
		close(s);
	}
}

static void between_processes(void)
{
	int l = listener(64);
	port = port_of(l);
	pid_t pid = child();
	if (!pid) {
		serve(l);
		exit(0);
	}
	close(l);
	for (int i = 0; i < ROUNDS; i++) {
		int c = dial(port);
		ask_echo(c, 1, 100, (unsigned)i);
		char b;
		if (i % 3 == 1)
			CHECK(recv(c, &b, 1, 0) == 0, "the server closes first");
		close(c);
	}
	close(dial(port));
	CHECK(reap(pid) == 0, "server");
}

static void within_one(void)
{
	int first = -1;
	for (int i = 0; i < ROUNDS / 4; i++) {
		int c, s;
		pair(&c, &s);
		/* Longer ones in between, so that some of them are accelerated. */
		if (i % 8 == 0)
			warm(c, s);
		carry(c, s, 50, 0, 1);
		carry(s, c, 50, 0, 2);
		struct linger l = {1, 0};
		if (i % 5 == 0)
			CHECK(!setsockopt(c, SOL_SOCKET, SO_LINGER, &l, sizeof(l)), "SO_LINGER");
		close(i % 2 ? c : s);
		close(i % 2 ? s : c);
		if (first < 0)
			first = c;
		CHECK(c == first, "descriptor %d where %d was free: something is left open", c, first);
	}
}

static void test(void)
{
	between_processes();
	within_one();
}

int main(void)
{
	return each_family(test);
}
