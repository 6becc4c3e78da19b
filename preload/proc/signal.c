/* Signal handlers of the program. They run in ours, which knows whether SA_RESTART was asked for (our waits answer
 * EINTR as the kernel would), and keeps asynchronous ones out of critical sections. */
#include "preload/real.h"
#include "preload/state.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DEFERRED_MAX 8

static struct sigaction program[NSIG]; /* what the program asked for */
static _Atomic uint32_t wrapped[NSIG];

static __thread siginfo_t waiting[DEFERRED_MAX] __attribute__((tls_model("initial-exec")));

static bool synchronous(int sig)
{
	return sig == SIGSEGV || sig == SIGBUS || sig == SIGFPE || sig == SIGILL || sig == SIGTRAP || sig == SIGSYS;
}

static void on_signal(int sig, siginfo_t *info, void *context)
{
	struct thread_state *self = &self_thread;
	int saved = errno;
	if (self->critical && !synchronous(sig) && self->deferred < DEFERRED_MAX) {
		waiting[self->deferred++] = *info;
		return;
	}
	struct sigaction a = program[sig];
	if (a.sa_flags & SA_RESETHAND)
		program[sig].sa_handler = SIG_DFL;
	self->signals++;
	if (!(a.sa_flags & SA_RESTART))
		self->signals_norestart++;
	errno = saved;
	if (a.sa_flags & SA_SIGINFO)
		a.sa_sigaction(sig, info, context);
	else
		a.sa_handler(sig);
}

void signals_run_deferred(void)
{
	struct thread_state *self = &self_thread;
	int saved = errno;
	siginfo_t now[DEFERRED_MAX];
	uint32_t n = self->deferred;
	memcpy(now, waiting, n * sizeof(*now));
	self->deferred = 0;
	/* sent again to this thread: delivered with the program's mask before the call returns */
	for (uint32_t i = 0; i < n; i++)
		real.syscall(SYS_rt_tgsigqueueinfo, getpid(), (pid_t)real.syscall(SYS_gettid), now[i].si_signo, &now[i]);
	errno = saved;
}

EXPORT int sigaction(int sig, const struct sigaction *new, struct sigaction *old)
{
	ENSURE_REAL();
	struct sigaction ours, was, before;
	if (sig <= 0 || sig >= NSIG || synchronous(sig))
		return real.sigaction(sig, new, old);
	before = program[sig];
	bool was_wrapped = wrapped[sig];
	const struct sigaction *set = new;
	if (new && new->sa_handler != SIG_DFL && new->sa_handler != SIG_IGN) {
		ours = *new;
		ours.sa_sigaction = on_signal;
		ours.sa_flags |= SA_SIGINFO;
		program[sig] = *new; /* before the kernel can deliver it */
		set = &ours;
	}
	int r = real.sigaction(sig, set, &was);
	if (r < 0) {
		program[sig] = before;
		return r;
	}
	if (new)
		wrapped[sig] = set == &ours;
	if (old) {
		*old = was;
		if (was_wrapped && was.sa_sigaction == on_signal) {
			old->sa_sigaction = before.sa_sigaction;
			old->sa_flags = before.sa_flags;
		}
	}
	return r;
}

EXPORT sighandler_t signal(int sig, sighandler_t handler)
{
	struct sigaction a = {.sa_handler = handler, .sa_flags = SA_RESTART}, old;
	sigemptyset(&a.sa_mask);
	sigaddset(&a.sa_mask, sig > 0 && sig < NSIG ? sig : 0);
	if (sigaction(sig, &a, &old) < 0)
		return SIG_ERR;
	return old.sa_handler;
}
