/* dup, dup2, dup3, F_DUPFD, F_DUPFD_CLOEXEC: one connection under several numbers, and numbers that change hands. */
#include "conform.h"

static int copy_of(int fd, int how)
{
	int copy;
	switch (how) {
	case 0:
		return dup(fd);
	case 1:
		return fcntl(fd, F_DUPFD, 100);
	case 2:
		copy = fcntl(fd, F_DUPFD_CLOEXEC, 50);
		CHECK(fcntl(copy, F_GETFD) == FD_CLOEXEC, "F_DUPFD_CLOEXEC");
		return copy;
	case 3:
		return dup2(fd, 120);
	default:
		copy = dup3(fd, 121, O_CLOEXEC);
		CHECK(fcntl(copy, F_GETFD) == FD_CLOEXEC, "dup3 O_CLOEXEC");
		return copy;
	}
}

static void copies(int how, bool early)
{
	int c, s;
	char b[10];
	pair(&c, &s);
	if (!early)
		warm(c, s);
	int copy = copy_of(s, how);
	CHECK(copy > 2, "copy");
	for (int i = 0; i < 10; i++) {
		carry(c, i % 2 ? copy : s, 1000, 0, 1);
		carry(i % 3 ? copy : s, c, 1000, 0, 2);
	}
	send_all(c, "abcdef", 6);
	CHECK(recv_all(s, b, 3) == 3 && recv_all(copy, b + 3, 3) == 3 && !memcmp(b, "abcdef", 6),
	      "one stream, two numbers");
	send_all(c, "unread", 6);
	close(s);
	CHECK(recv_all(copy, b, 6) == 6 && !memcmp(b, "unread", 6), "closing one number loses nothing");
	still_works(c, copy);
	CHECK(!(ready(c, POLLIN, 10) & POLLIN), "no end of stream while a copy is open");
	close(copy);
	CHECK((ready(c, POLLIN, 1000) & POLLIN) && recv(c, b, 1, 0) == 0, "end with the last copy");
	close(c);
}

/* dup2 onto the number of another live connection closes that one and puts this one in its place. */
static void take_place(void)
{
	int c1, s1, c2, s2;
	char b[10];
	pair(&c1, &s1);
	pair(&c2, &s2);
	warm(c1, s1);
	warm(c2, s2);
	CHECK(dup2(s2, s1) == s1, "dup2");
	CHECK(recv(c1, b, 1, 0) == 0, "the replaced connection has ended");
	send_all(c2, "here", 4);
	CHECK(recv_all(s1, b, 4) == 4 && !memcmp(b, "here", 4), "under the new number");
	close(s2);
	still_works(c2, s1);
	CHECK(dup2(s1, s1) == s1, "onto itself");
	still_works(c2, s1);
	CHECK(dup3(s1, s1, 0) == -1 && errno == EINVAL, "dup3 onto itself");
	CHECK(dup2(-1, s1) == -1 && errno == EBADF, "dup2 of -1");
	CHECK(dup2(s1, -1) == -1 && errno == EBADF, "dup2 to -1");
	still_works(c2, s1);
	/* A plain file in a connection's place, and back. */
	int null = open("/dev/null", O_RDWR), keep = dup(s1);
	CHECK(dup2(null, s1) == s1 && write(s1, "x", 1) == 1 && read(s1, b, 1) == 0, "a file under the number");
	still_works(c2, keep);
	CHECK(dup2(keep, s1) == s1, "back");
	close(keep);
	close(null);
	still_works(c2, s1);
	close(c1);
	close(c2);
	close(s1);
}

/* Standard input and output, as inetd hands them over. */
static void as_stdio(void)
{
	int c, s;
	pair(&c, &s);
	warm(c, s);
	pid_t pid = child();
	if (!pid) {
		char b[10];
		close(c);
		dup2(s, 0);
		dup2(s, 1);
		close(s);
		ssize_t k = read(0, b, sizeof(b));
		_exit(k == 7 && write(1, b, 7) == 7 ? 0 : 1);
	}
	close(s);
	char b[10];
	send_all(c, "request", 7);
	CHECK(recv_all(c, b, 8) == 7 && !memcmp(b, "request", 7), "answer of the child, then its end");
	CHECK(reap(pid) == 0, "child");
	close(c);
}

static void test(void)
{
	for (int how = 0; how < 5; how++) {
		copies(how, true);
		copies(how, false);
	}
	take_place();
	as_stdio();
}

int main(void)
{
	return each_family(test);
}
