/* What goes wrong goes wrong in the same way, on sockets of every state, and leaves errno alone where it succeeds. */
#include "conform.h"
#include <sys/stat.h>

static char b[10];
static struct iovec v = {b, sizeof(b)};

static void wrong_descriptor(void)
{
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
	struct pollfd p = {-5, POLLIN, 0};
	int closed = dup(0);
	close(closed);
	for (int i = 0; i < 2; i++) {
		int fd = i ? closed : -1;
		CHECK(read(fd, b, 10) == -1 && errno == EBADF, "read");
		CHECK(write(fd, b, 10) == -1 && errno == EBADF, "write");
		CHECK(readv(fd, &v, 1) == -1 && errno == EBADF, "readv");
		CHECK(writev(fd, &v, 1) == -1 && errno == EBADF, "writev");
		CHECK(recv(fd, b, 10, 0) == -1 && errno == EBADF, "recv");
		CHECK(send(fd, b, 10, 0) == -1 && errno == EBADF, "send");
		CHECK(recvmsg(fd, &m, 0) == -1 && errno == EBADF, "recvmsg");
		CHECK(sendmsg(fd, &m, 0) == -1 && errno == EBADF, "sendmsg");
		CHECK(shutdown(fd, SHUT_WR) == -1 && errno == EBADF, "shutdown");
		CHECK(close(fd) == -1 && errno == EBADF, "close");
		CHECK(fcntl(fd, F_GETFL) == -1 && errno == EBADF, "fcntl");
		CHECK(listen(fd, 1) == -1 && errno == EBADF, "listen");
	}
	CHECK(poll(&p, 1, 0) == 0 && p.revents == 0, "poll passes negative numbers over");
}

static void no_socket(void)
{
	int pipes[2];
	CHECK(!pipe(pipes), "pipe");
	CHECK(recv(pipes[0], b, 10, 0) == -1 && errno == ENOTSOCK, "recv");
	CHECK(send(pipes[1], b, 10, 0) == -1 && errno == ENOTSOCK, "send");
	CHECK(shutdown(pipes[0], SHUT_RD) == -1 && errno == ENOTSOCK, "shutdown");
	CHECK(accept(pipes[0], NULL, NULL) == -1 && errno == ENOTSOCK, "accept");
	CHECK(read(pipes[1], b, 10) == -1 && errno == EBADF, "read of the writing end");
	close(pipes[0]);
	close(pipes[1]);
}

static void unconnected(void)
{
	int fd = new_socket(false, 0);
	struct address a;
	CHECK(recv(fd, b, 10, 0) == -1 && errno == ENOTCONN, "recv");
	CHECK(send(fd, b, 10, MSG_NOSIGNAL) == -1 && errno == EPIPE, "send");
	set_address(&a, false, 9);
	CHECK(getpeername(fd, (struct sockaddr *)&a.at, &a.length) == -1 && errno == ENOTCONN, "getpeername");
	close(fd);
	int l = listener(1);
	CHECK(recv(l, b, 10, 0) == -1 && errno == ENOTCONN, "recv of a listener");
	CHECK(send(l, b, 10, MSG_NOSIGNAL) == -1 && errno == EPIPE, "send to a listener");
	int other = new_socket(true, 0);
	set_address(&a, true, port_of(l));
	CHECK(bind(other, (struct sockaddr *)&a.at, a.length) == -1 && errno == EADDRINUSE, "bind of a used port");
	CHECK(bind(l, (struct sockaddr *)&a.at, a.length) == -1 && errno == EINVAL, "bind twice");
	close(other);
	close(l);
}

static void connected(int c, int s)
{
	struct stat st;
	off_t at = 0;
	static struct iovec many[IOV_MAX + 1];
	volatile int negative = -1, too_many = IOV_MAX + 1;
	CHECK(lseek(c, 0, SEEK_CUR) == -1 && errno == ESPIPE, "lseek");
	CHECK(pread(c, b, 10, 0) == -1 && errno == ESPIPE, "pread");
	CHECK(pwrite(c, b, 10, 0) == -1 && errno == ESPIPE, "pwrite");
	CHECK(preadv(c, &v, 1, at) == -1 && errno == ESPIPE, "preadv");
	CHECK(ftruncate(c, 0) == -1 && errno == EINVAL, "ftruncate");
	CHECK(!fstat(c, &st) && S_ISSOCK(st.st_mode), "fstat");
	CHECK(fsync(c) == -1 && errno == EINVAL, "fsync");
	CHECK(readv(c, &v, negative) == -1 && errno == EINVAL, "readv of -1 parts");
	CHECK(writev(c, many, too_many) == -1 && errno == EINVAL, "writev of too many parts");
	struct msghdr m = {.msg_iov = many, .msg_iovlen = IOV_MAX + 1};
	CHECK(sendmsg(c, &m, 0) == -1 && errno == EMSGSIZE, "sendmsg of too many parts");
	CHECK(ioctl(c, 0x12345678, &st) == -1 && errno == ENOTTY, "ioctl");
	CHECK(isatty(c) == 0 && errno == ENOTTY, "isatty");
	CHECK(fcntl(c, 9999) == -1 && errno == EINVAL, "fcntl");
	errno = 77;
	carry(c, s, 100, 0, 1);
	carry(s, c, 100, 0, 1);
	CHECK(ready(c, POLLOUT, 0) == POLLOUT && errno == 77, "errno was touched by calls that succeeded");
}

static void test(void)
{
	int c, s;
	wrong_descriptor();
	no_socket();
	unconnected();
	pair(&c, &s);
	connected(c, s);
	warm(c, s);
	connected(c, s);
	connected(s, c);
	still_works(c, s);
	close(c);
	close(s);
}

int main(void)
{
	return each_family(test);
}
