/* Data calls on messages: bytes with names and control data beside them. */
#include "preload/interpose.h"
#include "preload/io.h"
#include "preload/real.h"
#include "preload/state.h"
#include "preload/switch.h"
#include "preload/wait/waitset.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

/* What the kernel writes beside the bytes of a stream: no name, and nothing where none was asked for. */
static void no_control(struct msghdr *m, int flags)
{
	if (m->msg_name)
		m->msg_namelen = 0;
	m->msg_controllen = 0;
	m->msg_flags = flags & MSG_CMSG_CLOEXEC;
}

SLOW ssize_t slow_recvmsg(int fd, struct msghdr *m, int flags)
{
	ENSURE_REAL();
	struct sock *s = sock_of(fd);
	if (likely(!s))
		return real.recvmsg(fd, m, flags);
	ssize_t r;
	int saved = errno;
	do {
		if (!io_rx_enter(s, fd) || !m || m->msg_iovlen > IOV_MAX || flags & (MSG_ERRQUEUE | MSG_OOB)) {
			r = real.recvmsg(fd, m, flags);
			if (r > 0 && s->reads < 2)
				s->reads++;
			io_rx_exit(s);
			break;
		}
		r = io_receive(s, fd, m->msg_iov, m->msg_iovlen, flags);
		if (r >= 0) {
			no_control(m, flags);
			errno = saved;
		} else if (r != USE_KERNEL) {
			r = EDGE(r);
		}
	} while (r == USE_KERNEL);
	sock_unpin(s);
	return r;
}

EXPORT ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	FAST(fd, real.recvmsg(fd, m, flags));
	return slow_recvmsg(fd, m, flags);
}

/* The messages of a connection on a lane, by the kernel's rules: an error that is pending comes before them, one that
 * comes behind them is the next call's. */
static int receive_several(struct sock *s, int fd, struct mmsghdr *v, unsigned n, int flags, struct timespec *timeout)
{
	if (timeout && (timeout->tv_sec < 0 || timeout->tv_nsec < 0 || timeout->tv_nsec > 999999999))
		return -EINVAL;
	int pending = 0, saved = errno;
	socklen_t size = sizeof(pending);
	if (!(flags & MSG_ERRQUEUE) && getsockopt(fd, SOL_SOCKET, SO_ERROR, &pending, &size) == 0 && pending)
		return -pending;
	uint64_t end = timeout ? now_ns() + timeout->tv_sec * 1000000000ull + timeout->tv_nsec : UINT64_MAX;
	unsigned done = 0;
	for (; done < n && done < IOV_MAX; done++) {
		ssize_t r = recvmsg(fd, &v[done].msg_hdr, flags & ~MSG_WAITFORONE);
		if (r < 0) {
			if (!done)
				return -errno;
			if (errno != EAGAIN)
				atomic_store(&s->slot->error, errno);
			break;
		}
		v[done].msg_len = r;
		if (flags & MSG_WAITFORONE)
			flags |= MSG_DONTWAIT;
		if (!timeout)
			continue;
		uint64_t now = now_ns(), left = now < end ? end - now : 0;
		timeout->tv_sec = left / 1000000000;
		timeout->tv_nsec = left % 1000000000;
		if (!left) {
			done++;
			break;
		}
	}
	errno = saved;
	return done;
}

EXPORT int recvmmsg(int fd, struct mmsghdr *v, unsigned n, int flags, struct timespec *timeout)
{
	ENSURE_REAL();
	struct sock *s = sock_of(fd);
	if (likely(!s))
		return real.recvmmsg(fd, v, n, flags, timeout);
	int r;
	if (io_rx_enter(s, fd)) {
		r = receive_several(s, fd, v, n, flags, timeout);
		r = EDGE(r);
	} else {
		r = real.recvmmsg(fd, v, n, flags, timeout);
		if (r > 0 && s->reads < 2)
			s->reads++;
		io_rx_exit(s);
	}
	sock_unpin(s);
	return r;
}

/* Descriptors that go to another process leave us first. */
static void passing(const struct msghdr *m)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR((struct msghdr *)m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS || c->cmsg_len < CMSG_LEN(0))
			continue;
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			struct sock *s = sock_of(fd);
			if (s) {
				switch_leave(s, fd, REASON_PASSED);
				sock_unpin(s);
			}
		}
	}
}

static bool has_control(const struct msghdr *m)
{
	return unlikely(m && m->msg_control && m->msg_controllen >= sizeof(struct cmsghdr));
}

/* Control data that comes with bytes for a lane: the kernel's word on it, got by a message without bytes. */
static int control_refused(int fd, const struct msghdr *m)
{
	struct msghdr bare = {.msg_control = m->msg_control, .msg_controllen = m->msg_controllen};
	return real.sendmsg(fd, &bare, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno != EPIPE && errno != EAGAIN ? -errno : 0;
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	ENSURE_REAL();
	if (has_control(m))
		passing(m);
	if (unlikely(flags & MSG_FASTOPEN)) /* on a connection no byte goes out */
		return real.sendmsg(fd, m, flags);
	urgent_leaves(fd, flags);
	struct sock *s = sock_of(fd);
	if (likely(!s))
		return real.sendmsg(fd, m, flags);
	ssize_t r = USE_KERNEL_COUNTED;
	int saved = errno;
	if (!m || m->msg_iovlen > IOV_MAX)
		inside_count(INSIDE_SOCK, &s->tx_inside);
	else if (io_tx_enter(s, fd) && (!has_control(m) || !(r = control_refused(fd, m))))
		r = io_send(s, fd, m->msg_iov, m->msg_iovlen, flags);
	if (r >= 0) {
		errno = saved;
	} else if (r == USE_KERNEL_COUNTED) {
		errno = saved;
		r = real.sendmsg(fd, m, flags);
		io_tx_exit(s);
	} else {
		r = EDGE(r);
	}
	sock_unpin(s);
	return r;
}

EXPORT int sendmmsg(int fd, struct mmsghdr *v, unsigned n, int flags)
{
	ENSURE_REAL();
	if (likely(!fdtab_sock(fd))) {
		for (unsigned i = 0; v && i < n && i < IOV_MAX; i++)
			if (has_control(&v[i].msg_hdr))
				passing(&v[i].msg_hdr);
		return real.sendmmsg(fd, v, n, flags);
	}
	unsigned done = 0;
	int saved = errno;
	for (; done < n && done < IOV_MAX; done++) {
		ssize_t r = sendmsg(fd, &v[done].msg_hdr, flags);
		if (r < 0)
			break;
		v[done].msg_len = r;
	}
	if (done)
		errno = saved;
	return done ? (int)done : n ? -1 : 0;
}
