/* What the queue ioctls count: unread bytes, unsent bytes, and nothing that the program did not send. */
#include "conform.h"
#include <linux/sockios.h>

static int asked(int fd, unsigned long request)
{
	int n = -1;
	CHECK(!ioctl(fd, request, &n), "ioctl %lx", request);
	return n;
}

/* The count of bytes arrived may lag behind the sender by a moment. */
static void expect_unread(int fd, int want)
{
	for (int i = 0; i < 500 && asked(fd, FIONREAD) != want; i++)
		nap(1);
	CHECK(asked(fd, FIONREAD) == want, "FIONREAD %d where %d are unread", asked(fd, FIONREAD), want);
	CHECK(asked(fd, SIOCINQ) == want, "SIOCINQ %d", asked(fd, SIOCINQ));
}

static void expect_unsent(int fd, int want)
{
	for (int i = 0; i < 500 && asked(fd, SIOCOUTQ) != want; i++)
		nap(1);
	CHECK(asked(fd, SIOCOUTQ) == want, "SIOCOUTQ %d where %d is the truth", asked(fd, SIOCOUTQ), want);
	CHECK(asked(fd, SIOCOUTQNSD) == 0, "SIOCOUTQNSD %d", asked(fd, SIOCOUTQNSD));
}

static void one_way(int from, int to)
{
	static char b[40000];
	expect_unread(to, 0);
	send_all(from, b, 100);
	expect_unread(to, 100);
	send_all(from, b, 30000);
	expect_unread(to, 30100);
	CHECK(recv(to, b, 64, MSG_PEEK) == 64, "peek");
	expect_unread(to, 30100);
	CHECK(recv_all(to, b, 10100) == 10100, "recv");
	expect_unread(to, 20000);
	CHECK(recv_all(to, b, 20000) == 20000, "recv");
	expect_unread(to, 0);
	expect_unsent(from, 0);
}

static void test(void)
{
	int c, s;
	pair(&c, &s);
	for (int i = 0; i < 3; i++) {
		one_way(c, s);
		one_way(s, c);
		warm(c, s);
	}
	send_all(c, "12345", 5);
	shutdown(c, SHUT_WR);
	/* The end of the stream is not a byte. */
	nap(20);
	expect_unread(s, 5);
	char b[10];
	CHECK(recv_all(s, b, 10) == 5, "rest");
	close(c);
	close(s);
	int l = listener(1), n;
	CHECK(ioctl(l, FIONREAD, &n) == -1 && errno == EINVAL, "FIONREAD of a listener");
	CHECK(ioctl(l, SIOCOUTQ, &n) == -1 && errno == EINVAL, "SIOCOUTQ of a listener");
	close(l);
}

int main(void)
{
	return each_family(test);
}
