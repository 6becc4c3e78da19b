/* Signal handlers of the program. They run in ours, which knows whether SA_RESTART was asked for (our waits answer
 * EINTR as the kernel would), keeps asynchronous ones out of critical sections, and marks in the record of what is
 * raised (inside.h) where a handler began.
 *
 * A signal that comes inside a critical section is sent again to this thread and blocked until the section ends: it
 * waits in the kernel, with its siginfo, and no further one of its kind can come. The program's mask is as it left
 * it whenever its code runs, so sigprocmask and pthread_sigmask pass through: a call of ours has ended all its
 * critical sections, and with them what it kept back, before the program can ask for its mask or change it. */
#include "preload/interpose.h"
#include "preload/proc/inside.h"
#include "preload/real.h"
#include "preload/state.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

/* What the program asked for. A handler begins while another thread installs the next one, so a record is never changed
 * and never freed: what is asked for again is found again. */
struct action {
	struct sigaction asked;
	struct action *next;         /* of this signal, or free */
};
static struct action *_Atomic program[NSIG];
static struct action *known[NSIG];     /* lock: signal_actions_lock */
static struct action *free_actions;    /* the same */
/* The record and the kernel's change as one step. */
pthread_mutex_t signal_actions_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint64_t interrupts;    /* siginterrupt(sig, 1): signal() installs without SA_RESTART */

static __thread uint64_t held __attribute__((tls_model("initial-exec"))); /* blocked until the section ends */

static bool synchronous(int sig)
{
	return sig == SIGSEGV || sig == SIGBUS || sig == SIGFPE || sig == SIGILL || sig == SIGTRAP || sig == SIGSYS;
}

static uint64_t bit(int sig)
{
	return 1ull << (sig - 1);
}

/* libc's signal sets are longer than the kernel's, and its calls are other preloads' too. */
static void kernel_mask(int how, uint64_t set)
{
	real.syscall(SYS_rt_sigprocmask, how, &set, NULL, sizeof(set));
}

static void on_signal(int sig, siginfo_t *info, void *context);

static bool same(const struct sigaction *a, const struct sigaction *b)
{
	return a->sa_sigaction == b->sa_sigaction && a->sa_flags == b->sa_flags && !memcmp(&a->sa_mask, &b->sa_mask, sizeof(a->sa_mask));
}

/* Under the lock. NULL: no memory. */
static struct action *action_of(int sig, const struct sigaction *asked)
{
	struct action *a = known[sig];
	while (a && !same(&a->asked, asked))
		a = a->next;
	if (a)
		return a;
	if (!free_actions) {
		static struct action first[32];
		static bool begun;
		size_t n = begun ? 4096 / sizeof(*a) : sizeof(first) / sizeof(first[0]);
		struct action *c = begun ? mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : first;
		if (c == MAP_FAILED)
			return NULL;
		begun = true;
		for (size_t i = 0; i < n; i++) {
			c[i].next = free_actions;
			free_actions = &c[i];
		}
	}
	a = free_actions;
	free_actions = a->next;
	a->asked = *asked;
	a->next = known[sig];
	known[sig] = a;
	return a;
}

static void ours_of(const struct sigaction *asked, struct sigaction *ret)
{
	*ret = *asked;
	ret->sa_sigaction = on_signal;
	ret->sa_flags |= SA_SIGINFO;
}

/* False: it could not be sent again. */
static bool keep_back(int sig, siginfo_t *info, ucontext_t *context)
{
	uint64_t mask;
	const struct action *a = atomic_load(&program[sig]);
	if (a->asked.sa_flags & SA_RESETHAND) { /* the kernel took it out: it is to run yet */
		struct sigaction again;
		ours_of(&a->asked, &again);
		real.sigaction(sig, &again, NULL);
	}
	kernel_mask(SIG_BLOCK, bit(sig)); /* with SA_NODEFER it would come right now */
	if (real.syscall(SYS_rt_tgsigqueueinfo, getpid(), (pid_t)real.syscall(SYS_gettid), sig, info) < 0)
		return false;
	memcpy(&mask, &context->uc_sigmask, sizeof(mask)); /* the mask after this handler */
	mask |= bit(sig);
	memcpy(&context->uc_sigmask, &mask, sizeof(mask));
	held |= bit(sig);
	self_thread.deferred = 1;
	return true;
}

void signals_run_deferred(void)
{
	int saved = errno;
	uint64_t mask = held;
	held = 0;
	self_thread.deferred = 0;
	kernel_mask(SIG_UNBLOCK, mask); /* they are delivered before this returns */
	errno = saved;
}

static void on_signal(int sig, siginfo_t *info, void *context)
{
	struct thread_state *self = &self_thread;
	ucontext_t *at = context;
	int saved = errno;
	if (self->critical && !synchronous(sig) && keep_back(sig, info, at)) {
		errno = saved;
		return;
	}
	const struct sigaction *asked = &atomic_load(&program[sig])->asked;
	uint32_t signals = self->signals + 1, norestart = self->signals_norestart + !(asked->sa_flags & SA_RESTART);
	uintptr_t frame = (uintptr_t)__builtin_frame_address(0), stack = (uintptr_t)at->uc_stack.ss_sp;
	struct inside_handler here = {0, 0};
	if (frame >= stack && frame - stack < at->uc_stack.ss_size)
		here = (struct inside_handler){stack, stack + at->uc_stack.ss_size};
	inside_record(INSIDE_HANDLER, &here);
	errno = saved;
	if (asked->sa_flags & SA_SIGINFO)
		asked->sa_sigaction(sig, info, context);
	else
		asked->sa_handler(sig);
	inside_forget(INSIDE_HANDLER, &here);
	/* after it: whether the interrupted wait goes on is for this handler to say, not for those that interrupted it */
	self->signals = signals;
	self->signals_norestart = norestart;
}

EXPORT int sigaction(int sig, const struct sigaction *new, struct sigaction *old)
{
	ENSURE_REAL();
	struct sigaction asked, ours, was;
	if (sig <= 0 || sig >= NSIG || synchronous(sig))
		return real.sigaction(sig, new, old);
	if (new)
		asked = *new; /* before the lock: it may fault */
	bool handler = new && asked.sa_handler != SIG_DFL && asked.sa_handler != SIG_IGN;
	/* The child of a vfork has handlers of its own and our memory in common with its parent. */
	bool child = self_thread.vfork_child, write = handler && !child;
	if (!child)
		own_lock(&signal_actions_lock);
	struct action *before = atomic_load(&program[sig]), *next = write ? action_of(sig, &asked) : NULL;
	if (next) {
		ours_of(&asked, &ours);
		atomic_store(&program[sig], next); /* before the kernel can deliver it */
	}
	int r = real.sigaction(sig, next ? &ours : new ? &asked : NULL, &was);
	if (r < 0 && next)
		atomic_store(&program[sig], before);
	if (!child)
		own_unlock(&signal_actions_lock);
	if (r == 0 && old) {
		*old = was;
		if (was.sa_sigaction == on_signal) {
			old->sa_sigaction = before->asked.sa_sigaction;
			old->sa_flags = before->asked.sa_flags;
		}
	}
	return r;
}

void signals_fork_child(void)
{
	pthread_mutex_init(&signal_actions_lock, NULL);
}

static sighandler_t install(int sig, sighandler_t handler, int flags)
{
	struct sigaction a = {.sa_handler = handler, .sa_flags = flags}, old;
	sigemptyset(&a.sa_mask);
	if (!(flags & SA_NODEFER))
		sigaddset(&a.sa_mask, sig > 0 && sig < NSIG ? sig : 0);
	if (handler == SIG_ERR) {
		errno = EINVAL;
		return SIG_ERR;
	}
	return sigaction(sig, &a, &old) < 0 ? SIG_ERR : old.sa_handler;
}

EXPORT sighandler_t signal(int sig, sighandler_t handler)
{
	return install(sig, handler, sig > 0 && sig < NSIG && interrupts & bit(sig) ? 0 : SA_RESTART);
}

EXPORT sighandler_t ssignal(int sig, sighandler_t handler)
{
	return signal(sig, handler);
}

EXPORT sighandler_t bsd_signal(int sig, sighandler_t handler)
{
	return signal(sig, handler);
}

/* What signal means in a program built for strict POSIX. */
EXPORT sighandler_t __sysv_signal(int sig, sighandler_t handler)
{
	return install(sig, handler, SA_RESETHAND | SA_NODEFER);
}

EXPORT sighandler_t sysv_signal(int sig, sighandler_t handler)
{
	return __sysv_signal(sig, handler);
}

EXPORT int siginterrupt(int sig, int on)
{
	struct sigaction a;
	if (sigaction(sig, NULL, &a) < 0)
		return -1;
	if (on) {
		atomic_fetch_or(&interrupts, bit(sig));
		a.sa_flags &= ~SA_RESTART;
	} else {
		atomic_fetch_and(&interrupts, ~bit(sig));
		a.sa_flags |= SA_RESTART;
	}
	return sigaction(sig, &a, NULL);
}

EXPORT int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	ENSURE_REAL();
	return real.sigprocmask(how, set, old);
}

EXPORT int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	ENSURE_REAL();
	return real.pthread_sigmask(how, set, old);
}

#define JUMP(name) \
	EXPORT void name(struct __jmp_buf_tag to[1], int value) \
	{ \
		ENSURE_REAL(); \
		inside_jump(to); \
		real.name(to, value); \
		__builtin_unreachable(); \
	}
JUMP(longjmp)
JUMP(_longjmp)
JUMP(siglongjmp)
JUMP(__longjmp_chk)
