/* What the whole library shares inside one process: options and the per-thread state. */
#ifndef HASTEN_PRELOAD_STATE_H
#define HASTEN_PRELOAD_STATE_H
#include "common/reasons.h"
#include "common/options.h"
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

/* What a call has raised (proc/inside.h). */
enum inside_kind { INSIDE_PIN, INSIDE_SOCK, INSIDE_SET, INSIDE_POLL, INSIDE_ASLEEP, INSIDE_HANDLER };

struct inside {
	const void *what;
	uintptr_t frame;             /* of the function that raised it */
	enum inside_kind kind;
};

#define INSIDE_MAX 16 /* a wait takes three, a handler that interrupts it one and what its own calls take */

struct thread_state {
	uint32_t vfork_child;        /* between vfork and exec: tables are the parent's, nothing is written */
	uint32_t forking;            /* in our fork, which libc's handlers of a fork leave alone */
	uint32_t critical;           /* inside a critical section: asynchronous signals wait */
	uint32_t deferred;           /* signals wait for its end (proc/signal.c) */
	uint32_t n_inside;           /* innermost last */
	uint32_t inside_lost;        /* raised while the record was full */
	uint32_t watched;            /* libc tells us of this thread's end */
	struct inside inside[INSIDE_MAX];
	struct inside_poll *poll_room; /* kept from one poll to the next, NULL none or in use */
	uint32_t signals;            /* handlers that ran */
	uint32_t signals_norestart;  /* of those, installed without SA_RESTART */
	uint64_t spin_ns;            /* budget of the next spin */
	uint32_t spin_skipped;       /* waits without a spin */
	uint32_t spin_failures;      /* probes in vain, in a row */
};
extern __thread struct thread_state self_thread __attribute__((tls_model("initial-exec")));

/* Asynchronous signal handlers of the program wait while a thread is inside (proc/signal.c): a handler may use the
 * very socket whose lock is held. */
void signals_run_deferred(void);
void signals_fork_child(void);

static inline void critical_enter(void)
{
	self_thread.critical++;
	__asm__ volatile("" ::: "memory");
}

static inline void critical_leave(void)
{
	__asm__ volatile("" ::: "memory");
	if (--self_thread.critical == 0 && __builtin_expect(self_thread.deferred, 0))
		signals_run_deferred();
}

/* Every lock of ours is held inside a critical section: a handler that came to the same lock would wait for ever, and
 * one that jumped away would leave it locked. */
static inline void own_lock(pthread_mutex_t *m)
{
	critical_enter();
	pthread_mutex_lock(m);
}

static inline void own_unlock(pthread_mutex_t *m)
{
	pthread_mutex_unlock(m);
	critical_leave();
}

extern struct hasten_options options;
extern char program_name[64];
extern _Atomic bool active;          /* acceleration is on in this process */
extern _Atomic uint8_t inactive_reason; /* enum reason: why it is not */
extern _Atomic uint8_t state_stopped; /* enum reason: why it never will be again */
extern unsigned usable_cpus;

/* Loads the options, starts family, registry and state file: at the first TCP socket. fd: that socket. */
bool state_start(int fd);

void state_fork_child(void);
/* After a change of credentials or name space: registry, identity and state file are made again when needed. */
void state_anew(void);
/* Before the program's system calls are confined: nothing is accelerated any more, nor in its children, and no system call
 * made that the program does not make. */
void state_stop(enum reason why);

void log_message(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define LOG_ERROR 1
#define LOG_WARNING 2
#define LOG_INFO 3
#define LOG_DEBUG 4
#endif
