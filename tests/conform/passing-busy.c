/* A descriptor is handed to another process while a thread of this one is inside a send on it, with more unread than the
 * kernel's buffers would take at once: what is unread is the other process's, what the thread sends arrives whole. */
#include "conform.h"

#define UNREAD (3u << 20)
#define SENT   (9u << 20)

static int inform[2];

/* Writes, and reads when it is told to. */
static void other_end(int fd)
{
	char b[5], *m = malloc(SENT);
	for (int i = 0; i < 40; i++) {
		send_all(fd, "hello", 5);
		CHECK(recv_all(fd, b, 5) == 5, "hello");
	}
	pattern(m, UNREAD, 0, 1);
	send_all(fd, m, UNREAD);
	CHECK(write(inform[1], "w", 1) == 1, "inform");
	CHECK(read(inform[1], b, 1) == 1, "told to read");
	CHECK(recv_all(fd, m, SENT) == SENT, "all that the thread sent");
	check_pattern(m, SENT, 0, 2);
	CHECK(recv_all(fd, b, 4) == 4 && !memcmp(b, "done", 4), "what the new holder sent");
	send_all(fd, "bye", 3);
	CHECK(recv(fd, b, 1, 0) == 0, "end");
}

static int s;

static void *send_much(void *arg)
{
	char *m = malloc(SENT);
	(void)arg;
	pattern(m, SENT, 0, 2);
	send_all(s, m, SENT);
	free(m);
	return NULL;
}

static void pass(int to, int fd)
{
	char room[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec v = {"x", 1};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)};
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);
	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(h), &fd, sizeof(fd));
	CHECK(sendmsg(to, &m, 0) == 1, "pass");
}

static int passed(int from)
{
	char room[CMSG_SPACE(sizeof(int))], b;
	struct iovec v = {&b, 1};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)};
	int fd;
	CHECK(recvmsg(from, &m, 0) == 1 && CMSG_FIRSTHDR(&m), "receive a descriptor");
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
	return fd;
}

static void new_holder(int from)
{
	char *m = malloc(UNREAD), b[4];
	int fd = passed(from);
	CHECK(recv_all(fd, m, UNREAD) == UNREAD, "what was unread");
	check_pattern(m, UNREAD, 0, 1);
	CHECK(write(from, "r", 1) == 1, "read all");
	CHECK(read(from, b, 1) == 1, "told to go on");
	send_all(fd, "done", 4);
	CHECK(recv_all(fd, b, 3) == 3 && !memcmp(b, "bye", 3), "goes on");
	close(fd);
	_exit(0);
}

static void test(void)
{
	char b[5];
	int way[2];
	pthread_t t;
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, inform) && !socketpair(AF_UNIX, SOCK_STREAM, 0, way), "socketpair");
	pid_t holder = child();
	if (!holder) {
		close(way[0]);
		new_holder(way[1]);
	}
	close(way[1]);
	pid_t pid = peer(other_end, &s);
	for (int i = 0; i < 40; i++) {
		CHECK(recv_all(s, b, 5) == 5, "hello");
		send_all(s, "hello", 5);
	}
	CHECK(read(inform[0], b, 1) == 1, "informed");
	CHECK(!pthread_create(&t, NULL, send_much, NULL), "thread");
	nap(50); /* it finds no room */
	pass(way[0], s);
	CHECK(read(way[0], b, 1) == 1, "the holder has read");
	CHECK(write(inform[0], "r", 1) == 1, "tell");
	pthread_join(t, NULL);
	close(s);
	CHECK(write(way[0], "g", 1) == 1, "tell");
	CHECK(!reap(holder) && !reap(pid), "both end well");
	close(way[0]);
	close(inform[0]);
	close(inform[1]);
}

int main(void)
{
	return once(test);
}
