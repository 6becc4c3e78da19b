/* Calls that make, connect and configure sockets. The kernel does each exactly as asked, when asked. */
#include "preload/discover/registry.h"
#include "preload/interpose.h"
#include "preload/io.h"
#include "preload/kernel_options.h"
#include "preload/link/link.h"
#include "preload/proc/process.h"
#include "preload/quiet.h"
#include "preload/real.h"
#include "preload/sock.h"
#include "preload/state.h"
#include "preload/stats/stats.h"
#include "preload/switch.h"
#include "preload/wait/waitset.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

EXPORT int socket(int domain, int type, int protocol)
{
	ENSURE_REAL();
	if ((domain != AF_INET && domain != AF_INET6) || (type & 0xf) != SOCK_STREAM ||
	    (protocol != 0 && protocol != IPPROTO_TCP) || self_thread.vfork_child)
		return real.socket(domain, type, protocol);
	process_number_begin();
	int fd = real.socket(domain, type, protocol);
	number_fresh(fd);
	if (fd >= 0)
		sock_new(fd, SOCK_NEW);
	process_number_end();
	return fd;
}

EXPORT int bind(int fd, const struct sockaddr *addr, socklen_t len)
{
	ENSURE_REAL();
	return real.bind(fd, addr, len);
}

/* A listener that another program opened (socket activation, a parent's) is known from its first accept or listen. */
static struct sock *listener(int fd)
{
	struct sock *s = fdtab_sock(fd);
	if (s || fdtab_get(fd))
		return s;
	int protocol = 0, listening = 0;
	socklen_t len = sizeof(int);
	if (real.getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len) < 0 || protocol != IPPROTO_TCP ||
	    real.getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len) < 0 || !listening)
		return NULL;
	return sock_new(fd, SOCK_NEW);
}

static void listening(struct sock *s, int fd)
{
	if (atomic_load(&s->stage) != SOCK_NEW || !state_start(fd))
		return;
	if (sock_addrs(fd, &s->at, NULL) < 0)
		return;
	if (active)
		registry_listen(&s->at);
	atomic_store(&s->stage, SOCK_LISTENER);
}

EXPORT int listen(int fd, int backlog)
{
	ENSURE_REAL();
	int r = real.listen(fd, backlog);
	if (r == 0 && !self_thread.vfork_child) {
		int saved = errno, quiet = quiet_begin();
		struct sock *s = listener(fd);
		if (s)
			listening(s, fd);
		quiet_end(quiet);
		errno = saved;
	}
	return r;
}

/* Stays plain; shown with its reason if it lives beyond the first exchange. */
static void settled(struct sock *s, enum reason why)
{
	s->reason = why;
	atomic_store(&s->stage, SOCK_SETTLED);
}

static void accepted(int listening_fd, int fd, const struct sockaddr *from, socklen_t len, uint32_t forks)
{
	struct sock *l = listener(listening_fd);
	if (!l)
		return;
	listening(l, listening_fd);
	struct state_addr peer;
	if (atomic_load(&l->stage) != SOCK_LISTENER || !state_start(fd) || !addr_from(from, len, &peer))
		return;
	if (active && l->forked && !l->relisted) { /* inherited: our parent's entry ends with it */
		l->relisted = 1;
		registry_listen(&l->at);
	}
	struct in6_addr ip;
	memcpy(&ip, peer.ip, 16);
	struct sock *s = sock_new(fd, SOCK_ACCEPTED);
	if (!s)
		return;
	COUNT(sockets, 1);
	s->role = ROLE_ACCEPT;
	s->at = peer;
	s->sndbuf = l->sndbuf;
	s->rcvbuf = l->rcvbuf;
	s->lowat = l->lowat;
	s->timeouts = l->timeouts;
	if (!active) {
		settled(s, inactive_reason);
	} else if (options.n_rules && !options_allow(&options, program_name, RULE_ACCEPT, &ip, l->at.port)) {
		settled(s, REASON_RULE);
	} else if (unlikely(atomic_load(&process_forks) != forks) && !s->slot && !sock_slot(s, fd, ROLE_ACCEPT, &peer)) {
		return;
	} else if (unlikely(atomic_load(&process_forks) != forks)) {
		process_share_since(s, forks);
	} else if (options.promote == PROMOTE_EAGER && sock_slot(s, fd, ROLE_ACCEPT, &peer)) {
		struct registry_hit hit;
		if (registry_find(&peer, &s->slot->local, &hit)) /* else its connect has not published yet: at a read */
			switch_offer(s, fd);
		if (atomic_load(&s->stage) == SOCK_OFFERED)
			switch_agree(s, fd, false);
	}
}

EXPORT int accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	ENSURE_REAL();
	struct sockaddr_storage from;
	socklen_t n = sizeof(from);
	if (self_thread.vfork_child || (fdtab_get(fd) && !fdtab_sock(fd)))
		return real.accept4(fd, addr, len, flags);
	if (addr && (!len || (int)*len < 0))
		return real.accept4(fd, addr, len, flags); /* EFAULT, EINVAL: the kernel's way */
	uint32_t forks = atomic_load(&process_forks);
	int r = real.accept4(fd, (struct sockaddr *)&from, &n, flags);
	if (r < 0)
		return r;
	if (addr) {
		memcpy(addr, &from, n < *len ? n : *len);
		*len = n;
	}
	number_fresh(r);
	int saved = errno, quiet = quiet_begin();
	accepted(fd, r, (struct sockaddr *)&from, n, forks);
	quiet_end(quiet);
	errno = saved;
	return r;
}

EXPORT int accept(int fd, struct sockaddr *addr, socklen_t *len)
{
	return accept4(fd, addr, len, 0);
}

/* connect to a listed address on this host: published, so that the acceptor finds us. */
static void connecting(struct sock *s, int fd, const struct sockaddr *addr, socklen_t len)
{
	struct state_addr to;
	if (!addr_from(addr, len, &to) || !state_start(fd))
		return;
	if (s->forked) { /* who else holds it was not counted */
		settled(s, REASON_HOLDERS);
		return;
	}
	COUNT(sockets, 1);
	s->role = ROLE_CONNECT;
	if (!active) {
		settled(s, inactive_reason);
		return;
	}
	if (!registry_listed(&to)) {
		settled(s, REASON_PEER_PLAIN);
		return;
	}
	struct in6_addr ip;
	memcpy(&ip, to.ip, 16);
	if (options.n_rules && !options_allow(&options, program_name, RULE_CONNECT, &ip, to.port)) {
		settled(s, REASON_RULE);
		return;
	}
	if (sock_addrs(fd, &s->local, NULL) < 0)
		return;
	/* The name of the other end as it will see it: connecting to 0.0.0.0 or :: reaches the loopback address. */
	static const uint8_t loop4[13] = {[10] = 0xff, 0xff, 127}, none[16], none4[16] = {[10] = 0xff, 0xff};
	s->at = to;
	if ((!memcmp(to.ip, none, 16) || !memcmp(to.ip, none4, 16)) && sock_addrs(fd, NULL, &s->at) < 0)
		return;
	bool loopback = !memcmp(s->at.ip, loop4, 13) || (s->at.ip[15] == 1 && !memcmp(s->at.ip, none, 15));
	if (!loopback && memcmp(s->local.ip, s->at.ip, 16)) {
		settled(s, REASON_REMOTE);
		return;
	}
	if (link_rendezvous() < 0)
		return;
	if (!sock_publish(s)) {
		sock_plain(s, REASON_LIMIT);
		return;
	}
	/* slot and row come with the offer: short connections never pay */
	atomic_store(&s->stage, SOCK_PUBLISHED);
}

/* connect to AF_UNSPEC ends the connection; the socket begins anew. */
static void disconnecting(struct sock *s, int fd)
{
	if (!s->slot) {
		atomic_store(&s->stage, SOCK_NEW);
		return;
	}
	io_close(s, fd);
	stats_row_free(s);
	atomic_store(&s->slot->rx.mode, MODE_KERNEL);
	atomic_store(&s->slot->tx.mode, MODE_KERNEL);
	waitset_modes_changed(s, false);
	sock_plain(s, REASON_ENDED);
	sock_drop_slot(s);
	atomic_store(&s->stage, SOCK_NEW);
}

EXPORT int connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	ENSURE_REAL();
	struct sock *s = self_thread.vfork_child ? NULL : fdtab_sock(fd);
	if (s && addr && len >= sizeof(addr->sa_family) && addr->sa_family == AF_UNSPEC) {
		int r = real.connect(fd, addr, len);
		if (r == 0)
			disconnecting(s, fd);
		return r;
	}
	int r = real.connect(fd, addr, len);
	if (s && (r == 0 || errno == EINPROGRESS) && addr && atomic_load(&s->stage) == SOCK_NEW) {
		int saved = errno, quiet = quiet_begin();
		connecting(s, fd, addr, len);
		quiet_end(quiet);
		errno = saved;
	}
	return r;
}

EXPORT int shutdown(int fd, int how)
{
	ENSURE_REAL();
	struct sock *s = sock_of(fd);
	if (likely(!s))
		return real.shutdown(fd, how);
	int r;
	if (s->slot && s->link && slot_lane(s->slot) && how >= SHUT_RD && how <= SHUT_RDWR) {
		r = io_shutdown(s, fd, how);
		r = EDGE(r);
	} else {
		r = real.shutdown(fd, how);
	}
	sock_unpin(s);
	return r;
}

EXPORT int getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
	ENSURE_REAL();
	if (unlikely(level == IPPROTO_TCP && name == TCP_ZEROCOPY_RECEIVE)) { /* maps the kernel's pages: bytes must be there */
		struct sock *s = sock_of(fd);
		if (s) {
			if (s->slot)
				switch_leave(s, fd, REASON_KERNEL_OPTION);
			sock_unpin(s);
		}
	}
	int r = real.getsockopt(fd, level, name, value, len);
	if (r == 0 && level == SOL_SOCKET && name == SO_ERROR && *len == sizeof(int)) {
		struct sock *s = sock_of(fd);
		if (s) {
			s->kernel_events &= ~EPOLLERR;
			if (s->slot && !*(int *)value)
				*(int *)value = atomic_exchange(&s->slot->error, 0);
			sock_unpin(s);
		}
	}
	return r;
}

#ifndef SO_RCVTIMEO_NEW
#define SO_RCVTIMEO_NEW 66
#define SO_SNDTIMEO_NEW 67
#endif

/* bit: 1 receiving, 2 sending. A negative limit is one that is always over, which reads back as none. */
static void time_limit(struct sock *s, uint8_t bit, const void *value, socklen_t len)
{
	struct timeval tv = {0, 0};
	memcpy(&tv, value, len < sizeof(tv) ? len : sizeof(tv));
	uint8_t bits = bit | (tv.tv_sec < 0 ? bit * 4 : 0);
	s->timeouts = (s->timeouts & ~(bit * 4)) | bits;
	if (s->slot) {
		atomic_fetch_and(&s->slot->timeouts, (uint8_t)~(bit * 4));
		atomic_fetch_or(&s->slot->timeouts, bits);
	}
}

EXPORT int setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	ENSURE_REAL();
	struct sock *s = self_thread.vfork_child ? NULL : fdtab_sock(fd);
	if (!s)
		return real.setsockopt(fd, level, name, value, len);
	enum reason why = kernel_option(level, name, value, len);
	if (unlikely(why) && s->slot)
		switch_leave(s, fd, why);
	int r = real.setsockopt(fd, level, name, value, len);
	if (unlikely(why) && s->slot && !s->slot->never) /* a thread made the slot meanwhile, and asked too early */
		switch_leave(s, fd, why);
	if (r < 0 || level != SOL_SOCKET)
		return r;
	int v = 0;
	socklen_t n = sizeof(v);
	switch (name) {
	case SO_SNDBUF:
	case SO_SNDBUFFORCE:
		if (real.getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &v, &n) == 0) {
			s->sndbuf = v;
			if (s->slot)
				s->slot->sndbuf = v;
		}
		break;
	case SO_RCVBUF:
	case SO_RCVBUFFORCE:
		if (real.getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &v, &n) == 0) {
			s->rcvbuf = v;
			if (s->slot) {
				s->slot->rcvbuf = v;
				if (s->link && slot_lane(s->slot))
					atomic_store(&slot_lane(s->slot)->end[s->slot->side].rcvbuf, v);
			}
		}
		break;
	case SO_RCVTIMEO:
	case SO_RCVTIMEO_NEW:
		time_limit(s, 1, value, len);
		break;
	case SO_SNDTIMEO:
	case SO_SNDTIMEO_NEW:
		time_limit(s, 2, value, len);
		break;
	case SO_RCVLOWAT:
		if (real.getsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &v, &n) == 0)
			s->lowat = v > 1 ? v : 0;
		if (s->lowat && s->slot && s->slot->rx.mode == MODE_AGREED)
			switch_leave(s, fd, REASON_LOW_WATER); /* the marker would count towards it */
		break;
	}
	return r;
}

EXPORT int getsockname(int fd, struct sockaddr *addr, socklen_t *len)
{
	ENSURE_REAL();
	return real.getsockname(fd, addr, len);
}

EXPORT int getpeername(int fd, struct sockaddr *addr, socklen_t *len)
{
	ENSURE_REAL();
	return real.getpeername(fd, addr, len);
}
