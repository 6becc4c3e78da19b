/* The next definition of every intercepted call, bound in the constructor (a lazily bound symbol would be bound
 * in a forked child, under a lock that another thread held). */
#ifndef HASTEN_REAL_H
#define HASTEN_REAL_H
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

struct real {
#define CALL(ret, name, params, group) ret(*name) params;
#include "preload/calls.def"
#undef CALL
};
extern struct real real;
extern bool real_bound;

/* Binds the table once; idempotent, also called by a wrapper that runs before the constructor. */
void real_bind(void);

#define EXPORT __attribute__((visibility("default")))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define ENSURE_REAL() do { if (unlikely(!real_bound)) real_bind(); } while (0)

/* The one place where results become errno. */
#define EDGE(r) ({ typeof(r) edge_ = (r); if (unlikely(edge_ < 0)) { errno = -edge_; edge_ = -1; } edge_; })

/* A call that succeeds leaves errno as it was, whatever was asked of the kernel on the way. */
#define KEEPS_ERRNO(call) ({ int errno_ = errno; typeof(call) kept_ = (call); if (likely(kept_ >= 0)) errno = errno_; kept_; })
#endif
