/* system, where connections are on lanes: libc's own makes the shell inside itself, with the environment as it is, so that
 * nothing can be handed over to it. As POSIX wants it: SIGINT and SIGQUIT are ignored while any thread is in here, and
 * SIGCHLD is blocked in this one; a cancelled caller takes the shell with it. */
#include "preload/interpose.h"
#include "preload/link/link.h"
#include "preload/real.h"
#include "preload/state.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

pthread_mutex_t system_callers_lock = PTHREAD_MUTEX_INITIALIZER; /* a leaf */
static uint32_t callers;
static struct sigaction interrupt_was, quit_was; /* while there are callers */

static void enter(sigset_t *ret_mask)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	sigset_t chld;
	sigemptyset(&ignore.sa_mask);
	own_lock(&system_callers_lock);
	if (callers++ == 0) {
		real.sigaction(SIGINT, &ignore, &interrupt_was);
		real.sigaction(SIGQUIT, &ignore, &quit_was);
	}
	own_unlock(&system_callers_lock);
	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	pthread_sigmask(SIG_BLOCK, &chld, ret_mask);
}

static void leave(const sigset_t *mask)
{
	own_lock(&system_callers_lock);
	if (--callers == 0) {
		real.sigaction(SIGINT, &interrupt_was, NULL);
		real.sigaction(SIGQUIT, &quit_was, NULL);
	}
	own_unlock(&system_callers_lock);
	pthread_sigmask(SIG_SETMASK, mask, NULL);
}

struct running {
	pid_t pid;
	sigset_t mask;
};

static void cancelled(void *arg)
{
	struct running *r = arg;
	int before;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	kill(r->pid, SIGKILL);
	while (waitpid(r->pid, NULL, 0) < 0 && errno == EINTR)
		;
	leave(&r->mask);
	pthread_setcancelstate(before, NULL);
}

static int run(const char *command)
{
	struct running r;
	posix_spawnattr_t attr;
	sigset_t reset;
	int status = -1;
	char *const argv[] = {"sh", "-c", (char *)command, NULL};
	enter(&r.mask);
	sigemptyset(&reset);
	if (interrupt_was.sa_handler != SIG_IGN)
		sigaddset(&reset, SIGINT);
	if (quit_was.sa_handler != SIG_IGN)
		sigaddset(&reset, SIGQUIT);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigmask(&attr, &r.mask);
	posix_spawnattr_setsigdefault(&attr, &reset);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
	int error = posix_spawn(&r.pid, "/bin/sh", NULL, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
	if (error) {
		status = error == ENOMEM || error == EAGAIN ? -1 : W_EXITCODE(127, 0); /* as if the shell had said it */
	} else {
		pthread_cleanup_push(cancelled, &r);
		while (waitpid(r.pid, &status, 0) < 0 && (status = -1, errno == EINTR))
			;
		error = status == -1 ? errno : 0;
		pthread_cleanup_pop(0);
	}
	leave(&r.mask);
	if (status == -1)
		errno = error;
	return status;
}

EXPORT int system(const char *command)
{
	ENSURE_REAL();
	if (!command || self_thread.vfork_child || !atomic_load(&links_any))
		return real.system(command);
	return run(command);
}
