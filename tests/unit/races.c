/* What two threads of a program do to one descriptor at the same moment, where it matters which of them comes first: the
 * kernel's call is replaced by one in whose middle the other thread acts. Both ends of the connection are in this
 * process. */
#include "preload/family.h"
#include "preload/fdtab.h"
#include "preload/real.h"
#include "preload/sock.h"
#include "preload/switch.h"
#include "preload/wait/waitset.h"
#define family addressing /* the library has another one */
#include "tests/conform/conform.h"
#undef family

#include <sys/syscall.h>

static int c, s;
static void (*_Atomic act)(void); /* in the other thread */
static _Atomic bool acted;

static void *other_thread(void *arg)
{
	for (;;) {
		void (*f)(void) = atomic_load(&act);
		if (!f) {
			usleep(100);
			continue;
		}
		f();
		atomic_store(&act, NULL);
		atomic_store(&acted, true);
	}
	return arg;
}

static void let_act(void (*f)(void))
{
	atomic_store(&acted, false);
	atomic_store(&act, f);
	while (!atomic_load(&acted))
		usleep(100);
}

static void (*meanwhile)(void);

static int slow_dup(int fd)
{
	int r = (int)real.syscall(SYS_dup, fd);
	let_act(meanwhile);
	return r;
}

static void close_s(void)
{
	close(s);
}

static void dup_while_closing(void)
{
	int (*before)(int) = real.dup;
	pair(&c, &s);
	warm(c, s);
	CHECK(fdtab_sock(s)->slot->rx.mode == MODE_LANE, "on a lane");
	send_all(c, "unread", 6);
	meanwhile = close_s;
	real.dup = slow_dup;
	int again = dup(s);
	real.dup = before;
	char b[6];
	CHECK(again >= 0 && recv_all(again, b, 6) == 6 && !memcmp(b, "unread", 6), "what was unread is the new number's");
	still_works(c, again);
	close(again);
	CHECK(recv(c, &again, 1, 0) == 0, "the end of the last number is the end");
	close(c);
}

/* The moment between dup's look at the table and its count is too short for a test to act in: what it finds then. */
static void dup_of_ended(void)
{
	pair(&c, &s);
	warm(c, s);
	struct sock *k = fdtab_sock(s);
	int number = dup(0);
	close(s);
	(void)sock_dup(k, number);
	CHECK(fdtab_sock(number) != k && k->fds == UINT32_MAX, "an ended socket has %u numbers", k->fds);
	close(number);
	close(c);
}

static int set;

static void close_set(void)
{
	close(set);
}

static void dup_of_set_while_closing(void)
{
	int (*before)(int) = real.dup;
	set = epoll_create1(0);
	meanwhile = close_set;
	real.dup = slow_dup;
	int again = dup(set);
	real.dup = before;
	int fresh = epoll_create1(0);
	CHECK(again >= 0 && fresh >= 0, "dup");
	CHECK(!fdtab_waitset(again) || fdtab_waitset(again) != fdtab_waitset(fresh), "two sets are one");
	close(again);
	close(fresh);
}

int main(void)
{
	pthread_t t;
	real_bind();
	setenv("HASTEN_PROMOTE", "eager", 1);
	alarm(20);
	CHECK(!pthread_create(&t, NULL, other_thread, NULL), "thread");
	dup_while_closing();
	dup_of_ended();
	dup_of_set_while_closing();
	puts("ok");
	return 0;
}
