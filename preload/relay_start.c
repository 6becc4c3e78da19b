/* Making a relay: the pair of sockets, the process, the program's numbers. */
#include "preload/io.h"
#include "preload/link/link.h"
#include "preload/proc/limits.h"
#include "preload/proc/locks.h"
#include "preload/real.h"
#include "preload/relay.h"
#include "preload/state.h"
#include "preload/stats/stats.h"
#include "preload/switch.h"
#include "preload/wait/waitset.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* A child that nobody waits for and whose end nobody is told of. */
static int fork_relay(struct relay *r)
{
	/* as for every fork: what the child finds of ours is whole */
	critical_enter();
	pthread_mutex_lock(&switch_fork_lock);
	int index = family_fork_prepare(false);
	if (index < 0) {
		pthread_mutex_unlock(&switch_fork_lock);
		critical_leave();
		return -EAGAIN;
	}
	uint32_t held = locks_hold();
	limits_hold();
	slot_share(r->s->slot, index);
	r->s->solo = 0;
	sigset_t all, before;
	sigfillset(&all);
	real.syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, 8);
	/* no exit signal: the program's handlers and waits never see this one */
	int status = -1, pid = real.syscall(SYS_clone, 0, 0, 0, 0, 0);
	if (pid == 0) {
		self_thread.forking = 1; /* libc's fork, where it must be that one, need not tell us */
		pid_t child = real._Fork ? real._Fork() : real.fork();
		if (child == 0)
			relay_main(r, index);
		if (child > 0)
			family_fork_parent(index, child);
		real.syscall(SYS_exit_group, child > 0 ? 0 : 1);
	}
	int failed = errno;
	while (pid > 0 && real.syscall(SYS_wait4, pid, &status, __WCLONE, NULL) < 0 && errno == EINTR) {
	}
	limits_release();
	locks_release(held);
	if (pid < 0 || status)
		family_fork_parent(index, -1);
	pthread_mutex_unlock(&switch_fork_lock);
	critical_leave();
	real.syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, 8);
	if (pid > 0 && status == 0)
		return 0;
	return pid < 0 ? -failed : -EAGAIN;
}

/* Two connected sockets of the old one's address family. */
static int loopback_pair(int domain, bool mapped, int *ret_program, int *ret_relay)
{
	union {
		struct sockaddr any;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} at = {.any.sa_family = domain}, from, self;
	socklen_t size = domain == AF_INET ? sizeof(at.in) : sizeof(at.in6), len = size;
	int r = -1, c = -1, s = -1, l = real.socket(domain, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (domain == AF_INET)
		at.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else
		at.in6.sin6_addr = in6addr_loopback;
	if (mapped)
		at.in6.sin6_addr = (struct in6_addr){.s6_addr = {[10] = 0xff, 0xff, 127, 0, 0, 1}};
	if (l < 0 || real.bind(l, &at.any, size) < 0 || real.listen(l, 8) < 0 || real.getsockname(l, &at.any, &len) < 0)
		goto out;
	c = real.socket(domain, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c < 0 || real.connect(c, &at.any, size) < 0 || (len = size, real.getsockname(c, &self.any, &len) < 0))
		goto out;
	for (int i = 0; i < 16; i++) { /* somebody else may have found the port meanwhile */
		len = size;
		s = real.accept4(l, &from.any, &len, SOCK_CLOEXEC);
		if (s < 0)
			goto out;
		if (domain == AF_INET ? from.in.sin_port == self.in.sin_port && from.in.sin_addr.s_addr == self.in.sin_addr.s_addr :
					from.in6.sin6_port == self.in6.sin6_port && !memcmp(&from.in6.sin6_addr, &self.in6.sin6_addr, 16))
			break;
		real.close(s);
		s = -1;
	}
	if (s < 0) {
		errno = EBUSY;
		goto out;
	}
	*ret_program = s;
	*ret_relay = c;
	r = 0;
out:
	r = r < 0 ? -errno : 0;
	if (l >= 0)
		real.close(l);
	if (r < 0 && c >= 0)
		real.close(c);
	return r;
}

static void copy_option(int from, int to, int level, int name)
{
	struct {
		char bytes[32];
	} value;
	socklen_t len = sizeof(value);
	if (real.getsockopt(from, level, name, &value, &len) == 0)
		real.setsockopt(to, level, name, &value, len);
}

static void copy_options(struct sock *s, int from, int to)
{
	static const int socket_options[] = {SO_KEEPALIVE, SO_LINGER, SO_RCVTIMEO, SO_SNDTIMEO, SO_RCVLOWAT, SO_OOBINLINE,
					     SO_PRIORITY, SO_REUSEADDR};
	static const int tcp_options[] = {TCP_NODELAY, TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT, TCP_USER_TIMEOUT};
	for (size_t i = 0; i < sizeof(socket_options) / sizeof(int); i++)
		copy_option(from, to, SOL_SOCKET, socket_options[i]);
	for (size_t i = 0; i < sizeof(tcp_options) / sizeof(int); i++)
		copy_option(from, to, IPPROTO_TCP, tcp_options[i]);
	/* the kernel says twice what was set */
	int size;
	if (s->slot->sndbuf && (size = s->slot->sndbuf / 2))
		real.setsockopt(to, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	if (s->slot->rcvbuf && (size = s->slot->rcvbuf / 2))
		real.setsockopt(to, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	int flags = real.fcntl(from, F_GETFL);
	if (flags >= 0)
		real.fcntl(to, F_SETFL, flags & (O_NONBLOCK | O_ASYNC));
}

/* Every number of this process that means the old socket, by the kernel's word: in a vfork child, or after raw calls,
 * the table does not know them all. */
static void replace_numbers(uint64_t cookie, int fd, int with)
{
	int last = fdtab_highest > 1023 ? fdtab_highest : 1023;
	for (int n = 0; n <= (fd > last ? fd : last); n++) {
		uint64_t its = 0;
		socklen_t len = sizeof(its);
		if (fd_kind(fdtab_get(n)) == FD_OWN || real.getsockopt(n, SOL_SOCKET, SO_COOKIE, &its, &len) < 0 || its != cookie)
			continue;
		int flags = real.fcntl(n, F_GETFD);
		real.dup3(with, n, flags >= 0 && flags & FD_CLOEXEC ? O_CLOEXEC : 0);
	}
}

/* Is a call of another thread inside? It goes on with the old socket, as it would with a socket that is closed under it. */
static bool busy(struct sock *s)
{
	uint32_t own = 0;
	for (uint32_t i = 0; i < self_thread.n_inside; i++)
		own += self_thread.inside[i].kind == INSIDE_PIN && self_thread.inside[i].what == s;
	return atomic_load(&s->pins) > own;
}

int relay_start(struct sock *s, int fd, enum reason why)
{
	struct slot *t = s->slot;
	int domain = AF_INET, program = -1;
	socklen_t len = sizeof(domain);
	bool vforked = self_thread.vfork_child;
	if (!s->link)
		return -EBUSY;
	if (real.getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) < 0)
		return -errno;
	struct relay relay = {.s = s, .old = fd, .guest = true}, *r = &relay;
	int error = loopback_pair(domain, domain == AF_INET6 && t->local.v4, &program, &r->ours);
	if (error < 0)
		return error;
	uint8_t *room = mmap(NULL, 2 * RELAY_BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (room == MAP_FAILED) {
		error = -ENOMEM;
		goto out;
	}
	copy_options(s, fd, program);
	r->in.buf = room;
	r->out.buf = room + RELAY_BUFFER;
	r->theirs = program;
	r->program = real.syscall(SYS_pidfd_open, getpid(), 0);
	bool sole = slot_sole(t);
	error = fork_relay(r);
	if (r->program >= 0)
		real.close(r->program);
	munmap(room, 2 * RELAY_BUFFER);
	if (error < 0)
		goto out;
	log_message(LOG_WARNING, "fd %d: a relay process stays between: %s, and what was received cannot be put back into the "
		    "kernel socket (the peer is gone, stopped or out of reach)", fd, reason_text(why));
	if (vforked) {
		replace_numbers(t->cookie, fd, program);
		goto out; /* tables and slot are the parent's */
	}
	critical_enter();
	int copy = busy(s) ? real.fcntl(fd, F_DUPFD_CLOEXEC, 3) : -1;
	waitset_replacing(s, sole);
	replace_numbers(t->cookie, fd, program);
	waitset_replaced(s);
	if (copy >= 0) {
		/* Until it returns we hold the connection beside the relay, which lends so long. */
		sock_detach(s, fdtab_own(copy));
	} else {
		stats_row_update(s);
		sock_drop_slot(s);
		sock_plain(s, why);
	}
	critical_leave();
out:
	real.close(program);
	real.close(r->ours);
	return error;
}
