/* close and shutdown while another thread is inside recv, poll, epoll_wait or accept on the same descriptor. */
#include "conform.h"

static int fd_of_thread;
static _Atomic pid_t begun;
static char got[100];

static void *receive(void *arg)
{
	memset(got, 0, sizeof(got));
	begun = gettid();
	return (void *)(intptr_t)recv(fd_of_thread, got, sizeof(got), 0);
}

static void *watch(void *arg)
{
	begun = gettid();
	return (void *)(intptr_t)ready(fd_of_thread, POLLIN, 3000);
}

static void *take_one(void *arg)
{
	begun = gettid();
	int fd = accept(fd_of_thread, NULL, NULL);
	return (void *)(intptr_t)(fd < 0 ? -errno : fd);
}

static long run_while(void *(*body)(void *), int fd, void (*meanwhile)(int fd, int other), int other)
{
	pthread_t t;
	void *result;
	fd_of_thread = fd;
	begun = 0;
	CHECK(!pthread_create(&t, NULL, body, NULL), "thread");
	await_sleep(&begun);
	meanwhile(fd, other);
	pthread_join(t, &result);
	return (long)(intptr_t)result;
}

/* Linux keeps the open file for the call inside it: bytes that arrive after close still come to it. */
static void close_then_send(int fd, int other)
{
	close(fd);
	nap(10);
	send_all(other, "late", 4);
}

static void shut_read(int fd, int other)
{
	CHECK(!shutdown(fd, SHUT_RD), "shutdown");
}

static void shut_both(int fd, int other)
{
	CHECK(!shutdown(fd, SHUT_RDWR), "shutdown");
}

static void peer_closes(int fd, int other)
{
	close(other);
}

static void peer_sends(int fd, int other)
{
	send_all(other, "bytes", 5);
}

static void test(void)
{
	for (int heated = 0; heated < 2; heated++) {
		int c, s;
		pair(&c, &s);
		if (heated)
			warm(c, s);
		CHECK(run_while(receive, s, peer_sends, c) == 5 && !memcmp(got, "bytes", 5), "recv during send");
		CHECK(run_while(receive, s, close_then_send, c) == 4 && !memcmp(got, "late", 4), "recv across close");
		CHECK((ready(c, POLLIN, 1000) & POLLIN), "end of stream after the call had ended");
		CHECK(recv(s, got, 1, 0) == -1 && errno == EBADF, "the number is closed");
		close(c);

		pair(&c, &s);
		if (heated)
			warm(c, s);
		CHECK(run_while(receive, s, shut_read, c) == 0, "SHUT_RD ends recv");
		CHECK(recv(s, got, 1, 0) == 0, "and every later one");
		carry(s, c, 100, 0, 1);
		close(c);
		close(s);

		pair(&c, &s);
		if (heated)
			warm(c, s);
		CHECK(run_while(watch, s, shut_both, c) & POLLIN, "SHUT_RDWR ends poll");
		CHECK(recv(c, got, 1, 0) == 0, "the peer sees the end");
		close(c);
		close(s);

		pair(&c, &s);
		if (heated)
			warm(c, s);
		CHECK(run_while(receive, s, peer_closes, c) == 0, "close of the peer ends recv");
		close(s);

		pair(&c, &s);
		if (heated)
			warm(c, s);
		CHECK(run_while(watch, s, peer_closes, c) & POLLIN, "close of the peer ends poll");
		close(s);
	}
	int l = listener(4);
	CHECK(run_while(take_one, l, shut_both, -1) == -EINVAL, "shutdown of a listener ends accept");
	close(l);
}

int main(void)
{
	return each_family(test);
}
