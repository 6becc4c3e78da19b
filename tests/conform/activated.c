/* Socket activation as systemd does it: a listener, or an accepted connection, is descriptor 3 of a program that is told
 * so by LISTEN_FDS and LISTEN_PID; the manager keeps the listener and starts the program again. And descriptors that are
 * handed to a program without the library. */
#include "conform.h"

static int fd_started(void)
{
	const char *n = getenv("LISTEN_FDS"), *pid = getenv("LISTEN_PID");
	CHECK(n && pid && atoi(n) == 1 && atoi(pid) == getpid(), "LISTEN_FDS, LISTEN_PID");
	int listening = -1;
	socklen_t size = sizeof(listening);
	CHECK(!getsockopt(3, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size), "descriptor 3 is no socket");
	CHECK(!fcntl(3, F_SETFD, FD_CLOEXEC), "FD_CLOEXEC");
	return listening;
}

/* The program that is started: serves two connections of its listener at once, by an epoll set, or the connection. */
static int started(void)
{
	if (!fd_started()) {
		echo_until_end(3);
		return 0;
	}
	int set = epoll_create1(EPOLL_CLOEXEC), open = 0;
	struct epoll_event e = {EPOLLIN, {.fd = 3}};
	char b[4096];
	CHECK(!epoll_ctl(set, EPOLL_CTL_ADD, 3, &e), "ADD");
	for (unsigned ended = 0; ended < 2;) {
		struct epoll_event told[4];
		int n = epoll_wait(set, told, 4, 5000);
		CHECK(n > 0, "epoll_wait: %d of %d open", n, open);
		for (int i = 0; i < n; i++) {
			int fd = told[i].data.fd;
			if (fd == 3) {
				e.data.fd = take(3);
				CHECK(!epoll_ctl(set, EPOLL_CTL_ADD, e.data.fd, &e), "ADD");
				open++;
				continue;
			}
			ssize_t k = recv(fd, b, sizeof(b), 0);
			CHECK(k >= 0, "recv");
			if (k) {
				send_all(fd, b, (size_t)k);
			} else {
				close(fd);
				ended++;
			}
		}
	}
	return 0;
}

static pid_t start(int fd, const char *role)
{
	pid_t pid = child();
	if (!pid) {
		char number[20];
		snprintf(number, sizeof(number), "%d", getpid());
		if (fd != 3)
			CHECK(dup2(fd, 3) == 3, "dup2");
		else
			CHECK(!fcntl(3, F_SETFD, 0), "FD_CLOEXEC");
		closefrom(4);
		setenv("LISTEN_FDS", "1", 1);
		setenv("LISTEN_PID", number, 1);
		execl("/proc/self/exe", "activated", role, NULL);
		_exit(120);
	}
	return pid;
}

/* A service of its own listener, started three times; connections wait in the queue before it runs. */
static void service(void)
{
	int l = listener(8);
	uint16_t port = port_of(l);
	for (unsigned i = 0; i < 3; i++) {
		int c = dial(port), c2 = dial(port);
		send_all(c, "early", 5);
		pid_t pid = start(l, "started");
		char b[5];
		CHECK(recv_all(c, b, 5) == 5 && !memcmp(b, "early", 5), "what came before it ran");
		for (unsigned k = 0; k < 20; k++) {
			ask_echo(c, 2, 700, k);
			ask_echo(c2, 2, 900, k);
		}
		close(c);
		close(c2);
		CHECK(reap(pid) == 0, "service %u", i);
	}
	close(l);
}

/* One process a connection (Accept=yes): the manager accepts, and may have looked at what came. */
static void instance(bool looked)
{
	int l = listener(8), c = dial(port_of(l)), s = take(l);
	char b[10];
	if (looked) {
		warm(c, s);
		send_all(c, "first", 5);
		CHECK(ready(s, POLLIN, 1000) && recv(s, b, 5, MSG_PEEK) == 5, "a look");
	}
	/* the client's end lies here too: the new program must be its only other holder */
	pid_t pid = start(s, "started");
	close(s);
	if (looked)
		CHECK(recv_all(c, b, 5) == 5 && !memcmp(b, "first", 5), "what the manager only looked at");
	for (unsigned k = 0; k < 30; k++)
		ask_echo(c, 2, 800, k);
	CHECK(!shutdown(c, SHUT_WR) && recv(c, b, 1, 0) == 0, "end");
	CHECK(reap(pid) == 0, "instance");
	close(c);
	close(l);
}

/* A program that the library is not preloaded into, which was there before the connection: gets it by SCM_RIGHTS. */
static int receiver(void)
{
	char byte, control[CMSG_SPACE(sizeof(int))];
	struct iovec v = {&byte, 1};
	for (;;) {
		struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
		int fd;
		ssize_t k = recvmsg(3, &m, 0);
		if (!k)
			return 0;
		CHECK(k == 1 && CMSG_FIRSTHDR(&m), "a descriptor");
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
		echo_until_end(fd);
		close(fd);
	}
}

static void handed(void)
{
	int channel[2];
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel), "socketpair");
	pid_t pid = child();
	if (!pid) {
		if (dup2(channel[1], 3) != 3 || (channel[1] == 3 && fcntl(3, F_SETFD, 0)))
			_exit(120);
		closefrom(4);
		unsetenv("LD_PRELOAD");
		char *const argv[] = {"activated", "receiver", NULL};
		static char *none[] = {NULL};
		execve("/proc/self/exe", argv, none);
		_exit(121);
	}
	close(channel[1]);
	for (int heated = 0; heated < 2; heated++)
		for (int unread = 0; unread < 2; unread++) {
			int c, s;
			char b[10], byte = 'f', control[CMSG_SPACE(sizeof(int))] = "";
			struct iovec v = {&byte, 1};
			struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
			struct cmsghdr *h = CMSG_FIRSTHDR(&m);
			pair(&c, &s);
			if (heated)
				warm(c, s);
			if (unread)
				send_all(c, "unread", 6);
			h->cmsg_level = SOL_SOCKET;
			h->cmsg_type = SCM_RIGHTS;
			h->cmsg_len = CMSG_LEN(sizeof(int));
			memcpy(CMSG_DATA(h), &s, sizeof(int));
			CHECK(sendmsg(channel[0], &m, 0) == 1, "SCM_RIGHTS");
			close(s);
			if (unread)
				CHECK(recv_all(c, b, 6) == 6 && !memcmp(b, "unread", 6), "unread bytes went along");
			ask_echo(c, 40, 900, 3);
			CHECK(!shutdown(c, SHUT_WR) && recv(c, b, 1, 0) == 0, "end");
			close(c);
		}
	close(channel[0]);
	CHECK(reap(pid) == 0, "receiver");
}

static void test(void)
{
	service();
	instance(false);
	instance(true);
	handed();
}

int main(int argc, char **argv)
{
	alarm(LIMIT_SECONDS);
	if (argc > 1 && !strcmp(argv[1], "started"))
		return started();
	if (argc > 1 && !strcmp(argv[1], "receiver"))
		return receiver();
	return each_family(test);
}
