/* Data calls. Every wrapper has one shape: the socket behind fd, or the kernel's call; lane or kernel; the kernel's
 * call counted in and out. */
#include "preload/interpose.h"
#include "preload/io.h"
#include "preload/io_inner.h"
#include "preload/lane/lane.h"
#include "preload/link/ring.h"
#include "preload/real.h"
#include "preload/state.h"
#include "preload/switch.h"
#include "preload/wait/waitset.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#define RECEIVE(fd, kernel, iov, n, flags) ({ \
	ENSURE_REAL(); \
	struct sock *s_ = sock_of(fd); \
	ssize_t r_; \
	if (likely(!s_)) { \
		r_ = kernel; \
	} else { \
		int errno_ = errno; \
		do { \
			if (!io_rx_enter(s_, fd)) { \
				r_ = kernel; \
				if (r_ > 0 && s_->reads < 2) \
					s_->reads++; \
				io_rx_exit(s_); \
				break; \
			} \
			r_ = io_receive(s_, fd, iov, n, flags); \
			if (r_ >= 0) \
				errno = errno_; \
			else if (r_ != USE_KERNEL) \
				r_ = EDGE(r_); \
		} while (unlikely(r_ == USE_KERNEL)); \
		sock_unpin(s_); \
	} \
	r_; })

#define SEND(fd, kernel, iov, n, flags) ({ \
	ENSURE_REAL(); \
	struct sock *s_ = sock_of(fd); \
	ssize_t r_; \
	if (likely(!s_)) { \
		r_ = kernel; \
	} else { \
		int errno_ = errno; \
		r_ = io_tx_enter(s_, fd) ? io_send(s_, fd, iov, n, flags) : USE_KERNEL_COUNTED; \
		if (r_ >= 0) { \
			errno = errno_; \
		} else if (r_ == USE_KERNEL_COUNTED) { \
			errno = errno_; \
			r_ = kernel; \
			if (r_ < 0 && errno == EAGAIN) \
				s_->kernel_events &= ~EPOLLOUT; /* latched while the receiving side is on a lane */ \
			io_tx_exit(s_); \
		} else { \
			r_ = EDGE(r_); \
		} \
		sock_unpin(s_); \
	} \
	r_; })

SLOW ssize_t slow_read(int fd, void *buf, size_t n)
{
	struct iovec iov = {buf, n};
	if (!n) /* unlike recv it never waits for a byte that it would not take */
		return real.read(fd, buf, n);
	return RECEIVE(fd, real.read(fd, buf, n), &iov, 1, 0);
}

EXPORT ssize_t read(int fd, void *buf, size_t n)
{
	FAST(fd, real.read(fd, buf, n));
	return slow_read(fd, buf, n);
}

EXPORT ssize_t __read_chk(int fd, void *buf, size_t n, size_t size)
{
	struct iovec iov = {buf, n};
	if (!n)
		return ENSURE_REAL_RETURN(real.read(fd, buf, n));
	return RECEIVE(fd, real.__read_chk(fd, buf, n, size), &iov, n <= size ? 1 : (abort_overflow(), 1), 0);
}

SLOW ssize_t slow_readv(int fd, const struct iovec *iov, int n)
{
	if (n < 0 || n > IOV_MAX || !iov_total(iov, n))
		return ENSURE_REAL_RETURN(real.readv(fd, iov, n));
	return RECEIVE(fd, real.readv(fd, iov, n), iov, n, 0);
}

EXPORT ssize_t readv(int fd, const struct iovec *iov, int n)
{
	FAST(fd, real.readv(fd, iov, n));
	return slow_readv(fd, iov, n);
}

/* At no place (-1), as a socket has none, these two are readv and writev. */
#define RWF_KNOWN 0x1f
static bool as_stream(int fd, int n, off64_t at, int flags)
{
	return unlikely(fdtab_sock(fd)) && at == -1 && n >= 0 && n <= IOV_MAX && !(flags & ~RWF_KNOWN);
}

static int waits(int flags)
{
	return flags & RWF_NOWAIT ? MSG_DONTWAIT : 0;
}

EXPORT ssize_t preadv64v2(int fd, const struct iovec *iov, int n, off64_t at, int flags)
{
	ENSURE_REAL();
	if (!as_stream(fd, n, at, flags) || !iov_total(iov, n))
		return real.preadv64v2(fd, iov, n, at, flags);
	return RECEIVE(fd, real.preadv64v2(fd, iov, n, at, flags), iov, n, waits(flags));
}

EXPORT ssize_t preadv2(int fd, const struct iovec *iov, int n, off_t at, int flags)
{
	return preadv64v2(fd, iov, n, at, flags);
}

EXPORT ssize_t pwritev64v2(int fd, const struct iovec *iov, int n, off64_t at, int flags)
{
	ENSURE_REAL();
	if (!as_stream(fd, n, at, flags))
		return real.pwritev64v2(fd, iov, n, at, flags);
	return SEND(fd, real.pwritev64v2(fd, iov, n, at, flags), iov, n, waits(flags));
}

EXPORT ssize_t pwritev2(int fd, const struct iovec *iov, int n, off_t at, int flags)
{
	return pwritev64v2(fd, iov, n, at, flags);
}

SLOW ssize_t slow_recv(int fd, void *buf, size_t n, int flags)
{
	struct iovec iov = {buf, n};
	return RECEIVE(fd, real.recv(fd, buf, n, flags), &iov, 1, flags);
}

EXPORT ssize_t recv(int fd, void *buf, size_t n, int flags)
{
	FAST(fd, real.recv(fd, buf, n, flags));
	return slow_recv(fd, buf, n, flags);
}

EXPORT ssize_t __recv_chk(int fd, void *buf, size_t n, size_t size, int flags)
{
	struct iovec iov = {buf, n};
	return RECEIVE(fd, real.__recv_chk(fd, buf, n, size, flags), &iov, n <= size ? 1 : (abort_overflow(), 1), flags);
}

/* TCP names no sender: the address comes back empty, as the kernel does it. */
static ssize_t no_name(ssize_t r, struct sockaddr *from, socklen_t *len)
{
	if (r >= 0 && from && len)
		*len = 0;
	return r;
}

SLOW ssize_t slow_recvfrom(int fd, void *buf, size_t n, int flags, struct sockaddr *from, socklen_t *len)
{
	struct iovec iov = {buf, n};
	return no_name(RECEIVE(fd, real.recvfrom(fd, buf, n, flags, from, len), &iov, 1, flags), from, len);
}

EXPORT ssize_t recvfrom(int fd, void *buf, size_t n, int flags, struct sockaddr *from, socklen_t *len)
{
	FAST(fd, real.recvfrom(fd, buf, n, flags, from, len));
	return slow_recvfrom(fd, buf, n, flags, from, len);
}

EXPORT ssize_t __recvfrom_chk(int fd, void *buf, size_t n, size_t size, int flags, struct sockaddr *from, socklen_t *len)
{
	struct iovec iov = {buf, n};
	return no_name(RECEIVE(fd, real.__recvfrom_chk(fd, buf, n, size, flags, from, len), &iov,
			       n <= size ? 1 : (abort_overflow(), 1), flags), from, len);
}

SLOW ssize_t slow_write(int fd, const void *buf, size_t n)
{
	struct iovec iov = {(void *)buf, n};
	return SEND(fd, real.write(fd, buf, n), &iov, 1, 0);
}

EXPORT ssize_t write(int fd, const void *buf, size_t n)
{
	FAST(fd, real.write(fd, buf, n));
	return slow_write(fd, buf, n);
}

SLOW ssize_t slow_writev(int fd, const struct iovec *iov, int n)
{
	if (n < 0 || n > IOV_MAX)
		return ENSURE_REAL_RETURN(real.writev(fd, iov, n));
	return SEND(fd, real.writev(fd, iov, n), iov, n, 0);
}

EXPORT ssize_t writev(int fd, const struct iovec *iov, int n)
{
	FAST(fd, real.writev(fd, iov, n));
	return slow_writev(fd, iov, n);
}

void urgent_leaves(int fd, int flags)
{
	struct sock *s = flags & MSG_OOB ? sock_of(fd) : NULL;
	if (unlikely(s)) {
		switch_leave(s, fd, REASON_URGENT);
		sock_unpin(s);
	}
}

SLOW ssize_t slow_send(int fd, const void *buf, size_t n, int flags)
{
	struct iovec iov = {(void *)buf, n};
	if (unlikely(flags & MSG_FASTOPEN)) /* on a connection no byte goes out */
		return real.send(fd, buf, n, flags);
	urgent_leaves(fd, flags);
	return SEND(fd, real.send(fd, buf, n, flags), &iov, 1, flags);
}

EXPORT ssize_t send(int fd, const void *buf, size_t n, int flags)
{
	FAST(fd, real.send(fd, buf, n, flags));
	return slow_send(fd, buf, n, flags);
}

SLOW ssize_t slow_sendto(int fd, const void *buf, size_t n, int flags, const struct sockaddr *to, socklen_t len)
{
	struct iovec iov = {(void *)buf, n};
	if (unlikely(flags & MSG_FASTOPEN))
		return real.sendto(fd, buf, n, flags, to, len);
	urgent_leaves(fd, flags);
	return SEND(fd, real.sendto(fd, buf, n, flags, to, len), &iov, 1, flags);
}

EXPORT ssize_t sendto(int fd, const void *buf, size_t n, int flags, const struct sockaddr *to, socklen_t len)
{
	FAST(fd, real.sendto(fd, buf, n, flags, to, len));
	return slow_sendto(fd, buf, n, flags, to, len);
}

#define COPY 16384 /* on the stack: thread-local memory would come out of every thread's stack */

/* File to lane: the bytes have to pass through us, the rules of offset and position are the kernel's. */
static ssize_t copy_file(struct sock *s, int out, int in, off64_t *offset, size_t n)
{
	struct stat st;
	if (fstat(in, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
		return -EINVAL;
	off64_t at = offset ? *offset : lseek64(in, 0, SEEK_CUR);
	if (at < 0)
		return offset ? -EINVAL : -errno;
	uint8_t buf[COPY];
	size_t done = 0;
	ssize_t r = 0;
	while (done < n) {
		r = pread64(in, buf, n - done < COPY ? n - done : COPY, at);
		if (r <= 0) {
			r = r < 0 ? -errno : 0;
			break;
		}
		struct iovec iov = {buf, r};
		ssize_t want = r;
		r = io_tx_enter(s, out) ? io_send(s, out, &iov, 1, 0) : USE_KERNEL_COUNTED;
		if (r == USE_KERNEL_COUNTED) {
			r = real.send(out, buf, want, 0);
			if (r < 0)
				r = -errno;
			io_tx_exit(s);
		}
		if (r < 0)
			break;
		done += r;
		at += r;
		if (r < want)
			break;
	}
	if (offset)
		*offset = at;
	else if (done)
		lseek64(in, at, SEEK_SET);
	return done ? (ssize_t)done : r;
}

EXPORT ssize_t sendfile64(int out, int in, off64_t *offset, size_t n)
{
	ENSURE_REAL();
	struct sock *s = sock_of(out);
	if (likely(!s))
		return real.sendfile64(out, in, offset, n);
	ssize_t r;
	int before; /* no cancellation point, unlike the calls that it is made of here */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	if (io_tx_enter(s, out)) {
		r = KEEPS_ERRNO(copy_file(s, out, in, offset, n));
		r = EDGE(r);
	} else {
		r = real.sendfile64(out, in, offset, n);
		io_tx_exit(s);
	}
	sock_unpin(s);
	pthread_setcancelstate(before, NULL);
	return r;
}

EXPORT ssize_t sendfile(int out, int in, off_t *offset, size_t n)
{
	return sendfile64(out, in, (off64_t *)offset, n); /* off_t is 64 bits on every platform that is built */
}

static void wait_room(int fd)
{
	struct pollfd p = {fd, POLLOUT, 0};
	poll(&p, 1, 100);
}

static ssize_t do_splice(int in, off64_t *in_off, int out, off64_t *out_off, size_t n, unsigned flags)
{
	struct sock *from = sock_of(in), *to = sock_of(out);
	ssize_t r;
	uint8_t buf[COPY];
	struct iovec iov = {buf, n < COPY ? n : COPY};
	int dontwait = flags & SPLICE_F_NONBLOCK ? MSG_DONTWAIT : 0;
	if (from && from->slot && io_rx_enter(from, in)) {
		/* copied, put into the pipe, and only what fitted is taken */
		r = in_off ? -EINVAL : out_off ? -ESPIPE : io_receive(from, in, &iov, 1, MSG_PEEK | dontwait);
		if (r == USE_KERNEL) {
			r = real.splice(in, in_off, out, out_off, n, flags);
		} else {
			if (r > 0) {
				r = real.write(out, buf, r);
				r = r < 0 ? -errno : r;
			}
			for (ssize_t taken = 0; taken < r;) {
				iov.iov_len = r - taken;
				ssize_t k = io_receive(from, in, &iov, 1, MSG_DONTWAIT);
				if (k <= 0)
					break;
				taken += k;
			}
			r = EDGE(r);
		}
	} else if (to && to->slot && io_tx_enter(to, out)) {
		/* no more than there is room for: what was taken out of the pipe must fit */
		if (to->slot->tx.mode == MODE_LANE && (dontwait || to->slot->nonblock)) {
			size_t room = ring_room(tx_ring(to->slot), tx_limit(to->slot));
			if (room < iov.iov_len)
				iov.iov_len = room;
		}
		r = in_off ? -ESPIPE : out_off ? -EINVAL : !iov.iov_len && n ? -EAGAIN : 0;
		if (!r && n) {
			r = real.read(in, buf, iov.iov_len);
			r = r < 0 ? -errno : r;
		}
		if (r > 0) {
			/* taken out of the pipe: all of it has to go */
			ssize_t put = 0, k;
			do {
				iov.iov_base = buf + put;
				iov.iov_len = r - put;
				k = io_tx_enter(to, out) ? io_send(to, out, &iov, 1, 0) : USE_KERNEL_COUNTED;
				if (k == USE_KERNEL_COUNTED) {
					k = real.send(out, buf + put, r - put, 0);
					k = k < 0 ? -errno : k;
					io_tx_exit(to);
				}
				if (k > 0)
					put += k;
				else if (k == -EAGAIN)
					wait_room(out);
			} while (put < r && (k > 0 || k == -EAGAIN));
			r = put ? put : EDGE(k);
		} else {
			r = EDGE(r);
		}
	} else {
		r = real.splice(in, in_off, out, out_off, n, flags);
		if (from && from->slot)
			io_rx_exit(from);
		if (to && to->slot)
			io_tx_exit(to);
	}
	if (from)
		sock_unpin(from);
	if (to)
		sock_unpin(to);
	return r;
}

EXPORT ssize_t splice(int in, off64_t *in_off, int out, off64_t *out_off, size_t n, unsigned flags)
{
	ENSURE_REAL();
	return KEEPS_ERRNO(do_splice(in, in_off, out, out_off, n, flags));
}

EXPORT ssize_t tee(int in, int out, size_t n, unsigned flags)
{
	ENSURE_REAL();
	return real.tee(in, out, n, flags); /* pipes only: the kernel says EINVAL for sockets */
}
