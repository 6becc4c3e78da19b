/* A copy of the descriptor that another process takes by pidfd_getfd, as debuggers and checkpoint tools do: it keeps the
 * connection open, what it writes comes behind what was written before, and its end is an end when it is the last. */
#include "conform.h"
#include <sys/prctl.h>
#include <sys/syscall.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

static int orders[2], answers[2];

static void tell(int fd, char word)
{
	CHECK(write(fd, &word, 1) == 1, "pipe");
}

static char heard(int fd)
{
	char word = 0;
	CHECK(read(fd, &word, 1) == 1, "pipe");
	return word;
}

/* Forked before there was any connection. */
static void taker(pid_t whose)
{
	int pidfd = (int)syscall(SYS_pidfd_open, whose, 0), fd = -1, number;
	for (;;)
		switch (heard(orders[0])) {
		case 't':
			CHECK(read(orders[0], &number, sizeof(number)) == sizeof(number), "number");
			fd = pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, number, 0);
			tell(answers[1], fd >= 0 ? 'y' : 'n');
			break;
		case 'w':
			CHECK(write(fd, "from the copy", 13) == 13, "write");
			tell(answers[1], 'y');
			break;
		case 's':
			CHECK(!shutdown(fd, SHUT_WR), "shutdown");
			tell(answers[1], 'y');
			break;
		case 'c':
			CHECK(!close(fd), "close");
			tell(answers[1], 'y');
			break;
		default:
			exit(0);
		}
}

static bool order(char word)
{
	tell(orders[1], word);
	return heard(answers[0]) == 'y';
}

static bool take_copy(int fd)
{
	tell(orders[1], 't');
	CHECK(write(orders[1], &fd, sizeof(fd)) == sizeof(fd), "pipe");
	return heard(answers[0]) == 'y';
}

static void test(void)
{
	char b[20];
	CHECK(!pipe(orders) && !pipe(answers), "pipe");
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	pid_t parent = getpid(), pid = child();
	if (!pid)
		taker(parent);
	for (int heated = 0; heated < 2; heated++)
		for (int how = 0; how < 3; how++) {
			int c, s;
			pair(&c, &s);
			if (heated)
				warm(c, s);
			if (!take_copy(s)) {
				puts("no copies by pidfd_getfd here");
				close(c);
				close(s);
				continue;
			}
			carry(c, s, 700, 0, 1);
			carry(s, c, 700, 0, 2);
			send_all(s, "before ", 7);
			CHECK(order('w'), "write");
			CHECK(recv_all(c, b, 20) == 20, "bytes");
			CHECK(!memcmp(b, "before from the copy", 20), "in order: %.20s", b);
			still_works(c, s);
			if (how == 0) { /* the owner is last */
				CHECK(order('c'), "close");
				CHECK(!(ready(c, POLLIN, 5) & POLLIN), "no end yet");
				still_works(c, s);
				close(s);
			} else if (how == 1) { /* the copy is */
				close(s);
				CHECK(!(ready(c, POLLIN, 10) & POLLIN), "no end while the copy lives");
				CHECK(order('w') && recv_all(c, b, 13) == 13 && !memcmp(b, "from the copy", 13), "it goes on");
				CHECK(order('c'), "close");
			} else { /* an end by the copy is the connection's */
				send_all(s, "last", 4);
				CHECK(order('s'), "shutdown");
				CHECK(recv_all(c, b, 10) == 4 && !memcmp(b, "last", 4), "the last bytes");
				CHECK(send(s, "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE, "shut for the owner too");
				CHECK(order('c'), "close");
				close(s);
			}
			CHECK(recv(c, b, 1, 0) == 0, "end");
			close(c);
		}
	tell(orders[1], 'q');
	CHECK(reap(pid) == 0, "taker");
	for (int i = 0; i < 2; i++) {
		close(orders[i]);
		close(answers[i]);
	}
}

int main(void)
{
	return each_family(test);
}
