/* Corners of poll, ppoll, select and pselect: every event by itself in every state, sets of nothing but exceptions, wrong
 * times, times written back, more descriptors than fit on a stack, the same one many times, numbers closed meanwhile. */
#include "conform.h"
#include <sys/select.h>
#include <sys/syscall.h>

static fd_set set_of(int fd)
{
	fd_set s;
	FD_ZERO(&s);
	if (fd >= 0)
		FD_SET(fd, &s);
	return s;
}

/* Bit by bit: 1 readable, 2 writable, 4 exceptional; 8 for each set more in the count. */
static int selected(int fd, int asked, long ms)
{
	fd_set r = set_of(asked & 1 ? fd : -1), w = set_of(asked & 2 ? fd : -1), e = set_of(asked & 4 ? fd : -1);
	struct timeval t = {ms / 1000, ms % 1000 * 1000};
	int n = select(fd + 1, &r, &w, &e, &t);
	CHECK(n >= 0, "select");
	return (FD_ISSET(fd, &r) ? 1 : 0) | (FD_ISSET(fd, &w) ? 2 : 0) | (FD_ISSET(fd, &e) ? 4 : 0) | n << 3;
}

/* What poll says at once decides what select has to say, by the kernel's own table. */
static void agrees(int fd, const char *state)
{
	short p = (short)ready(fd, POLLIN | POLLOUT | POLLPRI | POLLRDNORM | POLLRDBAND | POLLWRNORM | POLLWRBAND, 0);
	int truth = (p & (POLLIN | POLLHUP | POLLERR) ? 1 : 0) | (p & (POLLOUT | POLLERR) ? 2 : 0) | (p & POLLPRI ? 4 : 0);
	for (int asked = 1; asked < 8; asked++) {
		int want = truth & asked, got = selected(fd, asked, 0);
		CHECK((got & 7) == want && got >> 3 == __builtin_popcount((unsigned)want), "%s: select of %d says %d, %d in all; poll says %x",
		      state, asked, got & 7, got >> 3, p);
	}
	for (short one = 1; one > 0 && one <= POLLRDHUP; one = (short)(one << 1)) {
		short alone = (short)ready(fd, one, 0), all = (short)ready(fd, POLLRDHUP | 0x3df, 0);
		CHECK(alone == (all & (one | POLLERR | POLLHUP)), "%s: poll of %x says %x, of all %x", state, one, alone, all);
	}
}

static void exceptions_only(int fd, const char *state)
{
	double begin = now();
	CHECK(selected(fd, 4, 30) == 0 && now() - begin >= 0.028, "%s: nothing exceptional, and it waits for it: %.3f", state, now() - begin);
}

static void states(int c, int s)
{
	char b[10];
	agrees(s, "idle");
	exceptions_only(s, "idle");
	send_all(c, "bytes", 5);
	CHECK(ready(s, POLLIN, 1000), "arrived");
	agrees(s, "readable");
	exceptions_only(s, "readable");
	CHECK(recv_all(s, b, 5) == 5, "bytes");
	agrees(s, "idle again");
	shutdown(c, SHUT_WR);
	CHECK(ready(s, POLLRDHUP, 1000) == POLLRDHUP, "half closed");
	agrees(s, "half closed by the other end");
	exceptions_only(s, "half closed");
	shutdown(s, SHUT_WR);
	CHECK(ready(s, 0, 1000) == POLLHUP, "closed");
	agrees(s, "closed both ways");
	exceptions_only(s, "closed");
	exceptions_only(c, "closed");
	close(c);
	close(s);
	pair(&c, &s);
	warm(c, s);
	shutdown(s, SHUT_RD);
	agrees(s, "shut for reading");
	struct linger l = {1, 0};
	CHECK(!setsockopt(c, SOL_SOCKET, SO_LINGER, &l, sizeof(l)), "SO_LINGER");
	close(c);
	CHECK(ready(s, 0, 1000) & POLLERR, "reset");
	agrees(s, "reset");
	exceptions_only(s, "reset");
	close(s);
}

static void times(int c, int s)
{
	struct pollfd p = {s, POLLIN, 0};
	struct timespec wrong[] = {{0, 1000000000}, {-1, 0}, {0, -1}};
	fd_set r;
	char b;
	for (int there = 0; there < 2; there++) {
		for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
			r = set_of(s);
			CHECK(ppoll(&p, 1, &wrong[i], NULL) == -1 && errno == EINVAL, "ppoll with wrong time %zu", i);
			CHECK(pselect(s + 1, &r, NULL, NULL, &wrong[i], NULL) == -1 && errno == EINVAL, "pselect");
		}
		struct timeval back = {-1, 0};
		CHECK(select(s + 1, &r, NULL, NULL, &back) == -1 && errno == EINVAL, "select");
		if (!there) {
			struct timeval tv = {0, 25000}, big = {0, 1025000};
			CHECK(select(s + 1, &r, NULL, NULL, &tv) == 0 && tv.tv_sec == 0 && tv.tv_usec == 0, "all of the time is gone");
			send_all(c, "x", 1);
			r = set_of(s);
			CHECK(select(s + 1, &r, NULL, NULL, &big) == 1 && big.tv_sec <= 1 && big.tv_usec > 0, "the rest is written back");
		}
		struct timespec some = {1, 0};
		r = set_of(s);
		CHECK(pselect(s + 1, &r, NULL, NULL, &some, NULL) == 1 && some.tv_sec == 1, "pselect leaves the time alone");
		CHECK(ppoll(&p, 1, &some, NULL) == 1 && some.tv_sec == 1, "and so does ppoll of libc");
	}
	CHECK(poll(&p, 1, -5) == 1, "any negative time of poll is for ever");
	CHECK(recv(s, &b, 1, 0) == 1, "byte");
}

extern void __asan_init(void) __attribute__((weak));
extern void __tsan_init(void) __attribute__((weak));

static void many(int c, int s)
{
	enum { N = 700 };
	static struct pollfd p[N];
	char b[10];
	int closed = dup(s);
	close(closed);
	for (int i = 0; i < N; i++)
		p[i] = (struct pollfd){i % 3 ? s : -1 - i, (short)(i % 2 ? POLLIN : POLLOUT), -1};
	p[N - 1].fd = closed;
	int n = poll(p, N, 0), want = 1;
	for (int i = 0; i < N - 1; i++) {
		short must = i % 3 && !(i % 2) ? POLLOUT : 0;
		want += must != 0;
		CHECK(p[i].revents == must, "entry %d says %x", i, p[i].revents);
	}
	CHECK(p[N - 1].revents == POLLNVAL && n == want, "%d of %d", n, want);
	send_all(c, "x", 1);
	CHECK(ready(s, POLLIN, 1000), "arrived");
	n = poll(p, N - 1, -1);
	want = 0;
	for (int i = 0; i < N - 1; i++)
		want += i % 3 != 0;
	CHECK(n == want && p[1].revents == POLLIN && p[2].revents == POLLOUT, "%d of %d", n, want);
	CHECK(recv(s, b, 10, 0) == 1, "byte");
	struct pollfd one = {s, 0, -1};
	CHECK(poll(&one, 1, 0) == 0 && one.revents == 0, "nothing asked");
	volatile nfds_t beyond = (nfds_t)-1;
	CHECK(__asan_init || __tsan_init || /* their own poll reads them all */
	      (poll(&one, beyond, 0) == -1 && (errno == EINVAL || errno == EFAULT)), "more than there can be");
}

/* A number that is closed while poll has it wakes nobody: the last look, when the time is over, finds it so. */
static int closing;

static void *close_it(void *arg)
{
	nap(15);
	close(closing);
	return NULL;
}

static void closed_meanwhile(int c)
{
	int c2, s2;
	pthread_t t;
	pair(&c2, &s2);
	warm(c2, s2);
	closing = dup(s2);
	struct pollfd p[2] = {{closing, POLLIN, 0}, {c, POLLIN, 0}};
	CHECK(!pthread_create(&t, NULL, close_it, NULL), "thread");
	CHECK(poll(p, 2, 250) == 1 && p[0].revents == POLLNVAL, "a copy that was closed meanwhile: %x", p[0].revents);
	pthread_join(t, NULL);
	CHECK(poll(p, 2, 0) == 1 && p[0].revents == POLLNVAL, "closed");
	still_works(c2, s2);
	close(c2);
	close(s2);
}

static void test(void)
{
	int c, s;
	for (int heated = 0; heated < 2; heated++) {
		pair(&c, &s);
		if (heated)
			warm(c, s);
		times(c, s);
		many(c, s);
		if (family == V4)
			closed_meanwhile(c);
		if (family == V4 || (heated && family == V6)) {
			states(c, s);
		} else {
			close(c);
			close(s);
		}
	}
}

int main(void)
{
	return each_family(test);
}
