/* Both directions back to the kernel, with nothing left behind: the descriptor is about to leave us, or libc will
 * use it past us. What is unread in the ring is put into the writer's own kernel socket, a copy of which we take
 * from its process (pidfd_getfd): it arrives in our socket behind whatever is there, as if it had never left it. Where
 * that cannot be done a relay process stays between (relay.c). */
#include "preload/io.h"
#include "preload/link/link.h"
#include "preload/quiet.h"
#include "preload/real.h"
#include "preload/relay.h"
#include "preload/state.h"
#include "preload/stats/stats.h"
#include "preload/switch.h"
#include "preload/wait/waitset.h"
#include "preload/wait/waker.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

/* Before Linux 5.14 sockets have no such cookie: then nobody but root can have got one that is not his own user's. */
static bool same_netns(int a, int b)
{
	uint64_t theirs, ours;
	socklen_t len = sizeof(theirs);
	if (real.getsockopt(a, SOL_SOCKET, SO_NETNS_COOKIE, &theirs, &len) < 0 ||
	    real.getsockopt(b, SOL_SOCKET, SO_NETNS_COOKIE, &ours, &len) < 0)
		return geteuid() != 0;
	return theirs == ours;
}

/* A copy of the other end's socket, -1 where it cannot be had (gone, other user, Yama). */
static int writers_socket(struct slot *t, int ours)
{
	struct link_end *end = &slot_lane(t)->end[t->side ^ 1];
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
	/* fd and pid are hints that the peer wrote: the names say whether it is the socket, and the name space whose. Root may
	 * take any process's sockets, and in another name space the same names belong to somebody else's connection. */
	if (fd >= 0 && (sock_addrs(fd, &local, &peer) < 0 || !addr_equal(&local, &t->peer) || !addr_equal(&peer, &t->local) ||
			!same_netns(fd, ours))) {
		real.close(fd);
		fd = -1;
	}
	return fd;
}

/* Has the writer's promotion to generation gen been decided, and is it known how long the marker is? It ends within one
 * system call of the writer; one that was stopped or killed inside it decides nothing. */
static bool settled(struct link_dir *d, uint32_t gen)
{
	for (int i = 0; i < 200; i++) {
		struct link_slot *slot = &d->slot[gen & 1];
		bool published = atomic_load(&slot->gen) == gen && atomic_load(&slot->x) != OFFSET_NONE;
		bool unread = head_pos(atomic_load(&d->head)) != atomic_load(&d->tail);
		if (published ? atomic_load(&slot->mlen) != 0 : !unread)
			return true;
		usleep(100);
	}
	return false;
}

/* What lies ahead in stream order: kernel bytes up to X, marker bytes, ring bytes. */
struct ahead {
	uint64_t kernel;
	uint64_t marker;
	size_t ring;
};

/* Under rx lock, gate closed, settled. */
static struct ahead look_ahead(struct slot *t, uint32_t gen)
{
	struct link_slot *slot = &rx_dir(t)->slot[gen & 1];
	struct ahead a = {0, 0, ring_unread(rx_ring(t))};
	if (a.ring == SIZE_MAX)
		a.ring = 0; /* a lie: the peer loses its own bytes */
	if (t->rx.mode == MODE_AGREED && (atomic_load(&slot->gen) != gen || atomic_load(&slot->x) == OFFSET_NONE)) {
		a.ring = 0; /* nothing was promoted */
		return a;
	}
	uint64_t x = atomic_load(&slot->x), at = t->rx.consumed;
	uint32_t mlen = atomic_load(&slot->mlen);
	if (mlen > MARKER_SIZE)
		mlen = MARKER_SIZE;
	if (t->rx.mode == MODE_AGREED && x > at) {
		a.kernel = x - at;
		at = x;
	}
	if ((t->rx.mode == MODE_AGREED || !t->rx.marker_done) && x + mlen > at)
		a.marker = x + mlen - at;
	return a;
}

/* May what is ahead be put into the writer's socket, and does it fit there for sure? */
static bool movable(struct slot *t, uint32_t gen, int theirs, size_t n, bool nothing_behind)
{
	struct link_dir *d = rx_dir(t);
	struct tcp_info info;
	socklen_t len = sizeof(info);
	int room, out;
	/* The writer publishes P and then looks whether somebody moves; we have said so and look at P. After P he writes
	 * to the kernel when he likes, past what we move, unless he is ourselves and this is the only thread. */
	if (atomic_load(&d->slot[gen & 1].p) != OFFSET_NONE &&
	    !(alone() && nothing_behind && atomic_load(&slot_lane(t)->end[t->side ^ 1].pid) == getpid()))
		return false;
	if (atomic_load(&d->end) || real.getsockopt(theirs, IPPROTO_TCP, TCP_INFO, &info, &len) < 0 ||
	    (info.tcpi_state != TCP_ESTABLISHED && info.tcpi_state != TCP_CLOSE_WAIT))
		return false; /* behind a FIN nothing can be put */
	len = sizeof(room);
	/* half: what the kernel's own bookkeeping takes of a send buffer */
	return real.getsockopt(theirs, SOL_SOCKET, SO_SNDBUF, &room, &len) == 0 && real.ioctl(theirs, SIOCOUTQ, &out) == 0 &&
	       n <= (size_t)room / 2 && (size_t)out <= (size_t)room / 2 - n;
}

/* Under rx lock. Takes n bytes that SIOCINQ has counted; to NULL: drops them. */
static bool take_kernel(struct slot *t, int fd, uint8_t *to, uint64_t n)
{
	uint8_t drop[MARKER_SIZE];
	for (uint64_t done = 0; done < n;) {
		ssize_t r = quiet_recv(fd, to ? to + done : drop, n - done, MSG_DONTWAIT);
		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return false;
		done += r;
		t->rx.consumed += r;
		if (!to)
			t->rx.markers += r;
	}
	return true;
}

static int put_kernel(int fd, const uint8_t *from, size_t n)
{
	size_t done = 0;
	for (int tries = 0; done < n && tries < 50;) {
		ssize_t k = quiet_send(fd, from + done, n - done, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (k > 0) {
			done += k;
			continue;
		}
		if (errno != EAGAIN && errno != EINTR)
			break;
		usleep(1000);
		tries++;
	}
	return done == n ? 0 : -EPIPE;
}

/* What is ahead goes into the writer's socket, out of which it comes to ours. 0; -EBUSY: nothing was touched. */
static int move(struct slot *t, int fd, uint32_t gen, struct ahead a)
{
	int queued = 0, r = -EBUSY;
	size_t n = a.kernel + a.ring;
	uint8_t *buf = MAP_FAILED;
	if (real.ioctl(fd, SIOCINQ, &queued) < 0 || (uint64_t)queued < a.kernel + a.marker)
		return -EBUSY; /* not here yet */
	int theirs = writers_socket(t, fd);
	if (theirs < 0)
		return -EBUSY;
	buf = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (buf == MAP_FAILED)
		goto out;
	atomic_store(&rx_dir(t)->mover, getpid()); /* seq_cst: before the look at P (switch_demote looks the other way) */
	if (!movable(t, gen, theirs, n, (uint64_t)queued == a.kernel + a.marker))
		goto out;
	if (!take_kernel(t, fd, buf, a.kernel) || !take_kernel(t, fd, NULL, a.marker)) {
		r = -EIO;
		goto out;
	}
	t->rx.gen = gen;
	t->rx.marker_done = 1;
	atomic_store(&t->rx.mode, MODE_LANE);
	struct iovec iov = {buf + a.kernel, a.ring};
	struct iov_cursor c = {&iov, 1, 0};
	if (a.ring && ring_copy(rx_ring(t), &c, 0, a.ring) != a.ring)
		r = -EIO;
	else
		r = put_kernel(theirs, buf, n);
	if (r == -EPIPE && !a.kernel)
		r = -EBUSY; /* ended by the writer in this very moment: the ring still has all of it */
	if (r == 0) {
		COUNT(pulled_back, n);
		ring_advance(rx_ring(t), a.ring);
	}
out:
	atomic_store(&rx_dir(t)->mover, 0);
	if (buf != MAP_FAILED)
		munmap(buf, n);
	real.close(theirs);
	return r;
}

/* Under rx lock. */
static int leave_rx(struct sock *s, int fd)
{
	struct slot *t = s->slot;
	struct link_dir *d = rx_dir(t);
	if (t->rx.mode == MODE_KERNEL)
		return 0;
	atomic_fetch_or(&d->head, 1); /* no byte enters the ring from here on */
	uint32_t gen = t->rx.gen + (t->rx.mode == MODE_AGREED);
	if (!settled(d, gen))
		return -EBUSY;
	struct ahead a = look_ahead(t, gen);
	if (a.kernel || a.marker || a.ring) {
		int r;
		if (!a.kernel && !a.ring) {
			/* the marker alone: it has nothing to overtake */
			int queued = 0;
			real.ioctl(fd, SIOCINQ, &queued);
			r = (uint64_t)queued >= a.marker && take_kernel(t, fd, NULL, a.marker) ? 0 : -EBUSY;
		} else {
			r = move(t, fd, gen, a);
		}
		if (r < 0) {
			atomic_store(&d->please, 1);
			return r;
		}
	}
	atomic_store(&t->rx.mode, MODE_KERNEL);
	news_post(s->link, s->lane, t->side ^ 1); /* the writer waits for the empty ring */
	return 0;
}

bool switch_drained(struct sock *s)
{
	struct slot *t = s->slot;
	struct link_dir *d = rx_dir(t);
	bool drained = true;
	dir_lock(&t->rx);
	if (t->rx.mode != MODE_KERNEL) {
		uint32_t gen = t->rx.gen + (t->rx.mode == MODE_AGREED);
		struct link_slot *slot = &d->slot[gen & 1];
		bool published = atomic_load(&slot->gen) == gen && atomic_load(&slot->x) != OFFSET_NONE;
		drained = head_gated(atomic_load(&d->head)) && head_pos(atomic_load(&d->head)) == atomic_load(&d->tail) &&
			  (t->rx.mode == MODE_AGREED ? !published : t->rx.marker_done);
		if (drained) {
			atomic_store(&t->rx.mode, MODE_KERNEL);
			news_post(s->link, s->lane, t->side ^ 1);
		}
	}
	dir_unlock(&t->rx);
	return drained;
}

int switch_leave_in(struct sock *s, int fd)
{
	struct slot *t = s->slot;
	int saved = errno, quiet = quiet_begin();
	dir_lock(&t->rx);
	int r = leave_rx(s, fd);
	dir_unlock(&t->rx);
	quiet_end(quiet);
	errno = saved;
	return r;
}

/* Does the descriptor go where no code of ours follows? Else the ring is drained by our own receives. */
static bool goes_away(enum reason why)
{
	return why == REASON_PASSED || why == REASON_STDIO || why == REASON_SOCKOPT || why == REASON_IO_URING;
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
	if (!slot_lane(t) || !s->link) {
		sock_plain(s, why);
		return 0;
	}
	int saved = errno, quiet = quiet_begin();
	dir_lock(&t->tx);
	if (t->tx.mode == MODE_LANE)
		switch_demote(s);
	t->tx.reason = why;
	atomic_store(&slot_lane(t)->final[t->side], 1); /* never is set, under this lock: no promotion comes after it */
	dir_unlock(&t->tx);
	int r = switch_leave_in(s, fd);
	if (r == 0 || goes_away(why))
		t->rx.reason = why;
	stats_row_update(s);
	waitset_modes_changed(s, false);
	waitset_kick(s);
	if (r < 0 && goes_away(why))
		r = relay_start(s, fd, why);
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
