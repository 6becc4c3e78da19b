/* System calls by number, syscall(2): each that concerns connections, epoll sets, descriptors and processes, on fresh
 * connections and after traffic, beside calls by name on the same ones. */
#include "conform.h"
#include <linux/time_types.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static uint8_t out[2000], in[2000];
static struct iovec from = {out, 100}, to = {in, 100};
static int c, s;

#define ALSO(how, call)                                                                             \
	do {                                                                                        \
		long k_ = (call);                                                                   \
		CHECK(k_ == (how), "%s: %ld", #call, k_);                                           \
	} while (0)

static void took(const char *what)
{
	CHECK(!memcmp(in, out, 100), "%s", what);
	memset(in, 0, sizeof(in));
}

static void each_receive(unsigned round)
{
	struct msghdr m = {.msg_iov = &to, .msg_iovlen = 1};
	struct mmsghdr mm = {.msg_hdr = m};
	pattern(out, sizeof(out), round, 1);
	for (int how = 0; how < 6; how++) {
		send_all(c, out, 100);
		CHECK(ready(s, POLLIN, 1000), "arrived");
		switch (how) {
		case 0: ALSO(100, syscall(SYS_read, s, in, 100)); break;
		case 1: ALSO(100, syscall(SYS_readv, s, &to, 1)); break;
		case 2: ALSO(100, syscall(SYS_preadv2, s, &to, 1, -1L, -1L, 0)); break;
		case 3: ALSO(100, syscall(SYS_recvfrom, s, in, 100, MSG_WAITALL, NULL, NULL)); break;
		case 4: ALSO(100, syscall(SYS_recvmsg, s, &m, 0)); break;
		default: ALSO(1, syscall(SYS_recvmmsg, s, &mm, 1, 0, NULL)); break;
		}
		took("bytes");
		ALSO(-1, syscall(SYS_recvfrom, s, in, 100, MSG_DONTWAIT, NULL, NULL));
		CHECK(errno == EAGAIN, "errno");
	}
}

static void each_send(unsigned round)
{
	struct msghdr m = {.msg_iov = &from, .msg_iovlen = 1};
	struct mmsghdr mm = {.msg_hdr = m};
	int file = memfd_create("file", 0), pipes[2];
	off_t at = 0;
	pattern(out, sizeof(out), round, 2);
	CHECK(!pipe(pipes) && write(file, out, 100) == 100 && write(pipes[1], out, 100) == 100, "sources");
	for (int how = 0; how < 8; how++) {
		switch (how) {
		case 0: ALSO(100, syscall(SYS_write, c, out, 100)); break;
		case 1: ALSO(100, syscall(SYS_writev, c, &from, 1)); break;
		case 2: ALSO(100, syscall(SYS_pwritev2, c, &from, 1, -1L, -1L, 0)); break;
		case 3: ALSO(100, syscall(SYS_sendto, c, out, 100, MSG_NOSIGNAL, NULL, 0)); break;
		case 4: ALSO(100, syscall(SYS_sendmsg, c, &m, 0)); break;
		case 5: ALSO(1, syscall(SYS_sendmmsg, c, &mm, 1, 0)); break;
		case 6: ALSO(100, syscall(SYS_sendfile, c, file, &at, 100L)); break;
		default: ALSO(100, syscall(SYS_splice, pipes[0], NULL, c, NULL, 100L, 0)); break;
		}
		CHECK(recv_all(s, in, 100) == 100, "arrived");
		took("bytes");
	}
	send_all(c, out, 100);
	CHECK(ready(s, POLLIN, 1000), "arrived");
	ALSO(100, syscall(SYS_splice, s, NULL, pipes[1], NULL, 100L, 0));
	CHECK(read(pipes[0], in, 100) == 100, "pipe");
	took("spliced");
	close(file);
	close(pipes[0]);
	close(pipes[1]);
}

static void each_wait(void)
{
	struct pollfd p = {s, POLLIN, 0};
	struct epoll_event e = {EPOLLIN, {.fd = s}}, told;
	int set = (int)syscall(SYS_epoll_create1, EPOLL_CLOEXEC);
	fd_set r;
	CHECK(set >= 0, "SYS_epoll_create1");
	ALSO(0, syscall(SYS_epoll_ctl, set, EPOLL_CTL_ADD, s, &e));
	for (int there = 0; there < 2; there++) {
		struct __kernel_timespec t = {0, 5000000}, t2 = t;
		struct { const void *mask; size_t size; } none = {NULL, 8};
		FD_ZERO(&r);
		FD_SET(s, &r);
		ALSO(there, syscall(SYS_ppoll, &p, 1, &t, NULL, 8));
		CHECK(p.revents == (there ? POLLIN : 0), "events");
		CHECK(t.tv_sec == 0 && (there ? t.tv_nsec > 0 : t.tv_nsec == 0), "what is left of the time: %lld", (long long)t.tv_nsec);
		ALSO(there, syscall(SYS_pselect6, s + 1, &r, NULL, NULL, &t2, &none));
		CHECK(!FD_ISSET(s, &r) == !there && (there ? t2.tv_nsec > 0 : t2.tv_nsec == 0), "set and time");
		ALSO(there, syscall(SYS_epoll_pwait, set, &told, 1, 5, NULL, 8));
		CHECK(!there || (told.events == EPOLLIN && told.data.fd == s), "member");
#ifdef SYS_epoll_pwait2
		struct __kernel_timespec t3 = {0, 3000000};
		ALSO(there, syscall(SYS_epoll_pwait2, set, &told, 1, &t3, NULL, 8));
#endif
#ifdef SYS_poll
		ALSO(there, syscall(SYS_poll, &p, 1, 3));
		ALSO(there, syscall(SYS_epoll_wait, set, &told, 1, 3));
		struct timeval tv = {0, 3000};
		FD_ZERO(&r);
		FD_SET(s, &r);
		ALSO(there, syscall(SYS_select, s + 1, &r, NULL, NULL, &tv));
		int old = (int)syscall(SYS_epoll_create, 1);
		CHECK(old >= 0 && !epoll_ctl(old, EPOLL_CTL_ADD, s, &e) && epoll_wait(old, &told, 1, 2) == there, "SYS_epoll_create");
		close(old);
#endif
		if (!there) {
			send_all(c, "x", 1);
			CHECK(ready(s, POLLIN, 1000), "arrived");
		}
	}
	e.events = EPOLLOUT;
	ALSO(0, syscall(SYS_epoll_ctl, set, EPOLL_CTL_MOD, s, &e));
	ALSO(1, syscall(SYS_epoll_pwait, set, &told, 1, 1000, NULL, 8));
	CHECK(told.events == EPOLLOUT && recv(s, in, 10, 0) == 1, "member");
	ALSO(0, syscall(SYS_epoll_ctl, set, EPOLL_CTL_DEL, s, NULL));
	ALSO(0, syscall(SYS_close, set));
}

static void each_number(void)
{
	int v = 0, n = 99, copy;
	socklen_t size = sizeof(v);
	ALSO(0, syscall(SYS_setsockopt, s, SOL_SOCKET, SO_KEEPALIVE, &(int){1}, sizeof(int)));
	ALSO(0, syscall(SYS_getsockopt, s, SOL_SOCKET, SO_KEEPALIVE, &v, &size));
	CHECK(v == 1, "SO_KEEPALIVE");
	send_all(c, out, 50);
	CHECK(ready(s, POLLIN, 1000), "arrived");
	for (int i = 0; i < 500 && n != 50; i++) {
		ALSO(0, syscall(SYS_ioctl, s, FIONREAD, &n));
		nap(n != 50);
	}
	CHECK(n == 50, "FIONREAD %d", n);
	copy = (int)syscall(SYS_dup, s);
	CHECK(copy >= 0 && recv_all(copy, in, 20) == 20, "SYS_dup");
	ALSO(copy, syscall(SYS_dup3, s, copy, O_CLOEXEC));
	CHECK(recv_all(copy, in, 20) == 20, "SYS_dup3");
	ALSO(0, syscall(SYS_close, copy));
	copy = (int)syscall(SYS_fcntl, s, F_DUPFD_CLOEXEC, 50);
	CHECK(copy >= 50 && recv_all(copy, in, 10) == 10, "SYS_fcntl");
#ifdef SYS_dup2
	ALSO(60, syscall(SYS_dup2, copy, 60));
	carry(c, 60, 500, 0, 3);
	ALSO(0, syscall(SYS_close, 60));
#endif
#ifdef SYS_close_range
	ALSO(0, syscall(SYS_close_range, copy, copy, 0));
#else
	close(copy);
#endif
	carry(c, s, 500, 0, 4);
	ALSO(0, syscall(SYS_fcntl, s, F_SETFL, O_NONBLOCK));
	ALSO(-1, syscall(SYS_read, s, in, 10));
	CHECK(errno == EAGAIN, "errno");
	ALSO(0, syscall(SYS_fcntl, s, F_SETFL, 0));
}

/* A connection made by numbers alone. */
static void made(void)
{
	struct address a;
	int l = (int)syscall(SYS_socket, family == V4 ? AF_INET : AF_INET6, SOCK_STREAM, 0);
	set_address(&a, true, 0);
	CHECK(l >= 0, "SYS_socket");
	ALSO(0, syscall(SYS_bind, l, &a.at, a.length));
	ALSO(0, syscall(SYS_listen, l, 4));
	for (int how = 0; how < 2; how++) {
		set_address(&a, false, port_of(l));
		c = (int)syscall(SYS_socket, family == V4 || family == MIXED ? AF_INET : AF_INET6, SOCK_STREAM, 0);
		ALSO(0, syscall(SYS_connect, c, &a.at, a.length));
#ifdef SYS_accept
		if (how)
			s = (int)syscall(SYS_accept, l, NULL, NULL);
		else
#endif
			s = (int)syscall(SYS_accept4, l, NULL, NULL, SOCK_CLOEXEC);
		CHECK(c >= 0 && s >= 0, "SYS_accept4");
		no_delay(c);
		no_delay(s);
		for (unsigned round = 0; round < 3; round++) {
			each_receive(round);
			each_send(round);
			if (round != 1)
				each_wait();
			each_number();
			if (!round)
				warm(c, s);
		}
		for (int i = 0; i < 4; i++)
			still_works(c, s);
		ALSO(0, syscall(SYS_shutdown, c, SHUT_WR));
		CHECK(recv(s, in, 10, 0) == 0, "end");
		ALSO(0, syscall(SYS_close, s));
		ALSO(0, syscall(SYS_close, c));
	}
	close(l);
}

/* Children by number, that end and become programs by number: what they held is given back. */
static void processes(void)
{
	pair(&c, &s);
	warm(c, s);
	for (int how = 0; how < 5; how++) {
		char *const argv[] = {"true", NULL};
		long pid;
		fflush(NULL);
#ifdef SYS_fork
		pid = how & 1 ? syscall(SYS_fork) : syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0L);
#else
		pid = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0L);
#endif
		CHECK(pid >= 0, "child");
		if (!pid) {
			if (how < 2)
				syscall(SYS_exit_group, 0);
			if (how == 2)
				syscall(SYS_execve, "/bin/true", argv, NULL);
			if (how == 3)
				syscall(SYS_execveat, AT_FDCWD, "/bin/true", argv, NULL, 0);
			if (syscall(SYS_unshare, 0) || syscall(SYS_setuid, getuid()) || syscall(SYS_setgid, getgid()) ||
			    syscall(SYS_setreuid, -1, -1) || syscall(SYS_setregid, -1, -1) || syscall(SYS_setresuid, -1, -1, -1) ||
			    syscall(SYS_setresgid, -1, -1, -1))
				_exit(1);
			if (syscall(SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0))
				_exit(1);
			carry(c, s, 100, 0, 1);
			_exit(0);
		}
		CHECK(reap((pid_t)pid) == 0, "child %d", how);
		still_works(c, s);
	}
	close(c);
	close(s);
}

static void test(void)
{
	made();
	processes();
}

int main(void)
{
	return each_family(test);
}
