/* fork, spawn, exec and exit. */
#include "preload/discover/registry.h"
#include "preload/family.h"
#include "preload/init.h"
#include "preload/interpose.h"
#include "preload/io.h"
#include "preload/link/link.h"
#include "preload/proc/inside.h"
#include "preload/proc/limits.h"
#include "preload/proc/process.h"
#include "preload/real.h"
#include "preload/sock.h"
#include "preload/state.h"
#include "preload/stats/stats.h"
#include "preload/switch.h"
#include "preload/wait/waitset.h"
#include "preload/wait/waker.h"

#include <alloca.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char saved_preload[512]; /* LD_PRELOAD as the program got it */

void process_remember_environment(void)
{
	const char *p = getenv("LD_PRELOAD");
	if (p && strlen(p) < sizeof(saved_preload))
		strcpy(saved_preload, p);
}

static void share(struct sock *s, void *arg)
{
	s->forked = 1;
	/* From here on two processes hold it: that is what slots count. */
	uint32_t stage = atomic_load(&s->stage);
	if ((stage == SOCK_ACCEPTED || stage == SOCK_PUBLISHED) && !s->slot &&
	    !sock_slot(s, s->fd, stage == SOCK_ACCEPTED ? ROLE_ACCEPT : ROLE_CONNECT, &s->at))
		sock_plain(s, REASON_HOLDERS);
	if (!s->slot)
		return;
	slot_share(s->slot, *(int *)arg);
	s->solo = 0;
}

int fork_prepare(bool identity)
{
	int index = -1;
	/* a handler that forks would wait for the lock of the call that it interrupted */
	critical_enter();
	pthread_mutex_lock(&switch_fork_lock); /* no promotion between the look at the holders and its marker */
	if (family) {
		if (identity)
			index = family_fork_prepare();
		sock_each(share, &index);
	}
	limits_hold();
	return index;
}

void fork_child(int index)
{
	int saved = errno;
	limits_fork_child();
	pthread_mutex_init(&switch_fork_lock, NULL);
	registry_fork_child();
	stats_fork_child(); /* first: until then we count in the parent's file */
	if (family) {
		family_fork_child(index);
		link_fork_child();
		waker_fork_child();
		waitset_fork_child();
		sock_fork_child();
		inside_fork_child();
	}
	state_fork_child();
	self_thread.critical = 1; /* its thread-local memory may be new (CLONE_SETTLS) */
	critical_leave();
	errno = saved;
}

void fork_parent(int index, pid_t pid)
{
	int saved = errno;
	limits_release();
	if (family && pid != FORK_UNKNOWN)
		family_fork_parent(index, pid);
	pthread_mutex_unlock(&switch_fork_lock);
	critical_leave();
	errno = saved;
}

static pid_t do_fork(pid_t (*real_fork)(void))
{
	self_thread.forking = 1;
	int index = fork_prepare(true);
	pid_t pid = real_fork();
	if (pid == 0)
		fork_child(index);
	else
		fork_parent(index, pid);
	self_thread.forking = 0;
	return pid;
}

/* Forks that libc makes inside other calls (forkpty). */
static int inner_index; /* lock: switch_fork_lock */

static void inner_prepare(void)
{
	if (!self_thread.forking)
		inner_index = fork_prepare(true);
}

static void inner_parent(void)
{
	if (!self_thread.forking)
		fork_parent(inner_index, FORK_UNKNOWN);
}

static void inner_child(void)
{
	if (!self_thread.forking)
		fork_child(inner_index);
}

void process_watch_forks(void)
{
	static _Atomic int once;
	if (!atomic_exchange(&once, 1))
		pthread_atfork(inner_prepare, inner_parent, inner_child);
}

EXPORT pid_t fork(void)
{
	ENSURE_REAL();
	return do_fork(real.fork);
}

EXPORT pid_t _Fork(void)
{
	ENSURE_REAL();
	return do_fork(real._Fork ? real._Fork : real.fork);
}

EXPORT int daemon(int nochdir, int noclose)
{
	/* libc's daemon forks inside, past our fork */
	switch (fork()) {
	case -1:
		return -1;
	case 0:
		break;
	default:
		_exit(0);
	}
	if (setsid() < 0 || (!nochdir && chdir("/") < 0))
		return -1;
	if (!noclose) {
		int fd = open("/dev/null", O_RDWR);
		if (fd < 0)
			return -1;
		for (int i = 0; i < 3; i++)
			dup2(fd, i);
		if (fd > 2)
			close(fd);
	}
	return 0;
}

/* Descriptors that the next image would keep leave us: it does not know of the lane. */
static void leave_kept(struct sock *s, void *arg)
{
	bool both = *(bool *)arg;
	if (!s->slot || !sock_watched(s))
		return;
	for (int fd = 0; fd <= fdtab_highest; fd++) {
		if (fdtab_sock(fd) != s)
			continue;
		int flags = real.fcntl(fd, F_GETFD);
		if (flags >= 0 && !(flags & FD_CLOEXEC)) {
			if (both)
				switch_leave(s, fd, REASON_PASSED);
			else
				switch_leave_in(s, fd);
			return;
		}
	}
}

void exec_leave(void)
{
	if (!family || !atomic_load(&links_any))
		return;
	/* Two ends of one connection may both be here: what one sends is moved before it is demoted. */
	for (int both = 0; both < 2; both++)
		sock_each(leave_kept, &(bool){both});
}

/* A copy of envp with our preload in it, where the program took it out. room: entries that fit. */
static char **with_preload(char *const *envp, char **room, size_t n, char *line)
{
	size_t k = 0;
	if (!saved_preload[0])
		return (char **)envp;
	for (; envp && envp[k]; k++)
		if (!strncmp(envp[k], "LD_PRELOAD=", 11))
			return (char **)envp;
	if (k + 2 > n)
		return (char **)envp;
	memcpy(room, envp, k * sizeof(*room));
	strcpy(line, "LD_PRELOAD=");
	strcat(line, saved_preload);
	room[k] = line;
	room[k + 1] = NULL;
	return room;
}

#define ENVIRONMENT_MAX 4096
#define WITH_PRELOAD(envp) ({ \
	size_t n_ = 2; \
	for (char *const *e_ = (envp); e_ && *e_ && n_ < ENVIRONMENT_MAX; e_++) \
		n_++; \
	with_preload(envp, alloca(n_ * sizeof(char *)), n_, alloca(sizeof(saved_preload) + 16)); })

static void release_slot(struct sock *s, void *arg)
{
	(void)arg;
	if (s->slot && family_self >= 0)
		atomic_fetch_and(&s->slot->holders[family_self / 64], ~(1ull << (family_self % 64)));
}

static void take_slot(struct sock *s, void *arg)
{
	(void)arg;
	if (s->slot && family_self >= 0)
		atomic_fetch_or(&s->slot->holders[family_self / 64], 1ull << (family_self % 64));
}

/* The next image holds nothing of the family; where exec fails we are still here. */
#define EXEC(call) ({ \
	ENSURE_REAL(); \
	exec_leave(); \
	if (family && !self_thread.vfork_child) \
		sock_each(release_slot, NULL); \
	int r_ = call; \
	if (family && !self_thread.vfork_child) \
		sock_each(take_slot, NULL); \
	r_; })

EXPORT int execve(const char *path, char *const *argv, char *const *envp)
{
	return EXEC(real.execve(path, argv, WITH_PRELOAD(envp)));
}

EXPORT int execv(const char *path, char *const *argv)
{
	return EXEC(real.execve(path, argv, WITH_PRELOAD(environ)));
}

EXPORT int execvp(const char *path, char *const *argv)
{
	return EXEC(real.execvpe(path, argv, WITH_PRELOAD(environ)));
}

EXPORT int execvpe(const char *path, char *const *argv, char *const *envp)
{
	return EXEC(real.execvpe(path, argv, WITH_PRELOAD(envp)));
}

EXPORT int fexecve(int fd, char *const *argv, char *const *envp)
{
	return EXEC(real.fexecve(fd, argv, WITH_PRELOAD(envp)));
}

EXPORT int execveat(int dir, const char *path, char *const *argv, char *const *envp, int flags)
{
	return EXEC(real.execveat(dir, path, argv, WITH_PRELOAD(envp), flags));
}

#define GATHER(first, ap) ({ \
	size_t n_ = 1; \
	va_list count_; \
	va_copy(count_, ap); \
	while (va_arg(count_, char *)) \
		n_++; \
	va_end(count_); \
	char **argv_ = alloca((n_ + 1) * sizeof(*argv_)); \
	argv_[0] = (char *)(first); \
	for (size_t i_ = 1; i_ <= n_; i_++) \
		argv_[i_] = va_arg(ap, char *); \
	argv_; })

EXPORT int execl(const char *path, const char *arg, ...)
{
	va_list ap;
	va_start(ap, arg);
	char **argv = GATHER(arg, ap);
	va_end(ap);
	return execv(path, argv);
}

EXPORT int execlp(const char *path, const char *arg, ...)
{
	va_list ap;
	va_start(ap, arg);
	char **argv = GATHER(arg, ap);
	va_end(ap);
	return execvp(path, argv);
}

EXPORT int execle(const char *path, const char *arg, ...)
{
	va_list ap;
	va_start(ap, arg);
	char **argv = GATHER(arg, ap);
	char *const *envp = va_arg(ap, char *const *);
	va_end(ap);
	return execve(path, argv, envp);
}

EXPORT int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
		       const posix_spawnattr_t *attr, char *const *argv, char *const *envp)
{
	ENSURE_REAL();
	exec_leave();
	limits_hold();
	int r = real.posix_spawn(pid, path, actions, attr, argv, WITH_PRELOAD(envp));
	limits_release();
	return r;
}

EXPORT int posix_spawnp(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
			const posix_spawnattr_t *attr, char *const *argv, char *const *envp)
{
	ENSURE_REAL();
	exec_leave();
	limits_hold();
	int r = real.posix_spawnp(pid, path, actions, attr, argv, WITH_PRELOAD(envp));
	limits_release();
	return r;
}

EXPORT int posix_spawn_file_actions_adddup2(posix_spawn_file_actions_t *actions, int fd, int to)
{
	ENSURE_REAL();
	/* the only purpose of such an action is that the new program uses the descriptor */
	struct sock *s = fdtab_sock(fd);
	if (s && s->slot)
		switch_leave(s, fd, REASON_PASSED);
	return real.posix_spawn_file_actions_adddup2(actions, fd, to);
}

EXPORT int system(const char *command)
{
	ENSURE_REAL();
	exec_leave();
	return real.system(command);
}

EXPORT FILE *popen(const char *command, const char *mode)
{
	ENSURE_REAL();
	exec_leave();
	limits_hold();
	FILE *f = real.popen(command, mode);
	limits_release();
	return f;
}

/* The end of the process is the last close of what it alone holds. */
static void last(struct sock *s, void *arg)
{
	(void)arg;
	if (!s->slot || !s->slot->lane)
		return;
	if (slot_sole(s->slot) && io_close(s, s->fd)) {
		struct linger reset = {1, 0};
		real.setsockopt(s->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	}
	slot_drop(s->slot);
	s->slot = NULL;
}

static void at_exit(void)
{
	static _Atomic int once;
	if (self_thread.vfork_child || atomic_exchange(&once, 1))
		return;
	stats_stop();
	if (family)
		sock_each(last, NULL);
}

EXPORT void exit(int status)
{
	ENSURE_REAL();
	real.exit(status); /* the destructor does the rest, after the program's own handlers */
	__builtin_unreachable();
}

EXPORT void _exit(int status)
{
	ENSURE_REAL();
	at_exit();
	real._exit(status);
	__builtin_unreachable();
}

EXPORT void _Exit(int status)
{
	_exit(status);
}

__attribute__((destructor)) static void destruct(void)
{
	at_exit();
}
