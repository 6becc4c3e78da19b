/* The same calls under their other names: the checked forms of fortified programs, the 64-bit forms of files' calls, the
 * older ways to install a handler and to jump, and calls of processes that have a more usual sibling. */
#include "conform.h"
#include <grp.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/time.h>

/* libc exports these, and declares them where it wants to. */
extern ssize_t __read_chk(int fd, void *b, size_t n, size_t size);
extern ssize_t __recv_chk(int fd, void *b, size_t n, size_t size, int flags);
extern ssize_t __recvfrom_chk(int fd, void *b, size_t n, size_t size, int flags, struct sockaddr *from, socklen_t *length);
extern int __poll_chk(struct pollfd *p, nfds_t n, int ms, size_t size);
extern int __ppoll_chk(struct pollfd *p, nfds_t n, const struct timespec *t, const sigset_t *mask, size_t size);
extern int __dprintf_chk(int fd, int level, const char *format, ...);
extern int __vdprintf_chk(int fd, int level, const char *format, va_list ap);
extern void __longjmp_chk(struct __jmp_buf_tag *to, int value);
extern int fcntl64(int fd, int command, ...);
extern ssize_t preadv64v2(int fd, const struct iovec *v, int n, off64_t at, int flags);
extern ssize_t pwritev64v2(int fd, const struct iovec *v, int n, off64_t at, int flags);
extern FILE *freopen64(const char *path, const char *mode, FILE *f);
extern void (*bsd_signal(int signal_number, void (*handler)(int)))(int);
extern void (*ssignal(int signal_number, void (*handler)(int)))(int);
extern void (*sysv_signal(int signal_number, void (*handler)(int)))(int);
extern void (*__sysv_signal(int signal_number, void (*handler)(int)))(int);
extern pid_t _Fork(void);

static int c, s;
static char b[64];

static void arrive(const char *text)
{
	send_all(c, text, strlen(text));
	for (int i = 0; i < 1000 && !(ready(s, POLLIN, 10) & POLLIN); i++)
		nap(1);
}

static void checked(void)
{
	struct pollfd p = {s, POLLIN, 0};
	struct timespec t = {1, 0};
	arrive("123456");
	CHECK(__poll_chk(&p, 1, 1000, sizeof(p)) == 1 && p.revents == POLLIN, "__poll_chk");
	CHECK(__ppoll_chk(&p, 1, &t, NULL, sizeof(p)) == 1, "__ppoll_chk");
	CHECK(__read_chk(s, b, 2, sizeof(b)) == 2 && !memcmp(b, "12", 2), "__read_chk");
	CHECK(__recv_chk(s, b, 2, sizeof(b), MSG_WAITALL) == 2 && !memcmp(b, "34", 2), "__recv_chk");
	CHECK(__recvfrom_chk(s, b, 2, sizeof(b), 0, NULL, NULL) == 2 && !memcmp(b, "56", 2), "__recvfrom_chk");
	for (int how = 0; how < 5; how++) {
		pid_t pid = child();
		if (!pid) {
			close(2); /* libc has something to say */
			switch (how) {
			case 0: (void)!__read_chk(s, b, 65, 64); break;
			case 1: __recv_chk(s, b, 65, 64, MSG_DONTWAIT); break;
			case 2: __recvfrom_chk(s, b, 65, 64, MSG_DONTWAIT, NULL, NULL); break;
			case 3: __poll_chk(&p, 2, 0, sizeof(p)); break;
			default: __ppoll_chk(&p, 2, &t, NULL, sizeof(p)); break;
			}
			_exit(0);
		}
		CHECK(reap(pid) == 128 + SIGABRT, "a buffer that is too small, way %d", how);
	}
}

static int printed(int how, int fd, const char *format, ...)
{
	va_list ap;
	va_start(ap, format);
	int n = how ? __vdprintf_chk(fd, 1, format, ap) : vdprintf(fd, format, ap);
	va_end(ap);
	return n;
}

static void of_files(void)
{
	struct iovec v = {b, 4};
	off64_t at = 1;
	int file = memfd_create("file", 0);
	CHECK(write(file, "abcdefgh", 8) == 8, "file");
	CHECK(sendfile64(c, file, &at, 4) == 4 && at == 5, "sendfile64");
	CHECK(preadv64v2(s, &v, 1, -1, 0) == 4 && !memcmp(b, "bcde", 4), "preadv64v2");
	memcpy(b, "wxyz", 4);
	CHECK(pwritev64v2(c, &v, 1, -1, 0) == 4 && recv_all(s, b, 4) == 4 && !memcmp(b, "wxyz", 4), "pwritev64v2");
	CHECK(preadv64v2(s, &v, 1, 0, 0) == -1 && errno == ESPIPE, "a place in a stream");
	CHECK(preadv64v2(s, &v, 1, -1, 0x8 /* RWF_NOWAIT */) == -1 && errno == EAGAIN, "RWF_NOWAIT");
	CHECK(printed(0, c, "%d ", 1) == 2 && printed(1, c, "%d ", 2) == 2 && __dprintf_chk(c, 1, "%d", 3) == 1, "dprintf");
	CHECK(recv_all(s, b, 5) == 5 && !memcmp(b, "1 2 3", 5), "vdprintf, __vdprintf_chk, __dprintf_chk");
	int copy = fcntl64(s, F_DUPFD, 40);
	CHECK(copy >= 40 && fcntl64(copy, F_GETFL) >= 0, "fcntl64");
	carry(c, copy, 300, 0, 1);
	CHECK(!fcntl64(copy, F_SETFL, O_NONBLOCK) && recv(s, b, 1, 0) == -1 && errno == EAGAIN && !fcntl64(s, F_SETFL, 0), "modes");
	close(copy);
	int twin = dup(c);
	FILE *f = fdopen(twin, "w");
	CHECK(f && fputs("by a stream", f) >= 0 && !fflush(f), "fdopen");
	CHECK(recv_all(s, b, 11) == 11 && !memcmp(b, "by a stream", 11), "bytes");
	CHECK(freopen64("/dev/null", "w", f) == f && fputs("elsewhere", f) >= 0 && !fclose(f), "freopen64");
	CHECK(recv(s, b, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN, "no byte of that, and no end");
	close(file);
}

static volatile sig_atomic_t hits;

static void count(int signal_number)
{
	hits++;
}

struct later {
	pthread_t whom;
	_Atomic pid_t begun;
	_Atomic bool over;
	bool restarts;
};

static void *interrupt(void *arg)
{
	struct later *l = arg;
	await_sleep(&l->begun);
	if (!l->over)
		pthread_kill(l->whom, SIGUSR1);
	nap(4);
	if (l->restarts)
		send_all(c, "x", 1);
	return NULL;
}

static ssize_t interrupted(bool restarts)
{
	struct later l = {.whom = pthread_self(), .restarts = restarts};
	pthread_t t;
	hits = 0;
	CHECK(!pthread_create(&t, NULL, interrupt, &l), "thread");
	l.begun = gettid();
	ssize_t k = recv(s, b, 1, 0);
	int e = errno;
	l.over = true;
	pthread_join(t, NULL);
	errno = e;
	return k;
}

static bool still_installed(void)
{
	struct sigaction now;
	CHECK(!sigaction(SIGUSR1, NULL, &now), "sigaction");
	return now.sa_handler == count;
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* siginterrupt */
static void handlers(void)
{
	CHECK(bsd_signal(SIGUSR1, count) != SIG_ERR && interrupted(true) == 1 && hits == 1 && still_installed(), "bsd_signal restarts");
	CHECK(ssignal(SIGUSR1, count) == count && interrupted(true) == 1 && hits == 1 && still_installed(), "ssignal restarts");
	CHECK(sysv_signal(SIGUSR1, count) == count && interrupted(false) == -1 && errno == EINTR && hits == 1 && !still_installed(),
	      "sysv_signal interrupts, once");
	CHECK(__sysv_signal(SIGUSR1, count) == SIG_DFL && interrupted(false) == -1 && errno == EINTR && !still_installed(), "__sysv_signal too");
	CHECK(signal(SIGUSR1, count) == SIG_DFL && !siginterrupt(SIGUSR1, 1), "siginterrupt");
	CHECK(interrupted(false) == -1 && errno == EINTR && hits == 1 && still_installed(), "interrupts");
	CHECK(!siginterrupt(SIGUSR1, 0) && interrupted(true) == 1 && hits == 1, "restarts");
	struct sigaction a = {.sa_handler = count, .sa_flags = SA_RESTART | SA_NODEFER | SA_RESETHAND};
	CHECK(!sigaction(SIGUSR1, &a, NULL) && interrupted(true) == 1 && hits == 1 && !still_installed(), "SA_NODEFER, SA_RESETHAND");
	signal(SIGUSR1, SIG_DFL);
}

static jmp_buf out;
static volatile int how_jumped;

static void jump(int signal_number)
{
	if (how_jumped == 0)
		longjmp(out, 1);
	else if (how_jumped == 1)
		_longjmp(out, 1);
	else
		__longjmp_chk(out, 1);
}

static void jumps(void)
{
	struct sigaction a = {.sa_handler = jump, .sa_flags = SA_NODEFER}, old;
	unsigned rest = alarm(0);
	CHECK(!sigaction(SIGALRM, &a, &old), "sigaction");
	for (how_jumped = 0; how_jumped < 3; how_jumped++) {
		struct itimerval soon = {{0, 0}, {0, 4000}};
		if (!_setjmp(out)) {
			setitimer(ITIMER_REAL, &soon, NULL);
			recv(s, b, 1, 0);
			CHECK(0, "nothing ends this wait but the jump");
		}
		carry(c, s, 400, 0, 1);
		carry(s, c, 400, 0, 2);
	}
	CHECK(!sigaction(SIGALRM, &old, NULL), "sigaction");
	alarm(rest);
}

static void limits(void)
{
	struct rlimit64 now, after, lower;
	CHECK(!getrlimit64(RLIMIT_NOFILE, &now), "getrlimit64");
	lower = now;
	lower.rlim_cur = 100;
	CHECK(!setrlimit64(RLIMIT_NOFILE, &lower) && !getrlimit64(RLIMIT_NOFILE, &after) && after.rlim_cur == 100, "setrlimit64");
	warm(c, s);
	int fd = fcntl(s, F_DUPFD, 100);
	CHECK(fd == -1 && errno == EINVAL, "beyond the limit: %d", fd);
	CHECK(!prlimit64(0, RLIMIT_NOFILE, &now, &after) && after.rlim_cur == 100, "prlimit64");
	CHECK(!prlimit64(0, RLIMIT_NOFILE, NULL, &after) && after.rlim_cur == now.rlim_cur, "and back");
}

/* In a child: what it is by now, or why not; then whether the connection that it holds still works. */
static void in_child(const char *name, int (*change)(void))
{
	pid_t pid = child();
	if (!pid) {
		errno = 0;
		int r = change();
		printf("%s %d %s\n", name, r, strerrorname_np(errno));
		fflush(stdout);
		carry(c, s, 600, 0, 3);
		carry(s, c, 600, 0, 4);
		_exit(0);
	}
	CHECK(reap(pid) == 0, "%s", name);
	carry(c, s, 600, 0, 5);
}

static int by_seteuid(void) { return seteuid(geteuid() ? geteuid() : 65534) || seteuid(getuid()); }
static int by_setegid(void) { return setegid(getegid() ? getegid() : 65534); }
static int by_setreuid(void) { return setreuid((uid_t)-1, geteuid() ? geteuid() : 65534); }
static int by_setregid(void) { return setregid((gid_t)-1, getegid() ? getegid() : 65534); }
static int by_setresgid(void) { return setresgid(getgid(), getegid() ? getegid() : 65534, getgid()); }
static int by_setresuid(void) { return setresuid(getuid(), geteuid() ? geteuid() : 65534, getuid()); }
static int by_setgid(void) { return setgid(getegid() ? getegid() : 65534); }
static int by_setgroups(void) { return setgroups(0, NULL) ? -1 : (int)syscall(SYS_setgroups, 0, NULL); }
static int by_initgroups(void) { return initgroups("nobody", 65534); }
static int by_setns(void)
{
	int ns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), r = setns(ns, CLONE_NEWNET);
	return r ? r : (int)syscall(SYS_setns, ns, CLONE_NEWNET);
}
static int by_chroot(void) { return chroot("/") ? -1 : (int)syscall(SYS_chroot, "/"); }
static int by_unshare(void) { return unshare(CLONE_FS) || close_range(200, ~0u, CLOSE_RANGE_UNSHARE); }

static void processes(void)
{
	fflush(NULL);
	pid_t pid = _Fork();
	CHECK(pid >= 0, "_Fork");
	if (!pid) {
		carry(c, s, 500, 0, 1);
		char *const argv[] = {"true", NULL}, *const env[] = {"PATH=/bin", NULL};
		execvpe("true", argv, env);
		_exit(1);
	}
	CHECK(reap(pid) == 0, "execvpe");
	for (int how = 0; how < 3; how++) {
		char *const env[] = {"PATH=/bin", NULL};
		pid = child();
		if (!pid) {
			if (how == 0)
				execl("/bin/true", "true", NULL);
			else if (how == 1)
				execle("/bin/true", "true", NULL, env);
			else
				execlp("true", "true", NULL);
			_exit(1);
		}
		CHECK(reap(pid) == 0, "execl, execle, execlp: %d", how);
	}
	carry(c, s, 500, 0, 2);
	in_child("seteuid", by_seteuid);
	in_child("setegid", by_setegid);
	in_child("setreuid", by_setreuid);
	in_child("setregid", by_setregid);
	in_child("setresgid", by_setresgid);
	in_child("setresuid", by_setresuid);
	in_child("setgid", by_setgid);
	in_child("setgroups", by_setgroups);
	in_child("initgroups", by_initgroups);
	in_child("setns", by_setns);
	in_child("chroot", by_chroot);
	in_child("unshare", by_unshare);
}

static void test(void)
{
	pair(&c, &s);
	for (int heated = 0; heated < 2; heated++) {
		if (heated)
			warm(c, s);
		checked();
		handlers();
		jumps();
		if (heated)
			limits();
	}
	processes();
	close(c);
	close(s);
	pair(&c, &s);
	warm(c, s);
	of_files();
	carry(s, c, 600, 0, 6);
	close(c);
	close(s);
}

int main(void)
{
	return each_family(test);
}
