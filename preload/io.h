/* Data calls on sockets that may be on a lane. Every wrapper: io_rx_enter / io_tx_enter says lane or kernel; the
 * kernel's own call is counted in; the lane's returns USE_KERNEL when the direction went back meanwhile. */
#ifndef HASTEN_IO_H
#define HASTEN_IO_H
#include "preload/proc/inside.h"
#include "preload/sock.h"
#include <sys/socket.h>
#include <sys/uio.h>

#define USE_KERNEL (-4095)         /* beyond any errno */
#define USE_KERNEL_COUNTED (-4096) /* io_send: the same, and the call is counted in already */

bool io_rx_enter(struct sock *s, int fd);
bool io_tx_enter(struct sock *s, int fd);

static inline void io_rx_exit(struct sock *s)
{
	inside_uncount(INSIDE_SOCK, &s->rx_inside);
}

static inline void io_tx_exit(struct sock *s)
{
	inside_uncount(INSIDE_SOCK, &s->tx_inside);
}

/* flags as for recv and send. Returns bytes, 0 at the end, -errno, or USE_KERNEL. */
ssize_t io_receive(struct sock *s, int fd, const struct iovec *iov, size_t n, int flags);
ssize_t io_send(struct sock *s, int fd, const struct iovec *iov, size_t n, int flags);
/* FIONREAD on a lane; -1: use the kernel. */
long io_readable_bytes(struct sock *s, int fd);
long io_unsent_bytes(struct sock *s, int fd);
/* Shuts down, the kernel's call included. 0 or -errno. */
int io_shutdown(struct sock *s, int fd, int how);
/* Last close by the last holder: true when the kernel's close must send RST. */
bool io_close(struct sock *s, int fd);
/* Are there bytes, an end or an error on the kernel socket of a connection whose latched EPOLLIN may be old? */
bool io_kernel_bytes(struct sock *s);
/* The same of urgent data. */
bool io_kernel_urgent(struct sock *s);
/* AGREED: has the writer promoted? */
bool io_promoted(struct slot *t);
/* LANE, ring empty: has the writer gone back to the kernel, with nothing of the marker to be waited for? */
bool io_demoted(struct slot *t);
#endif
