/* The timer that undoes a transaction which nobody confirms. It must outlive the command, hastend and the user's session: under systemd a
 * transient timer of the system's own, else a process of its own session. */
#include "agent/tune/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

uint64_t boot_clock_s(void)
{
	struct timespec now = {0};

	clock_gettime(CLOCK_BOOTTIME, &now); /* goes on while the machine sleeps, as the link does not */
	return (uint64_t)now.tv_sec;
}

/* systemd's services run in the name space of process 1: a NIC of another one is out of their reach. */
static bool in_first_network(void)
{
	struct stat own, first;

	return !stat("/proc/self/ns/net", &own) && !stat("/proc/1/ns/net", &first) && own.st_ino == first.st_ino && own.st_dev == first.st_dev;
}

static int own_program(char *path, size_t size)
{
	ssize_t n = readlink("/proc/self/exe", path, size - 1);
	char *deleted;

	if (n < 0)
		return -errno;
	path[n] = 0;
	deleted = strstr(path, " (deleted)"); /* replaced by an upgrade while it ran */
	if (deleted && !deleted[sizeof(" (deleted)") - 1])
		*deleted = 0;
	return 0;
}

static int start_unit(struct sys *s, const char *transaction, unsigned seconds, struct error *e)
{
	char program[PATH_MAX], unit[64], after[48];
	_cleanup_free_ char *output = NULL;
	int status, r = own_program(program, sizeof(program));
	const char *const argv[] = {"systemd-run", "--quiet", "--collect", unit, after, "--timer-property=AccuracySec=1s",
		"--description=Undo changes to NICs that nobody confirmed", "--", program, "revert", "--transaction", transaction, NULL};

	if (r)
		return error_set(e, r, "/proc/self/exe: %s", strerror(-r));
	snprintf(unit, sizeof(unit), "--unit=hasten-undo-%s", transaction);
	snprintf(after, sizeof(after), "--on-active=%us", seconds);
	r = sys_run(s, argv, 10000, &output, &status);
	if (r || status)
		return error_set(e, r ? r : -EIO, "no timer could be started that would undo the change, so nothing was changed: systemd-run: %s",
			r ? strerror(-r) : output && *output ? output : "failed");
	return 0;
}

/* Its own session and parent, no file of ours (the lock is an open file's: a copy of it would hold it), deaf to a hang-up. */
static void become_timer(const char *transaction, unsigned seconds, int report)
{
	char after[16];
	char *argv[] = {(char *)"hasten", (char *)"revert", (char *)"--transaction", (char *)transaction, (char *)"--after", after, NULL};
	sigset_t none;
	int null, fd;

	snprintf(after, sizeof(after), "%u", seconds);
	setsid();
	if (fork())
		_exit(0);
	signal(SIGHUP, SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	null = open("/dev/null", O_RDWR);
	for (fd = 0; fd < 3 && null >= 0; fd++)
		dup2(null, fd);
	fd = dup3(report, 3, O_CLOEXEC) < 0 ? report : 3;
	close_range((unsigned)fd + 1, ~0u, 0);
	if (chdir("/") == 0)
		execv("/proc/self/exe", argv);
	int err = errno;
	if (write(fd, &err, sizeof(err)) < 0)
		_exit(127);
	_exit(126);
}

static int start_process(const char *transaction, unsigned seconds, struct error *e)
{
	int ends[2], err = 0, status;
	pid_t child;
	ssize_t n;

	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	child = fork();
	if (!child)
		become_timer(transaction, seconds, ends[1]);
	close(ends[1]);
	if (child < 0) {
		close(ends[0]);
		return error_set(e, -errno, "no timer could be started that would undo the change, so nothing was changed: %s", strerror(errno));
	}
	waitpid(child, &status, 0);
	/* The end of the pipe: the program was started. */
	n = read(ends[0], &err, sizeof(err));
	close(ends[0]);
	if (n > 0)
		return error_set(e, -err, "no timer could be started that would undo the change, so nothing was changed: %s", strerror(err));
	return 0;
}

int deadman_start(struct sys *s, const struct facts *f, const char *transaction, unsigned seconds, struct error *e)
{
	return f->platform.systemd && in_first_network() ? start_unit(s, transaction, seconds, e) : start_process(transaction, seconds, e);
}

/* The process looks at the journal each second and ends by itself. */
void deadman_end(struct sys *s, const char *transaction)
{
	char unit[64];
	const char *const argv[] = {"systemctl", "stop", unit, NULL};
	int status;

	if (sys_kind(s) != SYS_LIVE || !sys_exists(s, "/run/systemd/system"))
		return;
	snprintf(unit, sizeof(unit), "hasten-undo-%s.timer", transaction);
	sys_run(s, argv, 10000, NULL, &status);
}
