/* exec and spawn: what the next image gets of us. */
#include "preload/discover/registry.h"
#include "preload/family.h"
#include "preload/init.h"
#include "preload/interpose.h"
#include "preload/link/link.h"
#include "preload/proc/limits.h"
#include "preload/quiet.h"
#include "preload/proc/process.h"
#include "preload/real.h"
#include "preload/sock.h"
#include "preload/state.h"
#include "preload/stats/stats.h"
#include "preload/switch.h"
#include "preload/wait/waitset.h"

#include <alloca.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A vfork child has descriptors of its own under the parent's table. */
static bool means(int fd, struct sock *s)
{
	uint64_t cookie = 0;
	socklen_t len = sizeof(cookie);
	return real.getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &len) == 0 && cookie == s->slot->cookie;
}

/* Descriptors that the next image would keep leave us: it does not know of the lane. */
static void leave_kept(struct sock *s, void *arg)
{
	bool both = *(bool *)arg;
	if (!s->slot || !sock_watched(s))
		return;
	for (int fd = 0; fd <= fdtab_highest; fd++) {
		if (fdtab_sock(fd) != s || (self_thread.vfork_child && !means(fd, s)))
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

/* The environment as the program got it: LD_PRELOAD, then ours and NetACC's, each with its end. A program that cleared
 * its environment (nginx) has no other copy: its titles are written over the strings. */
#define REMEMBER_MAX 48
static char remembered[4096];
static uint16_t remembered_at[REMEMBER_MAX];
static uint32_t n_remembered;

static void remember(const char *entry)
{
	static size_t used;
	size_t n = strlen(entry) + 1;
	if (n_remembered == REMEMBER_MAX || n > sizeof(remembered) - used)
		return;
	memcpy(remembered + used, entry, n);
	remembered_at[n_remembered++] = used;
	used += n;
}

void process_remember_environment(void)
{
	for (char **e = environ; e && *e; e++)
		if (!strncmp(*e, "LD_PRELOAD=", 11))
			remember(*e);
	for (char **e = environ; e && *e && n_remembered; e++)
		if (!strncmp(*e, "HASTEN_", 7) || !strncmp(*e, "NACC_", 5))
			remember(*e);
}

static bool has(char *const *envp, const char *entry)
{
	size_t name = strchr(entry, '=') ? (size_t)(strchr(entry, '=') - entry) + 1 : strlen(entry);
	for (; envp && *envp; envp++)
		if (!strncmp(*envp, entry, name))
			return true;
	return false;
}

/* envp with what we remember in it, where the program took LD_PRELOAD out. room: n entries. */
static char **with_preload(char *const *envp, char **room, size_t n)
{
	size_t k = 0;
	if (!n_remembered || has(envp, "LD_PRELOAD="))
		return (char **)envp;
	for (; envp && envp[k]; k++)
		if (k + REMEMBER_MAX + 1 > n)
			return (char **)envp;
		else
			room[k] = envp[k];
	for (uint32_t i = 0; i < n_remembered; i++)
		if (!has(envp, remembered + remembered_at[i]))
			room[k++] = remembered + remembered_at[i];
	room[k] = NULL;
	return room;
}

#define ENVIRONMENT_MAX 4096
#define WITH_PRELOAD(envp) ({ \
	size_t n_ = REMEMBER_MAX + 1; \
	for (char *const *e_ = (envp); e_ && *e_ && n_ < ENVIRONMENT_MAX; e_++) \
		n_++; \
	with_preload(envp, alloca(n_ * sizeof(char *)), n_); })

/* Where there is nothing to execute nothing has to leave. */
static bool nothing_there(const char *path)
{
	int saved = errno;
	bool nothing = path && faccessat(AT_FDCWD, path, F_OK, AT_EACCESS) < 0 && (errno == ENOENT || errno == ENOTDIR);
	errno = saved;
	return nothing;
}

void release_slot(struct sock *s, void *arg)
{
	(void)arg;
	if (s->slot)
		slot_release(s->slot);
}

static void take_slot(struct sock *s, void *arg)
{
	(void)arg;
	if (s->slot && family_self >= 0)
		atomic_fetch_or(&s->slot->holders[family_self / 64], 1ull << (family_self % 64));
}

static bool own_entry(struct sock *s)
{
	return atomic_load(&s->stage) == SOCK_LISTENER && (!s->forked || s->relisted); /* others may accept by an older one */
}

/* Entries of this process in the registry; the next image makes its own. */
static void unlist(struct sock *s, void *arg)
{
	(void)arg;
	if (own_entry(s))
		registry_unlisten(&s->at);
	else if (atomic_load(&s->stage) == SOCK_PUBLISHED)
		sock_plain(s, REASON_PASSED);
}

static void list_again(struct sock *s, void *arg)
{
	(void)arg;
	if (own_entry(s))
		registry_listen(&s->at);
}

/* The next image holds nothing of the family, and has no file of counters; where exec fails we are still here. In a
 * vfork child all of that is the parent's. */
static void gone(void)
{
	exec_leave();
	if (self_thread.vfork_child || !family)
		return;
	int quiet = quiet_begin();
	sock_each(unlist, NULL);
	stats_exec_begin();
	sock_each(release_slot, NULL);
	quiet_end(quiet);
}

static void still_here(void)
{
	if (self_thread.vfork_child || !family)
		return;
	int saved = errno, quiet = quiet_begin();
	sock_each(take_slot, NULL);
	stats_exec_failed();
	sock_each(list_again, NULL);
	quiet_end(quiet);
	errno = saved;
}

#define EXEC(path, call) ({ \
	ENSURE_REAL(); \
	bool leaves_ = !nothing_there(path); \
	if (leaves_) \
		gone(); \
	int r_ = call; \
	if (leaves_) \
		still_here(); \
	r_; })

/* execvp looks for what has no slash in it. */
static const char *plain_path(const char *path)
{
	return path && strchr(path, '/') ? path : NULL;
}

/* What another folder's descriptor says nothing about. */
static const char *absolute_path(const char *path)
{
	return path && path[0] == '/' ? path : NULL;
}

EXPORT int execve(const char *path, char *const *argv, char *const *envp)
{
	return EXEC(path, real.execve(path, argv, WITH_PRELOAD(envp)));
}

EXPORT int execv(const char *path, char *const *argv)
{
	return EXEC(path, real.execve(path, argv, WITH_PRELOAD(environ)));
}

EXPORT int execvp(const char *path, char *const *argv)
{
	return EXEC(plain_path(path), real.execvpe(path, argv, WITH_PRELOAD(environ)));
}

EXPORT int execvpe(const char *path, char *const *argv, char *const *envp)
{
	return EXEC(plain_path(path), real.execvpe(path, argv, WITH_PRELOAD(envp)));
}

EXPORT int fexecve(int fd, char *const *argv, char *const *envp)
{
	return EXEC(NULL, real.fexecve(fd, argv, WITH_PRELOAD(envp)));
}

EXPORT int execveat(int dir, const char *path, char *const *argv, char *const *envp, int flags)
{
	return EXEC(absolute_path(path), real.execveat(dir, path, argv, WITH_PRELOAD(envp), flags));
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
	uint32_t stage = s ? atomic_load(&s->stage) : SOCK_PLAIN;
	if (s && s->slot)
		switch_leave(s, fd, REASON_PASSED);
	else if (stage == SOCK_ACCEPTED || stage == SOCK_PUBLISHED)
		sock_plain(s, REASON_PASSED); /* it must not be on a lane when the action is done */
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

