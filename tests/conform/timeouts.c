/* SO_RCVTIMEO and SO_SNDTIMEO: when they strike, what a part taken before them gives, and that they do not strike. */
#include "conform.h"

static void limit(int fd, int option, long ms)
{
	struct timeval t = {ms / 1000, ms % 1000 * 1000}, back;
	socklen_t n = sizeof(back);
	CHECK(!setsockopt(fd, SOL_SOCKET, option, &t, sizeof(t)), "time limit");
	CHECK(!getsockopt(fd, SOL_SOCKET, option, &back, &n) && back.tv_sec == t.tv_sec && back.tv_usec >= t.tv_usec,
	      "time limit reads back");
}

static void *send_later(void *arg)
{
	nap(8);
	send_all(*(int *)arg, "data", 4);
	return NULL;
}

static void reading(int c, int s)
{
	char b[100];
	pthread_t t;
	limit(s, SO_RCVTIMEO, 20);
	double begin = now();
	CHECK(recv(s, b, 10, 0) == -1 && errno == EAGAIN, "recv");
	CHECK(now() - begin >= 0.018 && now() - begin < 1, "time limit took %.3f", now() - begin);
	CHECK(!pthread_create(&t, NULL, send_later, &c), "thread");
	limit(s, SO_RCVTIMEO, 2000);
	CHECK(recv(s, b, 10, 0) == 4, "bytes within the limit");
	pthread_join(t, NULL);
	limit(s, SO_RCVTIMEO, 20);
	send_all(c, "part", 4);
	CHECK(recv(s, b, 10, MSG_WAITALL) == 4, "WAITALL gives the part at the limit");
	CHECK(read(s, b, 10) == -1 && errno == EAGAIN, "read");
	CHECK(ready(s, POLLIN, 30) == 0, "poll has its own limit");
	limit(s, SO_RCVTIMEO, 0);
	CHECK(!pthread_create(&t, NULL, send_later, &c), "thread");
	CHECK(recv(s, b, 10, 0) == 4, "no limit");
	pthread_join(t, NULL);
}

static void writing(int c, int s)
{
	static char big[32 << 20];
	static char sink[1 << 20];
	limit(c, SO_SNDTIMEO, 20);
	double begin = now();
	ssize_t k = send(c, big, sizeof(big), 0);
	CHECK(k > 0 && k < (ssize_t)sizeof(big) && now() - begin < 2, "a part within the limit: %zd", k);
	ssize_t more;
	while ((more = send(c, big, 100000, 0)) > 0)
		k += more;
	CHECK(more == -1 && errno == EAGAIN, "full at the limit");
	size_t got = 0;
	while (got < (size_t)k) {
		ssize_t n = recv(s, sink, sizeof(sink), 0);
		CHECK(n > 0, "recv");
		got += (size_t)n;
	}
	CHECK(got == (size_t)k && recv(s, sink, 1, MSG_DONTWAIT) == -1, "exactly the part arrives");
	limit(c, SO_SNDTIMEO, 0);
}

static void accepting(void)
{
	int l = listener(4);
	limit(l, SO_RCVTIMEO, 30);
	CHECK(accept(l, NULL, NULL) == -1 && errno == EAGAIN, "accept at the limit");
	int c = dial(port_of(l)), s = take(l);
	/* An accepted socket does not inherit the limit's remainder, it inherits the limit. */
	char b;
	struct timeval t;
	socklen_t n = sizeof(t);
	CHECK(!getsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &t, &n) && t.tv_sec == 0 && t.tv_usec >= 30000, "inherited");
	CHECK(recv(s, &b, 1, 0) == -1 && errno == EAGAIN, "recv of the accepted one");
	close(l);
	close(c);
	close(s);
}

static void test(void)
{
	int c, s;
	pair(&c, &s);
	reading(s, c);
	warm(c, s);
	reading(c, s);
	if (family == V4)
		writing(c, s);
	still_works(c, s);
	close(c);
	close(s);
	accepting();
}

int main(void)
{
	return each_family(test);
}
