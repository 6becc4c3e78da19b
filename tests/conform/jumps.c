/* Threads cancelled inside recv, poll and epoll_wait, and siglongjmp out of them: nothing stays locked, no byte is
 * lost, and the connection goes on. */
#include "conform.h"
#include <setjmp.h>
#include <sys/time.h>

static int fd_of_thread, set_of_thread, cleaned;

static void clean(void *arg)
{
	cleaned++;
}

static void *wait_in(void *arg)
{
	char b[10];
	struct pollfd p = {fd_of_thread, POLLIN, 0};
	struct epoll_event e;
	pthread_cleanup_push(clean, NULL);
	switch ((int)(intptr_t)arg) {
	case 0:
		recv(fd_of_thread, b, 10, 0);
		break;
	case 1:
		(void)!read(fd_of_thread, b, 10);
		break;
	case 2:
		poll(&p, 1, -1);
		break;
	default:
		epoll_wait(set_of_thread, &e, 1, -1);
		break;
	}
	pthread_cleanup_pop(0);
	return NULL;
}

static void cancelled(int c, int s)
{
	struct epoll_event e = {EPOLLIN, {.fd = s}};
	fd_of_thread = s;
	set_of_thread = epoll_create1(0);
	CHECK(!epoll_ctl(set_of_thread, EPOLL_CTL_ADD, s, &e), "ADD");
	for (int how = 0; how < 4; how++) {
		pthread_t t;
		void *result;
		cleaned = 0;
		CHECK(!pthread_create(&t, NULL, wait_in, (void *)(intptr_t)how), "thread");
		nap(12);
		CHECK(!pthread_cancel(t) && !pthread_join(t, &result), "cancel");
		CHECK(result == PTHREAD_CANCELED && cleaned == 1, "way %d was not cancelled", how);
		still_works(c, s);
	}
	close(set_of_thread);
}

/* With bytes there, a cancellation point does not throw them away: either it returns them or leaves them. */
static void *take_and_store(void *arg)
{
	char b[4];
	for (int i = 0;; i++) {
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
		ssize_t k = recv(fd_of_thread, b, 4, MSG_WAITALL);
		CHECK(k == 4, "recv");
		pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
		if (!memcmp(b, "stop", 4))
			for (;;)
				pause();
	}
}

static void disabled(int c, int s)
{
	pthread_t t;
	void *result;
	fd_of_thread = s;
	CHECK(!pthread_create(&t, NULL, take_and_store, NULL), "thread");
	for (int i = 0; i < 50; i++)
		send_all(c, "data", 4);
	send_all(c, "stop", 4);
	nap(10);
	CHECK(!pthread_cancel(t) && !pthread_join(t, &result) && result == PTHREAD_CANCELED, "cancel");
	still_works(c, s);
}

static sigjmp_buf out;

static void jump(int signal_number)
{
	siglongjmp(out, 1);
}

static void jumped_out(int c, int s)
{
	struct sigaction a = {.sa_handler = jump}, old;
	struct epoll_event e = {EPOLLIN, {.fd = s}};
	struct pollfd p = {s, POLLIN, 0};
	static char b[10];
	int set = epoll_create1(0);
	unsigned rest = alarm(0);
	CHECK(!epoll_ctl(set, EPOLL_CTL_ADD, s, &e), "ADD");
	CHECK(!sigaction(SIGALRM, &a, &old), "sigaction");
	for (volatile int i = 0; i < 8; i++) {
		struct itimerval soon = {{0, 0}, {0, 8000}};
		if (!sigsetjmp(out, 1)) {
			setitimer(ITIMER_REAL, &soon, NULL);
			if (i % 4 == 0)
				recv(s, b, 10, 0);
			else if (i % 4 == 1)
				poll(&p, 1, -1);
			else if (i % 4 == 2)
				epoll_wait(set, &e, 1, -1);
			else
				(void)!read(s, b, 10);
			CHECK(0, "nothing ends this wait but the jump");
		}
		still_works(c, s);
	}
	CHECK(!sigaction(SIGALRM, &old, NULL), "sigaction");
	alarm(rest);
	close(set);
}

static void test(void)
{
	int c, s;
	pair(&c, &s);
	cancelled(c, s);
	warm(c, s);
	cancelled(c, s);
	disabled(c, s);
	jumped_out(c, s);
	jumped_out(s, c);
	still_works(c, s);
	close(c);
	close(s);
}

int main(void)
{
	return each_family(test);
}
