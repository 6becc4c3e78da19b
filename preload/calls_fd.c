/* Calls on descriptors: what a number means changes here. */
#include "preload/interpose.h"
#include "preload/io.h"
#include "preload/proc/limits.h"
#include "preload/proc/process.h"
#include "preload/quiet.h"
#include "preload/real.h"
#include "preload/sock.h"
#include "preload/state.h"
#include "preload/stats/stats.h"
#include "preload/switch.h"
#include "preload/wait/waitset.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <stdarg.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1u << 2)
#endif
#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE (1u << 1)
#endif

void number_forget(int fd, uintptr_t e)
{
	if (fd_kind(e) == FD_SOCK)
		sock_close((struct sock *)(e - FD_SOCK), fd);
	else if (fd_kind(e) == FD_EPOLL)
		waitset_close((struct waitset *)(e - FD_EPOLL), fd);
}

void number_lost(int fd)
{
	uintptr_t e = fdtab_get(fd);
	int saved = errno, quiet = quiet_begin();
	if (fd_kind(e) == FD_SOCK) {
		sock_lost((struct sock *)(e - FD_SOCK), fd);
	} else if (fd_kind(e) == FD_EPOLL) {
		waitset_close((struct waitset *)(e - FD_EPOLL), fd);
	} else if (e) {
		fdtab_set(fd, 0);
		USE(own_fds, -1);
	}
	quiet_end(quiet);
	errno = saved;
}

EXPORT int close(int fd)
{
	ENSURE_REAL();
	uintptr_t e = fdtab_get(fd);
	if (likely(!e))
		return real.close(fd);
	if (fd_kind(e) == FD_OWN) {
		errno = EBADF; /* the program never opened it */
		return -1;
	}
	if (self_thread.vfork_child)
		return real.close(fd);
	int saved = errno, quiet = quiet_begin();
	number_forget(fd, e);
	quiet_end(quiet);
	errno = saved;
	return real.close(fd);
}

static int without_ours(unsigned first, unsigned last, int flags)
{
	if (first > last || flags & ~(int)CLOSE_RANGE_UNSHARE)
		return real.close_range ? real.close_range(first, last, flags) : (errno = ENOSYS, -1);
	/* Our own descriptors lie high and few: the ranges between them go to the kernel. */
	unsigned from = first;
	int r = 0;
	for (unsigned fd = first; fd <= last && (int)fd >= 0 && (int)fd <= fdtab_highest; fd++) {
		uintptr_t e = fdtab_get(fd);
		if (!e)
			continue;
		if (fd_kind(e) != FD_OWN) {
			if (!self_thread.vfork_child)
				number_forget(fd, e);
			continue;
		}
		if (fd > from)
			r |= real.close_range(from, fd - 1, flags);
		from = fd + 1;
	}
	if (from <= last)
		r |= real.close_range(from, last, flags);
	return r ? -1 : 0;
}

EXPORT int close_range(unsigned first, unsigned last, int flags)
{
	ENSURE_REAL();
	return KEEPS_ERRNO(without_ours(first, last, flags));
}

EXPORT void closefrom(int first)
{
	ENSURE_REAL();
	close_range(first < 0 ? 0 : first, UINT_MAX, 0);
}

/* What a number means, held over the kernel's call that makes another one for it: a thread that closes it meanwhile must
 * not end what the new number stands for. */
struct meaning {
	struct sock *s;
	struct waitset *w;
	bool held;
};

/* False: another thread is closing it. */
static bool hold(int fd, struct meaning *ret)
{
	*ret = (struct meaning){fdtab_sock(fd), fdtab_waitset(fd), !self_thread.vfork_child && !alone()};
	if (!ret->held)
		return true;
	if (ret->s)
		return sock_pinned(ret->s, fd) != NULL;
	if (!ret->w)
		return true;
	waitset_enter(ret->w); /* seq_cst: before the second look at the table */
	if (fdtab_waitset(fd) == ret->w)
		return true;
	waitset_leave(ret->w);
	return false;
}

static void let_go(const struct meaning *m)
{
	int saved = errno;
	if (!m->held)
		return;
	if (m->s)
		sock_unpin(m->s);
	if (m->w)
		waitset_leave(m->w);
	errno = saved;
}

static void also(const struct meaning *m, int fd, int r)
{
	if (r < 0)
		return;
	if (self_thread.vfork_child)
		return; /* no table is written; the copy is for the program that the child becomes: exec finds it */
	number_fresh(r);
	if (m->s)
		sock_dup(m->s, r);
	else if (m->w)
		waitset_dup(m->w, r);
}

#define ALSO(fd, call) ({ \
	struct meaning m_; \
	int also_ = -1; \
	if (hold(fd, &m_)) { \
		process_number_begin(); \
		also_ = call; \
		also(&m_, fd, also_); \
		process_number_end(); \
		let_go(&m_); \
	} else { \
		errno = EBADF; \
	} \
	also_; })

EXPORT int dup(int fd)
{
	ENSURE_REAL();
	if (unlikely(fd_kind(fdtab_get(fd)) == FD_OWN)) {
		errno = EBADF;
		return -1;
	}
	return ALSO(fd, real.dup(fd));
}

static bool replaceable(int fd, int to)
{
	if (fd_kind(fdtab_get(to)) == FD_OWN)
		return false;
	int saved = errno;
	if (fd != to && fdtab_get(to) && !self_thread.vfork_child && real.fcntl(fd, F_GETFD) >= 0)
		number_forget(to, fdtab_get(to));
	errno = saved;
	return true;
}

EXPORT int dup2(int fd, int to)
{
	ENSURE_REAL();
	if (!replaceable(fd, to)) {
		errno = limits_within(to) ? EBUSY : EBADF;
		return -1;
	}
	return fd == to ? real.dup2(fd, to) : ALSO(fd, real.dup2(fd, to));
}

EXPORT int dup3(int fd, int to, int flags)
{
	ENSURE_REAL();
	if (fd == to || flags & ~O_CLOEXEC)
		return real.dup3(fd, to, flags);
	if (!replaceable(fd, to)) {
		errno = limits_within(to) ? EBUSY : EBADF;
		return -1;
	}
	return ALSO(fd, real.dup3(fd, to, flags));
}

static int control(int fd, int cmd, void *arg)
{
	if (unlikely(fd_kind(fdtab_get(fd)) == FD_OWN)) {
		errno = EBADF;
		return -1;
	}
	struct sock *s = self_thread.vfork_child ? NULL : fdtab_sock(fd);
	if (s && cmd == F_SETFL && s->slot && (long)arg & O_ASYNC)
		switch_leave(s, fd, REASON_SOCKOPT); /* SIGIO is the kernel's to send */
	if (cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC)
		return ALSO(fd, real.fcntl(fd, cmd, arg));
	int r = real.fcntl(fd, cmd, arg);
	if (r < 0)
		return r;
	if (s && cmd == F_SETFL && s->slot)
		s->slot->nonblock = ((long)arg & O_NONBLOCK) != 0;
	return r;
}

EXPORT int fcntl(int fd, int cmd, ...)
{
	ENSURE_REAL();
	va_list ap;
	va_start(ap, cmd);
	void *arg = va_arg(ap, void *);
	va_end(ap);
	if (likely(!fdtab_get(fd)))
		return real.fcntl(fd, cmd, arg);
	return control(fd, cmd, arg);
}

/* libc's own two are one function where off_t has 64 bits. */
EXPORT int fcntl64(int fd, int cmd, ...) __attribute__((alias("fcntl")));

EXPORT int ioctl(int fd, unsigned long request, ...)
{
	ENSURE_REAL();
	va_list ap;
	va_start(ap, request);
	void *arg = va_arg(ap, void *);
	va_end(ap);
	struct sock *s = self_thread.vfork_child ? NULL : sock_of(fd);
	if (likely(!s))
		return real.ioctl(fd, request, arg);
	int r;
	long n = -1;
	if (arg && request == FIONREAD)
		n = io_readable_bytes(s, fd);
	else if (arg && request == SIOCOUTQ)
		n = io_unsent_bytes(s, fd);
	else if (arg && request == SIOCATMARK && s->slot && s->slot->rx.mode == MODE_LANE && ring_unread(rx_ring(s->slot)))
		n = 0; /* the mark is in the kernel's stream, behind these */
	else if (arg && request == SIOCOUTQNSD && s->slot && s->slot->tx.mode == MODE_LANE)
		n = 0;
	if (n >= 0) {
		*(int *)arg = n < INT_MAX ? (int)n : INT_MAX;
		r = 0;
	} else {
		if (request == FIOASYNC && s->slot)
			switch_leave(s, fd, REASON_SOCKOPT);
		r = real.ioctl(fd, request, arg);
		if (r == 0 && request == FIONBIO && s->slot)
			s->slot->nonblock = *(int *)arg != 0;
	}
	sock_unpin(s);
	return r;
}

/* The kernel's own forms of these two write back what is left of the time. */
static void write_back(struct timespec *t, uint64_t begin)
{
	uint64_t all = t->tv_sec * 1000000000ull + t->tv_nsec, gone = now_ns() - begin, left = gone < all ? all - gone : 0;
	*t = (struct timespec){left / 1000000000, left % 1000000000};
}

static long ppoll_by_number(const long *a)
{
	struct timespec *t = (struct timespec *)a[2];
	uint64_t begin = now_ns();
	int r = ppoll((struct pollfd *)a[0], a[1], t, (const sigset_t *)a[3]);
	if (t && (r >= 0 || errno != EINVAL))
		KEEPS_ERRNO((write_back(t, begin), 0));
	return r;
}

static long pselect_by_number(const long *a)
{
	struct timespec *t = (struct timespec *)a[4];
	const sigset_t *const *mask = (const sigset_t *const *)a[5]; /* and its size */
	uint64_t begin = now_ns();
	int r = pselect(a[0], (fd_set *)a[1], (fd_set *)a[2], (fd_set *)a[3], t, mask ? *mask : NULL);
	if (t && (r >= 0 || errno != EINVAL))
		KEEPS_ERRNO((write_back(t, begin), 0));
	return r;
}

/* Programs that make their system calls by number (libuv closes sockets so) get the same treatment. */
EXPORT long syscall(long number, ...)
{
	ENSURE_REAL();
	long a[6];
	va_list ap;
	va_start(ap, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	switch (number) {
	case SYS_close: return close(a[0]);
	case SYS_read: return read(a[0], (void *)a[1], a[2]);
	case SYS_write: return write(a[0], (const void *)a[1], a[2]);
	case SYS_readv: return readv(a[0], (const struct iovec *)a[1], a[2]);
	case SYS_writev: return writev(a[0], (const struct iovec *)a[1], a[2]);
	case SYS_recvfrom: return recvfrom(a[0], (void *)a[1], a[2], a[3], (struct sockaddr *)a[4], (socklen_t *)a[5]);
	case SYS_sendto: return sendto(a[0], (const void *)a[1], a[2], a[3], (const struct sockaddr *)a[4], a[5]);
	case SYS_recvmsg: return recvmsg(a[0], (struct msghdr *)a[1], a[2]);
	case SYS_sendmsg: return sendmsg(a[0], (const struct msghdr *)a[1], a[2]);
	case SYS_recvmmsg: return recvmmsg(a[0], (struct mmsghdr *)a[1], a[2], a[3], (struct timespec *)a[4]);
	case SYS_sendmmsg: return sendmmsg(a[0], (struct mmsghdr *)a[1], a[2], a[3]);
	case SYS_shutdown: return shutdown(a[0], a[1]);
	case SYS_socket: return socket(a[0], a[1], a[2]);
	case SYS_connect: return connect(a[0], (const struct sockaddr *)a[1], a[2]);
	case SYS_listen: return listen(a[0], a[1]);
	case SYS_accept4: return accept4(a[0], (struct sockaddr *)a[1], (socklen_t *)a[2], a[3]);
	case SYS_setsockopt: return setsockopt(a[0], a[1], a[2], (const void *)a[3], a[4]);
	case SYS_getsockopt: return getsockopt(a[0], a[1], a[2], (void *)a[3], (socklen_t *)a[4]);
	case SYS_dup: return dup(a[0]);
	case SYS_dup3: return dup3(a[0], a[1], a[2]);
	case SYS_fcntl: return fcntl(a[0], a[1], (void *)a[2]);
	case SYS_ioctl: return ioctl(a[0], a[1], (void *)a[2]);
	case SYS_epoll_create1: return epoll_create1(a[0]);
	case SYS_epoll_ctl: return epoll_ctl(a[0], a[1], a[2], (struct epoll_event *)a[3]);
#ifdef SYS_close_range
	case SYS_close_range: return close_range(a[0], a[1], a[2]);
#endif
#ifdef SYS_dup2
	case SYS_dup2: return dup2(a[0], a[1]);
	case SYS_accept: return accept(a[0], (struct sockaddr *)a[1], (socklen_t *)a[2]);
	case SYS_poll: return poll((struct pollfd *)a[0], a[1], a[2]);
	case SYS_epoll_wait: return epoll_wait(a[0], (struct epoll_event *)a[1], a[2], a[3]);
#endif
	case SYS_ppoll: return ppoll_by_number(a);
	case SYS_pselect6: return pselect_by_number(a);
	case SYS_epoll_pwait: return epoll_pwait(a[0], (struct epoll_event *)a[1], a[2], a[3], (const sigset_t *)a[4]);
	case SYS_preadv2: return preadv2(a[0], (const struct iovec *)a[1], a[2], a[3], a[5]);
	case SYS_pwritev2: return pwritev2(a[0], (const struct iovec *)a[1], a[2], a[3], a[5]);
	case SYS_sendfile: return sendfile(a[0], a[1], (off_t *)a[2], a[3]);
	case SYS_splice: return splice(a[0], (off64_t *)a[1], a[2], (off64_t *)a[3], a[4], a[5]);
#ifdef SYS_epoll_pwait2
	case SYS_epoll_pwait2:
		if (!real.epoll_pwait2)
			break;
		return epoll_pwait2(a[0], (struct epoll_event *)a[1], a[2], (const struct timespec *)a[3], (const sigset_t *)a[4]);
#endif
#ifdef SYS_epoll_create
	case SYS_epoll_create: return epoll_create(a[0]);
	case SYS_select:
		return select(a[0], (fd_set *)a[1], (fd_set *)a[2], (fd_set *)a[3], (struct timeval *)a[4]);
#endif
#ifdef SYS_pidfd_getfd
	case SYS_pidfd_getfd: {
		long r = real.syscall(number, a[0], a[1], a[2]);
		number_fresh(r);
		return r;
	}
#endif
	case SYS_exit_group: _exit(a[0]);
	case SYS_execve: return execve((const char *)a[0], (char *const *)a[1], (char *const *)a[2]);
	case SYS_execveat: return execveat(a[0], (const char *)a[1], (char *const *)a[2], (char *const *)a[3], a[4]);
	case SYS_setuid:
	case SYS_setgid:
	case SYS_setreuid:
	case SYS_setregid:
	case SYS_setresuid:
	case SYS_setresgid:
	case SYS_setgroups:
	case SYS_capset:
	case SYS_chroot:
	case SYS_unshare:
	case SYS_setns: {
		long r = real.syscall(number, a[0], a[1], a[2]);
		if (r == 0)
			credentials_changed();
		return r;
	}
#ifdef SYS_fork
	case SYS_fork:
#endif
	case SYS_clone:
#ifdef SYS_clone3
	case SYS_clone3:
#endif
		return clone_by_number(number, a);
#ifdef SYS_seccomp
	case SYS_seccomp: /* libseccomp's way */
		if (a[0] == SECCOMP_SET_MODE_STRICT || a[0] == SECCOMP_SET_MODE_FILTER)
			credentials_confined(a[0] + 1, (const void *)a[2]); /* an operation's number is the mode's less one */
		break;
#endif
	case SYS_prctl: return prctl(a[0], a[1], a[2], a[3], a[4]);
#ifdef SYS_io_uring_setup
	case SYS_io_uring_setup:
		switch_leave_all(REASON_IO_URING);
		inactive_reason = REASON_IO_URING;
		active = false;
		break;
#endif
	}
	return real.syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
