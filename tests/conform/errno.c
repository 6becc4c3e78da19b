/* A call that succeeds leaves errno alone: every call that is intercepted, from the first of a connection on, and again
 * when it has been through everything. */
#include "conform.h"
#include <dlfcn.h>
#include <grp.h>
#include <linux/sockios.h>
#include <sched.h>
#include <setjmp.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define MARK 4242 /* no error's number */

/* Evaluates call with errno marked; its value has to satisfy holds, where it is r. */
#define LEAVES(call, holds)                                                                                  \
	({                                                                                                   \
		errno = MARK;                                                                                \
		typeof(call) r = (call);                                                                     \
		int after_ = errno;                                                                          \
		CHECK(holds, "%s gave %lld, errno %d", #call, (long long)(intptr_t)r, after_);               \
		CHECK(after_ == MARK, "%s succeeded and errno is %d (%s)", #call, after_, strerror(after_)); \
		r;                                                                                           \
	})
#define SAME(call) LEAVES(call, r == 0)

static void quietly(int c, int s)
{
	char b[64];
	struct iovec v[2] = {{"ab", 2}, {"cd", 2}}, w[2] = {{b, 3}, {b + 3, 1}};
	struct msghdr out = {.msg_iov = v, .msg_iovlen = 2}, in = {.msg_iov = w, .msg_iovlen = 2};
	struct mmsghdr outs[1] = {{.msg_hdr = out}}, ins[1] = {{.msg_hdr = in}};
	LEAVES(send(c, "abcd", 4, 0), r == 4);
	LEAVES(recv(s, b, 1, MSG_PEEK), r == 1);
	LEAVES(recv(s, b, 4, MSG_WAITALL), r == 4);
	LEAVES(write(c, "abcd", 4), r == 4);
	LEAVES(read(s, b, 10), r == 4);
	LEAVES(writev(c, v, 2), r == 4);
	LEAVES(readv(s, w, 2), r == 4);
	LEAVES(sendto(c, "abcd", 4, 0, NULL, 0), r == 4);
	LEAVES(recvfrom(s, b, 10, 0, NULL, NULL), r == 4);
	LEAVES(sendmsg(c, &out, 0), r == 4);
	LEAVES(recvmsg(s, &in, 0), r == 4);
	LEAVES(sendmmsg(c, outs, 1, 0), r == 1);
	LEAVES(recvmmsg(s, ins, 1, 0, NULL), r == 1);
	LEAVES(pwritev2(c, v, 2, -1, 0), r == 4);
	LEAVES(preadv2(s, w, 2, -1, 0), r == 4);
	LEAVES(dprintf(c, "%d", 1234), r == 4);
	LEAVES(syscall(SYS_read, s, b, 4), r == 4);
	LEAVES(syscall(SYS_write, s, "abcd", 4), r == 4); /* the other way as well */
	LEAVES(read(c, b, 10), r == 4);
	LEAVES(send(c, "", 0, 0), r == 0);
}

static void from_files(int c, int s)
{
	char b[64];
	int p[2], file = memfd_create("errno", 0);
	CHECK(file >= 0 && write(file, "0123456789", 10) == 10 && !pipe(p), "file and pipe");
	off_t at = 2;
	LEAVES(sendfile(c, file, &at, 4), r == 4);
	LEAVES(recv(s, b, 10, 0), r == 4);
	CHECK(write(p[1], "abcd", 4) == 4, "pipe");
	LEAVES(splice(p[0], NULL, c, NULL, 4, 0), r == 4);
	LEAVES(splice(s, NULL, p[1], NULL, 10, 0), r == 4);
	close(p[0]);
	close(p[1]);
	close(file);
}

static void waits(int c, int s)
{
	char b[8];
	struct pollfd p = {s, POLLIN, 0};
	struct timespec none = {0, 1000000};
	struct timeval tv = {0, 1000};
	fd_set set;
	struct epoll_event e = {.events = EPOLLIN, .data.fd = s};
	LEAVES(poll(&p, 1, 1), r == 0);
	int ep = LEAVES(epoll_create1(0), r >= 0), old = LEAVES(epoll_create(1), r >= 0);
	SAME(epoll_ctl(ep, EPOLL_CTL_ADD, s, &e));
	LEAVES(epoll_wait(ep, &e, 1, 1), r == 0);
	LEAVES(send(c, "x", 1, 0), r == 1);
	LEAVES(poll(&p, 1, 1000), r == 1);
	LEAVES(ppoll(&p, 1, &none, NULL), r == 1);
	FD_ZERO(&set);
	FD_SET(s, &set);
	LEAVES(select(s + 1, &set, NULL, NULL, &tv), r == 1);
	LEAVES(pselect(s + 1, &set, NULL, NULL, &none, NULL), r == 1);
	LEAVES(epoll_wait(ep, &e, 1, 1000), r == 1);
	e = (struct epoll_event){.events = EPOLLIN | EPOLLET, .data.fd = s};
	SAME(epoll_ctl(ep, EPOLL_CTL_MOD, s, &e));
	LEAVES(epoll_pwait(ep, &e, 1, 1000, NULL), r == 1);
	LEAVES(epoll_pwait2(ep, &e, 1, &none, NULL), r == 0);
	SAME(epoll_ctl(ep, EPOLL_CTL_DEL, s, &e));
	e = (struct epoll_event){.events = EPOLLIN | EPOLLOUT | EPOLLONESHOT, .data.fd = s};
	SAME(epoll_ctl(ep, EPOLL_CTL_ADD, s, &e));
	LEAVES(epoll_wait(ep, &e, 1, 1000), r == 1);
	SAME(close(ep));
	SAME(close(old));
	LEAVES(recv(s, b, 1, 0), r == 1);
}

static void numbers(int c, int s)
{
	int n, on = 1;
	struct sockaddr_storage at;
	socklen_t len = sizeof(at), size = sizeof(on);
	LEAVES(send(c, "abc", 3, 0), r == 3);
	SAME(ioctl(s, FIONREAD, &n));
	SAME(ioctl(c, SIOCOUTQ, &n));
	SAME(ioctl(s, FIONBIO, &on));
	int flags = LEAVES(fcntl(s, F_GETFL), r > 0);
	SAME(fcntl(s, F_SETFL, flags & ~O_NONBLOCK));
	SAME(getsockname(s, (struct sockaddr *)&at, &len));
	SAME(getpeername(s, (struct sockaddr *)&at, &len));
	SAME(getsockopt(s, SOL_SOCKET, SO_ERROR, &on, &size));
	on = 1;
	SAME(setsockopt(s, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)));
	on = 1 << 20;
	SAME(setsockopt(s, SOL_SOCKET, SO_SNDBUF, &on, sizeof(on)));
	int a = LEAVES(dup(s), r >= 0), b = LEAVES(fcntl(s, F_DUPFD, 50), r >= 50);
	LEAVES(dup2(s, b), r == b);
	LEAVES(dup3(s, b, O_CLOEXEC), r == b);
	LEAVES(dup2(s, b + 1), r == b + 1);
	char c3[4];
	LEAVES(recv(b, c3, 4, 0), r == 3);
	SAME(close(a));
	SAME(close_range((unsigned)b, (unsigned)b, 0));
	errno = MARK;
	closefrom(b + 1);
	CHECK(errno == MARK, "closefrom");
}

static void *later(void *arg)
{
	nap(20);
	send_all(*(int *)arg, "late", 4);
	return NULL;
}

/* Each receive of the other end has nothing to take at first: now and then it looks at the kernel's socket. */
static void *slowly(void *arg)
{
	for (int i = 0; i < 40; i++) {
		nap(1);
		send_all(*(int *)arg, "x", 1);
	}
	return NULL;
}

static size_t wanted;

static void *drain(void *arg)
{
	static char b[65536];
	nap(20);
	for (size_t n = 0; n < wanted;) {
		ssize_t k = recv(*(int *)arg, b, sizeof(b), 0);
		CHECK(k > 0, "drain");
		n += (size_t)k;
	}
	return NULL;
}

static void sleeping(int c, int s)
{
	pthread_t t;
	char b[8];
	CHECK(!pthread_create(&t, NULL, later, &c), "thread");
	LEAVES(recv(s, b, 4, 0), r == 4);
	pthread_join(t, NULL);
	CHECK(!pthread_create(&t, NULL, later, &c), "thread");
	struct pollfd p = {s, POLLIN, 0};
	LEAVES(poll(&p, 1, -1), r == 1);
	LEAVES(recv(s, b, 4, 0), r == 4);
	pthread_join(t, NULL);
	CHECK(!pthread_create(&t, NULL, slowly, &c), "thread");
	int ep = epoll_create1(0);
	struct epoll_event e = {.events = EPOLLIN, .data.fd = s};
	CHECK(!epoll_ctl(ep, EPOLL_CTL_ADD, s, &e), "ADD");
	for (int i = 0; i < 40; i++) {
		if (i % 4 == 1)
			LEAVES(poll(&p, 1, -1), r == 1);
		else if (i % 4 == 2)
			LEAVES(epoll_wait(ep, &e, 1, -1), r == 1);
		LEAVES(recv(s, b, 1, 0), r == 1);
	}
	close(ep);
	pthread_join(t, NULL);
	wanted = 12u << 20;
	char *large = calloc(1, wanted);
	CHECK(!pthread_create(&t, NULL, drain, &s), "thread");
	LEAVES(send(c, large, wanted, 0), r == (ssize_t)wanted); /* finds no room */
	pthread_join(t, NULL);
	free(large);
}

static void on_usr1(int sig)
{
	(void)sig;
}

static int in_clone(void *arg)
{
	(void)arg;
	return 0;
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* siginterrupt */
static void processes(int c, int s)
{
	struct sigaction a = {.sa_handler = on_usr1}, was;
	struct rlimit limit;
	sigset_t set;
	char b[4];
	static char stack[65536] __attribute__((aligned(16)));
	sigemptyset(&set);
	SAME(sigaction(SIGUSR1, &a, &was));
	LEAVES(signal(SIGUSR1, on_usr1), r == on_usr1);
	SAME(siginterrupt(SIGUSR1, 1));
	SAME(sigprocmask(SIG_BLOCK, &set, NULL));
	SAME(pthread_sigmask(SIG_UNBLOCK, &set, NULL));
	SAME(raise(SIGUSR1));
	SAME(getrlimit(RLIMIT_NOFILE, &limit));
	SAME(setrlimit(RLIMIT_NOFILE, &limit));
	SAME(prlimit(0, RLIMIT_NOFILE, NULL, &limit));
	SAME(setuid(getuid()));
	SAME(setgid(getgid()));
	SAME(seteuid(geteuid()));
	SAME(setresuid((uid_t)-1, (uid_t)-1, (uid_t)-1));
	LEAVES(dlsym(RTLD_DEFAULT, "recv"), r != NULL);
	jmp_buf here;
	errno = MARK;
	if (!setjmp(here))
		longjmp(here, 1);
	CHECK(errno == MARK, "longjmp");
	fflush(NULL);
	errno = MARK;
	pid_t pid = fork();
	if (!pid)
		_exit(errno != MARK);
	CHECK(errno == MARK && !reap(pid), "fork, in both");
	errno = MARK;
	pid = vfork();
	if (!pid)
		_exit(errno != MARK);
	CHECK(errno == MARK && !reap(pid), "vfork, in both");
	errno = MARK;
	pid = clone(in_clone, stack + sizeof(stack), SIGCHLD, NULL);
	CHECK(errno == MARK && !reap(pid), "clone");
	char *argv[] = {"true", NULL}, *none[] = {NULL};
	posix_spawn_file_actions_t actions;
	posix_spawn_file_actions_init(&actions);
	SAME(posix_spawn_file_actions_adddup2(&actions, 1, 2));
	SAME(posix_spawn(&pid, "/bin/true", &actions, NULL, argv, none));
	CHECK(!reap(pid), "spawn");
	posix_spawn_file_actions_destroy(&actions);
	LEAVES(send(c, "abc", 3, 0), r == 3);
	LEAVES(recv(s, b, 3, 0), r == 3);
}

static void both_ends(int *c, int *s)
{
	struct address a;
	int l = LEAVES(socket(AF_INET, SOCK_STREAM, 0), r >= 0);
	set_address(&a, true, 0);
	SAME(bind(l, (struct sockaddr *)&a.at, a.length));
	SAME(listen(l, 8));
	set_address(&a, false, port_of(l));
	*c = LEAVES(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), r >= 0);
	SAME(connect(*c, (struct sockaddr *)&a.at, a.length));
	*s = LEAVES(accept(l, NULL, NULL), r >= 0);
	int c2 = LEAVES(socket(AF_INET, SOCK_STREAM, 0), r >= 0);
	SAME(connect(c2, (struct sockaddr *)&a.at, a.length));
	int s2 = LEAVES(accept4(l, NULL, NULL, SOCK_NONBLOCK), r >= 0);
	SAME(close(c2));
	SAME(close(s2));
	SAME(close(l));
}

static void test(void)
{
	int c, s;
	char b;
	both_ends(&c, &s);
	for (int i = 0; i < 6; i++)
		quietly(c, s);
	from_files(c, s);
	waits(c, s);
	numbers(c, s);
	sleeping(c, s);
	processes(c, s);
	quietly(c, s);
	waits(s, c);
	SAME(shutdown(c, SHUT_WR));
	LEAVES(recv(s, &b, 1, 0), r == 0);
	LEAVES(send(s, "x", 1, 0), r == 1);
	LEAVES(recv(c, &b, 1, 0), r == 1);
	SAME(close(c));
	SAME(close(s));
	both_ends(&c, &s);
	quietly(c, s);
	LEAVES(send(c, "unread", 6, 0), r == 6);
	SAME(close(s)); /* with a reset */
	SAME(close(c));
	both_ends(&c, &s);
	quietly(c, s);
	FILE *f = LEAVES(fdopen(s, "r"), r != NULL);
	SAME(fclose(f));
	SAME(close(c));
}

int main(void)
{
	return once(test);
}
