/* O_NONBLOCK by each means, MSG_DONTWAIT, and the change between blocking and not in the middle of traffic. */
#include "conform.h"

static void nothing_there(int fd)
{
	char b[10];
	struct iovec v = {b, sizeof(b)};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
	struct mmsghdr mm = {.msg_hdr = m};
	CHECK(read(fd, b, 10) == -1 && errno == EAGAIN, "read");
	CHECK(readv(fd, &v, 1) == -1 && errno == EAGAIN, "readv");
	CHECK(recv(fd, b, 10, 0) == -1 && errno == EAGAIN, "recv");
	CHECK(recv(fd, b, 10, MSG_WAITALL) == -1 && errno == EAGAIN, "recv WAITALL");
	CHECK(recv(fd, b, 10, MSG_PEEK) == -1 && errno == EAGAIN, "recv PEEK");
	CHECK(recvfrom(fd, b, 10, 0, NULL, NULL) == -1 && errno == EAGAIN, "recvfrom");
	CHECK(recvmsg(fd, &m, 0) == -1 && errno == EAGAIN, "recvmsg");
	CHECK(recvmmsg(fd, &mm, 1, 0, NULL) == -1 && errno == EAGAIN, "recvmmsg");
}

static void *send_later(void *arg)
{
	nap(30);
	CHECK(send(*(int *)arg, "late", 4, 0) == 4, "send");
	return NULL;
}

static void blocks(int fd, int other)
{
	pthread_t t;
	char b[10];
	CHECK(!pthread_create(&t, NULL, send_later, &other), "thread");
	CHECK(recv(fd, b, 10, 0) == 4 && !memcmp(b, "late", 4), "blocking recv");
	pthread_join(t, NULL);
}

static void test(void)
{
	int c, s;
	pair(&c, &s);
	for (int round = 0; round < 3; round++) {
		char b[10];
		CHECK(recv(s, b, 10, MSG_DONTWAIT) == -1 && errno == EAGAIN, "DONTWAIT on a blocking socket");
		CHECK(!(fcntl(s, F_GETFL) & O_NONBLOCK), "MSG_DONTWAIT left a trace");
		blocks(s, c);
		set_nonblocking(s, true);
		nothing_there(s);
		carry(c, s, 5000, 0, 1);
		nothing_there(s);
		int off = 0, on = 1;
		CHECK(!ioctl(s, FIONBIO, &off) && !(fcntl(s, F_GETFL) & O_NONBLOCK), "FIONBIO off");
		blocks(s, c);
		CHECK(!ioctl(s, FIONBIO, &on) && (fcntl(s, F_GETFL) & O_NONBLOCK), "FIONBIO on");
		nothing_there(s);
		set_nonblocking(s, false);
		warm(c, s);
		blocks(c, s);
	}
	int again = dup(s);
	set_nonblocking(again, true);
	nothing_there(s); /* the flag belongs to the open file, not to the number */
	close(again);
	nothing_there(s);
	close(c);
	CHECK(ready(s, POLLIN, 1000) & POLLIN, "end of stream");
	char b;
	CHECK(recv(s, &b, 1, 0) == 0, "end of stream");
	close(s);
	int l = listener(4);
	int t = socket(family == V4 || family == MIXED ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_NONBLOCK, 0);
	struct address a;
	set_address(&a, false, port_of(l));
	int result = connect(t, (struct sockaddr *)&a.at, a.length);
	CHECK(result == 0 || errno == EINPROGRESS, "connect");
	s = accept4(l, NULL, NULL, SOCK_NONBLOCK);
	CHECK(s >= 0 && (ready(t, POLLOUT, 1000) & POLLOUT), "connected");
	nothing_there(s);
	nothing_there(t);
	warm(t, s);
	nothing_there(s);
	nothing_there(t);
	close(l);
	close(t);
	close(s);
}

int main(void)
{
	return each_family(test);
}
