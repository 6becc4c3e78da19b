#include "preload/proc/inside.h"
#include "preload/real.h"
#include "preload/wait/waker.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>
#include <sys/mman.h>

struct inside_poll {
	size_t size;        /* of the mapping */
	size_t n;
	uintptr_t sock[];   /* and 1 where it is pinned */
};

static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool have_key;

static void poll_lower(struct inside_poll *p)
{
	while (p->n) {
		uintptr_t e = p->sock[--p->n];
		struct sock *s = (struct sock *)(e & ~(uintptr_t)1);
		atomic_fetch_sub(&s->rx_inside, 1);
		if (e & 1)
			sock_unpin_now(s);
	}
	if (self_thread.poll_room)
		munmap(p, p->size);
	else
		self_thread.poll_room = p;
}

static void lower(const struct inside *i)
{
	switch (i->kind) {
	case INSIDE_PIN:
		sock_unpin_now((struct sock *)i->what);
		break;
	case INSIDE_SOCK:
	case INSIDE_SET:
		atomic_fetch_sub((_Atomic uint32_t *)i->what, 1);
		break;
	case INSIDE_POLL:
		poll_lower((struct inside_poll *)i->what);
		break;
	case INSIDE_ASLEEP:
		waker_up((struct waker *)i->what);
		break;
	case INSIDE_HANDLER:
		break;
	}
}

bool inside_take_out(enum inside_kind kind, const void *what)
{
	struct thread_state *self = &self_thread;
	for (uint32_t i = self->n_inside; i-- > 0;) {
		if (self->inside[i].what != what || self->inside[i].kind != kind)
			continue;
		for (self->n_inside--; i < self->n_inside; i++)
			self->inside[i] = self->inside[i + 1];
		return true;
	}
	if (!self->inside_lost)
		return false;
	self->inside_lost--;
	return true;
}

/* cancelled, or ended by pthread_exit from a handler: none of its calls comes back */
static void thread_ends(void *arg)
{
	struct thread_state *self = arg;
	int saved = errno;
	critical_enter();
	while (self->n_inside) {
		struct inside i = self->inside[--self->n_inside];
		lower(&i);
	}
	if (self->poll_room) {
		size_t size = self->poll_room->size;
		munmap(self->poll_room, size);
	}
	self->poll_room = NULL;
	self->inside_lost = self->watched = 0; /* later destructors of the program may make calls too */
	critical_leave();
	errno = saved;
}

static void make_key(void)
{
	have_key = pthread_key_create(&key, thread_ends) == 0;
}

void inside_watch_thread(void)
{
	self_thread.watched = 1;
	pthread_once(&once, make_key);
	if (have_key)
		pthread_setspecific(key, &self_thread);
}

static inline void watch(void)
{
	if (unlikely(!self_thread.watched) && !alone())
		inside_watch_thread();
}

struct sock *sock_pinned(struct sock *s, int fd)
{
	watch();
	critical_enter();
	atomic_fetch_add(&s->pins, 1); /* seq_cst: before the second look at the table */
	if (likely(fdtab_sock(fd) == s)) {
		inside_record(INSIDE_PIN, s);
	} else {
		atomic_fetch_sub(&s->pins, 1);
		s = NULL;
	}
	critical_leave();
	return s;
}

void sock_unpin_slow(struct sock *s)
{
	critical_enter();
	if (inside_forget(INSIDE_PIN, s))
		sock_unpin_now(s);
	critical_leave();
}

struct inside_poll *inside_poll_begin(size_t most)
{
	size_t size = (sizeof(struct inside_poll) + most * sizeof(uintptr_t) + 4095) & ~(size_t)4095;
	struct thread_state *self = &self_thread;
	watch();
	critical_enter();
	struct inside_poll *p = self->poll_room;
	if (p && p->size >= size) {
		self->poll_room = NULL;
	} else {
		p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p == MAP_FAILED)
			p = NULL;
		else
			p->size = size;
		if (p && self->poll_room) { /* too small: the larger one is kept */
			size = self->poll_room->size;
			munmap(self->poll_room, size);
			self->poll_room = NULL;
		}
	}
	if (p)
		inside_record(INSIDE_POLL, p);
	critical_leave();
	return p;
}

struct sock *inside_poll_add(struct inside_poll *p, int fd)
{
	struct sock *s = fdtab_sock(fd);
	if (!s || atomic_load_explicit(&s->stage, memory_order_relaxed) == SOCK_PLAIN)
		return NULL;
	uintptr_t pinned = !alone();
	if (pinned) {
		atomic_fetch_add(&s->pins, 1); /* as sock_pinned */
		if (fdtab_sock(fd) != s) {
			atomic_fetch_sub(&s->pins, 1);
			return NULL;
		}
	}
	atomic_fetch_add(&s->rx_inside, 1);
	p->sock[p->n++] = (uintptr_t)s | pinned;
	return s;
}

void inside_poll_end(struct inside_poll *p)
{
	int saved = errno;
	critical_enter();
	if (inside_forget(INSIDE_POLL, p))
		poll_lower(p);
	critical_leave();
	errno = saved;
}

/* Where the stack pointer stands in glibc's buffer, and how it is scrambled there. The secret is libc's own: a
 * buffer that was filled here, where the stack pointer is known, tells it. */
#if defined(__x86_64__)
#define STACK_POINTER 6
#define READ_STACK_POINTER(v) __asm__ volatile("mov %%rsp, %0" : "=r"(v))
static uintptr_t turn(uintptr_t v)
{
	return v >> 17 | v << 47;
}
#elif defined(__aarch64__)
#define STACK_POINTER 13
#define READ_STACK_POINTER(v) __asm__ volatile("mov %0, sp" : "=r"(v))
static uintptr_t turn(uintptr_t v)
{
	return v;
}
#endif

int fill_buffer(void *buffer) __asm__("_setjmp"); /* nobody jumps there */

static __attribute__((noinline)) uintptr_t secret(void)
{
	static _Atomic uintptr_t known;
	uintptr_t v = atomic_load_explicit(&known, memory_order_relaxed);
	if (!v) {
		jmp_buf here;
		uintptr_t sp;
		READ_STACK_POINTER(sp);
		fill_buffer(here);
		v = turn(((uintptr_t *)here)[STACK_POINTER]) ^ sp;
		atomic_store_explicit(&known, v, memory_order_relaxed);
	}
	return v;
}

/* Is entry i below the stack pointer that is jumped to? Its stack is that of the handler that it lies in. */
static bool jumped_out(const struct thread_state *self, uint32_t i, uintptr_t to)
{
	const struct inside_handler *h = NULL;
	for (uint32_t k = i + 1; !h && k-- > 0;)
		if (self->inside[k].kind == INSIDE_HANDLER)
			h = self->inside[k].what;
	if (h && h->stack_end && (to < h->stack || to > h->stack_end))
		return true; /* out of a handler that has a stack of its own */
	return self->inside[i].frame < to;
}

void inside_jump(const void *buffer)
{
	struct thread_state *self = &self_thread;
	if (likely(!self->n_inside && !self->critical))
		return;
	int saved = errno;
	uintptr_t to = turn(((const uintptr_t *)buffer)[STACK_POINTER]) ^ secret();
	/* A handler of a synchronous signal may jump out of a critical section. */
	self->critical = 1;
	while (self->n_inside && jumped_out(self, self->n_inside - 1, to)) {
		struct inside i = self->inside[--self->n_inside];
		lower(&i);
	}
	if (!self->n_inside)
		self->inside_lost = 0;
	critical_leave();
	errno = saved;
}

void inside_fork_child(void)
{
	struct thread_state *self = &self_thread;
	uint32_t n = 0;
	for (uint32_t i = 0; i < self->n_inside; i++) {
		struct inside *e = &self->inside[i];
		struct inside_poll *p = (struct inside_poll *)e->what;
		switch (e->kind) {
		case INSIDE_PIN:
			atomic_fetch_add(&((struct sock *)e->what)->pins, 1);
			break;
		case INSIDE_SOCK:
			atomic_fetch_add((_Atomic uint32_t *)e->what, 1);
			break;
		case INSIDE_POLL:
			for (size_t k = 0; k < p->n; k++) {
				struct sock *s = (struct sock *)(p->sock[k] & ~(uintptr_t)1);
				atomic_fetch_add(&s->rx_inside, 1);
				atomic_fetch_add(&s->pins, p->sock[k] & 1);
			}
			break;
		case INSIDE_ASLEEP:
			continue; /* the word is the parent's */
		case INSIDE_SET:
		case INSIDE_HANDLER:
			break;
		}
		self->inside[n++] = *e;
	}
	self->n_inside = n;
}
