/* Connections that end by reset: linger 0, close with unread bytes, a peer that writes to a closed end. What the
 * survivor sees, in which order and how often. */
#include "conform.h"

static int c, s;
static char b[1000];

static void begin(bool heated)
{
	pair(&c, &s);
	if (heated)
		warm(c, s);
}

static void linger_zero(int fd)
{
	struct linger l = {1, 0};
	CHECK(!setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l)), "SO_LINGER");
	close(fd);
}

static void reset_seen(int fd)
{
	int error = -1;
	socklen_t n = sizeof(error);
	for (int i = 0; i < 200 && !(ready(fd, POLLIN, 5) & POLLERR); i++)
		nap(1);
	CHECK(ready(fd, POLLIN | POLLOUT | POLLRDHUP, 0) == (POLLIN | POLLOUT | POLLERR | POLLHUP | POLLRDHUP),
	      "poll after reset: %x", ready(fd, POLLIN | POLLOUT | POLLRDHUP, 0));
	CHECK(recv(fd, b, 1, 0) == -1 && errno == ECONNRESET, "ECONNRESET");
	CHECK(recv(fd, b, 1, 0) == 0, "once; then the end");
	CHECK(send(fd, "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE, "send after reset");
	CHECK(!getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n) && error == 0, "the error was reported already: %d",
	      error);
	close(fd);
}

/* The error can be fetched by SO_ERROR in place of recv. */
static void by_so_error(void)
{
	int error = -1;
	socklen_t n = sizeof(error);
	linger_zero(c);
	for (int i = 0; i < 200 && !(ready(s, POLLIN, 5) & POLLERR); i++)
		nap(1);
	CHECK(!getsockopt(s, SOL_SOCKET, SO_ERROR, &error, &n) && error == ECONNRESET, "SO_ERROR %d", error);
	CHECK(recv(s, b, 1, 0) == 0, "end");
	close(s);
}

/* A closed end answers later bytes with a reset. */
static void write_to_closed(void)
{
	close(c);
	CHECK(recv(s, b, 1, 0) == 0, "end");
	CHECK(send(s, "first", 5, MSG_NOSIGNAL) == 5, "the first write goes out");
	int e = 0;
	for (int i = 0; i < 200 && !e; i++) {
		nap(1);
		if (send(s, "more", 4, MSG_NOSIGNAL) < 0)
			e = errno;
	}
	CHECK(e == EPIPE || e == ECONNRESET, "a later write is refused");
	close(s);
}

static void *blocked_reader(void *arg)
{
	ssize_t k = recv(*(int *)arg, b, 100, 0);
	return (void *)(intptr_t)(k < 0 ? -errno : k);
}

static void while_blocked(void)
{
	pthread_t t;
	void *result;
	CHECK(!pthread_create(&t, NULL, blocked_reader, &s), "thread");
	nap(20);
	linger_zero(c);
	pthread_join(t, &result);
	CHECK((intptr_t)result == -ECONNRESET, "a blocked recv: %ld", (long)(intptr_t)result);
	close(s);
}

static void *blocked_writer(void *arg)
{
	static char big[16 << 20];
	ssize_t k = send(*(int *)arg, big, sizeof(big), MSG_NOSIGNAL);
	/* The part that was taken before is reported first, as TCP does. */
	if (k >= 0)
		k = send(*(int *)arg, big, 1, MSG_NOSIGNAL);
	return (void *)(intptr_t)(k < 0 ? -errno : k);
}

static void while_writing(void)
{
	pthread_t t;
	void *result;
	CHECK(!pthread_create(&t, NULL, blocked_writer, &s), "thread");
	nap(30);
	close(c); /* with much unread */
	pthread_join(t, &result);
	CHECK((intptr_t)result == -ECONNRESET || (intptr_t)result == -EPIPE, "a blocked send: %ld",
	      (long)(intptr_t)result);
	close(s);
}

/* Bytes that came before the reset are delivered, and the reset is told by the call after them. */
static void behind_bytes(void)
{
	send_all(c, "0123456789", 10);
	linger_zero(c);
	CHECK(ready(s, POLLERR, 1000) & POLLERR, "reset");
	CHECK(recv(s, b, 100, MSG_WAITALL) == 10 && !memcmp(b, "0123456789", 10), "bytes before the reset");
	CHECK(recv(s, b, 100, 0) == -1 && errno == ECONNRESET, "the reset behind them");
	CHECK(recv(s, b, 100, 0) == 0, "once");
	close(s);
}

static void test(void)
{
	for (int heated = 0; heated < 2; heated++) {
		begin(heated);
		linger_zero(c);
		reset_seen(s);
		begin(heated);
		linger_zero(s);
		reset_seen(c);

		begin(heated);
		send_all(s, "unread", 6);
		CHECK(ready(c, POLLIN, 1000) & POLLIN, "arrived");
		close(c);
		reset_seen(s);

		begin(heated);
		send_all(c, "unread", 6);
		CHECK(ready(s, POLLIN, 1000) & POLLIN, "arrived");
		close(s);
		reset_seen(c);

		begin(heated);
		behind_bytes();
		begin(heated);
		by_so_error();
		begin(heated);
		write_to_closed();
		begin(heated);
		while_blocked();
		begin(heated);
		while_writing();
	}
}

int main(void)
{
	return each_family(test);
}
