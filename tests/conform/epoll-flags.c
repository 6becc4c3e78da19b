/* Every flag of epoll_ctl alone and with others, against what poll says at the same moment: levels, edges and single
 * shots of each event, EPOLLPRI, EPOLLWAKEUP, the rules of EPOLLEXCLUSIVE, members changed, removed and their numbers
 * reused by other threads while one waits. */
#include "conform.h"

static const uint32_t events[] = {EPOLLIN, EPOLLOUT, EPOLLRDHUP, EPOLLPRI, EPOLLRDNORM, EPOLLRDBAND, EPOLLWRNORM, EPOLLWRBAND, EPOLLMSG};

static uint32_t told(int set, int ms)
{
	struct epoll_event e[4];
	int n = epoll_wait(set, e, 4, ms);
	CHECK(n == 0 || n == 1, "%d events of one member", n);
	return n ? e[0].events : 0;
}

/* All masks of the first seven events and all kinds of report, in the state that the connection has; what poll says does
 * not change meanwhile. */
static void each_mask(int fd, const char *state)
{
	static const uint32_t kinds[] = {0, EPOLLET, EPOLLONESHOT, EPOLLET | EPOLLONESHOT, EPOLLEXCLUSIVE, EPOLLWAKEUP};
	int level = epoll_create1(0);
	struct epoll_event e = {0, {.fd = fd}};
	CHECK(!epoll_ctl(level, EPOLL_CTL_ADD, fd, &e), "ADD without events");
	for (uint32_t mask = 0; mask < 512; mask = mask < 128 ? mask + 1 : mask << 1) {
		uint32_t want = 0;
		for (size_t i = 0; i < ARRAY_SIZE(events); i++)
			want |= mask >> i & 1 ? events[i] : 0;
		uint32_t truth = (uint32_t)(unsigned short)ready(fd, (short)want, 0);
		e.events = want;
		CHECK(!epoll_ctl(level, EPOLL_CTL_MOD, fd, &e), "MOD");
		uint32_t a = told(level, 0), b = told(level, 0);
		CHECK(a == truth && b == truth, "%s, asked for %x: epoll says %x, then %x, poll says %x", state, want, a, b, truth);
		if (mask & 1 && mask & 12 && mask & 48) /* the rest in full for part of them */
			continue;
		for (size_t k = 1; k < ARRAY_SIZE(kinds); k++) {
			int set = epoll_create1(EPOLL_CLOEXEC);
			e.events = want | kinds[k];
			int r = epoll_ctl(set, EPOLL_CTL_ADD, fd, &e);
			if (kinds[k] == EPOLLEXCLUSIVE && want & ~(uint32_t)(EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP)) {
				CHECK(r == -1 && errno == EINVAL, "EPOLLEXCLUSIVE with %x", want);
			} else {
				CHECK(!r, "ADD of %x", e.events);
				a = told(set, 0);
				b = told(set, 0);
				uint32_t again = kinds[k] & (EPOLLET | EPOLLONESHOT) ? 0 : truth;
				CHECK(a == truth && b == again, "%s, asked for %x: epoll says %x, then %x, poll says %x", state,
				      e.events, a, b, truth);
				if (kinds[k] == EPOLLEXCLUSIVE)
					CHECK(epoll_ctl(set, EPOLL_CTL_MOD, fd, &e) == -1 && errno == EINVAL, "MOD of an exclusive member");
			}
			close(set);
		}
	}
	close(level);
}

static void states(int c, int s)
{
	static char big[65536];
	char b[10];
	each_mask(s, "idle");
	send_all(c, "bytes", 5);
	CHECK(ready(s, POLLIN, 1000) & POLLIN, "arrived");
	each_mask(s, "readable");
	CHECK(recv_all(s, b, 5) == 5, "bytes");
	each_mask(s, "idle again");
	set_nonblocking(s, true);
	size_t n = 0;
	for (int i = 0; i < 3; nap(20), i++) /* acknowledgements that come late make room */
		for (ssize_t k; (k = send(s, big, sizeof(big), 0)) > 0; n += (size_t)k)
			i = 0;
	each_mask(s, "full");
	set_nonblocking(s, false);
	while (n) {
		size_t k = n < sizeof(big) ? n : sizeof(big);
		CHECK(recv_all(c, big, k) == k, "drained");
		n -= k;
	}
	for (int i = 0; i < 1000 && !(ready(s, POLLOUT, 10) & POLLOUT); i++)
		nap(1);
	each_mask(s, "drained");
}

static void ends(int c, int s)
{
	CHECK(!shutdown(c, SHUT_WR), "shutdown");
	CHECK(ready(s, POLLRDHUP, 1000) & POLLRDHUP, "half closed");
	each_mask(s, "half closed by the other end");
	CHECK(!shutdown(s, SHUT_WR), "shutdown");
	CHECK(ready(s, 0, 1000) & POLLHUP, "closed");
	each_mask(s, "closed both ways");
}

static void priority(int c, int s, bool edge)
{
	char b[10];
	int set = epoll_create1(0), level = epoll_create1(0);
	struct epoll_event e = {EPOLLPRI | (edge ? EPOLLET : 0), {.fd = s}}, both = {EPOLLPRI | EPOLLIN, {.fd = s}};
	CHECK(!epoll_ctl(set, EPOLL_CTL_ADD, s, &e) && !epoll_ctl(level, EPOLL_CTL_ADD, s, &both), "ADD");
	CHECK(!told(set, 0) && !told(level, 0), "nothing urgent");
	send_all(c, "before", 6);
	CHECK(told(level, 1000) == EPOLLIN && !told(set, 0), "ordinary bytes");
	CHECK(send(c, "!", 1, MSG_OOB) == 1, "MSG_OOB");
	CHECK(told(set, 1000) == EPOLLPRI, "urgent, behind unread bytes");
	CHECK(told(level, 1000) == (EPOLLIN | EPOLLPRI), "both");
	CHECK(recv_all(s, b, 6) == 6 && recv(s, b, 1, MSG_OOB) == 1 && b[0] == '!', "bytes");
	send_all(c, "after", 5);
	CHECK(recv_all(s, b, 5) == 5, "bytes");
	uint32_t a = told(set, 0), b_ = told(level, 0);
	CHECK(!a && !b_, "over, and yet %x %x", a, b_);
	close(set);
	close(level);
}

static void rules(int c, int s)
{
	int set = epoll_create1(0), other = epoll_create1(0);
	struct epoll_event e = {EPOLLIN | EPOLLEXCLUSIVE | EPOLLONESHOT, {.fd = s}};
	CHECK(epoll_ctl(set, EPOLL_CTL_ADD, s, &e) == -1 && errno == EINVAL, "exclusive and one-shot");
	e.events = EPOLLIN | EPOLLEXCLUSIVE;
	CHECK(epoll_ctl(set, EPOLL_CTL_ADD, other, &e) == -1 && errno == EINVAL, "an exclusive set in a set");
	e.events = EPOLLIN;
	CHECK(!epoll_ctl(set, EPOLL_CTL_ADD, s, &e), "ADD");
	e.events = EPOLLIN | EPOLLEXCLUSIVE;
	CHECK(epoll_ctl(set, EPOLL_CTL_MOD, s, &e) == -1 && errno == EINVAL, "made exclusive by MOD");
	CHECK(epoll_ctl(set, 77, s, &e) == -1 && errno == EINVAL, "an unknown operation");
	struct epoll_event none;
	volatile int less = -1;
	CHECK(epoll_wait(set, &none, less, 0) == -1 && errno == EINVAL, "negative room");
	struct timespec t = {0, 1000000000}, back = {-1, 0};
	CHECK(epoll_pwait2(set, &none, 1, &t, NULL) == -1 && errno == EINVAL, "a wrong time");
	CHECK(epoll_pwait2(set, &none, 1, &back, NULL) == -1 && errno == EINVAL, "a negative time");
	send_all(c, "x", 1);
	CHECK(told(set, 1000) == EPOLLIN, "unchanged by what was refused");
	CHECK(epoll_pwait2(set, &none, 1, &t, NULL) == -1 && errno == EINVAL, "a wrong time with an event there");
	CHECK(epoll_wait(set, &none, 1, -7) == 1, "any negative time is for ever");
	char b;
	CHECK(recv(s, &b, 1, 0) == 1, "byte");
	close(set);
	close(other);
}

/* A thread waits while another adds, changes, removes and closes members, and numbers come back as other connections:
 * what is told of a number is true of the connection that has it when it is added. */
struct churned {
	int set;
	_Atomic bool over;
	_Atomic unsigned events;
};

static void *wait_on(void *arg)
{
	struct churned *w = arg;
	struct epoll_event e[8];
	while (!w->over) {
		int n = epoll_wait(w->set, e, 8, 20);
		CHECK(n >= 0, "epoll_wait");
		w->events += (unsigned)n;
	}
	return NULL;
}

static void changed_meanwhile(void)
{
	struct churned w = {.set = epoll_create1(0)};
	pthread_t t[2];
	char b[100];
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_create(&t[i], NULL, wait_on, &w), "thread");
	for (int i = 0; i < 30; i++) {
		int c, s;
		struct epoll_event e = {EPOLLIN | (i & 1 ? EPOLLET : 0), {.u64 = (uint64_t)i}};
		pair(&c, &s);
		CHECK(!epoll_ctl(w.set, EPOLL_CTL_ADD, s, &e), "ADD");
		for (unsigned k = 0; k < 8; k++) {
			carry(c, s, 200, 0, k);
			carry(s, c, 200, 0, k);
			e.events = k & 1 ? EPOLLOUT | EPOLLONESHOT : EPOLLIN | EPOLLET;
			CHECK(!epoll_ctl(w.set, EPOLL_CTL_MOD, s, &e), "MOD");
		}
		CHECK(!epoll_ctl(w.set, EPOLL_CTL_DEL, s, NULL), "DEL");
		CHECK(epoll_ctl(w.set, EPOLL_CTL_DEL, s, NULL) == -1 && errno == ENOENT, "twice");
		e.events = EPOLLIN | EPOLLONESHOT;
		unsigned before = w.events;
		CHECK(!epoll_ctl(w.set, EPOLL_CTL_ADD, s, &e), "ADD again");
		send_all(c, "wake", 4);
		for (int k = 0; k < 2000 && w.events == before; k++)
			nap(1);
		CHECK(w.events != before, "round %d: nobody was told", i);
		CHECK(recv_all(s, b, 4) == 4, "bytes");
		if (i % 3 == 0) { /* one that stays in the set by a copy, until that is closed */
			int copy = dup(s);
			close(s);
			s = copy;
		}
		close(s);
		close(c);
	}
	w.over = true;
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	close(w.set);
}

static void test(void)
{
	int c, s;
	for (int heated = 0; heated < 2; heated++) {
		pair(&c, &s);
		if (heated)
			warm(c, s);
		rules(c, s);
		if (family == V4) {
			states(c, s);
			ends(c, s);
		}
		close(c);
		close(s);
		for (int edge = 0; edge < 2; edge++) {
			pair(&c, &s);
			if (heated)
				warm(c, s);
			priority(c, s, edge);
			close(c);
			close(s);
		}
	}
	if (family == V4 || family == V6)
		changed_meanwhile();
}

int main(void)
{
	return each_family(test);
}
