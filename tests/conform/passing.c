/* A connection handed to another process by SCM_RIGHTS, with bytes unread, in the middle of traffic, and back. */
#include "conform.h"

static void hand(int channel, int fd)
{
	char byte = 'f', control[CMSG_SPACE(sizeof(int))] = "";
	struct iovec v = {&byte, 1};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);
	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(h), &fd, sizeof(int));
	CHECK(sendmsg(channel, &m, 0) == 1, "SCM_RIGHTS");
}

static int receive(int channel)
{
	char byte, control[CMSG_SPACE(sizeof(int))] = "";
	struct iovec v = {&byte, 1};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	int fd = -1;
	CHECK(recvmsg(channel, &m, 0) == 1, "recvmsg");
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);
	CHECK(h && h->cmsg_type == SCM_RIGHTS, "no descriptor came");
	memcpy(&fd, CMSG_DATA(h), sizeof(int));
	return fd;
}

static void given_away(bool heated, bool unread)
{
	int c, s, channel[2];
	char b[30];
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, channel), "socketpair");
	/* The receiver exists before the connection: it gets it by the message only. */
	pid_t kid = child();
	if (!kid) {
		close(channel[0]);
		int fd = receive(channel[1]);
		echo_until_end(fd);
		exit(0);
	}
	close(channel[1]);
	pair(&c, &s);
	if (heated)
		warm(c, s);
	if (unread)
		send_all(c, "unread when handed on", 21);
	hand(channel[0], s);
	close(s);
	if (unread)
		CHECK(recv_all(c, b, 21) == 21 && !memcmp(b, "unread when handed on", 21), "bytes that waited");
	ask_echo(c, 50, 600, 1);
	shutdown(c, SHUT_WR);
	CHECK(recv(c, b, 1, 0) == 0 && reap(kid) == 0, "end");
	close(c);
	close(channel[0]);
}

/* There and back: the other process answers once and returns it. */
static void there_and_back(void)
{
	int c, s, channel[2];
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, channel), "socketpair");
	pid_t kid = child();
	if (!kid) {
		close(channel[0]);
		char b[10];
		int fd = receive(channel[1]);
		CHECK(recv_all(fd, b, 5) == 5, "recv");
		send_all(fd, b, 5);
		hand(channel[1], fd);
		close(fd);
		exit(0);
	}
	close(channel[1]);
	pair(&c, &s);
	warm(c, s);
	hand(channel[0], s);
	close(s);
	char b[10];
	send_all(c, "hello", 5);
	CHECK(recv_all(c, b, 5) == 5 && !memcmp(b, "hello", 5), "answer of the other process");
	s = receive(channel[0]);
	CHECK(reap(kid) == 0, "child");
	still_works(c, s);
	warm(c, s);
	close(c);
	CHECK(recv(s, b, 1, 0) == 0, "end");
	close(s);
	close(channel[0]);
}

/* Handed to ourselves: two numbers of one connection. */
static void to_oneself(void)
{
	int c, s, channel[2];
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, channel), "socketpair");
	pair(&c, &s);
	warm(c, s);
	hand(channel[0], s);
	int again = receive(channel[1]);
	for (int i = 0; i < 10; i++) {
		carry(c, i % 2 ? s : again, 500, 0, 1);
		carry(i % 2 ? again : s, c, 500, 0, 2);
	}
	close(s);
	still_works(c, again);
	close(again);
	char b;
	CHECK(recv(c, &b, 1, 0) == 0, "end");
	close(c);
	close(channel[0]);
	close(channel[1]);
}

static void test(void)
{
	for (int i = 0; i < 4; i++)
		given_away(i & 1, i & 2);
	there_and_back();
	to_oneself();
}

int main(void)
{
	return each_family(test);
}
