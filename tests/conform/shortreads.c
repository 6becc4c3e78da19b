/* epoll(7): a receive that brings less than was asked for has taken all that there was. libuv, nginx and others rely on
 * it: with POLLHUP a short receive is the end of the stream to them, and with EPOLLET they wait for the next event
 * after one. */
#include "conform.h"

static int c, s;
static char b[70000];

static bool whole(void)
{
	return b[0] == 'r' && b[999] == 'r' && b[1000] == 'k' && b[1499] == 'k';
}

/* The answer's second part is written after the writer has seen the end of the question. */
static void answer_around_the_end(int flags)
{
	pair(&c, &s);
	warm(c, s);
	memset(b, 'r', 1000);
	memset(b + 1000, 'k', 500);
	send_all(s, b, 1000);
	CHECK(!shutdown(c, SHUT_WR), "shutdown");
	CHECK(recv(s, b, 1, 0) == 0, "end of the question");
	send_all(s, b + 1000, 500);
	CHECK(!close(s), "close");
	CHECK(ready(c, POLLIN | POLLRDHUP, 1000) & POLLHUP, "both ways are closed");
	if (flags)
		CHECK(recv(c, b, sizeof(b), flags) == 1500 && whole(), "peek");
	memset(b, 0, 1500);
	ssize_t n = recv(c, b, sizeof(b), 0);
	CHECK(n == 1500 && whole(), "a receive with room for all brought %zd", n);
	CHECK(recv(c, b, sizeof(b), 0) == 0, "the end");
	close(c);
}

/* All of it fits into what a new connection may have under way, so that it is there when the reader begins. */
static void long_answer(void)
{
	size_t total = 0;
	bool over = false;
	pair(&c, &s);
	warm(c, s);
	send_all(s, b, 30000);
	CHECK(!shutdown(c, SHUT_WR), "shutdown");
	CHECK(recv(s, b, 1, 0) == 0, "end of the question");
	for (int i = 0; i < 10; i++)
		send_all(s, b, 2000);
	CHECK(!shutdown(s, SHUT_WR), "shutdown");
	CHECK(ready(c, POLLIN | POLLRDHUP, 1000) & POLLHUP, "both ways are closed");
	while (!over) {
		ssize_t n = recv(c, b, 20000, 0);
		CHECK(n >= 0, "recv");
		total += (size_t)n;
		over = n < 20000;
	}
	CHECK(total == 50000, "a short receive after %zu of 50000 bytes", total);
	close(c);
	close(s);
}

/* More parts than the library copies of at once. */
static void many_parts(bool heated)
{
	struct iovec part[200];
	pair(&c, &s);
	if (heated)
		warm(c, s);
	memset(b, 'm', 2000);
	send_all(c, b, 2000);
	for (size_t i = 0; i < ARRAY_SIZE(part); i++)
		part[i] = (struct iovec){b + i * 10, 10};
	memset(b, 0, 2000);
	ssize_t n = readv(s, part, ARRAY_SIZE(part));
	CHECK(n == 2000, "readv brought %zd", n);
	for (size_t i = 0; i < 2000; i++)
		CHECK(b[i] == 'm', "byte %zu", i);
	close(c);
	close(s);
}

/* One edge-triggered event for both parts: after a short receive the program waits for another. */
static void edge(void)
{
	pair(&c, &s);
	warm(c, s);
	int e = epoll_create1(0);
	struct epoll_event event = {.events = EPOLLIN | EPOLLET | EPOLLRDHUP};
	CHECK(!fcntl(c, F_SETFL, O_NONBLOCK) && !epoll_ctl(e, EPOLL_CTL_ADD, c, &event), "epoll");
	CHECK(epoll_wait(e, &event, 1, 0) == 0, "nothing yet");
	send_all(s, b, 3000);
	CHECK(!shutdown(c, SHUT_WR), "shutdown");
	CHECK(recv(s, b, 1, 0) == 0, "end of the question");
	for (int i = 0; i < 20; i++)
		send_all(s, b, 3000);
	size_t total = 0;
	while (total < 63000) {
		CHECK(epoll_wait(e, &event, 1, 1000) == 1, "no event after a short receive, with %zu bytes of 63000",
		      total);
		for (ssize_t n = 8192; n == 8192;) {
			n = recv(c, b, 8192, 0);
			CHECK(n > 0 || errno == EAGAIN, "recv");
			total += n > 0 ? (size_t)n : 0;
		}
	}
	close(e);
	close(c);
	close(s);
}

int main(void)
{
	alarm(LIMIT_SECONDS);
	for (int i = 0; i < 5; i++) {
		answer_around_the_end(0);
		answer_around_the_end(MSG_PEEK);
		long_answer();
		many_parts(false);
		many_parts(true);
		edge();
	}
	puts("ok");
	return 0;
}
