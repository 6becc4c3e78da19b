/* What the calls of this thread have raised and must lower again: pins of sockets, counts of calls inside the kernel,
 * a wake-up word that says "asleep". A call that never returns (siglongjmp out of a handler, cancellation,
 * pthread_exit from a handler) cannot lower it itself; left raised it would forbid promotions for ever, or keep a
 * wake-up word asleep so that nobody wakes its next sleeper.
 *
 * So each thread keeps a record of what is raised, innermost last, with marks where a handler of the program began.
 * Nothing of it lies on the stack: the part of the stack that was jumped out of is overwritten before anybody looks.
 * longjmp and its kin lower what lies below the stack pointer that they restore; the end of the thread lowers the
 * rest. A call whose record is gone when it does come back lowers nothing.
 *
 * Jumps happen only where a handler may run: outside critical sections (state.h), so a lock is never left behind.
 * Raising and recording are one critical section. */
#ifndef HASTEN_INSIDE_H
#define HASTEN_INSIDE_H
#include "preload/sock.h"
#include "preload/state.h"
#include <stdatomic.h>

/* Registers this thread's end with libc; once a thread, where there is more than one. */
void inside_watch_thread(void);
/* The rest of inside_forget: not the innermost, or gone. */
bool inside_take_out(enum inside_kind kind, const void *what);

/* Caller: in a critical section, what is raised in it as well. */
static inline void inside_record(enum inside_kind kind, const void *what)
{
	struct thread_state *self = &self_thread;
	if (__builtin_expect(self->n_inside == INSIDE_MAX, 0)) {
		self->inside_lost++; /* lowered by their own call only */
		return;
	}
	self->inside[self->n_inside++] = (struct inside){what, (uintptr_t)__builtin_frame_address(0), kind};
}

/* True: the caller lowers what it raised; false: that has been done. */
static inline bool inside_forget(enum inside_kind kind, const void *what)
{
	struct thread_state *self = &self_thread;
	if (__builtin_expect(self->n_inside && self->inside[self->n_inside - 1].what == what &&
			     self->inside[self->n_inside - 1].kind == kind, 1)) {
		self->n_inside--;
		return true;
	}
	return inside_take_out(kind, what);
}

static inline void inside_count(enum inside_kind kind, _Atomic uint32_t *count)
{
	if (__builtin_expect(!self_thread.watched, 0) && !alone())
		inside_watch_thread();
	critical_enter();
	atomic_fetch_add(count, 1); /* seq_cst: before the caller's look at what forbids or allows by it */
	inside_record(kind, count);
	critical_leave();
}

static inline void inside_uncount(enum inside_kind kind, _Atomic uint32_t *count)
{
	critical_enter();
	if (inside_forget(kind, count))
		atomic_fetch_sub(count, 1);
	critical_leave();
}

/* A handler of the program begins: the part of the stack that it runs on, 0 and 0 the thread's own. */
struct inside_handler {
	uintptr_t stack, stack_end;
};

/* Sockets that a poll has pinned and counted in (rx_inside). Mapped, and kept by the thread from one poll to the
 * next. begin: room for that many, NULL no memory. add: the socket behind fd, NULL not ours; caller in a critical
 * section. */
struct inside_poll *inside_poll_begin(size_t most);
struct sock *inside_poll_add(struct inside_poll *p, int fd);
void inside_poll_end(struct inside_poll *p);

/* Before a jump by that buffer. */
void inside_jump(const void *jmp_buf);
/* The child of a fork: counts were reset, this thread's calls are the only ones. */
void inside_fork_child(void);
#endif
