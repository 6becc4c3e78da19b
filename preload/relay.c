#include "preload/relay.h"
#include "preload/io.h"
#include "preload/link/link.h"
#include "preload/proc/process.h"
#include "preload/real.h"
#include "preload/state.h"
#include "preload/stats/stats.h"
#include "preload/switch.h"
#include "preload/wait/waitset.h"
#include "preload/wait/waker.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define GUEST_ASKS  (64u << 10) /* bytes that a guest has lent out at most */
#define GUEST_NS_MIN 500000u
#define GUEST_NS_MAX 16000000u

static void no_delay(int fd)
{
	int on = 1;
	real.setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static void end_by_reset(int fd)
{
	struct linger reset = {1, 0};
	real.setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
}

/* What was handed to fd reaches the other end's buffer before a reset, as it would have without us; not for ever. */
static void let_out(int fd)
{
	int left = 0;
	for (int i = 0; i < 400 && real.ioctl(fd, SIOCOUTQ, &left) == 0 && left > 0; i++)
		usleep(5000);
}

static ssize_t receive(struct relay *r, uint8_t *to, size_t n, int flags)
{
	ssize_t k;
	if (r->plain)
		return real.recv(r->old, to, n, flags | MSG_DONTWAIT);
	k = recv(r->old, to, n, flags | MSG_DONTWAIT); /* the library's: ring and kernel in the stream's order */
	int saved = errno;
	if (!(flags & MSG_PEEK) && !r->guest) /* while there are guests every receive goes through relay_settle */
		r->plain = switch_drained(r->s);
	errno = saved;
	return k;
}

static void in_over(struct relay *r)
{
	r->in.over = true;
	if (r->in.reset)
		r->out.over = true; /* there is no connection any more */
	else
		real.shutdown(r->ours, SHUT_WR);
}

/* Nobody reads what comes from the connection any more: the peer learns it by a reset, unless nothing but what another
 * holder has read was left. */
static void program_gone(struct relay *r)
{
	r->in.over = r->out.over = true;
	r->out.reset = !r->guest && !r->stale;
}

/* from: a kernel socket with nothing of ours under it, -1 where the lane may have bytes. */
static ssize_t take_in(struct relay *r, struct relay_flow *f, int from)
{
	ssize_t k = -1;
	f->at = 0;
	f->piped = f->bulk && from >= 0 && f->pipe[0] >= 0 && !r->guest;
	if (f->piped) {
		k = real.splice(from, NULL, f->pipe[1], NULL, RELAY_PIPE, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
		if (k < 0 && (errno == EINVAL || errno == ENOSYS || errno == ENOMEM)) {
			real.close(f->pipe[0]);
			real.close(f->pipe[1]);
			f->pipe[0] = f->pipe[1] = -1;
			f->piped = false;
		}
	}
	if (!f->piped)
		k = from >= 0 ? real.recv(from, f->buf, RELAY_BUFFER, MSG_DONTWAIT) : receive(r, f->buf, RELAY_BUFFER, 0);
	if (k >= 0)
		f->bulk = (size_t)k >= RELAY_BULK;
	return k;
}

/* Out of the pipe only where to is non-blocking and no guest's; SIGPIPE is ignored. */
static ssize_t hand_on(struct relay_flow *f, int to)
{
	ssize_t k;
	if (f->piped)
		k = real.splice(f->pipe[0], NULL, to, NULL, f->n, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	else
		k = real.send(to, f->buf + f->at, f->n, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (k > 0) {
		f->at += k;
		f->n -= k;
	}
	return k;
}

/* True: something moved. */
static bool run_in(struct relay *r)
{
	struct relay_flow *f = &r->in;
	bool moved = false;
	if (!f->n) {
		ssize_t k = take_in(r, f, r->plain ? r->old : -1);
		if (k < 0 && (errno == EAGAIN || errno == EINTR))
			return false;
		if (k <= 0) {
			f->reset |= k < 0; /* or the other direction has met it */
			in_over(r);
			return true;
		}
		f->n = k;
		moved = true;
	}
	ssize_t k = hand_on(f, r->ours);
	if (k < 0 && errno != EAGAIN && errno != EINTR) {
		program_gone(r);
		return true;
	}
	return moved || k > 0;
}

static bool run_out(struct relay *r)
{
	struct relay_flow *f = &r->out;
	bool moved = false;
	if (!f->n) {
		ssize_t k = take_in(r, f, r->ours);
		if (k < 0 && (errno == EAGAIN || errno == EINTR))
			return false;
		if (k < 0) {
			program_gone(r);
			return true;
		}
		if (k == 0) {
			f->over = true;
			if (r->guest && r->theirs < 0)
				r->in.over = true; /* closed; the connection goes on with its other holders */
			else
				shutdown(r->old, SHUT_WR);
			return true;
		}
		f->n = k;
		moved = true;
	}
	ssize_t k = hand_on(f, r->old);
	if (k < 0 && errno != EAGAIN && errno != EINTR) {
		/* the peer takes no more; what it has sent is still delivered, then the program learns it */
		f->over = r->in.reset = true;
		return true;
	}
	return moved || k > 0;
}

/* How many of the connection's bytes anybody has taken. */
static bool place(struct relay *r, uint64_t *ret)
{
	struct slot *t = r->s->slot;
	uint64_t kernel;
	dir_lock(&t->rx);
	bool known = switch_consumed(r->old, &kernel);
	if (known)
		*ret = kernel - t->rx.markers + atomic_load(&rx_dir(t)->tail);
	dir_unlock(&t->rx);
	return known;
}

static void take(struct relay *r, uint64_t n)
{
	r->lent -= n;
	r->at += n;
	while (n) {
		ssize_t k = receive(r, r->in.buf, n < RELAY_BUFFER ? n : RELAY_BUFFER, 0);
		if (k <= 0)
			return;
		n -= k;
	}
}

/* What another holder has taken of the bytes that we lent. */
static void find_stale(struct relay *r)
{
	uint64_t now;
	if (!place(r, &now))
		return;
	uint64_t gone = now - r->at;
	if (gone > r->lent)
		gone = r->lent;
	r->lent -= gone;
	r->stale += gone;
	r->at = now;
}

static bool is_relay; /* this process */

void relay_settle(struct slot *t)
{
	uint32_t guests = atomic_load(&t->rx.guests), before = atomic_load(&t->rx.answered);
	if (is_relay)
		return;
	atomic_fetch_add(&t->rx.asked, 1);
	/* They look twice a millisecond while anything is lent, and are counted no more when nothing is. One that was stopped
	 * or killed is not waited for again. */
	for (int i = 0; i < 5000; i++) {
		if (atomic_load(&t->rx.answered) - before >= guests || !atomic_load(&t->rx.guests))
			return;
		usleep(100);
	}
	atomic_store(&t->rx.guests, 0);
}

/* Among the slot's guests from before the first byte is lent. */
static void be_counted(struct relay *r, bool lends)
{
	struct slot_dir *rx = &r->s->slot->rx;
	if (lends == r->counted)
		return;
	r->counted = lends;
	if (lends) {
		atomic_fetch_add(&rx->guests, 1);
		return;
	}
	uint32_t n = atomic_load(&rx->guests);
	while (n && !atomic_compare_exchange_weak(&rx->guests, &n, n - 1)) {
	}
}

/* asked: as it was before we looked what the program has read. */
static void answer(struct relay *r, uint32_t asked)
{
	if (r->counted && asked != r->answered)
		atomic_fetch_add(&r->s->slot->rx.answered, asked - r->answered);
	r->answered = asked;
	be_counted(r, r->guest && r->lent);
}

static void guest_ends(struct relay *r)
{
	find_stale(r);
	take(r, r->lent);
	r->guest = false;
	be_counted(r, false);
	if (r->theirs >= 0)
		real.close(r->theirs);
	r->theirs = -1;
	no_delay(r->old);
	/* nobody else uses it any more, and splice has no flag for one call */
	real.fcntl(r->old, F_SETFL, (void *)(uintptr_t)O_NONBLOCK);
}

static bool look_after_guest(struct relay *r)
{
	uint64_t now;
	bool moved = false;
	struct pollfd p = {r->program, POLLIN, 0};
	if (slot_sole(r->s->slot)) {
		guest_ends(r);
		return true;
	}
	/* asked before the count is read: what it read in its last moment counts */
	bool dead = r->theirs >= 0 && (r->program < 0 || real.poll(&p, 1, 0) == 1);
	find_stale(r);
	if (r->theirs >= 0 && switch_consumed(r->theirs, &now) && now > r->read) {
		uint64_t k = now - r->read, old = k < r->stale ? k : r->stale;
		r->read = now;
		r->stale -= old;
		take(r, k - old < r->lent ? k - old : r->lent);
		moved = true;
	}
	if (dead) {
		struct pollfd end = {r->ours, POLLRDHUP, 0};
		real.close(r->theirs);
		r->theirs = -1;
		if (real.poll(&end, 1, 0) != 1) {
			guest_ends(r); /* it has children that use it */
			return true;
		}
		r->in.over = true; /* what it did not read is still the connection's */
		r->lent = 0;
		return true;
	}
	if (r->in.over)
		return moved;
	ssize_t k = receive(r, r->in.buf, GUEST_ASKS, MSG_PEEK);
	if (k > 0 && (size_t)k > r->lent) {
		be_counted(r, true);
		ssize_t sent = real.send(r->ours, r->in.buf + r->lent, k - r->lent, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (sent > 0) {
			r->lent += sent;
			moved = true;
		}
	} else if (!r->lent && (k == 0 || (k < 0 && errno != EAGAIN && errno != EINTR))) {
		r->in.reset |= k < 0;
		in_over(r);
		moved = true;
	} else if (k < 0 && errno != EAGAIN && errno != EINTR) {
		atomic_store(&r->s->slot->error, errno); /* it comes after what is lent */
	}
	return moved;
}

static bool run_guest(struct relay *r)
{
	uint32_t asked = atomic_load(&r->s->slot->rx.asked);
	bool moved = look_after_guest(r);
	answer(r, asked);
	return moved;
}

static void serve(struct relay *r)
{
	bool try_in = true, try_out = true;
	while (!r->in.over || !r->out.over) {
		bool moved = false;
		if (r->guest)
			moved = run_guest(r);
		else if (!r->in.over && try_in)
			moved = run_in(r);
		if (!r->out.over && (try_out || r->guest))
			moved |= run_out(r);
		if (r->guest) {
			if (moved || r->lent)
				r->pause = GUEST_NS_MIN;
			else if (r->pause < GUEST_NS_MAX)
				r->pause *= 2;
		}
		/* After a small message it is seldom that another one is there: the poll says so at less than an attempt each way. */
		if (moved && (r->guest || r->in.bulk || r->out.bulk)) {
			try_in = try_out = true;
			continue;
		}
		bool wants_in = !r->in.over && !r->in.n && !(r->guest && r->lent);
		struct pollfd p[2] = {
			{r->old, (wants_in ? POLLIN : 0) | (!r->out.over && r->out.n ? POLLOUT : 0), 0},
			{r->ours, (!r->out.over && !r->out.n ? POLLIN : 0) | (!r->in.over && r->in.n ? POLLOUT : 0), 0},
		};
		/* An end of which nothing is asked reports nothing but its death, again and again: looked at only where that
		 * ends the other direction. */
		bool idle[2] = {!p[0].events, !p[1].events};
		if (idle[0] && !r->in.over)
			p[0].fd = -1;
		if (idle[1] && !r->out.over)
			p[1].fd = -1;
		struct timespec pause = {0, r->pause};
		if (r->plain)
			real.ppoll(p, 2, r->guest ? &pause : NULL, NULL);
		else
			ppoll(p, 2, r->guest ? &pause : NULL, NULL);
		try_in = p[0].revents & ~POLLOUT || p[1].revents & ~POLLIN;
		try_out = p[1].revents & ~POLLOUT || p[0].revents & ~POLLIN;
		if (idle[0] && p[0].revents & (POLLERR | POLLHUP))
			r->in.reset = r->out.over = true;
		if (idle[1] && p[1].revents & (POLLERR | POLLHUP))
			program_gone(r);
	}
	/* how one side ended is how the other ends */
	if (r->in.reset) {
		let_out(r->ours);
		end_by_reset(r->ours);
	}
	if (r->out.reset && slot_sole(r->s->slot)) {
		let_out(r->old);
		end_by_reset(r->old);
	}
}

/* What the program had on its heap is not pinned by us for as long as the connection lives. The rest of its memory is
 * shared with it until one of the two writes. */
static void release_heap(void)
{
	char text[4096];
	size_t n = 0;
	ssize_t k;
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && (k = real.read(fd, text + n, sizeof(text) - 1 - n)) > 0) {
		n += k;
		text[n] = 0;
		char *line = text, *end;
		for (; (end = strchr(line, '\n')); line = end + 1) {
			*end = 0;
			if (!strstr(line, "[heap]"))
				continue;
			char *dash;
			uintptr_t from = strtoul(line, &dash, 16), to = strtoul(dash + 1, NULL, 16);
			madvise((void *)from, to - from, MADV_DONTNEED);
		}
		n -= line - text;
		memmove(text, line, n);
	}
	if (fd >= 0)
		real.close(fd);
}

static bool kept(const struct relay *r, int fd)
{
	const struct link *l = r->s->link;
	int own_epochs, own_bell;
	waker_epochs(&own_epochs, &own_bell);
	if (fd == r->old || fd == r->ours || fd == r->theirs || fd == r->program || fd == l->socket || fd == l->peer_bell ||
	    fd == own_bell)
		return true;
	for (int w = 0; w < LINK_WAITERS; w++)
		if (fd == l->peer_wakefd[w])
			return true;
	return false;
}

/* Nothing of the program's stays open here: whoever waits for the end of its pipes must not wait for us. */
static void close_others(const struct relay *r)
{
	int from = 0;
	for (int fd = 0; fd <= fdtab_highest; fd++)
		if (!kept(r, fd) && fdtab_get(fd))
			fdtab_set(fd, 0);
	int last = fdtab_highest > 4096 ? fdtab_highest : 4096;
	for (int fd = 0; fd <= last + 1; fd++) {
		if (fd <= last && !kept(r, fd))
			continue;
		if (fd > from && real.syscall(SYS_close_range, from, fd > last ? UINT_MAX : (unsigned)fd - 1, 0) < 0)
			for (int k = from; k < fd; k++) /* Linux before 5.9 */
				real.close(k);
		from = fd + 1;
	}
}

void relay_main(struct relay *r, int index)
{
	struct sigaction standard = {.sa_handler = SIG_DFL};
	for (int sig = 1; sig < NSIG; sig++)
		real.sigaction(sig, &standard, NULL);
	standard.sa_handler = SIG_IGN;
	real.sigaction(SIGPIPE, &standard, NULL); /* splice cannot be told not to raise it */
	memset(&self_thread, 0, sizeof(self_thread));
	fork_child(index);
	r->s->interests = NULL; /* the sets are the program's */
	r->s->fds = 1;
	r->s->fd = r->old;
	setsid();
	prctl(PR_SET_NAME, "hasten-relay");
	if (chdir("/") < 0)
		errno = 0;
	close_others(r);
	release_heap();
	sigset_t none;
	sigemptyset(&none);
	real.syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, 8);
	is_relay = true;
	r->pause = GUEST_NS_MIN;
	place(r, &r->at);
	r->answered = atomic_load(&r->s->slot->rx.asked);
	struct relay_flow *flows[] = {&r->in, &r->out};
	for (int i = 0; i < 2; i++) {
		if (real.syscall(SYS_pipe2, flows[i]->pipe, O_CLOEXEC | O_NONBLOCK) < 0)
			flows[i]->pipe[0] = flows[i]->pipe[1] = -1;
		else
			real.fcntl(flows[i]->pipe[0], F_SETPIPE_SZ, (void *)(uintptr_t)RELAY_PIPE);
	}
	real.fcntl(r->ours, F_SETFL, (void *)(uintptr_t)O_NONBLOCK);
	int one = 1;
	real.setsockopt(r->old, SOL_SOCKET, SO_RCVLOWAT, &one, sizeof(one));
	r->s->lowat = 0;
	no_delay(r->ours);
	serve(r);
	real.close(r->ours);
	close(r->old); /* the library's: lane and slot go with it */
	real._exit(0);
	__builtin_unreachable();
}
