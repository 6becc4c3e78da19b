/* MSG_PEEK, MSG_WAITALL, MSG_TRUNC, MSG_MORE, calls of zero bytes, SO_RCVLOWAT. */
#include "conform.h"

static void *send_in_parts(void *arg)
{
	int fd = *(int *)arg;
	nap(20);
	send_all(fd, "abc", 3);
	nap(20);
	send_all(fd, "defgh", 5);
	return NULL;
}

static void peek(int from, int to)
{
	char b[64];
	send_all(from, "hello world", 11);
	CHECK(ready(to, POLLIN, 1000) == POLLIN, "readable");
	for (int i = 0; i < 3; i++)
		CHECK(recv(to, b, 5, MSG_PEEK) == 5 && !memcmp(b, "hello", 5), "peek");
	CHECK(recv(to, b, 64, MSG_PEEK | MSG_DONTWAIT) == 11, "peek at all");
	CHECK(recv(to, b, 6, 0) == 6 && !memcmp(b, "hello ", 6), "take after peek");
	struct iovec v = {b, 64};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
	CHECK(recvmsg(to, &m, MSG_PEEK) == 5 && !memcmp(b, "world", 5), "recvmsg peek");
	CHECK(recv(to, b, 64, 0) == 5, "rest");
	CHECK(recv(to, b, 64, MSG_PEEK | MSG_DONTWAIT) == -1 && errno == EAGAIN, "peek at nothing");
}

static void waitall(int from, int to)
{
	char b[16] = "";
	pthread_t t;
	CHECK(!pthread_create(&t, NULL, send_in_parts, &from), "thread");
	CHECK(recv(to, b, 8, MSG_WAITALL) == 8 && !memcmp(b, "abcdefgh", 8), "WAITALL returned early");
	pthread_join(t, NULL);
	CHECK(!pthread_create(&t, NULL, send_in_parts, &from), "thread");
	CHECK(recv(to, b, 8, MSG_WAITALL | MSG_PEEK) == 8 && !memcmp(b, "abcdefgh", 8), "WAITALL with PEEK");
	ssize_t k = recv(to, b, 8, 0);
	CHECK(k > 0 && recv_all(to, b + k, 8 - (size_t)k) == 8 - (size_t)k && !memcmp(b, "abcdefgh", 8),
	      "after a peek");
	pthread_join(t, NULL);
	send_all(from, "xy", 2);
	CHECK(ready(to, POLLIN, 1000) == POLLIN, "readable");
	CHECK(recv(to, b, 8, MSG_WAITALL | MSG_DONTWAIT) == 2, "WAITALL with DONTWAIT gives what is there");
}

static void truncate_stream(int from, int to)
{
	char b[16] = "untouched";
	send_all(from, "0123456789", 10);
	CHECK(ready(to, POLLIN, 1000) == POLLIN, "readable");
	CHECK(recv(to, b, 4, MSG_TRUNC) == 4 && !memcmp(b, "untouched", 9), "MSG_TRUNC throws away, without a copy");
	CHECK(recv(to, b, 16, 0) == 6 && !memcmp(b, "456789", 6), "after MSG_TRUNC");
}

static void more(int from, int to)
{
	char b[16];
	for (int i = 0; i < 5; i++) {
		CHECK(send(from, "ab", 2, MSG_MORE) == 2 && send(from, "cd", 2, MSG_MORE) == 2, "MSG_MORE");
		CHECK(send(from, "e", 1, 0) == 1, "the last part");
		CHECK(recv_all(to, b, 5) == 5 && !memcmp(b, "abcde", 5), "parts in order");
	}
}

static void zero(int from, int to)
{
	char b[4] = "";
	CHECK(send(from, b, 0, 0) == 0 && write(from, b, 0) == 0 && writev(from, NULL, 0) == 0, "send of nothing");
	CHECK(!ready(to, POLLIN, 10), "nothing became readable");
	CHECK(read(to, b, 0) == 0, "read of zero bytes does not wait");
	send_all(from, "q", 1);
	CHECK(ready(to, POLLIN, 1000) == POLLIN && recv(to, b, 0, 0) == 0, "recv of zero bytes takes nothing");
	CHECK(recv(to, b, 4, 0) == 1 && b[0] == 'q', "it is still there");
}

static void low_water(int from, int to)
{
	int want = 6, one = 1;
	char b[16];
	pthread_t t;
	CHECK(!setsockopt(to, SOL_SOCKET, SO_RCVLOWAT, &want, sizeof(want)), "SO_RCVLOWAT");
	send_all(from, "123", 3);
	CHECK(!(ready(to, POLLIN, 20) & POLLIN), "readable below the low-water mark");
	CHECK(recv(to, b, 16, MSG_DONTWAIT) == 3, "DONTWAIT takes what is there");
	CHECK(!pthread_create(&t, NULL, send_in_parts, &from), "thread");
	CHECK(recv(to, b, 16, 0) == 8, "recv waits for the low-water mark");
	pthread_join(t, NULL);
	CHECK(!setsockopt(to, SOL_SOCKET, SO_RCVLOWAT, &one, sizeof(one)), "SO_RCVLOWAT");
}

static void test(void)
{
	int c, s;
	pair(&c, &s);
	for (int round = 0; round < 2; round++) {
		peek(c, s);
		peek(s, c);
		waitall(c, s);
		truncate_stream(s, c);
		more(c, s);
		zero(c, s);
		zero(s, c);
		warm(c, s);
	}
	low_water(c, s);
	still_works(c, s);
	send_all(c, "end", 3);
	shutdown(c, SHUT_WR);
	char b[100];
	CHECK(recv(s, b, 100, MSG_WAITALL) == 3, "the end of the stream ends WAITALL");
	CHECK(recv(s, b, 100, MSG_WAITALL) == 0 && recv(s, b, 100, MSG_PEEK) == 0, "end");
	close(c);
	close(s);
}

int main(void)
{
	return each_family(test);
}
