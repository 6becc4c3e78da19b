/* Both ends are workers that were forked by root's process, which had sockets, and became an ordinary user before their
 * first connection: they meet as that user. So does a client that is root. By another user than root setuid
 * fails, natively too. */
#include "conform.h"

enum { WWW = 33 };

static void become(void)
{
	CHECK(!setuid(WWW) || getuid(), "setuid");
}

static void client(uint16_t port, bool root, unsigned seed)
{
	pid_t pid = child();
	if (!pid) {
		if (!root)
			become();
		int fd = dial(port);
		ask_echo(fd, 60, 500, seed);
		close(fd);
		exit(0);
	}
	CHECK(reap(pid) == 0, "client");
}

static void test(void)
{
	int l = listener(8);
	uint16_t port = port_of(l);
	pid_t server = child();
	if (!server) {
		become();
		for (int i = 0; i < 3; i++) {
			int fd = take(l);
			echo_until_end(fd);
			close(fd);
		}
		exit(0);
	}
	close(l);
	client(port, false, 1);
	client(port, true, 2);
	client(port, false, 3);
	CHECK(reap(server) == 0, "server");
}

int main(void)
{
	return each_family(test);
}
