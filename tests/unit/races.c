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

static _Atomic pid_t forked;
static int go[2], number;

/* The child waits to be told; with a number it says whether that one stands in its table. */
static void fork_child_here(void)
{
	pid_t pid = fork();
	if (!pid) {
		char b;
		close(go[1]);
		if (read(go[0], &b, 1) != 0)
			_exit(2);
		_exit(number >= 0 && fdtab_sock(number) != NULL);
	}
	atomic_store(&forked, pid);
}

static int child_ends(void)
{
	int status = 0;
	while (!atomic_load(&forked))
		usleep(100);
	close(go[1]);
	waitpid(forked, &status, 0);
	close(go[0]);
	forked = 0;
	return WEXITSTATUS(status);
}

static int slow_accept(int fd, struct sockaddr *from, socklen_t *len, int flags)
{
	int r = (int)real.syscall(SYS_accept4, fd, from, len, flags);
	let_act(fork_child_here);
	return r;
}

static bool on_lane(int fd)
{
	struct sock *k = fdtab_sock(fd);
	return k && k->slot && (k->slot->rx.mode == MODE_LANE || k->slot->tx.mode == MODE_LANE);
}

static void fork_while_accepting(void)
{
	int (*before)(int, struct sockaddr *, socklen_t *, int) = real.accept4;
	int l = listener(8);
	number = -1;
	pid_t pid = child();
	if (!pid) {
		uint16_t port = port_of(l);
		close(l);
		echo_until_end(dial(port));
		_exit(0);
	}
	CHECK(!pipe(go), "pipe");
	real.accept4 = slow_accept;
	s = take(l);
	real.accept4 = before;
	close(l);
	ask_echo(s, 40, 100, 1);
	CHECK(!on_lane(s), "the child holds it too: what one of the two reads the other has lost");
	CHECK(!child_ends(), "child");
	ask_echo(s, 40, 100, 2);
	CHECK(on_lane(s), "the child has gone");
	close(s);
	CHECK(!reap(pid), "peer");
}

/* The child comes after the number is in the table. */
static void begin_fork(void)
{
	atomic_store(&acted, false);
	atomic_store(&act, fork_child_here);
	usleep(30000);
}

static int dup_and_fork(int fd)
{
	number = (int)real.syscall(SYS_dup, fd);
	begin_fork();
	return number;
}

static int socket_and_fork(int domain, int type, int protocol)
{
	number = (int)real.syscall(SYS_socket, domain, type, protocol);
	begin_fork();
	return number;
}

static void fork_while_making(void)
{
	int (*before)(int) = real.dup, (*socket_before)(int, int, int) = real.socket;
	CHECK(!pipe(go), "pipe");
	pair(&c, &s);
	warm(c, s);
	real.dup = dup_and_fork;
	int again = dup(s);
	real.dup = before;
	CHECK(again >= 0 && child_ends() == 1, "the child does not know what its number %d is", again);
	close(again);
	close(c);
	close(s);
	CHECK(!pipe(go), "pipe");
	real.socket = socket_and_fork;
	int fresh = socket(AF_INET, SOCK_STREAM, 0);
	real.socket = socket_before;
	CHECK(fresh >= 0 && child_ends() == 1, "the child does not know what its number %d is", fresh);
	CHECK(fdtab_sock(fresh)->forked, "the child's copy is not counted");
	close(fresh);
}

/* Children that libc knows nothing of: they hold until they end, not for ever. */
static void raw_children(void)
{
	for (int kill_it = 0; kill_it < 2; kill_it++) {
		pair(&c, &s);
		int pid = (int)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
		if (!pid) {
			for (;;)
				if (kill_it)
					pause();
				else
					_exit(0);
		}
		CHECK(pid > 0, "clone");
		if (kill_it) {
			CHECK(!slot_sole(fdtab_sock(s)->slot), "the child is no holder");
			kill(pid, SIGKILL);
		}
		reap(pid);
		CHECK(slot_sole(fdtab_sock(s)->slot) && slot_sole(fdtab_sock(c)->slot), "the child has ended and is a holder");
		warm(c, s);
		CHECK(on_lane(s), "promoted");
		close(c);
		close(s);
	}
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
	fork_while_accepting();
	fork_while_making();
	raw_children();
	puts("ok");
	return 0;
}
