/* shutdown in each order and direction, and what either end may still do. */
#include "conform.h"

static int c, s;
static char b[70000];

static void begin(bool heated)
{
	pair(&c, &s);
	if (heated)
		warm(c, s);
}

static void end(void)
{
	close(c);
	close(s);
}

/* first shuts its sending side; the other answers at length, then closes too. */
static void request_then_answer(int first, int second)
{
	send_all(first, "request", 7);
	CHECK(!shutdown(first, SHUT_WR), "shutdown");
	CHECK(recv_all(second, b, 100) == 7, "request, then its end");
	CHECK(recv(second, b, 1, 0) == 0 && recv(second, b, 1, 0) == 0, "the end stays");
	for (int i = 0; i < 5; i++)
		carry(second, first, 50000, 0, 1);
	CHECK(send(first, "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE, "send after shutdown");
	CHECK(write(second, "last", 4) == 4, "write");
	CHECK(!shutdown(second, SHUT_WR), "shutdown");
	CHECK(recv_all(first, b, 100) == 4, "the last bytes, then the end");
	/* Linux: an end that is closed both ways is connected no more. */
	int again = shutdown(second, SHUT_WR);
	CHECK(again == 0 || errno == ENOTCONN, "shutdown twice");
}

static void both_at_once(void)
{
	send_all(c, "from c", 6);
	send_all(s, "from s", 6);
	CHECK(!shutdown(c, SHUT_WR) && !shutdown(s, SHUT_WR), "shutdown");
	CHECK(recv_all(s, b, 100) == 6 && !memcmp(b, "from c", 6), "c's bytes");
	CHECK(recv_all(c, b, 100) == 6 && !memcmp(b, "from s", 6), "s's bytes");
}

static void reading_side(void)
{
	send_all(c, "unread", 6);
	CHECK(ready(s, POLLIN, 1000) & POLLIN, "arrived");
	CHECK(!shutdown(s, SHUT_RD), "SHUT_RD");
	CHECK(recv(s, b, 100, 0) == 6, "what had arrived is still there");
	CHECK(recv(s, b, 100, 0) == 0, "then the end");
	carry(s, c, 1000, 0, 2);
	CHECK(recv(c, b, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN, "the peer noticed nothing");
}

/* Bytes written, the writer gone at once: all must arrive, then the end. */
static void write_and_close(bool shut_first)
{
	static uint8_t data[60000];
	pattern(data, sizeof(data), 0, 5);
	send_all(c, data, sizeof(data));
	if (shut_first)
		CHECK(!shutdown(c, SHUT_RDWR), "shutdown");
	close(c);
	c = -1;
	CHECK(recv_all(s, b, sizeof(b)) == sizeof(data), "bytes before the end");
	check_pattern(b, sizeof(data), 0, 5);
	CHECK(recv(s, b, 1, 0) == 0, "end");
}

static void wrong_use(void)
{
	CHECK(shutdown(c, 3) == -1 && errno == EINVAL, "shutdown 3");
	CHECK(shutdown(-1, SHUT_WR) == -1 && errno == EBADF, "shutdown of -1");
	still_works(c, s);
	int fresh = new_socket(false, 0);
	CHECK(shutdown(fresh, SHUT_WR) == -1 && errno == ENOTCONN, "shutdown before connect");
	close(fresh);
}

static void test(void)
{
	for (int heated = 0; heated < 2; heated++) {
		begin(heated);
		request_then_answer(c, s);
		end();
		begin(heated);
		request_then_answer(s, c);
		end();
		begin(heated);
		both_at_once();
		end();
		begin(heated);
		reading_side();
		end();
		begin(heated);
		write_and_close(false);
		end();
		begin(heated);
		write_and_close(true);
		end();
		begin(heated);
		wrong_use();
		end();
	}
}

int main(void)
{
	return each_family(test);
}
