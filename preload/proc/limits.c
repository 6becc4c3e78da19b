/* The numbers of our own descriptors, and the program's limit of open files.
 *
 * The rule: a number of ours is one that the program cannot be given. The kernel gives a program the lowest free
 * number below its soft limit, so ours lie above that limit, from 1024 at least (a program that starts with less may
 * raise it). The kernel lets nobody take a number beyond the soft limit: it is raised for one F_DUPFD. While it is,
 * no other thread may see it, set it, or make a child that would inherit it: getrlimit, setrlimit, prlimit, fork,
 * clone, posix_spawn and popen wait for these two calls. (A vfork or system in that microsecond would hand a raised
 * soft limit to its child; a thread at its limit may be given one number more.)
 *
 * Where the hard limit leaves nothing above, or the soft limit is so high that a number above it would make every
 * fork copy a table of megabytes (LIMIT_HIGH: +30 us a fork), ours are taken from 1024 on, or from the top quarter
 * of a smaller limit: there the program finds a few numbers taken.
 *
 * A program that raises its soft limit over ours later is never given them either: to the kernel they are taken.
 * One that lowers a limit below them takes nothing away: limits are looked at when a number is handed out. To the
 * program our numbers are closed (close, dup, fcntl say EBADF) and a dup2 onto one below its limit says EBUSY. */
#include "preload/proc/limits.h"
#include "preload/fdtab.h"
#include "preload/real.h"
#include "preload/state.h"
#include "preload/symbols.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#define LIMIT_HIGH 16384
#define LOWEST     1024

static pthread_mutex_t raise_lock = PTHREAD_MUTEX_INITIALIZER; /* innermost: nothing is locked under it */

void limits_hold(void)
{
	own_lock(&raise_lock);
}

void limits_release(void)
{
	own_unlock(&raise_lock);
}

void limits_fork_child(void)
{
	pthread_mutex_unlock(&raise_lock);
	pthread_mutex_init(&raise_lock, NULL);
	critical_leave(); /* of limits_hold, before the fork */
}

bool limits_within(int fd)
{
	struct rlimit now;
	return real.getrlimit(RLIMIT_NOFILE, &now) == 0 && (rlim_t)fd < now.rlim_cur;
}

int limits_away(int fd)
{
	struct rlimit had, room;
	int high = -1, saved = errno;
	if (real.getrlimit(RLIMIT_NOFILE, &had) < 0)
		return -1;
	rlim_t from = had.rlim_cur < LOWEST ? LOWEST : had.rlim_cur;
	if (from >= had.rlim_max)
		from = had.rlim_cur;
	if (had.rlim_max > from && from <= LIMIT_HIGH) {
		own_lock(&raise_lock);
		if (real.getrlimit(RLIMIT_NOFILE, &had) == 0) { /* the truth: nobody has it raised now */
			room = had;
			room.rlim_cur = had.rlim_max;
			if (real.setrlimit(RLIMIT_NOFILE, &room) == 0) {
				high = real.fcntl(fd, F_DUPFD_CLOEXEC, (int)from);
				real.setrlimit(RLIMIT_NOFILE, &had);
			}
		}
		own_unlock(&raise_lock);
	}
	if (high < 0) {
		rlim_t within = had.rlim_cur > LOWEST + LOWEST / 4 ? LOWEST : had.rlim_cur - had.rlim_cur / 4;
		high = real.fcntl(fd, F_DUPFD_CLOEXEC, (int)within);
	}
	errno = saved;
	return high;
}

/* EARLY: a sanitizer asks for limits while it starts, before instrumented code can run. */
#define LIMITED(resource, call) ({ \
	ENSURE_REAL(); \
	bool ours_ = (resource) == RLIMIT_NOFILE; \
	if (ours_) \
		own_lock(&raise_lock); \
	int r_ = call; \
	if (ours_) \
		own_unlock(&raise_lock); \
	r_; })

EARLY EXPORT int getrlimit(__rlimit_resource_t resource, struct rlimit *ret)
{
	return LIMITED(resource, real.getrlimit(resource, ret));
}

EARLY EXPORT int setrlimit(__rlimit_resource_t resource, const struct rlimit *set)
{
	return LIMITED(resource, real.setrlimit(resource, set));
}

EARLY EXPORT int prlimit(pid_t pid, enum __rlimit_resource resource, const struct rlimit *set, struct rlimit *ret)
{
	return LIMITED(resource, real.prlimit(pid, resource, set, ret));
}

EARLY EXPORT int getrlimit64(__rlimit_resource_t resource, struct rlimit64 *ret)
{
	return LIMITED(resource, real.getrlimit64(resource, ret));
}

EARLY EXPORT int setrlimit64(__rlimit_resource_t resource, const struct rlimit64 *set)
{
	return LIMITED(resource, real.setrlimit64(resource, set));
}

EARLY EXPORT int prlimit64(pid_t pid, enum __rlimit_resource resource, const struct rlimit64 *set, struct rlimit64 *ret)
{
	return LIMITED(resource, real.prlimit64(pid, resource, set, ret));
}
