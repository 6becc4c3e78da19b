/* A connection that leaves for a program that knows nothing of sockets (cat as a filter, a stdio stream, a process that
 * gets it by a message) at the worst moment: with bytes unread whose writer is stopped, dead, closed, out of reach for
 * us, or in this very process; with more unread than a socket buffer holds; with other holders that go on reading. */
#include "conform.h"
#include <sys/mman.h>
#include <sys/prctl.h>

#define UNREAD 5000u

enum writer { RUNS, STOPPED, KILLED, CLOSED, HALF_CLOSED, HIDDEN, WRITERS };
static enum writer writer;

/* The other end: traffic, then bytes that nobody reads for now, then what the case says. */
static void other_end(int fd)
{
	static uint8_t data[UNREAD];
	if (writer == HIDDEN)
		prctl(PR_SET_DUMPABLE, 0);
	for (int i = 0; i < 40; i++) {
		uint8_t b[100];
		CHECK(recv_all(fd, b, 100) == 100, "recv");
		send_all(fd, b, 100);
	}
	pattern(data, sizeof(data), 0, 7);
	for (unsigned at = 0; at < UNREAD; at += 500)
		send_all(fd, data + at, 500);
	if (writer == STOPPED)
		raise(SIGSTOP);
	if (writer == KILLED)
		raise(SIGKILL);
	if (writer == CLOSED) {
		close(fd);
		pause();
	}
	if (writer == HALF_CLOSED)
		CHECK(!shutdown(fd, SHUT_WR), "shutdown");
	if (writer == HALF_CLOSED) {
		uint8_t b[64];
		size_t n = recv_all(fd, b, 24); /* nothing where the filter was the only one to answer */
		CHECK(n == 0 || (n == 24 && !memcmp(b, "answer to a closed end!!", 24)), "answer");
		CHECK(recv(fd, b, 1, 0) == 0, "end");
	} else {
		echo_until_end(fd);
	}
	close(fd);
}

/* A connection with UNREAD bytes ahead, its writer as the case says. */
static pid_t prepared(int *ret_fd)
{
	pid_t pid = peer(other_end, ret_fd);
	uint8_t out[100], in[100];
	for (int i = 0; i < 40; i++) {
		pattern(out, 100, i, 5);
		send_all(*ret_fd, out, 100);
		CHECK(recv_all(*ret_fd, in, 100) == 100 && !memcmp(in, out, 100), "echo");
	}
	int status;
	if (writer == STOPPED)
		CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status), "stop");
	else if (writer == KILLED)
		CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status), "kill");
	else
		nap(10);
	return pid;
}

static void ends(pid_t pid)
{
	if (writer == CLOSED)
		kill(pid, SIGKILL);
	if (writer != KILLED)
		CHECK(reap(pid) == (writer == CLOSED ? 128 + SIGKILL : 0), "the other end");
}

static void become_cat(int in, int out)
{
	dup2(in, 0);
	dup2(out, 1);
	for (int fd = 3; fd < 64; fd++)
		close(fd);
	char *const argv[] = {"cat", NULL};
	execvp("cat", argv);
	_exit(9);
}

/* cat reads it in a child; holds: we keep it open and wait, as a shell does with its descriptors. */
static void to_filter(bool holds)
{
	int fd, out[2];
	char b[8];
	pid_t pid = prepared(&fd);
	CHECK(!pipe(out), "pipe");
	pid_t cat = child();
	if (!cat)
		become_cat(fd, out[1]);
	close(out[1]);
	if (!holds)
		close(fd);
	static uint8_t in[UNREAD];
	size_t got = 0;
	while (got < UNREAD) {
		ssize_t k = read(out[0], in + got, UNREAD - got);
		CHECK(k > 0, "%zu of the unread bytes came through cat", got);
		got += (size_t)k;
	}
	check_pattern(in, UNREAD, 0, 7);
	if (writer == KILLED || writer == CLOSED || writer == HALF_CLOSED) {
		CHECK(read(out[0], b, 1) == 0 && reap(cat) == 0, "end through cat");
		if (writer == HALF_CLOSED && holds)
			send_all(fd, "answer to a closed end!!", 24);
	} else {
		kill(pid, SIGCONT);
		kill(cat, SIGTERM);
		CHECK(reap(cat) == 128 + SIGTERM, "cat");
		if (holds)
			ask_echo(fd, 20, 500, 3);
	}
	close(out[0]);
	if (holds)
		close(fd);
	ends(pid);
}

/* A child that was given it by accident: it never reads, and we go on. */
static void bystander(void)
{
	int fd;
	pid_t pid = prepared(&fd);
	pid_t kid = child();
	if (!kid) {
		char *const argv[] = {"sleep", "0.1", NULL};
		execvp("sleep", argv);
		_exit(9);
	}
	nap(20);
	static uint8_t in[UNREAD];
	CHECK(recv_all(fd, in, UNREAD) == UNREAD, "unread bytes beside a child");
	check_pattern(in, UNREAD, 0, 7);
	if (writer == STOPPED)
		kill(pid, SIGCONT);
	if (writer == HALF_CLOSED)
		send_all(fd, "answer to a closed end!!", 24);
	else if (writer != KILLED && writer != CLOSED)
		ask_echo(fd, 20, 500, 3);
	CHECK(reap(kid) == 0, "child");
	close(fd);
	ends(pid);
}

static void to_stream(void)
{
	int fd;
	pid_t pid = prepared(&fd);
	FILE *f = fdopen(fd, "r+");
	static uint8_t in[UNREAD];
	CHECK(f && fread(in, 1, UNREAD, f) == UNREAD, "unread bytes by stdio");
	check_pattern(in, UNREAD, 0, 7);
	if (writer == STOPPED)
		kill(pid, SIGCONT);
	if (writer == KILLED || writer == CLOSED || writer == HALF_CLOSED)
		CHECK(fgetc(f) == EOF, "end by stdio");
	if (writer == HALF_CLOSED)
		send_all(fd, "answer to a closed end!!", 24);
	if (writer == RUNS || writer == STOPPED || writer == HIDDEN)
		ask_echo(fd, 40, 700, 4);
	fclose(f);
	ends(pid);
}

static void to_process(void)
{
	int fd, channel[2];
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, channel), "socketpair");
	enum writer w = writer;
	pid_t kid = child(); /* it exists before the connection */
	if (!kid) {
		char byte, control[CMSG_SPACE(sizeof(int))] = "";
		struct iovec v = {&byte, 1};
		struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
		close(channel[0]);
		CHECK(recvmsg(channel[1], &m, 0) == 1, "recvmsg");
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(int));
		static uint8_t in[UNREAD];
		CHECK(recv_all(fd, in, UNREAD) == UNREAD, "unread bytes after a message");
		check_pattern(in, UNREAD, 0, 7);
		if (w == HALF_CLOSED)
			send_all(fd, "answer to a closed end!!", 24);
		if (w == RUNS || w == STOPPED || w == HIDDEN) {
			CHECK(recv_all(channel[1], &byte, 1) == 1, "go");
			ask_echo(fd, 40, 700, 4);
		} else {
			CHECK(recv(fd, in, 1, 0) == 0, "end after a message");
		}
		exit(0);
	}
	close(channel[1]);
	pid_t pid = prepared(&fd);
	char byte = 'f', control[CMSG_SPACE(sizeof(int))] = "";
	struct iovec v = {&byte, 1};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);
	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(h), &fd, sizeof(int));
	CHECK(sendmsg(channel[0], &m, 0) == 1, "SCM_RIGHTS");
	close(fd);
	nap(10);
	if (writer == STOPPED)
		kill(pid, SIGCONT);
	if (writer == RUNS || writer == STOPPED || writer == HIDDEN)
		send_all(channel[0], "g", 1);
	CHECK(reap(kid) == 0, "receiver");
	close(channel[0]);
	ends(pid);
}

/* send, shutdown, wait for a filter on the other end: nobody but us is there, and we do not move. */
static void filter_of_our_own(bool holds, bool shuts)
{
	int c, s, out[2];
	char b[20];
	pair(&c, &s);
	warm(c, s);
	send_all(c, "for the filter", 14);
	if (shuts)
		CHECK(!shutdown(c, SHUT_WR), "shutdown");
	CHECK(!pipe(out), "pipe");
	pid_t cat = child();
	if (!cat) {
		close(c);
		become_cat(s, out[1]);
	}
	close(out[1]);
	if (!holds)
		close(s);
	if (shuts)
		CHECK(reap(cat) == 0, "filter");
	ssize_t got = 0, k;
	while (got < 14 && (k = read(out[0], b + got, sizeof(b) - (size_t)got)) > 0)
		got += k;
	CHECK(got == 14 && !memcmp(b, "for the filter", 14), "%zd bytes through the filter", got);
	if (!shuts) {
		close(c);
		CHECK(reap(cat) == 0, "filter");
	}
	CHECK(read(out[0], b, 1) == 0, "end of the filter");
	close(out[0]);
	if (shuts)
		close(c);
	if (holds)
		close(s);
}

static void test(void)
{
	for (int w = RUNS; w < WRITERS; w++) {
		writer = (enum writer)w;
		to_filter(false);
		to_filter(true);
		bystander();
		to_stream();
		to_process();
	}
	for (int i = 0; i < 4; i++)
		filter_of_our_own(i & 1, i & 2);
}

/* More than the kernel's buffers take at once, all of it unread; the sender goes on while a filter reads. */
static void large(void)
{
	int c, s, out[2];
	static uint8_t data[65536];
	pair(&c, &s);
	warm(c, s);
	set_nonblocking(c, true);
	uint64_t sent = 0, got = 0;
	for (;;) {
		pattern(data, sizeof(data), sent, 9);
		ssize_t k = send(c, data, sizeof(data), MSG_NOSIGNAL);
		if (k < 0)
			break;
		sent += (uint64_t)k;
	}
	CHECK(errno == EAGAIN && sent > 1u << 20, "full");
	set_nonblocking(c, false);
	CHECK(!pipe(out), "pipe");
	pid_t cat = child();
	if (!cat) {
		close(c);
		become_cat(s, out[1]);
	}
	close(out[1]);
	close(s);
	pid_t more = child();
	if (!more) {
		close(out[0]);
		for (uint64_t at = sent; at < sent + (1u << 20); at += sizeof(data)) {
			pattern(data, sizeof(data), at, 9);
			send_all(c, data, sizeof(data));
		}
		exit(0);
	}
	sent += 1u << 20;
	close(c);
	for (ssize_t k; (k = read(out[0], data, sizeof(data))) > 0; got += (uint64_t)k)
		check_pattern(data, (size_t)k, got, 9);
	CHECK(got == sent, "all came");
	CHECK(reap(more) == 0 && reap(cat) == 0, "children");
	close(out[0]);
}

/* The other end does as it is told. */
static int orders[2];

static void told(int fd)
{
	static uint8_t data[300];
	uint8_t b[100], order;
	prctl(PR_SET_DUMPABLE, 0);
	for (int i = 0; i < 40; i++) {
		CHECK(recv_all(fd, b, 100) == 100, "recv");
		send_all(fd, b, 100);
	}
	pattern(data, sizeof(data), 0, 8);
	send_all(fd, data, sizeof(data));
	CHECK(read(orders[0], &order, 1) == 1, "order");
	if (order == 'r') { /* closes with bytes unread */
		CHECK(ready(fd, POLLIN, 5000) & POLLIN, "bytes to leave unread");
		exit(0);
	}
	if (order == 'w') { /* waits for the other end's reset */
		ssize_t k = recv(fd, b, sizeof(b), 0);
		exit(k < 0 && errno == ECONNRESET ? 0 : 7);
	}
	echo_until_end(fd);
	exit(0);
}

/* A connection with 300 bytes ahead, just before and after the library had to give it up. */
static pid_t given_up(int *ret_fd, int *ret_copy, int *ret_set)
{
	uint8_t out[100], in[100];
	CHECK(!pipe(orders), "pipe");
	pid_t pid = peer(told, ret_fd);
	for (int i = 0; i < 40; i++) {
		pattern(out, 100, i, 5);
		send_all(*ret_fd, out, 100);
		CHECK(recv_all(*ret_fd, in, 100) == 100 && !memcmp(in, out, 100), "echo");
	}
	*ret_copy = dup(*ret_fd);
	*ret_set = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP, .data.u64 = 77};
	CHECK(*ret_copy >= 0 && *ret_set >= 0 && !epoll_ctl(*ret_set, EPOLL_CTL_ADD, *ret_fd, &e), "epoll");
	nap(20);
	int flags = fcntl(*ret_fd, F_GETFL);
	CHECK(!fcntl(*ret_fd, F_SETFL, flags | O_ASYNC) && !fcntl(*ret_fd, F_SETFL, flags), "O_ASYNC");
	CHECK(fcntl(*ret_fd, F_GETFL) == flags, "flags");
	return pid;
}

static void order(char what)
{
	CHECK(write(orders[1], &what, 1) == 1, "order");
}

static void read_ahead(int fd)
{
	uint8_t in[300];
	CHECK(recv_all(fd, in, sizeof(in)) == sizeof(in), "bytes ahead");
	check_pattern(in, sizeof(in), 0, 8);
}

static void after_giving_up(void)
{
	int fd, copy, set;
	char b[10];
	struct epoll_event e;
	for (int end = 0; end < 4; end++) {
		pid_t pid = given_up(&fd, &copy, &set);
		CHECK(epoll_wait(set, &e, 1, 2000) == 1 && e.data.u64 == 77 && e.events & EPOLLIN, "event of the bytes ahead");
		switch (end) {
		case 0: /* goes on by both numbers and in the set */
			read_ahead(copy);
			CHECK(epoll_wait(set, &e, 1, 10) == 0, "no event");
			order('e');
			for (int i = 0; i < 20; i++) {
				send_all(i % 2 ? fd : copy, "question", 8);
				CHECK(epoll_wait(set, &e, 1, 2000) == 1 && e.data.u64 == 77, "event of an answer");
				CHECK(recv_all(i % 2 ? copy : fd, b, 8) == 8 && !memcmp(b, "question", 8), "answer");
			}
			close(copy);
			ask_echo(fd, 20, 5000, 2);
			break;
		case 1: /* half close */
			order('e');
			CHECK(!shutdown(copy, SHUT_WR), "shutdown");
			close(copy);
			read_ahead(fd);
			CHECK(recv(fd, b, 1, 0) == 0, "end");
			break;
		case 2: /* reset by the other end */
			send_all(fd, "unread there", 12);
			order('r');
			CHECK(reap(pid) == 0, "the other end");
			nap(20);
			read_ahead(fd);
			CHECK(recv(fd, b, 1, 0) == -1 && errno == ECONNRESET, "reset");
			close(copy);
			break;
		case 3: /* reset by us: bytes unread */
			order('w');
			close(copy);
			break;
		}
		close(fd);
		close(set);
		if (end != 2)
			CHECK(reap(pid) == 0, "the other end of case %d", end);
		close(orders[0]);
		close(orders[1]);
	}
}

/* Both ends in this process, one of them shut down, the other a stream. */
static void stream_of_our_own(bool shuts)
{
	int c, s;
	char b[20];
	pair(&c, &s);
	warm(c, s);
	send_all(c, "for the stream", 14);
	if (shuts)
		CHECK(!shutdown(c, SHUT_WR), "shutdown");
	FILE *f = fdopen(s, "r+");
	CHECK(f && fread(b, 1, 14, f) == 14 && !memcmp(b, "for the stream", 14), "stream");
	if (shuts)
		CHECK(fgetc(f) == EOF, "end");
	fseek(f, 0, SEEK_CUR);
	CHECK(fputs("answer", f) >= 0 && fflush(f) == 0, "fputs");
	CHECK(recv_all(c, b, 6) == 6 && !memcmp(b, "answer", 6), "answer");
	fclose(f);
	CHECK(recv(c, b, 1, 0) == 0, "end");
	close(c);
}

static void all(void)
{
	test();
	after_giving_up();
	stream_of_our_own(false);
	stream_of_our_own(true);
	large();
}

int main(void)
{
	/* pidfd_getfd is then a question of PR_SET_DUMPABLE, as it is for everybody but root */
	if (geteuid() == 0)
		CHECK(!setresgid(1000, 1000, 1000) && !setresuid(1000, 1000, 1000) && !prctl(PR_SET_DUMPABLE, 1), "an ordinary user");
	return once(all);
}
