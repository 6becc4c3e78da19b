/* Urgent data in the middle of a stream, out of line and in line, and what SIOCATMARK and poll say. */
#include "conform.h"
#include <linux/sockios.h>

static void out_of_line(int from, int to)
{
	char b[16];
	send_all(from, "before", 6);
	CHECK(send(from, "!", 1, MSG_OOB) == 1, "MSG_OOB");
	send_all(from, "after", 5);
	CHECK(ready(to, POLLPRI, 1000) & POLLPRI, "POLLPRI");
	int mark = -1;
	CHECK(!ioctl(to, SIOCATMARK, &mark) && mark == 0, "not at the mark yet");
	CHECK(recv_all(to, b, 6) == 6 && !memcmp(b, "before", 6), "bytes before the mark");
	CHECK(!ioctl(to, SIOCATMARK, &mark) && mark == 1, "at the mark");
	CHECK(recv(to, b, 1, MSG_OOB) == 1 && b[0] == '!', "the urgent byte");
	CHECK(recv_all(to, b, 5) == 5 && !memcmp(b, "after", 5), "bytes after the mark");
	CHECK(recv(to, b, 1, MSG_OOB | MSG_DONTWAIT) == -1 && errno == EINVAL, "no second urgent byte");
}

static void in_line(int from, int to)
{
	int on = 1;
	char b[16];
	CHECK(!setsockopt(to, SOL_SOCKET, SO_OOBINLINE, &on, sizeof(on)), "SO_OOBINLINE");
	send_all(from, "12", 2);
	CHECK(send(from, "3", 1, MSG_OOB) == 1, "MSG_OOB");
	send_all(from, "45", 2);
	CHECK(recv_all(to, b, 5) == 5 && !memcmp(b, "12345", 5), "urgent byte in its place");
	on = 0;
	CHECK(!setsockopt(to, SOL_SOCKET, SO_OOBINLINE, &on, sizeof(on)), "SO_OOBINLINE");
}

static void test(void)
{
	int c, s;
	pair(&c, &s);
	warm(c, s);
	out_of_line(c, s);
	warm(c, s);
	out_of_line(s, c);
	in_line(c, s);
	in_line(s, c);
	still_works(c, s);
	close(c);
	close(s);
	pair(&c, &s);
	out_of_line(c, s); /* before anything else was sent */
	still_works(c, s);
	close(c);
	close(s);
}

int main(void)
{
	return each_family(test);
}
