/* Calls that never return: jumped out of from a handler (on the thread's stack or one of its own, out of one handler
 * into another), cancelled, ended by pthread_exit. Whoever uses the connection next finds it as if the call had not
 * been made. */
#include "conform.h"
#include <setjmp.h>
#include <sys/time.h>

static sigjmp_buf outside, inside;
static volatile int interrupted;

static void much(int c, int s)
{
	for (unsigned i = 0; i < 6; i++) {
		carry(c, s, 30000, i * 30000, 1);
		carry(s, c, 30000, i * 30000, 2);
	}
}

static void soon(void)
{
	struct itimerval t = {{0, 0}, {0, 6000}};
	CHECK(!setitimer(ITIMER_REAL, &t, NULL), "setitimer");
}

static void wait_by(int how, int fd)
{
	char b[10];
	struct pollfd p = {fd, POLLIN, 0};
	struct epoll_event e = {EPOLLIN, {.fd = fd}};
	fd_set set;
	int ep;
	switch (how) {
	case 0:
		recv(fd, b, 10, 0);
		break;
	case 1:
		poll(&p, 1, -1);
		break;
	case 2:
		FD_ZERO(&set);
		FD_SET(fd, &set);
		select(fd + 1, &set, NULL, NULL, NULL);
		break;
	default:
		ep = epoll_create1(0);
		CHECK(!epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e), "ADD");
		epoll_wait(ep, &e, 1, -1);
		close(ep);
		break;
	}
}

enum { WAYS = 4 };

static void out(int signal_number)
{
	siglongjmp(outside, 1);
}

static void on(int signal_number, void (*handler)(int), int flags)
{
	struct sigaction a = {.sa_handler = handler, .sa_flags = flags};
	sigemptyset(&a.sa_mask);
	CHECK(!sigaction(signal_number, &a, NULL), "sigaction");
}

/* Deeper than the frame that jumped: what is below the wait may not look like a call that is still inside. */
static __attribute__((noinline)) void much_deeper(int c, int s)
{
	volatile char room[3000];
	room[0] = room[2999] = 1;
	much(c, s);
}

static void jumps(bool own_stack)
{
	static char stack[64 * 1024];
	stack_t new = {.ss_sp = stack, .ss_size = sizeof(stack)}, none = {.ss_flags = SS_DISABLE};
	if (own_stack)
		CHECK(!sigaltstack(&new, NULL), "sigaltstack");
	on(SIGALRM, out, own_stack ? SA_ONSTACK : 0);
	for (volatile int how = 0; how < WAYS; how++) {
		static int c, s;
		pair(&c, &s);
		for (volatile int end = 0; end < 2; end++) {
			if (!sigsetjmp(outside, 1)) {
				soon();
				wait_by(how, end ? c : s);
				CHECK(0, "way %d ended by itself", how);
			}
		}
		much_deeper(c, s);
		close(c);
		close(s);
	}
	if (own_stack)
		CHECK(!sigaltstack(&none, NULL), "sigaltstack");
}

/* The outer handler interrupts a recv; inside it another wait is jumped out of, and only that one. */
static int other;

static void jump_inside(int signal_number)
{
	siglongjmp(inside, 1);
}

static void wait_again(int signal_number)
{
	char b[10];
	on(SIGALRM, jump_inside, 0);
	if (!sigsetjmp(inside, 1)) {
		sigset_t alone;
		sigemptyset(&alone);
		sigaddset(&alone, SIGALRM);
		CHECK(!sigprocmask(SIG_UNBLOCK, &alone, NULL), "mask");
		soon();
		recv(other, b, 10, 0);
		CHECK(0, "the inner wait ended by itself");
	}
	interrupted++;
}

static void *send_later(void *arg)
{
	sigset_t all;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	while (!interrupted)
		nap(1);
	nap(5);
	send_all((int)(intptr_t)arg, "outer", 5);
	return NULL;
}

static void nested(void)
{
	int c, s, oc;
	char b[10];
	pthread_t t;
	pair(&c, &s);
	pair(&oc, &other);
	interrupted = 0;
	on(SIGALRM, wait_again, SA_RESTART);
	CHECK(!pthread_create(&t, NULL, send_later, (void *)(intptr_t)c), "thread");
	soon();
	CHECK(recv(s, b, 10, 0) == 5 && !memcmp(b, "outer", 5), "the outer wait went on");
	CHECK(interrupted == 1, "handlers: %d", interrupted);
	pthread_join(t, NULL);
	much(c, s);
	much(oc, other);
	close(c);
	close(s);
	close(oc);
	close(other);
}

static int how_of_thread;

static void leave_thread(int signal_number)
{
	pthread_exit((void *)3);
}

static void *wait_in_thread(void *arg)
{
	wait_by(how_of_thread, (int)(intptr_t)arg);
	return NULL;
}

static void threads(bool cancel)
{
	on(SIGUSR1, leave_thread, 0);
	for (how_of_thread = 0; how_of_thread < WAYS; how_of_thread++) {
		int c, s;
		pthread_t t;
		void *result;
		pair(&c, &s);
		CHECK(!pthread_create(&t, NULL, wait_in_thread, (void *)(intptr_t)s), "thread");
		nap(15);
		CHECK(cancel ? !pthread_cancel(t) : !pthread_kill(t, SIGUSR1), "end of thread");
		CHECK(!pthread_join(t, &result) && result == (cancel ? PTHREAD_CANCELED : (void *)3), "way %d", how_of_thread);
		much(c, s);
		close(s);
		CHECK(recv(c, &t, 1, 0) == 0, "the closed socket is not held by the call that never returned");
		close(c);
	}
}

/* A loop of calls that never have to wait ends by cancellation too. */
static int loop_end;

static void *loop(void *arg)
{
	char b[64] = {0};
	for (;;) {
		send(loop_end, b, sizeof(b), MSG_NOSIGNAL);
		recv((int)(intptr_t)arg, b, sizeof(b), 0);
	}
	return NULL;
}

static void cancelled_at_work(void)
{
	int c, s;
	pthread_t t;
	void *result;
	pair(&c, &s);
	loop_end = c;
	CHECK(!pthread_create(&t, NULL, loop, (void *)(intptr_t)s), "thread");
	nap(20);
	CHECK(!pthread_cancel(t) && !pthread_join(t, &result) && result == PTHREAD_CANCELED, "cancel");
	close(c);
	close(s);
}

/* One-shot handlers, and one that the mask keeps for later. */
static volatile int shots;

static void count(int signal_number)
{
	shots++;
}

/* Programs of today still call it. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static int restarts_not(int signal_number, int on)
{
	return siginterrupt(signal_number, on);
}

static void one_shot(void)
{
	int c, s;
	struct sigaction now;
	sigset_t usr1, before;
	pair(&c, &s);
	shots = 0;
	on(SIGUSR1, count, SA_RESETHAND);
	CHECK(!raise(SIGUSR1) && shots == 1, "shot");
	CHECK(!sigaction(SIGUSR1, NULL, &now) && now.sa_handler == SIG_DFL, "only once");
	CHECK(signal(SIGUSR1, count) == SIG_DFL && signal(SIGUSR1, count) == count, "signal tells the last one");
	CHECK(!restarts_not(SIGUSR1, 1) && !sigaction(SIGUSR1, NULL, &now) && !(now.sa_flags & SA_RESTART), "siginterrupt");
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	CHECK(!sigprocmask(SIG_BLOCK, &usr1, &before), "block");
	raise(SIGUSR1);
	much(c, s);
	CHECK(shots == 1, "it waits");
	CHECK(!sigprocmask(SIG_SETMASK, &before, &usr1) && sigismember(&usr1, SIGUSR1), "the mask is as it was left");
	CHECK(shots == 2, "it came");
	CHECK(!restarts_not(SIGUSR1, 0), "siginterrupt");
	close(c);
	close(s);
}

static void test(void)
{
	jumps(false);
	jumps(true);
	one_shot();
	if (family != V4) /* the first round has one thread only */
		nested();
	threads(true);
	threads(false);
	cancelled_at_work();
	on(SIGALRM, SIG_DFL, 0);
	alarm(12);
}

int main(void)
{
	return each_family(test);
}
