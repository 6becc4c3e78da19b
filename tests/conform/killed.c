/* kill -9 of the peer at several points of a connection's life. The survivor must see what TCP shows, and never
 * hang. */
#include "conform.h"

enum point { IDLE, AFTER_WRITE, UNREAD_THERE, IN_RECV, IN_SEND, IN_POLL, STOPPED, POINTS };
static const char *const names[] = {"idle",           "after it wrote", "with our bytes unread", "in recv",
				    "in a long send", "in poll",        "while stopped"};
static enum point point;
static int told[2];

static void victim(int fd)
{
	char b[100];
	static char big[8 << 20];
	struct pollfd p = {fd, POLLIN, 0};
	/* The same warm-up as the survivor's. */
	for (int i = 0; i < 40; i++) {
		CHECK(recv_all(fd, b, 100) == 100, "recv");
		send_all(fd, b, 100);
	}
	if (point == AFTER_WRITE)
		send_all(fd, "last words", 10);
	CHECK(write(told[1], "r", 1) == 1, "pipe");
	if (point == IN_RECV || point == STOPPED)
		CHECK(recv(fd, b, 100, 0) == 0, "the survivor ended first");
	else if (point == IN_SEND)
		send_all(fd, big, sizeof(big));
	else if (point == IN_POLL)
		poll(&p, 1, -1);
	else
		pause();
}

/* The end, as a word. */
static const char *outcome(int fd, size_t *ret_got)
{
	static char b[65536];
	*ret_got = 0;
	for (;;) {
		ssize_t k = recv(fd, b, sizeof(b), 0);
		if (k > 0) {
			*ret_got += (size_t)k;
			continue;
		}
		return k == 0 ? "end of stream" : strerrorname_np(errno);
	}
}

static void test(void)
{
	for (int p = 0; p < POINTS; p++) {
		int fd;
		char ready_byte, b[100] = "";
		size_t got;
		point = (enum point)p;
		CHECK(!pipe(told), "pipe");
		pid_t pid = peer(victim, &fd);
		for (int i = 0; i < 40; i++) {
			send_all(fd, b, 100);
			CHECK(recv_all(fd, b, 100) == 100, "recv");
		}
		CHECK(read(told[0], &ready_byte, 1) == 1, "pipe");
		if (point == UNREAD_THERE)
			send_all(fd, "never read", 10);
		if (point == IN_SEND)
			CHECK(ready(fd, POLLIN, 5000) & POLLIN, "it has begun to send");
		nap(15);
		if (point == STOPPED) {
			kill(pid, SIGSTOP);
			nap(5);
			send_all(fd, "never read", 10);
		}
		kill(pid, SIGKILL);
		CHECK(reap(pid) == 128 + SIGKILL, "killed");
		const char *end = outcome(fd, &got);
		if (point == IN_SEND)
			/* How much of it was on its way is the moment's business. */
			printf("%s killed %s: something came: %s, then %s\n", family_names[family], names[p],
			       got > 0 ? "yes" : "no", end);
		else
			printf("%s killed %s: %zu bytes, then %s\n", family_names[family], names[p], got, end);
		int e = 0;
		for (int i = 0; i < 500 && !e; i++) {
			if (send(fd, "x", 1, MSG_NOSIGNAL) < 0)
				e = errno;
			nap(1);
		}
		CHECK(e == EPIPE || e == ECONNRESET, "writing to the dead is refused");
		close(fd);
		close(told[0]);
		close(told[1]);
	}
}

/* Our own blocked send and our own poll end when the peer is killed. */
static void stalled(int fd)
{
	char b[100];
	for (int i = 0; i < 40; i++) {
		CHECK(recv_all(fd, b, 100) == 100, "recv");
		send_all(fd, b, 100);
	}
	pause();
}

static pid_t to_kill;

static void *kill_later(void *arg)
{
	nap(40);
	kill(to_kill, SIGKILL);
	return NULL;
}

static void we_are_blocked(void)
{
	for (int how = 0; how < 3; how++) {
		int fd;
		char b[100] = "";
		static char big[16 << 20];
		to_kill = peer(stalled, &fd);
		for (int i = 0; i < 40; i++) {
			send_all(fd, b, 100);
			CHECK(recv_all(fd, b, 100) == 100, "recv");
		}
		pthread_t t;
		CHECK(!pthread_create(&t, NULL, kill_later, NULL), "thread");
		if (how == 0) {
			CHECK(recv(fd, b, 1, 0) == 0, "a blocked recv");
		} else if (how == 1) {
			CHECK(ready(fd, POLLIN, 5000) & POLLIN, "a blocked poll");
		} else {
			ssize_t k = send(fd, big, sizeof(big), MSG_NOSIGNAL);
			if (k >= 0)
				k = send(fd, big, 1, MSG_NOSIGNAL);
			CHECK(k == -1 && (errno == ECONNRESET || errno == EPIPE), "a blocked send");
		}
		pthread_join(t, NULL);
		reap(to_kill);
		close(fd);
	}
}

static void all(void)
{
	test();
	if (family == V4 || family == V6)
		we_are_blocked();
}

int main(void)
{
	return each_family(all);
}
