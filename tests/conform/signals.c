/* SIGPIPE, EINTR with and without SA_RESTART in every blocking call, signal masks of the p-calls, handlers that do
 * I/O on the connection they interrupted. */
#include "conform.h"
#include <sys/select.h>

static volatile sig_atomic_t hits;

static void count(int signal_number)
{
	hits++;
}

static void handle(int signal_number, void (*handler)(int), int flags)
{
	struct sigaction a = {.sa_handler = handler, .sa_flags = flags};
	CHECK(!sigaction(signal_number, &a, NULL), "sigaction");
}

static void broken_pipe(void)
{
	static char b[10];
	struct iovec v = {b, 10};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
	for (int how = 0; how < 6; how++) {
		int c, s;
		pair(&c, &s);
		warm(c, s);
		CHECK(!shutdown(c, SHUT_WR), "shutdown");
		hits = 0;
		handle(SIGPIPE, count, 0);
		ssize_t k = how == 0   ? write(c, b, 10)
			    : how == 1 ? writev(c, &v, 1)
			    : how == 2 ? send(c, b, 10, 0)
			    : how == 3 ? sendmsg(c, &m, 0)
			    : how == 4 ? send(c, b, 10, MSG_NOSIGNAL)
				       : sendmsg(c, &m, MSG_NOSIGNAL);
		CHECK(k == -1 && errno == EPIPE, "way %d", how);
		CHECK(hits == (how < 4), "way %d raised SIGPIPE %d times", how, (int)hits);
		handle(SIGPIPE, SIG_IGN, 0);
		CHECK(write(c, b, 10) == -1 && errno == EPIPE, "SIGPIPE ignored");
		close(c);
		close(s);
	}
	handle(SIGPIPE, SIG_DFL, 0);
	pid_t pid = child();
	if (!pid) {
		int c, s;
		pair(&c, &s);
		warm(c, s);
		shutdown(c, SHUT_WR);
		(void)!write(c, "x", 1);
		_exit(0);
	}
	CHECK(reap(pid) == 128 + SIGPIPE, "SIGPIPE kills by default");
}

struct later {
	pthread_t whom;
	int fd;
	bool until_seen; /* a signal that comes before the call has begun interrupts nothing: send more */
	_Atomic bool seen;
};

/* Signals first, bytes a moment after them. */
static void *interrupt(void *arg)
{
	struct later *l = arg;
	do {
		nap(15);
		pthread_kill(l->whom, SIGUSR1);
	} while (l->until_seen && !l->seen);
	nap(15);
	send_all(l->fd, "data", 4);
	return NULL;
}

static int wait_by(int how, int fd, int set)
{
	char b[10];
	struct pollfd p = {fd, POLLIN, 0};
	struct epoll_event e;
	struct timespec t = {3, 0};
	fd_set r;
	struct iovec v = {b, 10};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
	FD_ZERO(&r);
	FD_SET(fd, &r);
	switch (how) {
	case 0:
		return (int)recv(fd, b, 10, 0);
	case 1:
		return (int)read(fd, b, 10);
	case 2:
		return (int)recvmsg(fd, &m, 0);
	case 3:
		return poll(&p, 1, 3000);
	case 4:
		return ppoll(&p, 1, &t, NULL);
	case 5:
		return select(fd + 1, &r, NULL, NULL, NULL);
	case 6:
		return pselect(fd + 1, &r, NULL, NULL, &t, NULL);
	case 7:
		return epoll_wait(set, &e, 1, 3000);
	default:
		return epoll_pwait(set, &e, 1, -1, NULL);
	}
}

/* SA_RESTART restarts recv and its like, never poll and its like. */
static void interrupted(int c, int s, bool restart)
{
	char b[10];
	for (int how = 0; how < 9; how++) {
		int set = epoll_create1(0);
		struct epoll_event e = {EPOLLIN, {.fd = s}};
		CHECK(!epoll_ctl(set, EPOLL_CTL_ADD, s, &e), "ADD");
		handle(SIGUSR1, count, restart ? SA_RESTART : 0);
		hits = 0;
		pthread_t t;
		struct later l = {pthread_self(), c, !(how < 3 && restart), false};
		CHECK(!pthread_create(&t, NULL, interrupt, &l), "thread");
		int n = wait_by(how, s, set), e_of_call = errno;
		l.seen = true;
		if (how < 3 && restart)
			CHECK(n == 4 && hits == 1, "call %d was not restarted: %d", how, n);
		else
			CHECK(n == -1 && e_of_call == EINTR && hits >= 1, "call %d gave %d", how, n);
		pthread_join(t, NULL);
		if (!(how < 3 && restart))
			CHECK(recv_all(s, b, 4) == 4, "the bytes are not lost");
		close(set);
	}
}

/* A timeout on the socket makes even SA_RESTART end with EINTR. */
static void with_time_limit(int c, int s)
{
	struct timeval limit = {2, 0}, none = {0, 0};
	char b[10];
	CHECK(!setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), "SO_RCVTIMEO");
	handle(SIGUSR1, count, SA_RESTART);
	pthread_t t;
	struct later l = {pthread_self(), c, true, false};
	CHECK(!pthread_create(&t, NULL, interrupt, &l), "thread");
	ssize_t k;
	do
		k = recv(s, b, 10, 0);
	while (k == -1 && errno == EAGAIN); /* a machine that slow may meet the limit first */
	CHECK(k == -1 && errno == EINTR, "recv with a time limit");
	l.seen = true;
	pthread_join(t, NULL);
	CHECK(recv_all(s, b, 4) == 4, "bytes");
	CHECK(!setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof(none)), "SO_RCVTIMEO");
}

/* A blocked signal that the p-call lets through ends it at once, and only then. */
static void masks(int c, int s)
{
	sigset_t block, old, open_mask;
	struct pollfd p = {s, POLLIN, 0};
	struct epoll_event e = {EPOLLIN, {.fd = s}};
	int set = epoll_create1(0);
	CHECK(!epoll_ctl(set, EPOLL_CTL_ADD, s, &e), "ADD");
	sigemptyset(&block);
	sigaddset(&block, SIGUSR1);
	handle(SIGUSR1, count, 0);
	CHECK(!pthread_sigmask(SIG_BLOCK, &block, &old), "mask");
	open_mask = old;
	sigdelset(&open_mask, SIGUSR1);
	for (int how = 0; how < 3; how++) {
		hits = 0;
		raise(SIGUSR1);
		CHECK(poll(&p, 1, 5) == 0 && hits == 0, "blocked: poll does not see it");
		struct timespec t = {2, 0};
		fd_set r;
		FD_ZERO(&r);
		FD_SET(s, &r);
		int n = how == 0   ? ppoll(&p, 1, &t, &open_mask)
			: how == 1 ? epoll_pwait(set, &e, 1, 2000, &open_mask)
				   : pselect(s + 1, &r, NULL, NULL, &t, &open_mask);
		CHECK(n == -1 && errno == EINTR && hits == 1, "way %d: %d, handler %d times", how, n, (int)hits);
	}
	CHECK(!pthread_sigmask(SIG_SETMASK, &old, NULL), "mask");
	close(set);
	still_works(c, s);
}

static int handler_fd;

static void write_from_handler(int signal_number)
{
	int e = errno;
	hits++;
	(void)!write(handler_fd, "h", 1);
	errno = e;
}

/* A timer's handler writes one byte at a time on the connection whose other direction the program uses. */
static void input_output_in_handler(int c, int s)
{
	handler_fd = s;
	hits = 0;
	handle(SIGALRM, write_from_handler, SA_RESTART);
	struct timespec from_now = {0, 200000};
	timer_t timer;
	struct sigevent ev = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
	struct itimerspec every = {from_now, from_now};
	unsigned rest = alarm(0);
	CHECK(!timer_create(CLOCK_MONOTONIC, &ev, &timer) && !timer_settime(timer, 0, &every, NULL), "timer");
	for (unsigned i = 0; i < 300 || hits < 20; i++)
		carry(c, s, 700, i * 700, 8);
	CHECK(!timer_delete(timer), "timer");
	handle(SIGALRM, SIG_DFL, 0);
	alarm(rest);
	for (int i = 0; i < hits; i++) {
		char b;
		CHECK(recv(c, &b, 1, 0) == 1 && b == 'h', "byte %d of the handler", i);
	}
	char b;
	CHECK(recv(c, &b, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN, "one byte a signal");
}

static void test(void)
{
	int c, s;
	broken_pipe();
	pair(&c, &s);
	if (family == V4) {
		interrupted(c, s, false);
		warm(c, s);
		interrupted(c, s, false);
	} else {
		warm(c, s);
	}
	if (family != V6)
		interrupted(c, s, true);
	with_time_limit(c, s);
	masks(c, s);
	input_output_in_handler(c, s);
	still_works(c, s);
	close(c);
	close(s);
}

int main(void)
{
	return each_family(test);
}
