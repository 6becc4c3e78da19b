/* SO_LINGER in each form at both ends, with bytes unread or unsent, by close, exit and shutdown; ends that come at once
 * from both sides; a reset that comes behind a half close and a half close that is answered by one. */
#include "conform.h"

static int c, s;
static char b[100];

static void linger(int fd, int on, int seconds)
{
	struct linger l = {on, seconds}, back = {-1, -1};
	socklen_t n = sizeof(back);
	CHECK(!setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l)), "SO_LINGER");
	CHECK(!getsockopt(fd, SOL_SOCKET, SO_LINGER, &back, &n) && back.l_onoff == on && back.l_linger == seconds, "SO_LINGER reads back");
}

static const char *what(ssize_t k)
{
	return k >= 0 ? k ? "bytes" : "end" : strerrorname_np(errno);
}

/* What the survivor reads, by words. */
static void tell(const char *who, int fd)
{
	printf(" %s:", who);
	for (int i = 0; i < 3; i++) {
		ready(fd, POLLIN, 500);
		errno = 0;
		ssize_t k = recv(fd, b, sizeof(b), MSG_DONTWAIT);
		printf(" %s", what(k));
	}
}

/* Forms: not at all, at most two seconds, none (reset), switched off again. */
static void forms(int heated)
{
	for (int form = 0; form < 4; form++)
		for (int unread = 0; unread < 4; unread++) {
			pair(&c, &s);
			if (heated)
				warm(c, s);
			if (form)
				linger(c, form != 3, form == 1 ? 2 : 0);
			if (unread & 1) {
				send_all(s, "for c", 5);
				CHECK(ready(c, POLLIN, 1000), "arrived");
			}
			if (unread & 2)
				send_all(c, "for s", 5);
			double begin = now();
			CHECK(!close(c), "close");
			CHECK(now() - begin < 1, "close took %.3f", now() - begin);
			printf("form %d, unread %d:", form, unread);
			/* Bytes that a reset overtakes are the kernel's to keep or drop: said only where they are sure. */
			if ((form == 2 || unread & 1) && unread & 2) {
				ready(s, 0, 500);
				while (recv(s, b, sizeof(b), MSG_DONTWAIT) > 0) {
				}
				printf(" over");
			} else {
				tell("s", s);
			}
			puts("");
			close(s);
		}
}

/* With the reader away a lingering close waits for it, not beyond its time, and loses nothing. */
static void *take_later(void *arg)
{
	static char in[1 << 16];
	size_t got = 0;
	nap(30);
	for (ssize_t k; (k = recv(s, in, sizeof(in), 0)) > 0;)
		got += (size_t)k;
	return (void *)got;
}

static void waits_for_reader(int heated)
{
	static char big[1 << 16];
	pthread_t t;
	void *got;
	size_t sent = 0;
	pair(&c, &s);
	if (heated)
		warm(c, s);
	linger(c, 1, 3);
	set_nonblocking(c, true);
	for (ssize_t k; (k = send(c, big, sizeof(big), 0)) > 0;)
		sent += (size_t)k;
	set_nonblocking(c, false);
	CHECK(!pthread_create(&t, NULL, take_later, NULL), "thread");
	CHECK(!close(c), "close");
	pthread_join(t, &got);
	CHECK((size_t)got == sent, "%zu of %zu bytes", (size_t)got, sent);
	close(s);
}

/* By a process that ends. */
static void by_exit(int heated, int form)
{
	int l = listener(2);
	pid_t pid = child();
	if (!pid) {
		c = dial(port_of(l));
		close(l);
		if (heated)
			for (unsigned i = 0; i < 30; i++)
				ask_echo(c, 1, 100, i);
		if (form)
			linger(c, 1, form == 1 ? 2 : 0);
		send_all(c, "last", 4);
		if (form == 2) { /* a reset may overtake them */
			char one;
			CHECK(recv(c, &one, 1, 0) == 1, "taken");
		}
		exit(0);
	}
	s = take(l);
	close(l);
	if (heated)
		for (unsigned i = 0; i < 30; i++) {
			CHECK(recv_all(s, b, 100) == 100, "request");
			send_all(s, b, 100);
		}
	CHECK(recv_all(s, b, 4) == 4 && !memcmp(b, "last", 4), "the last bytes");
	if (form == 2)
		send_all(s, "t", 1);
	CHECK(reap(pid) == 0, "child");
	printf("exit, form %d:", form);
	tell("s", s);
	puts("");
	close(s);
}

struct at_once {
	int fd, how;
	pthread_barrier_t *barrier;
};

static void *end_it(void *arg)
{
	struct at_once *a = arg;
	pthread_barrier_wait(a->barrier);
	if (a->how == 0)
		shutdown(a->fd, SHUT_WR);
	else if (a->how == 1)
		shutdown(a->fd, SHUT_RDWR);
	else
		close(a->fd);
	return NULL;
}

/* Both at the same moment, each in its way. */
static void simultaneous(int heated)
{
	for (int ways = 0; ways < 9; ways++)
		for (int again = 0; again < 6; again++) {
			pthread_barrier_t barrier;
			pthread_t t[2];
			pair(&c, &s);
			if (heated)
				warm(c, s);
			if (ways < 6) {
				send_all(c, "from c", 6);
				CHECK(recv_all(s, b, 6) == 6, "bytes");
			}
			struct at_once a[2] = {{c, ways % 3, &barrier}, {s, ways / 3, &barrier}};
			CHECK(!pthread_barrier_init(&barrier, NULL, 2), "barrier");
			for (int i = 0; i < 2; i++)
				CHECK(!pthread_create(&t[i], NULL, end_it, &a[i]), "thread");
			for (int i = 0; i < 2; i++)
				pthread_join(t[i], NULL);
			for (int i = 0; i < 2; i++)
				if (a[i].how < 2) {
					CHECK(recv(a[i].fd, b, 1, 0) == 0, "the end, ways %d", ways);
					CHECK(send(a[i].fd, "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE, "EPIPE, ways %d", ways);
					close(a[i].fd);
				}
			pthread_barrier_destroy(&barrier);
		}
}

/* FIN first, then RST: the end was told, the reset is told to who writes. */
static void reset_behind_end(int heated)
{
	pair(&c, &s);
	if (heated)
		warm(c, s);
	send_all(c, "1", 1);
	CHECK(!shutdown(c, SHUT_WR), "shutdown");
	CHECK(recv_all(s, b, 5) == 1 && recv(s, b, 1, 0) == 0, "end");
	send_all(s, "unread by c", 11);
	CHECK(ready(c, POLLIN, 1000) & POLLIN, "arrived");
	close(c);
	CHECK(ready(s, 0, 1000) & POLLHUP, "reset");
	printf("reset behind the end: poll %x,", (unsigned)ready(s, POLLIN | POLLOUT | POLLRDHUP, 0));
	errno = 0;
	ssize_t k = send(s, "x", 1, MSG_NOSIGNAL);
	printf(" send %s,", what(k));
	tell("s", s);
	int error = -1;
	socklen_t n = sizeof(error);
	CHECK(!getsockopt(s, SOL_SOCKET, SO_ERROR, &error, &n), "SO_ERROR");
	printf(" SO_ERROR %d\n", error);
	close(s);
	/* The other way: who has shut only for reading is not told, and bytes that come later are thrown away or answered. */
	pair(&c, &s);
	if (heated)
		warm(c, s);
	CHECK(!shutdown(s, SHUT_RD), "SHUT_RD");
	send_all(c, "to nobody", 9);
	printf("shut for reading: %s", what(recv(s, b, 100, 0)));
	close(s);
	ready(c, POLLIN, 500);
	errno = 0;
	printf(", the writer's recv %s\n", what(recv(c, b, 1, MSG_DONTWAIT)));
	close(c);
}

static void test(void)
{
	for (int heated = 0; heated < 2; heated++) {
		forms(heated);
		waits_for_reader(heated);
		for (int form = 0; form < 3; form++)
			by_exit(heated, form);
		simultaneous(heated);
		reset_behind_end(heated);
	}
}

int main(void)
{
	return each_family(test);
}
