/* RLIMIT_NOFILE from 64 up to what may be had, set before and during the life of connections: the program gets the
 * numbers that are its own, no number twice, and may close all the others. */
#include "conform.h"
#include <sys/resource.h>

static void limit(rlim_t soft, rlim_t hard)
{
	struct rlimit set = {soft, hard}, got;
	CHECK(!setrlimit(RLIMIT_NOFILE, &set), "setrlimit %lu %lu", (unsigned long)soft, (unsigned long)hard);
	CHECK(!getrlimit(RLIMIT_NOFILE, &got) && got.rlim_cur == soft && got.rlim_max == hard, "it is as it was set");
	CHECK(!prlimit(0, RLIMIT_NOFILE, NULL, &got) && got.rlim_cur == soft && got.rlim_max == hard, "prlimit too");
}

static void in_child(void (*body)(rlim_t soft, rlim_t hard), rlim_t soft, rlim_t hard)
{
	pid_t pid = child();
	if (!pid) {
		body(soft, hard);
		exit(0);
	}
	CHECK(reap(pid) == 0, "limits %lu %lu", (unsigned long)soft, (unsigned long)hard);
}

/* Opens what the limit allows; returns how many numbers. Each is checked to be new. */
static unsigned char mine[1 << 20];
static rlim_t fill(void)
{
	rlim_t n = 0;
	int fd;
	while ((fd = dup(0)) >= 0) {
		CHECK(fd < (int)sizeof(mine) && !mine[fd], "number %d came twice", fd);
		mine[fd] = 1;
		n++;
	}
	CHECK(errno == EMFILE, "the limit ends it");
	return n;
}

static void empty(int from)
{
	for (int fd = from; fd < (int)sizeof(mine); fd++)
		if (mine[fd]) {
			CHECK(!close(fd), "close");
			mine[fd] = 0;
		}
}

static void full(rlim_t soft, rlim_t hard)
{
	int c, s;
	limit(soft, hard);
	pair(&c, &s);
	warm(c, s);
	rlim_t first = (rlim_t)(c > s ? c : s) + 1, n = fill();
	/* where the hard limit leaves nothing above, some numbers may be in use by a library */
	CHECK(soft < hard && soft <= 16384 ? n >= soft - first : n >= (soft - first) * 7 / 10, "%lu of %lu numbers",
	      (unsigned long)n, (unsigned long)(soft - first));
	still_works(c, s);
	empty(0);
	still_works(c, s);
	/* whatever is not its own is closed, and closing it does no harm */
	for (int fd = 3; fd < (int)soft + 64; fd++) {
		if (fd == c || fd == s)
			continue;
		CHECK(fcntl(fd, F_GETFD) == -1 && errno == EBADF, "F_GETFD of %d", fd);
		CHECK(close(fd) == -1 && errno == EBADF, "close of %d", fd);
		CHECK(dup(fd) == -1 && errno == EBADF, "dup of %d", fd);
	}
	still_works(c, s);
	CHECK(dup2(0, (int)soft) == -1 && errno == EBADF, "the number at the limit");
	close(c);
	close(s);
}

/* Raised over the numbers that are in use, then lowered below them. */
static void changed(rlim_t soft, rlim_t hard)
{
	int c[2], s[2];
	limit(soft, hard);
	pair(&c[0], &s[0]);
	warm(c[0], s[0]);
	limit(hard, hard);
	rlim_t n = fill();
	CHECK(n >= (hard - 10) * 7 / 10, "%lu of %lu numbers", (unsigned long)n, (unsigned long)hard);
	still_works(c[0], s[0]);
	empty(0);
	pair(&c[1], &s[1]);
	warm(c[1], s[1]);
	still_works(c[0], s[0]);
	limit(soft / 2, soft);
	close(c[1]);
	close(s[1]);
	pair(&c[1], &s[1]);
	warm(c[1], s[1]);
	still_works(c[0], s[0]);
	limit(soft / 2, soft / 2);
	pid_t pid = child();
	if (!pid) {
		struct rlimit now;
		carry(c[0], s[0], 500, 0, 6);
		_exit(getrlimit(RLIMIT_NOFILE, &now) || now.rlim_cur != soft / 2);
	}
	CHECK(reap(pid) == 0, "a child has the limit of its parent");
	still_works(c[1], s[1]);
	for (int i = 0; i < 2; i++) {
		close(c[i]);
		close(s[i]);
	}
}

/* Children that are made while other threads open connections inherit no other limit. */
static volatile bool stop;

static void *connections(void *arg)
{
	while (!stop) {
		int c, s;
		pair(&c, &s);
		carry(c, s, 2000, 0, 1);
		carry(s, c, 2000, 0, 1);
		close(c);
		close(s);
	}
	return NULL;
}

static void inherited(rlim_t soft, rlim_t hard)
{
	pthread_t t[2];
	limit(soft, hard);
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_create(&t[i], NULL, connections, NULL), "thread");
	for (int i = 0; i < 20; i++) {
		struct rlimit now;
		pid_t pid = child();
		if (!pid)
			_exit(getrlimit(RLIMIT_NOFILE, &now) || now.rlim_cur != soft);
		CHECK(reap(pid) == 0, "child %d", i);
		CHECK(!getrlimit(RLIMIT_NOFILE, &now) && now.rlim_cur == soft, "limit while others work");
	}
	stop = true;
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
}

static void test(void)
{
	struct rlimit now;
	CHECK(!getrlimit(RLIMIT_NOFILE, &now), "getrlimit");
	closefrom(3); /* what the driver left open */
	rlim_t most = now.rlim_max < sizeof(mine) ? now.rlim_max : sizeof(mine);
	static const rlim_t softs[] = {64, 100, 256, 1000, 1024, 4096};
	for (size_t i = 0; i < ARRAY_SIZE(softs); i++) {
		if (softs[i] > most)
			continue;
		in_child(full, softs[i], most);
		in_child(full, softs[i], softs[i]);
		if (softs[i] * 2 <= most)
			in_child(changed, softs[i], softs[i] * 2);
	}
	in_child(full, most, most);
	in_child(changed, 64, most);
	in_child(inherited, 256, most);
}

int main(void)
{
	return once(test);
}
