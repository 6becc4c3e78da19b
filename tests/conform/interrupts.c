/* A signal in each call that waits, with and without SA_RESTART, by which the kernel's list of calls that are never
 * restarted shows; and siglongjmp out of each of them. */
#include "conform.h"
#include <setjmp.h>
#include <sys/select.h>
#include <sys/time.h>

static int c, s, set, pipes[2], listening;
static char b[10];
static struct iovec v = {b, sizeof(b)};

static ssize_t by_readv(void) { return readv(s, &v, 1); }
static ssize_t by_preadv2(void) { return preadv2(s, &v, 1, -1, 0); }
static ssize_t by_recv(void) { return recv(s, b, 10, 0); }
static ssize_t by_recv_all(void) { return recv(s, b, 4, MSG_WAITALL); }
static ssize_t by_recv_peek(void) { return recv(s, b, 4, MSG_PEEK | MSG_WAITALL); }
static ssize_t by_recvfrom(void) { return recvfrom(s, b, 10, 0, NULL, NULL); }
static ssize_t by_recvmsg(void) { struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1}; return recvmsg(s, &m, 0); }
static ssize_t by_recvmmsg(void) { struct mmsghdr m = {.msg_hdr = {.msg_iov = &v, .msg_iovlen = 1}}; return recvmmsg(s, &m, 1, 0, NULL); }
static ssize_t by_splice(void) { return splice(s, NULL, pipes[1], NULL, 10, 0); }
static ssize_t by_poll(void) { struct pollfd p = {s, POLLIN, 0}; return poll(&p, 1, -1); }
static ssize_t by_ppoll(void) { struct pollfd p = {s, POLLIN, 0}; struct timespec t = {5, 0}; return ppoll(&p, 1, &t, NULL); }
static ssize_t by_select(void) { fd_set r; FD_ZERO(&r); FD_SET(s, &r); return select(s + 1, &r, NULL, NULL, NULL); }
static ssize_t by_pselect(void) { fd_set r; FD_ZERO(&r); FD_SET(s, &r); return pselect(s + 1, &r, NULL, NULL, NULL, NULL); }
static ssize_t by_epoll_wait(void) { struct epoll_event e; return epoll_wait(set, &e, 1, -1); }
static ssize_t by_epoll_pwait(void) { struct epoll_event e; return epoll_pwait(set, &e, 1, 5000, NULL); }
static ssize_t by_epoll_pwait2(void) { struct epoll_event e; struct timespec t = {5, 0}; return epoll_pwait2(set, &e, 1, &t, NULL); }
static ssize_t by_write(void) { return write(c, b, 4); }
static ssize_t by_writev(void) { return writev(c, &v, 1); }
static ssize_t by_send(void) { return send(c, b, 4, 0); }
static ssize_t by_sendmsg(void) { struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1}; return sendmsg(c, &m, 0); }
static ssize_t by_sendmmsg(void) { struct mmsghdr m = {.msg_hdr = {.msg_iov = &v, .msg_iovlen = 1}}; return sendmmsg(c, &m, 1, 0); }
static ssize_t by_accept(void) { return accept(listening, NULL, NULL); }

struct way {
	const char *name;
	ssize_t (*call)(void);
	enum { RECEIVES, WAITS, SENDS, ACCEPTS } kind;
};

static const struct way ways[] = {
    {"readv", by_readv, RECEIVES}, {"preadv2", by_preadv2, RECEIVES}, {"recv", by_recv, RECEIVES},
    {"recv MSG_WAITALL", by_recv_all, RECEIVES}, {"recv MSG_PEEK", by_recv_peek, RECEIVES},
    {"recvfrom", by_recvfrom, RECEIVES}, {"recvmsg", by_recvmsg, RECEIVES}, {"recvmmsg", by_recvmmsg, RECEIVES},
    {"splice", by_splice, RECEIVES}, {"poll", by_poll, WAITS}, {"ppoll", by_ppoll, WAITS}, {"select", by_select, WAITS},
    {"pselect", by_pselect, WAITS}, {"epoll_wait", by_epoll_wait, WAITS}, {"epoll_pwait", by_epoll_pwait, WAITS},
    {"epoll_pwait2", by_epoll_pwait2, WAITS}, {"write", by_write, SENDS}, {"writev", by_writev, SENDS}, {"send", by_send, SENDS},
    {"sendmsg", by_sendmsg, SENDS}, {"sendmmsg", by_sendmmsg, SENDS}, {"accept", by_accept, ACCEPTS},
};

static volatile sig_atomic_t hits;

static void count(int signal_number)
{
	hits++;
}

static void handle(void (*handler)(int), int flags)
{
	struct sigaction a = {.sa_handler = handler, .sa_flags = flags};
	CHECK(!sigaction(SIGUSR1, &a, NULL), "sigaction");
}

static _Atomic size_t queued;

static void fill(void)
{
	static char big[65536];
	for (int i = 0; i < 3; nap(1), i++)
		for (ssize_t k; (k = send(c, big, sizeof(big), MSG_DONTWAIT)) > 0; queued += (size_t)k)
			i = 0;
}

static void drain(void)
{
	static char in[1 << 18];
	while (queued) {
		size_t k = queued < sizeof(in) ? queued : sizeof(in);
		CHECK(recv_all(s, in, k) == k, "drained");
		queued -= k;
	}
}

/* A late acknowledgement may have made room: then the call has sent, and there is more to fill. */
static bool found_room(const struct way *w, ssize_t k)
{
	if (w->kind != SENDS || k <= 0)
		return false;
	queued += w->call == by_sendmmsg ? sizeof(b) : (size_t)k;
	fill();
	return true;
}

/* What the call waits for. */
static void satisfy(const struct way *w)
{
	if (w->kind == SENDS)
		drain();
	else if (w->kind == ACCEPTS)
		close(dial(port_of(listening)));
	else
		send_all(c, "data", 4);
}

struct interruption {
	const struct way *w;
	pthread_t whom;
	_Atomic pid_t begun;
	_Atomic bool over;
	bool restarts;
};

static void *interrupt(void *arg)
{
	struct interruption *i = arg;
	do { /* one that comes before the call has begun interrupts nothing */
		await_sleep(&i->begun);
		if (!i->over)
			pthread_kill(i->whom, SIGUSR1);
		nap(2);
	} while (!i->restarts && !i->over);
	if (i->restarts) {
		nap(4);
		satisfy(i->w);
	}
	return NULL;
}

static void run(const struct way *w, bool restart)
{
	pthread_t t;
	bool restarts = restart && w->kind != WAITS;
	struct interruption i = {.w = w, .whom = pthread_self(), .restarts = restarts};
	queued = 0;
	if (w->kind == SENDS)
		fill();
	handle(count, restart ? SA_RESTART : 0);
	hits = 0;
	CHECK(!pthread_create(&t, NULL, interrupt, &i), "thread");
	i.begun = gettid();
	ssize_t k;
	do {
		errno = 0;
		k = w->call();
	} while (!hits && found_room(w, k));
	int e = errno;
	i.over = true;
	pthread_join(t, NULL);
	if (restarts)
		CHECK(k >= 0 && hits, "%s was not restarted: %zd %s", w->name, k, strerrorname_np(e));
	else
		CHECK(k == -1 && e == EINTR && hits, "%s gave %zd %s", w->name, k, strerrorname_np(e));
	if (w->kind == ACCEPTS) {
		if (restarts)
			close((int)k);
		return;
	}
	if (w->kind == SENDS) {
		if (restarts && w->call == by_sendmmsg)
			k = 10;
		if (!restarts)
			drain();
		else
			CHECK(recv_all(s, b, (size_t)k) == (size_t)k, "what was sent");
	}
	while (recv(s, b, sizeof(b), MSG_DONTWAIT) > 0) {
	}
	if (w->call == by_splice && k > 0)
		CHECK(read(pipes[0], b, 10) == k, "pipe");
	carry(c, s, 500, 0, 1);
	carry(s, c, 500, 0, 2);
}

static sigjmp_buf out;

static void jump(int signal_number)
{
	siglongjmp(out, 1);
}

static void jump_out(const struct way *w)
{
	struct sigaction a = {.sa_handler = jump}, old;
	struct itimerval soon = {{0, 0}, {0, 3000}};
	unsigned rest = alarm(0);
	queued = 0;
	if (w->kind == SENDS)
		fill();
	CHECK(!sigaction(SIGALRM, &a, &old), "sigaction");
	if (!sigsetjmp(out, 1)) {
		setitimer(ITIMER_REAL, &soon, NULL);
		while (found_room(w, w->call())) {
		}
		CHECK(0, "nothing ends this wait but the jump");
	}
	CHECK(!sigaction(SIGALRM, &old, NULL), "sigaction");
	alarm(rest);
	if (w->kind == SENDS)
		drain();
	carry(c, s, 500, 0, 1);
	carry(s, c, 500, 0, 2);
}

static void test(void)
{
	struct epoll_event e = {EPOLLIN, {.u32 = 1}};
	CHECK(!pipe(pipes), "pipe");
	pair(&c, &s);
	listening = listener(4);
	set = epoll_create1(0);
	CHECK(!epoll_ctl(set, EPOLL_CTL_ADD, s, &e), "ADD");
	for (int heated = 0; heated < 2; heated++) {
		if (heated)
			warm(c, s);
		for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
			if ((family != V4 || !heated) && i % 5 != (size_t)family)
				continue;
			run(&ways[i], false);
			run(&ways[i], true);
			jump_out(&ways[i]);
		}
	}
	still_works(c, s);
	close(c);
	close(s);
	close(set);
	close(listening);
	close(pipes[0]);
	close(pipes[1]);
}

int main(void)
{
	return each_family(test);
}
