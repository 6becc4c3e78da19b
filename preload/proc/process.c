/* fork and exit. */
#include "preload/discover/registry.h"
#include "preload/family.h"
#include "preload/interpose.h"
#include "preload/io.h"
#include "preload/link/link.h"
#include "preload/proc/locks.h"
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

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* What other threads opened or moved to a slot meanwhile. */
static void share_late(struct sock *s, void *arg)
{
	if (s->slot) {
		slot_share(s->slot, *(int *)arg);
		s->solo = 0;
	} else {
		s->forked = 1;
	}
}

_Atomic uint32_t process_forks;
static _Atomic uint32_t numbers_made;             /* threads between process_number_begin and _end */
static uint32_t forked_at[FAMILY_PROCESSES];      /* process_forks when we forked it; lock: switch_fork_lock */

void process_number_begin(void)
{
	if (alone() || self_thread.vfork_child)
		return;
	critical_enter();
	for (;;) {
		atomic_fetch_add(&numbers_made, 1); /* seq_cst: before the look at the forks; fork_prepare looks the other way */
		if (!(atomic_load(&process_forks) & 1))
			return;
		atomic_fetch_sub(&numbers_made, 1);
		sched_yield();
	}
}

void process_number_end(void)
{
	if (alone() || self_thread.vfork_child)
		return;
	atomic_fetch_sub(&numbers_made, 1);
	critical_leave();
}

void process_share_since(struct sock *s, uint32_t before)
{
	pthread_mutex_lock(&switch_fork_lock);
	for (int i = 0; s->slot && i < FAMILY_PROCESSES; i++)
		if (forked_at[i] >= before && forked_at[i]) {
			slot_share(s->slot, i);
			s->solo = 0;
		}
	pthread_mutex_unlock(&switch_fork_lock);
}

static uint32_t locks_held; /* under switch_fork_lock */
static bool is_lifeless;    /* the same: the child that is being made */

int fork_prepare(bool identity)
{
	int index = -1, saved = errno;
	/* a handler that forks would wait for the lock of the call that it interrupted */
	critical_enter();
	pthread_mutex_lock(&switch_fork_lock); /* no promotion between the look at the holders and its marker */
	uint32_t now = atomic_fetch_add(&process_forks, 1) + 1;
	/* as long as a system call that does not block; a thread that was ended by force in it is not waited for for ever */
	for (uint64_t until = 0; atomic_load(&numbers_made) && (!until || now_ns() < until); until = until ? until : now_ns() + 100000000)
		sched_yield();
	is_lifeless = !identity; /* a fork by such a child makes one that libc knows */
	if (family)
		index = family_fork_prepare(is_lifeless);
	forked_at[index >= 0 ? index : FAMILY_OTHERS] = now;
	sock_each(share, &index); /* also before the first connection: an unconnected socket has two holders from here on */
	locks_held = locks_hold();
	link_fork_prepare();
	if (family)
		sock_each(share_late, &index);
	limits_hold();
	errno = saved;
	return index;
}

void fork_child(int index)
{
	int saved = errno;
	limits_fork_child();
	locks_release(locks_held); /* ours until here; each is made anew below, for who else may have waited */
	atomic_store(&process_forks, (process_forks + 1) & ~1u); /* a relay's fork did not count it */
	atomic_store(&numbers_made, 0);
	pthread_mutex_unlock(&switch_fork_lock);
	pthread_mutex_init(&switch_fork_lock, NULL); /* others of the parent may have waited for it */
	signals_fork_child();
	registry_fork_child();
	stats_fork_child(); /* first: until then we count in the parent's file */
	waitset_forked();
	if (family) {
		family_fork_child(index, is_lifeless);
		is_lifeless = false;
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
	locks_release(locks_held);
	if (family && pid != FORK_UNKNOWN)
		family_fork_parent(index, pid);
	is_lifeless = false; /* a relay's is another fork */
	atomic_fetch_add(&process_forks, 1);
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

/* The end of the process is the last close of what it alone holds. */
static void last(struct sock *s, void *arg)
{
	(void)arg;
	struct slot *t = s->slot;
	/* The lane of a slot may be of a link that our parent made after the fork: only with a link of ours it is mapped. */
	struct link_lane *lane = t && s->link ? slot_lane(t) : NULL;
	if (!lane)
		return;
	/* Other threads may still run: no lock is taken and nothing that they use goes away. */
	if (slot_sole(t)) {
		if (io_close(s, s->fd)) {
			struct linger reset = {1, 0};
			real.setsockopt(s->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
		}
		atomic_store(&lane->end[t->side].closed, 1);
	}
	slot_release(t);
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
