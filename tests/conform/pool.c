/* A pool of threads as database servers have it: one sleeps in the set, the others serve what it was told of, look into the
 * same set without waiting, and arm the one-shot member again. Whoever sleeps hears of the next request. */
#include "conform.h"
#include <semaphore.h>

static int set, stop[2];
static sem_t told;

static void *sleeper(void *arg)
{
	(void)arg;
	for (;;) {
		struct epoll_event e;
		int n = epoll_wait(set, &e, 1, -1);
		CHECK(n == 1, "epoll_wait: %d", n);
		if (e.data.fd == stop[0])
			return NULL;
		CHECK(e.events == EPOLLIN, "events %x", e.events);
		sem_post(&told);
	}
}

static void conversation(void)
{
	int c, s;
	struct epoll_event e = {.events = EPOLLIN}, none[4];
	pthread_t t;
	pair(&c, &s);
	set = epoll_create1(EPOLL_CLOEXEC);
	CHECK(set >= 0 && !pipe(stop), "set");
	e.data.fd = stop[0];
	CHECK(!epoll_ctl(set, EPOLL_CTL_ADD, stop[0], &e), "add");
	e = (struct epoll_event){.events = EPOLLIN | EPOLLET | EPOLLRDHUP | EPOLLONESHOT, .data.fd = s};
	CHECK(!epoll_ctl(set, EPOLL_CTL_ADD, s, &e), "add");
	CHECK(!pthread_create(&t, NULL, sleeper, NULL), "thread");
	for (unsigned i = 0; i < 10; i++) {
		struct timespec until;
		char b[200];
		pattern(b, sizeof(b), i * 200, 1);
		send_all(c, b, sizeof(b));
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec += 5;
		CHECK(!sem_timedwait(&told, &until), "request %u was not told", i);
		if (i < 5)
			nap(1); /* it sleeps again before this receive moves the connection */
		CHECK(recv_all(s, b, sizeof(b)) == sizeof(b), "recv");
		CHECK(epoll_wait(set, none, 4, 0) == 0, "the member is not armed");
		check_pattern(b, sizeof(b), i * 200, 1);
		send_all(s, b, sizeof(b));
		CHECK(epoll_wait(set, none, 4, 0) == 0, "the member is not armed");
		CHECK(!epoll_ctl(set, EPOLL_CTL_MOD, s, &e), "arm");
		CHECK(epoll_wait(set, none, 4, 0) == 0, "there is no request");
		CHECK(recv_all(c, b, sizeof(b)) == sizeof(b), "answer");
	}
	CHECK(write(stop[1], "", 1) == 1, "stop");
	pthread_join(t, NULL);
	close(c);
	close(s);
	close(set);
	close(stop[0]);
	close(stop[1]);
}

static void test(void)
{
	for (int i = 0; i < 25; i++)
		conversation();
}

int main(void)
{
	CHECK(!sem_init(&told, 0, 0), "semaphore");
	return each_family(test);
}
