/* exec with an open connection: the next image (this program with arguments) goes on with bytes unread at either
 * side, in the same process or in a child, with its environment kept or cleared. */
#include "conform.h"

static char number[16];

/* The image after exec: its descriptor is argv[2]. */
static int next_image(char **argv)
{
	alarm(12);
	int fd = atoi(argv[2]);
	if (!strcmp(argv[1], "echo")) {
		echo_until_end(fd);
		return 0;
	}
	if (!strcmp(argv[1], "closed")) {
		char b;
		return recv(fd, &b, 1, MSG_DONTWAIT) == -1 && errno == EBADF ? 0 : 1;
	}
	return 9;
}

static void run(const char *role, int fd, bool clear)
{
	char *const argv[] = {"exec", (char *)role, number, NULL};
	char *const none[] = {NULL};
	snprintf(number, sizeof(number), "%d", fd);
	if (clear)
		execve("/proc/self/exe", argv, none);
	else
		execv("/proc/self/exe", argv);
	CHECK(0, "exec");
}

static void handed_over(bool heated, bool clear, bool unread)
{
	int c, s;
	pair(&c, &s);
	if (heated)
		warm(c, s);
	if (unread)
		send_all(c, "unread before exec", 18);
	pid_t kid = child();
	if (!kid) {
		close(c);
		run("echo", s, clear);
	}
	close(s);
	char b[20];
	if (unread)
		CHECK(recv_all(c, b, 18) == 18 && !memcmp(b, "unread before exec", 18), "bytes that waited at exec");
	ask_echo(c, 60, 700, 4);
	shutdown(c, SHUT_WR);
	CHECK(recv(c, b, 1, 0) == 0 && reap(kid) == 0, "end");
	close(c);
}

/* The process that made the connection and is its only holder becomes another program. */
static void becomes_echo(int fd)
{
	char b[100];
	for (int i = 0; i < 40; i++) {
		CHECK(recv_all(fd, b, 100) == 100, "recv");
		send_all(fd, b, 100);
	}
	send_all(fd, "last of the old image", 21);
	run("echo", fd, false);
}

static void sole_holder(void)
{
	int fd;
	char b[30];
	pid_t pid = peer(becomes_echo, &fd);
	ask_echo(fd, 40, 100, 5);
	send_all(fd, "into the gap", 12);
	CHECK(recv_all(fd, b, 21) == 21 && !memcmp(b, "last of the old image", 21), "sent before exec");
	CHECK(recv_all(fd, b, 12) == 12 && !memcmp(b, "into the gap", 12), "sent while it was at exec");
	ask_echo(fd, 60, 800, 6);
	shutdown(fd, SHUT_WR);
	CHECK(recv(fd, b, 1, 0) == 0 && reap(pid) == 0, "end");
	close(fd);
}

/* A failed exec changes nothing. */
static void fails(void)
{
	int c, s;
	char *const argv[] = {"none", NULL};
	pair(&c, &s);
	warm(c, s);
	CHECK(execv("/nonexistent/program", argv) == -1 && errno == ENOENT, "exec of nothing");
	still_works(c, s);
	CHECK(execv("/", argv) == -1 && errno == EACCES, "exec of a folder");
	still_works(c, s);
	close(c);
	close(s);
}

/* CLOEXEC closes it, and the peer sees the end. */
static void close_on_exec(void)
{
	int c, s;
	char b;
	pair(&c, &s);
	warm(c, s);
	CHECK(!fcntl(s, F_SETFD, FD_CLOEXEC), "FD_CLOEXEC");
	pid_t kid = child();
	if (!kid) {
		close(c);
		run("closed", s, false);
	}
	close(s);
	CHECK(reap(kid) == 0, "the number is closed after exec");
	CHECK(recv(c, &b, 1, 0) == 0, "end of stream");
	close(c);
}

static void test(void)
{
	for (int i = 0; i < 8; i++)
		handed_over(i & 1, i & 2, i & 4);
	sole_holder();
	fails();
	close_on_exec();
}

int main(int argc, char **argv)
{
	if (argc > 2)
		return next_image(argv);
	return each_family(test);
}
