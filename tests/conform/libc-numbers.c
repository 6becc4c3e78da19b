/* What libc does to a number inside itself: freopen and login_tty put another file there, dprintf writes to it, preadv2
 * and pwritev2 at no place are readv and writev. */
#include "conform.h"
#include <pty.h>
#include <termios.h>
#include <utmp.h>

static void reopened(void)
{
	int c, s, kept = dup(0);
	char b[4] = "abc";
	pair(&c, &s);
	warm(c, s);
	CHECK(dup2(s, 0) == 0 && !close(s), "the connection is standard input");
	still_works(c, 0);
	CHECK(freopen("/dev/zero", "r", stdin), "freopen");
	CHECK(read(0, b, 3) == 3 && !memcmp(b, "\0\0", 3), "standard input is another file");
	CHECK(recv(c, b, 1, 0) == 0, "its end is the connection's");
	close(c);
	CHECK(dup2(kept, 0) == 0, "dup2");
	close(kept);
}

static void by_terminal(void)
{
	int master, slave, c, s;
	char b[8];
	CHECK(!openpty(&master, &slave, NULL, NULL, NULL), "openpty");
	pid_t pid = child();
	if (!pid) {
		pair(&c, &s);
		warm(c, s);
		for (int i = 0; i < 3; i++)
			CHECK(dup2(s, i) == i, "dup2");
		close(s);
		if (login_tty(slave))
			_exit(3);
		if (write(1, "tty\n", 4) != 4)
			_exit(4);
		nap(50);
		_exit(recv(c, b, 1, 0) == 0 ? 0 : 5);
	}
	close(slave);
	CHECK(ready(master, POLLIN, 3000) & POLLIN, "nothing came by the terminal");
	CHECK(read(master, b, sizeof(b)) >= 3 && !memcmp(b, "tty", 3), "terminal");
	int status = reap(pid);
	CHECK(!status, "child: %d", status);
	close(master);
}

static void in_order(void)
{
	int c, s;
	char b[32] = "", half[2][8];
	pair(&c, &s);
	warm(c, s);
	for (int i = 0; i < 20; i++) {
		struct iovec v[2] = {{"de", 2}, {"f", 1}};
		send_all(c, "a", 1);
		CHECK(dprintf(c, "%c%s", 'b', "c") == 2, "dprintf");
		CHECK(pwritev2(c, v, 2, -1, 0) == 3, "pwritev2");
		send_all(c, "ghij", 4);
		memset(b, 0, sizeof(b));
		CHECK(recv_all(s, b, 8) == 8 && !memcmp(b, "abcdefgh", 8), "%s", b);
		struct iovec r[2] = {{half[0], 1}, {half[1], 5}};
		CHECK(preadv2(s, r, 2, -1, 0) == 2 && half[0][0] == 'i' && half[1][0] == 'j', "preadv2");
		CHECK(preadv2(s, r, 2, -1, RWF_NOWAIT) < 0 && errno == EAGAIN, "nothing there");
		CHECK(preadv2(s, r, 2, 0, 0) < 0 && errno == ESPIPE, "no places");
	}
	char *large = malloc(30001), *back = malloc(30001);
	memset(large, 'x', 30000);
	large[30000] = 0;
	CHECK(dprintf(c, "%s", large) == 30000, "a long one");
	CHECK(recv_all(s, back, 30000) == 30000 && !memcmp(large, back, 30000), "arrives");
	free(large);
	free(back);
	close(c);
	close(s);
}

static void test(void)
{
	in_order();
	reopened();
	by_terminal();
}

int main(void)
{
	return once(test);
}
