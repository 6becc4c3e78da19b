/* The checked forms that a compiler puts in place of read, recv, recvfrom and poll when it knows a buffer's size. */
#include "conform.h"
#include <sys/select.h>

static void test(void)
{
	int c, s;
	pair(&c, &s);
	for (int i = 0; i < 60; i++) {
		char b[64];
		volatile size_t n = 32; /* unknown to the compiler: it must emit the check */
		struct pollfd p[2];
		volatile nfds_t np = 1;
		send_all(c, "0123456789abcdef0123456789abcdef", 32);
		p[0].fd = s;
		p[0].events = POLLIN;
		CHECK(poll(p, np, 1000) == 1, "poll");
		struct timespec t = {1, 0};
		CHECK(ppoll(p, np, &t, NULL) == 1, "ppoll");
		n = 8;
		CHECK(read(s, b, n) == 8 && !memcmp(b, "01234567", 8), "read");
		CHECK(recv(s, b, n, 0) == 8 && !memcmp(b, "89abcdef", 8), "recv");
		CHECK(recvfrom(s, b, n, 0, NULL, NULL) == 8 && !memcmp(b, "01234567", 8), "recvfrom");
		fd_set r;
		volatile int fd = s;
		FD_ZERO(&r);
		FD_SET(fd, &r);
		CHECK(select(fd + 1, &r, NULL, NULL, NULL) == 1 && FD_ISSET(fd, &r), "select");
		CHECK(recv(s, b, n, MSG_WAITALL) == 8 && !memcmp(b, "89abcdef", 8), "recv");
		carry(s, c, 200, 0, 1);
	}
	close(c);
	close(s);
}

int main(void)
{
	return each_family(test);
}
