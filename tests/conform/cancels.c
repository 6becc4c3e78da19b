/* pthread_cancel at each call: of a thread that waits inside it, and of one that is cancelled before it calls while the
 * call has something to do at once: nothing is taken or sent then, and nothing stays locked. */
#include "conform.h"
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>

static int c, s, set, full, pipes[2], listening;
static char b[10];

struct way {
	const char *name;
	void (*call)(void);
	bool sends; /* waits for room; else for bytes */
};

static struct iovec v = {b, sizeof(b)};
static struct pollfd p;
static fd_set r;

static void by_read(void) { (void)!read(s, b, 10); }
static void by_readv(void) { (void)!readv(s, &v, 1); }
static void by_preadv2(void) { (void)!preadv2(s, &v, 1, -1, 0); }
static void by_recv(void) { recv(s, b, 10, 0); }
static void by_recv_all(void) { recv(s, b, 10, MSG_WAITALL); }
static void by_recv_peek(void) { recv(s, b, 10, MSG_PEEK); }
static void by_recvfrom(void) { recvfrom(s, b, 10, 0, NULL, NULL); }
static void by_recvmsg(void) { struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1}; recvmsg(s, &m, 0); }
static void by_recvmmsg(void) { struct mmsghdr m = {.msg_hdr = {.msg_iov = &v, .msg_iovlen = 1}}; recvmmsg(s, &m, 1, 0, NULL); }
static void by_poll(void) { poll(&p, 1, -1); }
static void by_ppoll(void) { ppoll(&p, 1, NULL, NULL); }
static void by_select(void) { select(s + 1, &r, NULL, NULL, NULL); }
static void by_pselect(void) { pselect(s + 1, &r, NULL, NULL, NULL, NULL); }
static void by_epoll_wait(void) { struct epoll_event e; epoll_wait(set, &e, 1, -1); }
static void by_epoll_pwait(void) { struct epoll_event e; epoll_pwait(set, &e, 1, -1, NULL); }
static void by_epoll_pwait2(void) { struct epoll_event e; epoll_pwait2(set, &e, 1, NULL, NULL); }
static void by_splice_out(void) { splice(s, NULL, pipes[1], NULL, 10, 0); }
/* Again and again: a late acknowledgement may make room for one. */
static _Atomic size_t late;
static void by_write(void) { while (write(full, b, 10) == 10) late += 10; }
static void by_writev(void) { while (writev(full, &v, 1) == 10) late += 10; }
static void by_pwritev2(void) { while (pwritev2(full, &v, 1, -1, 0) == 10) late += 10; }
static void by_send(void) { while (send(full, b, 10, 0) == 10) late += 10; }
static void by_sendto(void) { while (sendto(full, b, 10, 0, NULL, 0) == 10) late += 10; }
static void by_sendmsg(void) { struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1}; while (sendmsg(full, &m, 0) == 10) late += 10; }
static void by_sendmmsg(void) { struct mmsghdr m = {.msg_hdr = {.msg_iov = &v, .msg_iovlen = 1}}; while (sendmmsg(full, &m, 1, 0) == 1) late += 10; }

static const struct way ways[] = {
    {"read", by_read, false}, {"readv", by_readv, false}, {"preadv2", by_preadv2, false}, {"recv", by_recv, false},
    {"recv MSG_WAITALL", by_recv_all, false}, {"recv MSG_PEEK", by_recv_peek, false}, {"recvfrom", by_recvfrom, false},
    {"recvmsg", by_recvmsg, false}, {"recvmmsg", by_recvmmsg, false}, {"poll", by_poll, false}, {"ppoll", by_ppoll, false},
    {"select", by_select, false}, {"pselect", by_pselect, false}, {"epoll_wait", by_epoll_wait, false},
    {"epoll_pwait", by_epoll_pwait, false}, {"epoll_pwait2", by_epoll_pwait2, false}, {"splice", by_splice_out, false},
    {"write", by_write, true}, {"writev", by_writev, true}, {"pwritev2", by_pwritev2, true}, {"send", by_send, true},
    {"sendto", by_sendto, true}, {"sendmsg", by_sendmsg, true}, {"sendmmsg", by_sendmmsg, true},
};

static _Atomic pid_t begun;
static int cleaned, returned;

static void clean(void *arg)
{
	cleaned++;
}

static void *inside(void *arg)
{
	const struct way *w = arg;
	pthread_cleanup_push(clean, NULL);
	begun = gettid();
	w->call();
	returned++;
	pthread_cleanup_pop(0);
	return NULL;
}

static void *cancelled_before(void *arg)
{
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	pthread_cancel(pthread_self());
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL); /* no cancellation point */
	return inside(arg);
}

static void run(const struct way *w, void *(*body)(void *), bool early)
{
	pthread_t t;
	void *result;
	begun = 0;
	cleaned = returned = 0;
	CHECK(!pthread_create(&t, NULL, body, (void *)w), "thread");
	if (!early) {
		await_sleep(&begun);
		CHECK(!pthread_cancel(t), "pthread_cancel");
	}
	CHECK(!pthread_join(t, &result), "join");
	CHECK(result == PTHREAD_CANCELED && cleaned == 1 && !returned, "%s was not cancelled %s", w->name, early ? "at its begin" : "inside");
}

static size_t fill(int fd)
{
	static char big[65536];
	size_t n = 0;
	for (int i = 0; i < 3; nap(2), i++)
		for (ssize_t k; (k = send(fd, big, sizeof(big), MSG_DONTWAIT)) > 0; n += (size_t)k)
			i = 0;
	return n;
}

static void drain(int fd, size_t n)
{
	static char in[1 << 18];
	while (n) {
		size_t k = n < sizeof(in) ? n : sizeof(in);
		CHECK(recv_all(fd, in, k) == k, "drained");
		n -= k;
	}
	CHECK(recv(fd, in, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN, "a byte that a cancelled call sent");
}

static void each_call(int first, int step)
{
	struct epoll_event e = {EPOLLIN, {.fd = s}};
	p = (struct pollfd){s, POLLIN, 0};
	for (int i = first; i < (int)ARRAY_SIZE(ways); i += step) {
		const struct way *w = &ways[i];
		FD_ZERO(&r);
		FD_SET(s, &r);
		set = epoll_create1(0);
		CHECK(!epoll_ctl(set, EPOLL_CTL_ADD, s, &e), "ADD");
		full = c;
		size_t n = w->sends ? fill(c) : 0;
		late = 0;
		run(w, inside, false);
		if (w->sends) {
			drain(s, n + late);
			run(w, cancelled_before, true);
			CHECK(recv(s, b, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN, "%s sent a byte", w->name);
		} else {
			send_all(c, "12345678", 8);
			CHECK(ready(s, POLLIN, 1000), "arrived");
			run(w, cancelled_before, true);
			CHECK(recv(s, b, 10, 0) == 8 && !memcmp(b, "12345678", 8), "%s took bytes", w->name);
		}
		close(set);
		carry(c, s, 900, 0, 1);
		carry(s, c, 900, 0, 2);
	}
}

/* Calls that are no cancellation points return, however long ago the thread was cancelled. */
static void *no_points(void *arg)
{
	int v1 = 1, n = 0, file = *(int *)arg;
	socklen_t size = sizeof(v1);
	struct sockaddr_storage at;
	struct epoll_event e = {EPOLLIN, {.fd = s}};
	off_t from = 0;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	pthread_cancel(pthread_self());
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	CHECK(sendfile(c, file, &from, 10) == 10, "sendfile");
	CHECK(!setsockopt(s, SOL_SOCKET, SO_KEEPALIVE, &v1, sizeof(v1)) && !getsockopt(s, SOL_SOCKET, SO_KEEPALIVE, &v1, &size), "options");
	CHECK(!setsockopt(s, SOL_SOCKET, SO_RCVBUF, &(int){100000}, sizeof(int)), "SO_RCVBUF");
	CHECK(!ioctl(s, FIONREAD, &n) && !ioctl(s, FIONBIO, &(int){0}), "ioctl");
	size = sizeof(at);
	CHECK(!getsockname(s, (struct sockaddr *)&at, &size) && !getpeername(s, (struct sockaddr *)&at, &size), "names");
	CHECK(fcntl(s, F_GETFL) >= 0 && !fcntl(s, F_SETFL, O_RDWR), "fcntl");
	int copy = dup(s), other = fcntl(s, F_DUPFD_CLOEXEC, 0), made = epoll_create1(0), fresh = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(copy >= 0 && other >= 0 && made >= 0 && fresh >= 0 && dup2(s, copy) == copy, "numbers");
	CHECK(!epoll_ctl(made, EPOLL_CTL_ADD, s, &e) && !epoll_ctl(made, EPOLL_CTL_DEL, s, NULL), "epoll_ctl");
	CHECK(!listen(fresh, 1), "listen");
	CHECK(!shutdown(s, SHUT_WR), "shutdown");
	pid_t pid = fork();
	if (!pid)
		_exit(0);
	CHECK(pid > 0, "fork");
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	for (int i = 0; i < 4; i++)
		close((int[]){copy, other, made, fresh}[i]);
	CHECK(reap(pid) == 0, "child");
	returned++;
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	pthread_testcancel();
	return NULL;
}

static void none_cancelled(void)
{
	pthread_t t;
	void *result;
	int file = memfd_create("file", 0);
	CHECK(write(file, "0123456789", 10) == 10, "file");
	returned = 0;
	CHECK(!pthread_create(&t, NULL, no_points, &file) && !pthread_join(t, &result), "thread");
	CHECK(result == PTHREAD_CANCELED && returned == 1, "cancelled in a call that is no such point");
	CHECK(recv_all(s, b, 10) == 10 && recv(c, b, 1, 0) == 0, "bytes and end");
	close(file);
}

/* accept, connect and close are such points too. */
static void *accepts(void *arg)
{
	pthread_cleanup_push(clean, NULL);
	begun = gettid();
	if (arg)
		accept4(listening, NULL, NULL, SOCK_CLOEXEC);
	else
		accept(listening, NULL, NULL);
	pthread_cleanup_pop(0);
	return NULL;
}

static void listener_cancelled(void)
{
	listening = listener(4);
	for (int i = 0; i < 2; i++) {
		pthread_t t;
		void *result;
		begun = 0;
		cleaned = 0;
		CHECK(!pthread_create(&t, NULL, accepts, i ? &listening : NULL), "thread");
		await_sleep(&begun);
		CHECK(!pthread_cancel(t) && !pthread_join(t, &result) && result == PTHREAD_CANCELED && cleaned == 1, "accept");
		int a = dial(port_of(listening)), d = take(listening);
		warm(a, d);
		close(a);
		close(d);
	}
	close(listening);
}

static void test(void)
{
	CHECK(!pipe(pipes), "pipe");
	int step = family == V4 ? 1 : 3;
	pair(&c, &s);
	each_call(family == V4 ? 0 : 1, step == 1 ? 2 : 5);
	warm(c, s);
	each_call(0, step);
	still_works(c, s);
	none_cancelled();
	close(c);
	close(s);
	listener_cancelled();
	close(pipes[0]);
	close(pipes[1]);
}

int main(void)
{
	return each_family(test);
}
