/* Programs of the machine: no shell, a deadline, a bounded output. */
#include "agent/sys/cleanup.h"
#include "agent/sys/root.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define OUTPUT_MAX (64u << 10)
#define DEADLINE_MS 120000
#define GRACE_MS 5000 /* package tools take their locks away when asked to stop, not when killed */

static const char *const search_path[] = {"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"};
#define SEARCH_PATH "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Our own PATH is not asked: it is the caller's, and may be a user's under sudo. */
static int find_program(const char *name, char path[static PATH_MAX])
{
	if (strchr(name, '/'))
		return snprintf(path, PATH_MAX, "%s", name) < PATH_MAX ? 0 : -ENAMETOOLONG;
	for (size_t i = 0; i < sizeof(search_path) / sizeof(*search_path); i++) {
		if (snprintf(path, PATH_MAX, "%s/%s", search_path[i], name) >= PATH_MAX)
			return -ENAMETOOLONG;
		if (!access(path, X_OK))
			return 0;
	}
	return -ENOENT;
}

struct environment {
	char *entry[16];
	size_t n;
};

static void free_environment(struct environment *env)
{
	for (size_t i = 0; i < env->n; i++)
		free(env->entry[i]);
}

static int fill_environment(struct environment *env)
{
	/* The last two: where systemctl --user finds the caller's own service manager. */
	static const char *const kept[] = {"http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy", "HTTP_PROXY",
					   "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"};
	static const char *const given[] = {SEARCH_PATH, "LC_ALL=C.UTF-8", "HOME=/root", "DEBIAN_FRONTEND=noninteractive"};

	for (size_t i = 0; i < sizeof(given) / sizeof(*given); i++) {
		if (!(env->entry[env->n] = strdup(given[i])))
			return -ENOMEM;
		env->n++;
	}
	for (size_t i = 0; i < sizeof(kept) / sizeof(*kept); i++) {
		const char *value = getenv(kept[i]);

		if (!value)
			continue;
		if (asprintf(&env->entry[env->n], "%s=%s", kept[i], value) < 0) {
			env->entry[env->n] = NULL;
			return -ENOMEM;
		}
		env->n++;
	}
	return 0;
}

static int start(const char *path, const char *const argv[], char *const envp[], int output, pid_t *ret)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none, all;
	int err;

	sigemptyset(&none);
	sigfillset(&all);
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attr);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, output, 1);
	posix_spawn_file_actions_adddup2(&actions, output, 2);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &all);
	posix_spawnattr_setpgroup(&attr, 0);
	err = posix_spawn(ret, path, &actions, &attr, (char *const *)argv, envp);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&actions);
	return -err;
}

struct child {
	pid_t pid;
	int output, pidfd; /* pidfd -1: a kernel before 5.3 */
	char *text;
	size_t len;
	bool open, ended;
	int status;
};

/* Takes what is there. What is beyond the bound is read and dropped, else the program would wait for room. */
static void take_output(struct child *c)
{
	char drop[4096];

	while (c->open) {
		bool full = c->len == OUTPUT_MAX;
		ssize_t n = full ? read(c->output, drop, sizeof(drop)) : read(c->output, c->text + c->len, OUTPUT_MAX - c->len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0)
			c->open = false;
		else if (!full)
			c->len += (size_t)n;
	}
}

/* Until it ended or the time is over. What a program leaves running behind it may keep the pipe: its own end counts. */
static void wait_child(struct child *c, int64_t until)
{
	for (;;) {
		int64_t left = until - now_ms();
		struct pollfd fds[] = {{.fd = c->open ? c->output : -1, .events = POLLIN}, {.fd = c->pidfd, .events = POLLIN}};
		int tick = c->pidfd >= 0 && left > 0 ? (int)left : 20;

		take_output(c);
		if (waitpid(c->pid, &c->status, WNOHANG) == c->pid) {
			c->ended = true;
			take_output(c);
			return;
		}
		if (left <= 0)
			return;
		poll(fds, 2, left < tick ? (int)left : tick);
	}
}

static void stop_child(struct child *c)
{
	kill(-c->pid, SIGTERM);
	wait_child(c, now_ms() + GRACE_MS);
	kill(-c->pid, SIGKILL);
	while (!c->ended && waitpid(c->pid, &c->status, 0) < 0 && errno == EINTR)
		;
	c->ended = true;
}

int sys_run(struct sys *s, const char *const argv[], unsigned timeout_ms, char **ret_output, int *ret_status)
{
	_cleanup_(free_environment) struct environment env = {0};
	char path[PATH_MAX];
	int fds[2];

	if (s->kind != SYS_LIVE)
		return -ENOTCONN;
	int r = find_program(argv[0], path);

	if (r < 0)
		return r;
	r = fill_environment(&env);
	if (r < 0)
		return r;
	_cleanup_free_ char *text = malloc(OUTPUT_MAX + 1);

	if (!text)
		return -ENOMEM;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	_cleanup_close_ int output = fds[0];
	struct child c = {.output = output, .pidfd = -1, .text = text, .open = true};

	fcntl(output, F_SETFL, O_NONBLOCK);
	r = start(path, argv, env.entry, fds[1], &c.pid);
	close(fds[1]);
	if (r < 0)
		return r;
	c.pidfd = (int)syscall(SYS_pidfd_open, c.pid, 0);
	wait_child(&c, now_ms() + (timeout_ms ? timeout_ms : DEADLINE_MS));
	bool in_time = c.ended;

	if (!in_time)
		stop_child(&c);
	cleanup_close(&c.pidfd);
	if (!in_time)
		return -ETIMEDOUT;
	text[c.len] = 0;
	*ret_status = c.status;
	if (ret_output)
		*ret_output = take_ptr(text);
	return 0;
}
