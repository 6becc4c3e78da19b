/* What the files of wrappers share. */
#ifndef HASTEN_INTERPOSE_H
#define HASTEN_INTERPOSE_H
#include "preload/fdtab.h"
#include "preload/real.h"
#include <stdlib.h>

/* A number that is no socket of ours: two loads and a jump. The rest stands in a function of its own, so that this
 * one saves no registers. */
#define FAST(fd, call) do { \
	ENSURE_REAL(); \
	if (likely(!fdtab_sock(fd))) \
		return call; \
} while (0)
#define SLOW static __attribute__((noinline))

#define ENSURE_REAL_RETURN(call) ({ ENSURE_REAL(); call; })

/* A fortified call whose length is beyond the buffer: ends the program as libc would. */
static inline void abort_overflow(void)
{
	extern void __chk_fail(void) __attribute__((noreturn));
	__chk_fail();
}

/* libc declares these only inside its fortified headers. */
ssize_t __read_chk(int fd, void *buf, size_t n, size_t size);
ssize_t __recv_chk(int fd, void *buf, size_t n, size_t size, int flags);
ssize_t __recvfrom_chk(int fd, void *buf, size_t n, size_t size, int flags, struct sockaddr *from, socklen_t *len);
int __poll_chk(struct pollfd *fds, nfds_t n, int ms, size_t size);
int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *ts, const sigset_t *mask, size_t size);

int capset(void *header, const void *data);
sighandler_t bsd_signal(int sig, sighandler_t handler);
void __longjmp_chk(struct __jmp_buf_tag to[1], int value);

struct waitset;

/* Drops what we know of a number whose file is about to go. e: its entry. */
void number_forget(int fd, uintptr_t e);
/* The same where the file has gone already: the number was closed past us. */
void number_lost(int fd);

/* The kernel has just made this number: what the table says of it is of a file that was closed past us. */
static inline void number_fresh(int fd)
{
	if (unlikely(fd >= 0 && fdtab_get(fd)))
		number_lost(fd);
}

/* Urgent data lives in the kernel's stream only. */
void urgent_leaves(int fd, int flags);

/* Descriptors that an exec would keep leave us; with nothing on a lane this is one walk of the table. */
void exec_leave(void);
void waitset_dup(struct waitset *w, int fd);
#endif
