/* exec and spawn: what the next image gets of us. system.c has the one that libc makes inside itself. */
#include "preload/discover/registry.h"
#include "preload/family.h"
#include "preload/init.h"
#include "preload/interpose.h"
#include "preload/link/link.h"
#include "preload/proc/handover.h"
#include "preload/proc/image.h"
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

struct leaving {
	const struct handover *h;    /* what goes over stays as it is; NULL nothing does */
	bool both;                   /* directions; else what is received */
	bool actions;                /* also what is given by spawn actions */
};

/* Descriptors that the next image would keep leave us where it does not know of the lane. */
static void leave_kept(struct sock *s, int fd, void *arg)
{
	const struct leaving *l = arg;
	for (size_t i = 0; l->h && i < l->h->n_kept; i++)
		if (l->h->kept[i].sock == s && l->h->kept[i].goes)
			return;
	uint32_t stage = atomic_load(&s->stage);
	if (l->actions && s->in_actions && !s->slot && (stage == SOCK_ACCEPTED || stage == SOCK_PUBLISHED))
		sock_plain(s, REASON_PASSED); /* it must not be on a lane when the action is done */
	if (!s->slot || !sock_watched(s))
		return;
	if (l->both)
		switch_leave(s, fd, REASON_PASSED);
	else
		switch_leave_in(s, fd);
}

static void leave(const struct handover *h, bool actions)
{
	if (!actions && (!family || !atomic_load(&links_any)))
		return;
	/* Two ends of one connection may both be here: what one sends is moved before it is demoted. */
	for (int both = 0; both < 2; both++)
		kept_each(actions, leave_kept, &(struct leaving){h, both, actions});
}

void exec_leave(void)
{
	leave(NULL, false);
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

/* envp with what we remember in it where the program took LD_PRELOAD out, and with one more entry where given. room: n
 * entries. NULL: it does not fit. */
static char **compose(char *const *envp, const char *more, char **room, size_t n)
{
	size_t k = 0;
	bool ours = n_remembered && !has(envp, "LD_PRELOAD=");
	for (char *const *e = envp; e && *e; e++) {
		if (k + REMEMBER_MAX + 2 > n)
			return NULL;
		if (strncmp(*e, HANDOVER_VARIABLE, strlen(HANDOVER_VARIABLE)))
			room[k++] = *e;
	}
	for (uint32_t i = 0; ours && i < n_remembered; i++)
		if (!has(envp, remembered + remembered_at[i]))
			room[k++] = remembered + remembered_at[i];
	if (more)
		room[k++] = (char *)more;
	room[k] = NULL;
	return room;
}

#define ENVIRONMENT_MAX 4096
#define ENVIRONMENT(envp, n) ({ \
	(n) = REMEMBER_MAX + 2; \
	for (char *const *e_ = (envp); e_ && *e_ && (n) < ENVIRONMENT_MAX; e_++) \
		(n)++; \
	(char **)alloca((n) * sizeof(char *)); })

/* Where there is nothing to execute nothing has to leave. What another folder's descriptor says, or what execvp finds
 * without a slash, is not known here. */
static bool nothing_there(const struct exec_target *t)
{
	bool whole = t->path && (t->by == EXEC_PATH || (t->by == EXEC_SEARCH && strchr(t->path, '/')) ||
				 (t->by == EXEC_AT && t->path[0] == '/'));
	int saved = errno;
	bool nothing = whole && faccessat(AT_FDCWD, t->path, F_OK, AT_EACCESS) < 0 && (errno == ENOENT || errno == ENOTDIR);
	errno = saved;
	return nothing;
}

static void release_slot(struct sock *s, void *arg)
{
	(void)arg;
	if (s->slot && !s->handed)
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
	else if (atomic_load(&s->stage) == SOCK_PUBLISHED && s->handed)
		sock_unpublish(s);
	else if (atomic_load(&s->stage) == SOCK_PUBLISHED)
		sock_plain(s, REASON_PASSED);
}

static void list_again(struct sock *s, void *arg)
{
	(void)arg;
	if (own_entry(s))
		registry_listen(&s->at);
	else if (atomic_load(&s->stage) == SOCK_PUBLISHED && !sock_publish(s))
		sock_plain(s, REASON_LIMIT);
}

/* The next image holds nothing of the family but what goes over, and has no file of counters; where exec fails we are
 * still here. In a vfork child all of that is the parent's. */
static void gone(void)
{
	if (self_thread.vfork_child || !family)
		return;
	int quiet = quiet_begin();
	waitset_exec();
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

static int call(const struct exec_target *t, char *const *argv, char *const *envp)
{
	switch (t->by) {
	case EXEC_PATH:
		return real.execve(t->path, argv, envp);
	case EXEC_SEARCH:
		return real.execvpe(t->path, argv, envp);
	case EXEC_FD:
		return real.fexecve(t->fd, argv, envp);
	case EXEC_AT:
		break;
	}
	return real.execveat(t->fd, t->path, argv, envp, t->flags);
}

#define KEPT_ON_STACK 64

/* Into an image that goes on with our connections. Returns where there is none: *ret_tried says whether exec said why. */
static void hand_over(const struct exec_target *t, char *const *argv, char *const *envp, char **room, size_t n, bool *ret_tried)
{
	struct kept kept[KEPT_ON_STACK];
	struct handover h;
	char path[PATH_MAX];
	char **env = compose(envp, NULL, room, n);
	*ret_tried = false;
	if (!env || !handover_look(&h, kept, KEPT_ON_STACK, false, false))
		return;
	int saved = errno, quiet = quiet_begin();
	bool goes = image_preloaded(t, env, path) && handover_choose(&h);
	if (!goes)
		log_message(LOG_DEBUG, "exec of %s: its connections go back to the kernel", t->path ? t->path : "a descriptor");
	quiet_end(quiet);
	errno = saved;
	if (goes) {
		leave(&h, false);
		gone();
		quiet = quiet_begin(); /* a handler that jumped away would leave the half of it */
		bool ready = handover_prepare(&h);
		quiet_end(quiet);
		if (ready) {
			env = compose(envp, h.variable, room, n);
			*ret_tried = true;
			if (t->by == EXEC_SEARCH)
				real.execve(path, argv, env);
			else
				call(t, argv, env);
		}
		handover_undo(&h);
		still_here();
	}
	handover_end(&h);
}

static int become(const struct exec_target *t, char *const *argv, char *const *envp)
{
	ENSURE_REAL();
	size_t n;
	char **room = ENVIRONMENT(envp, n);
	bool nothing = nothing_there(t), tried = false;
	if (!nothing) {
		hand_over(t, argv, envp, room, n, &tried);
		/* with one entry less it may fit; execvp goes on looking */
		if (tried && errno != E2BIG && t->by != EXEC_SEARCH)
			return -1;
		leave(NULL, false);
		gone();
	}
	char **with = compose(envp, NULL, room, n);
	int r = call(t, argv, with ? with : envp);
	if (!nothing)
		still_here();
	return r;
}

EXPORT int execve(const char *path, char *const *argv, char *const *envp)
{
	return become(&(struct exec_target){.by = EXEC_PATH, .path = path}, argv, envp);
}

EXPORT int execv(const char *path, char *const *argv)
{
	return become(&(struct exec_target){.by = EXEC_PATH, .path = path}, argv, environ);
}

EXPORT int execvp(const char *path, char *const *argv)
{
	return become(&(struct exec_target){.by = EXEC_SEARCH, .path = path}, argv, environ);
}

EXPORT int execvpe(const char *path, char *const *argv, char *const *envp)
{
	return become(&(struct exec_target){.by = EXEC_SEARCH, .path = path}, argv, envp);
}

EXPORT int fexecve(int fd, char *const *argv, char *const *envp)
{
	return become(&(struct exec_target){.by = EXEC_FD, .fd = fd}, argv, envp);
}

EXPORT int execveat(int dir, const char *path, char *const *argv, char *const *envp, int flags)
{
	return become(&(struct exec_target){.by = EXEC_AT, .path = path, .fd = dir, .flags = flags}, argv, envp);
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

static _Atomic bool actions_close; /* somebody has made spawn actions that close all from a number on, ours too */

/* 0 with *pid, an error number, or -1: nothing was handed over, and nothing was made. */
static int spawn_over(const struct exec_target *t, pid_t *pid, const posix_spawn_file_actions_t *actions,
		      const posix_spawnattr_t *attr, char *const *argv, char *const *envp, char **room, size_t n)
{
	struct kept kept[KEPT_ON_STACK];
	struct handover h;
	char found[PATH_MAX];
	char **env = compose(envp, NULL, room, n);
	int r = -1;
	if (!env || self_thread.vfork_child || (actions && actions_close) ||
	    !handover_look(&h, kept, KEPT_ON_STACK, true, actions != NULL))
		return -1;
	int saved = errno, quiet = quiet_begin();
	bool goes = image_preloaded(t, env, found);
	const char *path = t->by == EXEC_SEARCH ? found : t->path;
	/* an action may change the folder that a name begins in */
	if (goes && (!actions || path[0] == '/') && handover_choose(&h)) {
		pid_t made = -1;
		leave(&h, actions != NULL);
		if (handover_prepare(&h)) {
			env = compose(envp, h.variable, room, n);
			limits_hold();
			r = real.posix_spawn(&made, path, actions, attr, argv, env);
			limits_release();
		}
		handover_spawned(&h, r == 0 ? made : -1);
		if (r == 0 && pid)
			*pid = made;
		else if (r == E2BIG || t->by == EXEC_SEARCH)
			r = r == 0 ? 0 : -1; /* with one entry less it may fit; the search goes on */
	}
	quiet_end(quiet);
	errno = saved;
	handover_end(&h);
	return r;
}

static int spawn(const struct exec_target *t, pid_t *pid, const posix_spawn_file_actions_t *actions,
		 const posix_spawnattr_t *attr, char *const *argv, char *const *envp)
{
	ENSURE_REAL();
	size_t n;
	char **room = ENVIRONMENT(envp, n);
	int r = spawn_over(t, pid, actions, attr, argv, envp, room, n);
	if (r >= 0)
		return r;
	leave(NULL, actions != NULL);
	char **with = compose(envp, NULL, room, n);
	limits_hold();
	r = t->by == EXEC_SEARCH ? real.posix_spawnp(pid, t->path, actions, attr, argv, with ? with : envp) :
				   real.posix_spawn(pid, t->path, actions, attr, argv, with ? with : envp);
	limits_release();
	return r;
}

EXPORT int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
		       const posix_spawnattr_t *attr, char *const *argv, char *const *envp)
{
	return spawn(&(struct exec_target){.by = EXEC_PATH, .path = path}, pid, actions, attr, argv, envp);
}

EXPORT int posix_spawnp(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
			const posix_spawnattr_t *attr, char *const *argv, char *const *envp)
{
	return spawn(&(struct exec_target){.by = EXEC_SEARCH, .path = path}, pid, actions, attr, argv, envp);
}

EXPORT int posix_spawn_file_actions_adddup2(posix_spawn_file_actions_t *actions, int fd, int to)
{
	ENSURE_REAL();
	struct sock *s = self_thread.vfork_child ? NULL : fdtab_sock(fd);
	if (s)
		s->in_actions = 1; /* the only purpose of such an action is that the new program uses the descriptor */
	return real.posix_spawn_file_actions_adddup2(actions, fd, to);
}

EXPORT int posix_spawn_file_actions_addclose(posix_spawn_file_actions_t *actions, int fd)
{
	ENSURE_REAL();
	if (fd_kind(fdtab_get(fd)) == FD_OWN)
		return 0; /* the program never opened it */
	return real.posix_spawn_file_actions_addclose(actions, fd);
}

EXPORT int posix_spawn_file_actions_addclosefrom_np(posix_spawn_file_actions_t *actions, int from)
{
	ENSURE_REAL();
	actions_close = true;
	return real.posix_spawn_file_actions_addclosefrom_np(actions, from);
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

