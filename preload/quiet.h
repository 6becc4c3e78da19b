/* System calls that are no cancellation points, for use while a lock is held or something is half done. libc's own
 * end a cancelled thread at their entry, lock and all; by number the kernel is asked and nobody else. Never for a
 * wait: a wait holds no lock and has to be a cancellation point. */
#ifndef HASTEN_QUIET_H
#define HASTEN_QUIET_H
#include "preload/real.h"
#include "preload/sock.h"
#include "preload/state.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>

static inline ssize_t quiet_recv(int fd, void *buf, size_t n, int flags)
{
	return real.syscall(SYS_recvfrom, fd, buf, n, flags, NULL, NULL);
}

static inline ssize_t quiet_recvmsg(int fd, struct msghdr *m, int flags)
{
	return real.syscall(SYS_recvmsg, fd, m, flags);
}

static inline ssize_t quiet_send(int fd, const void *buf, size_t n, int flags)
{
	return real.syscall(SYS_sendto, fd, buf, n, flags, NULL, 0);
}

static inline ssize_t quiet_sendmsg(int fd, const struct msghdr *m, int flags)
{
	return real.syscall(SYS_sendmsg, fd, m, flags);
}

static inline ssize_t quiet_write(int fd, const void *buf, size_t n)
{
	return real.syscall(SYS_write, fd, buf, n);
}

static inline ssize_t quiet_read(int fd, void *buf, size_t n)
{
	return real.syscall(SYS_read, fd, buf, n);
}

static inline int quiet_open(const char *path, int flags)
{
	return real.syscall(SYS_openat, AT_FDCWD, path, flags, 0);
}

static inline int quiet_close(int fd)
{
#ifdef __SANITIZE_THREAD__
	return real.close(fd); /* its runtime keeps books of descriptors */
#else
	return real.syscall(SYS_close, fd);
#endif
}

static inline int quiet_connect(int fd, const struct sockaddr *to, socklen_t len)
{
	return real.syscall(SYS_connect, fd, to, len);
}

static inline int quiet_accept4(int fd, struct sockaddr *from, socklen_t *len, int flags)
{
	return real.syscall(SYS_accept4, fd, from, len, flags);
}

/* Events that are there now. */
static inline int quiet_poll(struct pollfd *fds, nfds_t n)
{
	struct timespec now = {0, 0};
	return real.syscall(SYS_ppoll, fds, n, &now, NULL, (size_t)0);
}

static inline int quiet_epoll(int fd, struct epoll_event *out, int max)
{
	return real.syscall(SYS_epoll_pwait, fd, out, max, 0, NULL, (size_t)0);
}

/* Around longer work that opens files and talks to others: no cancellation, no handler. */
static inline int quiet_begin(void)
{
	int before;
	critical_enter();
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return before;
}

static inline void quiet_end(int before)
{
	pthread_setcancelstate(before, NULL);
	critical_leave();
}

/* A call that has no need to wait or to ask the kernel. */
static inline void cancellation_point(void)
{
	if (unlikely(!alone()))
		pthread_testcancel();
}
#endif
