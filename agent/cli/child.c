#include "agent/cli/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define OUTPUT_MAX (8u << 20)

static volatile sig_atomic_t stop_signal;

static void note_signal(int sig)
{
	stop_signal = sig;
}

static void stop_signals(sigset_t *ret)
{
	sigemptyset(ret);
	sigaddset(ret, SIGINT);
	sigaddset(ret, SIGTERM);
	sigaddset(ret, SIGHUP);
}

void child_catch_signals(void)
{
	struct sigaction action = {.sa_handler = note_signal};
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	sigset_t set;

	stop_signals(&set);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	sigaction(SIGPIPE, &ignore, NULL);
	/* Blocked everywhere but inside ppoll: a signal between the look at the flag and the sleep is not lost. */
	sigprocmask(SIG_BLOCK, &set, NULL);
}

bool child_stop_asked(void)
{
	sigset_t pending;

	if (stop_signal)
		return true;
	sigpending(&pending);
	return sigismember(&pending, SIGINT) || sigismember(&pending, SIGTERM) || sigismember(&pending, SIGHUP);
}

int child_stop_signal(void)
{
	return stop_signal ? stop_signal : SIGINT;
}

double monotonic_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void set_preload(const char *first)
{
	const char *old = getenv("LD_PRELOAD");
	char list[8192];
	size_t n = (size_t)snprintf(list, sizeof(list), "%s", first ? first : "");

	while (old && *old) {
		size_t len = strcspn(old, " :");
		const char *base = old;

		for (const char *p = old; p < old + len; p++)
			if (*p == '/')
				base = p + 1;
		if (len && strncmp(base, "libhasten.so", (size_t)(old + len - base)) && n < sizeof(list))
			n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%.*s", n ? ":" : "", (int)len, old);
		old += len;
		old += strspn(old, " :");
	}
	if (n)
		setenv("LD_PRELOAD", list, 1);
	else
		unsetenv("LD_PRELOAD");
}

static void become(const struct child_order *order, int out, int log, int report, pid_t parent)
{
	struct sigaction dfl = {.sa_handler = SIG_DFL};
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC), error;
	sigset_t none;

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(127);
	sigaction(SIGPIPE, &dfl, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	set_preload(order->preload);
	if (null >= 0 && dup2(null, 0) == 0 && dup2(out >= 0 ? out : log, 1) == 1 && dup2(log, 2) == 2)
		execv(order->argv[0], order->argv);
	error = errno;
	if (write(report, &error, sizeof(error)) < 0)
		_exit(126);
	_exit(127);
}

/* As pipe2 with O_CLOEXEC: pair[1] is what the child writes to. */
static int open_terminal(int pair[2])
{
	char name[64];

	pair[0] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (pair[0] < 0 || grantpt(pair[0]) < 0 || unlockpt(pair[0]) < 0 || ptsname_r(pair[0], name, sizeof(name)))
		return -1;
	pair[1] = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
	return pair[1] < 0 ? -1 : 0;
}

static int open_output(const struct child_order *order, int pair[2])
{
	if (!order->take_output)
		return 0;
	return order->terminal ? open_terminal(pair) : pipe2(pair, O_CLOEXEC);
}

int child_start(const struct child_order *order, struct child *ret)
{
	int out[2] = {-1, -1}, report[2] = {-1, -1}, r = 0, error = 0;
	pid_t parent = getpid();
	struct child c = {.out = -1, .pidfd = -1};
	int log = open(order->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

	if (log < 0)
		return -errno;
	if (pipe2(report, O_CLOEXEC) < 0 || open_output(order, out) < 0 || (c.pid = fork()) < 0) {
		r = -errno;
		c.pid = 0;
		goto done;
	}
	if (!c.pid)
		become(order, out[1], log, report[1], parent);
	setpgid(c.pid, c.pid);
	close(report[1]);
	report[1] = -1;
	if (read(report[0], &error, sizeof(error)) == sizeof(error))
		r = -error;
	if (!r) {
		c.pidfd = (int)syscall(SYS_pidfd_open, c.pid, 0);
		if (c.pidfd < 0)
			r = -errno;
	}
	if (r) {
		kill(c.pid, SIGKILL);
		waitpid(c.pid, NULL, 0);
		goto done;
	}
	if (order->take_output) {
		fcntl(out[0], F_SETFL, O_NONBLOCK);
		c.out = out[0];
		out[0] = -1;
	}
	*ret = c;
done:
	close(log);
	for (int i = 0; i < 2; i++) {
		if (out[i] >= 0)
			close(out[i]);
		if (report[i] >= 0)
			close(report[i]);
	}
	return r;
}

/* Reads what is there. Beyond OUTPUT_MAX it reads and drops, so that the child never blocks on us. */
static void gather(struct child *c, char **buf, size_t *n)
{
	char block[65536];

	while (c->out >= 0) {
		ssize_t got = read(c->out, block, sizeof(block));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && errno == EAGAIN)
			return;
		if (got <= 0) {
			close(c->out);
			c->out = -1;
			return;
		}
		if (*n + (size_t)got > OUTPUT_MAX)
			continue;
		char *more = realloc(*buf, *n + (size_t)got + 1);
		if (!more)
			continue;
		*buf = more;
		memcpy(*buf + *n, block, (size_t)got);
		*n += (size_t)got;
	}
}

static void forget(struct child *c)
{
	if (c->out >= 0)
		close(c->out);
	if (c->pidfd >= 0)
		close(c->pidfd);
	*c = (struct child){.out = -1, .pidfd = -1};
}

int child_wait(struct child *c, double timeout_s, char **ret_output, int *ret_status, struct rusage *ret_usage)
{
	double end = monotonic_s() + timeout_s;
	char *buf = calloc(1, 1);
	size_t n = 0;
	sigset_t open_set;
	int r = -EINTR;

	if (!buf)
		return -ENOMEM;
	sigprocmask(SIG_BLOCK, NULL, &open_set);
	sigdelset(&open_set, SIGINT);
	sigdelset(&open_set, SIGTERM);
	sigdelset(&open_set, SIGHUP);
	while (!child_stop_asked()) {
		struct pollfd fds[2] = {{.fd = c->pidfd, .events = POLLIN}, {.fd = c->out, .events = POLLIN}};
		double left = end - monotonic_s();

		if (left <= 0) {
			r = -ETIMEDOUT;
			break;
		}
		struct timespec t = {.tv_sec = (time_t)left, .tv_nsec = (long)((left - (double)(time_t)left) * 1e9)};
		int ready = ppoll(fds, 2, &t, &open_set);
		if (ready < 0 && errno != EINTR) {
			r = -errno;
			break;
		}
		if (ready <= 0)
			continue;
		gather(c, &buf, &n);
		if (fds[0].revents) {
			gather(c, &buf, &n);
			wait4(c->pid, ret_status, 0, ret_usage);
			forget(c);
			r = 0;
			break;
		}
	}
	buf[n] = 0;
	if (ret_output && (!r || r == -ETIMEDOUT))
		*ret_output = buf;
	else
		free(buf);
	return r;
}

void child_stop(struct child *c, int sig, double grace_s)
{
	struct pollfd fd = {.fd = c->pidfd, .events = POLLIN};

	if (!c->pid)
		return;
	/* Not reaped yet, so pid and group cannot be somebody else's. */
	kill(-c->pid, sig);
	if (poll(&fd, 1, (int)(grace_s * 1000)) <= 0)
		kill(-c->pid, SIGKILL);
	waitpid(c->pid, NULL, 0);
	forget(c);
}
