/* Both directions back to the kernel, with nothing left behind: the descriptor is about to leave us, or libc will
 * use it past us. What is unread in the ring is put into the writer's own kernel socket, a copy of which we take
 * from its process (pidfd_getfd): it arrives in our socket behind whatever is there, as if it had never left it. */
#include "preload/io.h"
#include "preload/link/link.h"
#include "preload/quiet.h"
#include "preload/real.h"
#include "preload/state.h"
#include "preload/stats/stats.h"
#include "preload/switch.h"
#include "preload/wait/waitset.h"
#include "preload/wait/waker.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A copy of the other end's socket, -1 where it cannot be had (gone, other user, Yama). */
static int writers_socket(struct slot *t)
{
	struct link_end *end = &t->lane->end[t->side ^ 1];
	int pid = atomic_load(&end->pid), their_fd = atomic_load(&end->fd), fd = -1;
	if (pid == getpid()) {
		fd = real.fcntl(their_fd, F_DUPFD_CLOEXEC, 3);
	} else {
		int pidfd = real.syscall(SYS_pidfd_open, pid, 0);
		if (pidfd < 0)
			return -1;
		fd = real.syscall(SYS_pidfd_getfd, pidfd, their_fd, 0);
		real.close(pidfd);
	}
	struct state_addr local, peer;
	/* fd and pid are hints that the peer wrote: the names say whether it is the socket */
	if (fd >= 0 && (sock_addrs(fd, &local, &peer) < 0 || !addr_equal(&local, &t->peer) || !addr_equal(&peer, &t->local))) {
		real.close(fd);
		fd = -1;
	}
	return fd;
}

/* Has the writer's running promotion been decided? It ends within one system call of the writer. */
static bool settled(struct link_dir *d, uint32_t gen)
{
	for (int i = 0; i < 200; i++) {
		struct link_slot *slot = &d->slot[(gen + 1) & 1];
		bool published = atomic_load(&slot->gen) == gen + 1 && atomic_load(&slot->x) != OFFSET_NONE;
		bool unread = head_pos(atomic_load(&d->head)) != atomic_load(&d->tail);
		if (published ? atomic_load(&slot->mlen) != 0 : !unread)
			return true;
		usleep(100);
	}
	return false;
}

/* Under rx lock, gate closed. Reads what is ahead in stream order: kernel bytes up to X, the marker, ring bytes. */
static ssize_t pull(struct sock *s, int fd, uint8_t *to, size_t room)
{
	struct slot *t = s->slot;
	struct link_dir *d = rx_dir(t);
	size_t n = 0;
	if (t->rx.mode == MODE_AGREED) {
		struct link_slot *slot = &d->slot[(t->rx.gen + 1) & 1];
		if (atomic_load(&slot->gen) != t->rx.gen + 1 || atomic_load(&slot->x) == OFFSET_NONE)
			return 0; /* nothing was promoted */
		uint64_t x = atomic_load(&slot->x);
		while (t->rx.consumed < x) {
			ssize_t r = real.recv(fd, to + n, x - t->rx.consumed < room - n ? x - t->rx.consumed : room - n, MSG_DONTWAIT);
			if (r <= 0)
				return -EBUSY;
			n += r;
			t->rx.consumed += r;
		}
		t->rx.gen++;
		t->rx.marker_done = 0;
		atomic_store(&t->rx.mode, MODE_LANE);
	}
	struct link_slot *slot = &d->slot[t->rx.gen & 1];
	uint64_t x = atomic_load(&slot->x);
	uint32_t mlen = atomic_load(&slot->mlen);
	if (mlen > MARKER_SIZE)
		mlen = MARKER_SIZE; /* a lie: the peer loses its own bytes */
	while (!t->rx.marker_done && t->rx.consumed - x < mlen) {
		uint8_t marker[MARKER_SIZE];
		ssize_t r = real.recv(fd, marker, mlen - (t->rx.consumed - x), MSG_DONTWAIT);
		if (r <= 0)
			break;
		t->rx.consumed += r;
	}
	t->rx.marker_done = 1;
	struct iovec iov = {to + n, room - n};
	struct iov_cursor c = {&iov, 1, 0};
	return n + ring_copy(rx_ring(t), &c, 0, room - n);
}

static int leave_rx(struct sock *s, int fd)
{
	struct slot *t = s->slot;
	struct link_dir *d = rx_dir(t);
	int r = 0, theirs = -1;
	uint8_t *buf = NULL;
	size_t room = 0;
	if (t->rx.mode == MODE_KERNEL)
		return 0;
	atomic_fetch_or(&d->head, 1); /* no byte enters the ring from here on */
	if (t->rx.mode == MODE_AGREED && !settled(d, t->rx.gen))
		return -EBUSY;
	size_t unread = ring_unread(rx_ring(t));
	int queued = 0;
	real.ioctl(fd, SIOCINQ, &queued);
	if (unread == SIZE_MAX || (t->rx.mode == MODE_AGREED && !unread))
		goto done;
	room = unread + (queued > 0 ? queued : 0) + 4096;
	buf = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (buf == MAP_FAILED)
		return -ENOMEM;
	bool demoted = t->rx.mode == MODE_LANE && atomic_load(&d->slot[t->rx.gen & 1].p) != OFFSET_NONE;
	ssize_t n = pull(s, fd, buf, room);
	if (n < 0) {
		r = n;
		goto out;
	}
	int after = 0;
	real.ioctl(fd, SIOCINQ, &after);
	if (n > 0 && ((demoted && after > 0) || atomic_load(&d->end))) {
		r = -EBUSY; /* kernel bytes or FIN are behind these already */
		goto out;
	}
	if (n > 0) {
		theirs = writers_socket(t);
		ssize_t done = 0;
		while (theirs >= 0 && done < n) {
			ssize_t k = real.send(theirs, buf + done, n - done, MSG_DONTWAIT | MSG_NOSIGNAL);
			if (k <= 0)
				break;
			done += k;
		}
		if (done < n) {
			r = -EBUSY;
			if (done)
				log_message(LOG_ERROR, "fd %d: %zd of %zd bytes could not be moved to the kernel", fd, n - done, n);
			goto out;
		}
		COUNT(pulled_back, n);
	}
	ring_advance(rx_ring(t), ring_unread(rx_ring(t)));
done:
	atomic_store(&t->rx.mode, MODE_KERNEL);
	news_post(s->link, s->lane, t->side ^ 1); /* the writer waits for the empty ring */
out:
	if (theirs >= 0)
		real.close(theirs);
	if (buf)
		munmap(buf, room);
	return r;
}

int switch_leave(struct sock *s, int fd, enum reason why)
{
	struct slot *t = s->slot;
	if (!t) {
		sock_plain(s, why);
		return 0;
	}
	if (!t->never)
		t->never = why;
	if (!t->lane) {
		sock_plain(s, why);
		return 0;
	}
	int saved = errno, quiet = quiet_begin();
	dir_lock(&t->tx);
	if (t->tx.mode == MODE_LANE)
		switch_demote(s);
	t->tx.reason = why;
	dir_unlock(&t->tx);
	dir_lock(&t->rx);
	int r = leave_rx(s, fd);
	if (r == 0)
		t->rx.reason = why;
	dir_unlock(&t->rx);
	stats_row_update(s);
	waitset_modes_changed(s, false);
	waitset_kick(s);
	if (r < 0)
		log_message(LOG_WARNING, "fd %d: bytes stay in shared memory (%s)", fd, strerror(-r));
	quiet_end(quiet);
	errno = saved;
	return r;
}

static void leave_one(struct sock *s, void *arg)
{
	if (s->slot)
		switch_leave(s, s->fd, *(enum reason *)arg);
	else if (atomic_load(&s->stage) != SOCK_LISTENER)
		sock_plain(s, *(enum reason *)arg);
}

void switch_leave_all(enum reason why)
{
	sock_each(leave_one, &why);
}
