#include "preload/sock.h"
#include "preload/discover/registry.h"
#include "preload/io.h"
#include "preload/kernel_options.h"
#include "preload/link/link.h"
#include "preload/real.h"
#include "preload/state.h"
#include "preload/stats/stats.h"
#include "preload/wait/waitset.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#define CHUNK 512
#define CHUNKS_MAX 4096

static struct sock *chunk[CHUNKS_MAX];
static unsigned n_chunks;
static struct sock *free_socks;
pthread_mutex_t sock_pool_lock = PTHREAD_MUTEX_INITIALIZER; /* free_socks, chunk, published */

#define PUBLISHED_MAX 16640
static struct sock **published; /* by registry entry */

static void sock_release(struct sock *s)
{
	own_lock(&sock_pool_lock);
	s->next_free = free_socks;
	free_socks = s;
	own_unlock(&sock_pool_lock);
}

struct sock *sock_new(int fd, enum sock_stage stage)
{
	int saved = errno;
	own_lock(&sock_pool_lock);
	if (!free_socks && n_chunks < CHUNKS_MAX) {
		struct sock *c = mmap(NULL, CHUNK * sizeof(*c), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (c != MAP_FAILED) {
			chunk[n_chunks++] = c;
			for (int i = CHUNK - 1; i >= 0; i--) {
				c[i].next_free = free_socks;
				free_socks = &c[i];
			}
		}
	}
	struct sock *s = free_socks;
	if (s)
		free_socks = s->next_free;
	own_unlock(&sock_pool_lock);
	errno = saved;
	if (!s)
		return NULL;
	memset(s, 0, sizeof(*s));
	s->fd = fd;
	s->entry = -1;
	atomic_store(&s->fds, 1);
	atomic_store(&s->stage, stage);
	fdtab_set(fd, (uintptr_t)s | FD_SOCK);
	if (fdtab_sock(fd) != s) { /* no memory for the table's leaf */
		sock_release(s);
		return NULL;
	}
	return s;
}

bool sock_dup(struct sock *s, int fd)
{
	uint32_t n = atomic_load(&s->fds);
	do
		if (n == UINT32_MAX)
			return false;
	while (!atomic_compare_exchange_weak(&s->fds, &n, n + 1)); /* from zero, too: the caller's pin kept it from its end */
	if (s->fd < 0)
		s->fd = fd;
	fdtab_set(fd, (uintptr_t)s | FD_SOCK);
	return true;
}

void sock_unpublish(struct sock *s)
{
	if (s->entry < 0)
		return;
	if (registry_knocked(s->entry)) {
		critical_enter();
		if (pthread_mutex_trylock(&link_walk_lock) == 0) {
			link_look(); /* too late for this connection, in time for the next */
			pthread_mutex_unlock(&link_walk_lock);
		}
		critical_leave();
	}
	registry_withdraw(s->entry);
	own_lock(&sock_pool_lock);
	if (published && published[s->entry] == s)
		published[s->entry] = NULL;
	own_unlock(&sock_pool_lock);
	s->entry = -1;
}

struct sock *sock_published(uint32_t entry)
{
	struct sock *s = NULL;
	own_lock(&sock_pool_lock);
	if (published && entry < PUBLISHED_MAX)
		s = published[entry];
	if (s)
		atomic_fetch_add(&s->pins, 1); /* its last close withdraws it under this lock, and looks at the pins then */
	own_unlock(&sock_pool_lock);
	return s;
}

bool sock_publish(struct sock *s)
{
	s->token = random64();
	int entry = registry_publish(&s->local, &s->at, s->token);
	if (entry < 0)
		return false;
	own_lock(&sock_pool_lock);
	if (!published) {
		published = mmap(NULL, PUBLISHED_MAX * sizeof(*published), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				 -1, 0);
		if (published == MAP_FAILED)
			published = NULL;
	}
	if (published)
		published[entry] = s;
	own_unlock(&sock_pool_lock);
	s->entry = entry;
	return true;
}

static struct link_left left_by(struct sock *s)
{
	struct slot *t = s->slot;
	return (struct link_left){t - family->slot + 1, t->serial, s->link && slot_lane(t) ? slot_lane(t)->token : 0};
}

/* last: by slot_last, with what others may still hold noted before. */
static void drop_slot(struct sock *s, bool last, struct link_left left)
{
	struct slot *t = s->slot;
	if (s->link)
		link_lane_done(s->link, s->lane, last ? NULL : &left);
	s->link = NULL;
	s->slot = NULL;
	if (last)
		slot_drop(t);
}

void sock_drop_slot(struct sock *s)
{
	if (!s->slot)
		return;
	struct link_left left = left_by(s);
	drop_slot(s, slot_last(s->slot), left);
}

void sock_plain(struct sock *s, enum reason why)
{
	log_message(LOG_DEBUG, "fd %d: stays on the kernel: %s", s->fd, reason_text(why));
	sock_unpublish(s);
	if (s->slot)
		s->slot->tx.reason = s->slot->rx.reason = why;
	s->reason = why;
	if (!s->row)
		stats_row_new(s, s->fd);
	stats_row_update(s);
	atomic_store(&s->stage, SOCK_PLAIN);
}

/* The last descriptor is gone and no call is inside: what the last close of the kernel's file would do. fd is still
 * open. */
static void sock_end(struct sock *s, int fd)
{
	if (!s->slot) {
		stats_row_free(s);
		return;
	}
	struct link_left left = left_by(s);
	bool last = slot_last(s->slot);
	if (last) {
		stats_ended(s, fd);
		if (io_close(s, fd)) {
			/* unread bytes: TCP would send RST */
			struct linger reset = {1, 0};
			real.setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
		}
	}
	stats_row_free(s);
	drop_slot(s, last, left);
}

void sock_unpin_now(struct sock *s)
{
	uint32_t zero = 0;
	if (atomic_fetch_sub(&s->pins, 1) != 1 || atomic_load(&s->fds) != 0 ||
	    !atomic_compare_exchange_strong(&s->fds, &zero, UINT32_MAX))
		return;
	/* closed while a call was inside: whoever brings both to zero ends it */
	int saved = errno;
	sock_end(s, s->fd);
	fdtab_disown(s->fd);
	atomic_store(&s->stage, SOCK_PLAIN);
	sock_release(s);
	errno = saved;
}

static void find_fd(struct sock *s, int closing)
{
	for (int fd = 0; fd <= fdtab_highest; fd++)
		if (fd != closing && fdtab_sock(fd) == s) {
			s->fd = fd;
			if (s->slot && s->link && slot_lane(s->slot))
				atomic_store(&slot_lane(s->slot)->end[s->slot->side].fd, fd);
			return;
		}
}

static void end_unpinned(struct sock *s)
{
	uint32_t zero = 0;
	if (atomic_load(&s->pins) != 0 || !atomic_compare_exchange_strong(&s->fds, &zero, UINT32_MAX))
		return;
	if (s->fd >= 0) {
		sock_end(s, s->fd);
		fdtab_disown(s->fd);
	}
	atomic_store(&s->stage, SOCK_PLAIN);
	sock_release(s);
}

void sock_detach(struct sock *s, int file)
{
	waitset_drop(s);
	for (int fd = 0; fd <= fdtab_highest; fd++)
		if (fdtab_sock(fd) == s)
			fdtab_set(fd, 0);
	s->fd = file;
	if (s->link && slot_lane(s->slot))
		atomic_store(&slot_lane(s->slot)->end[s->slot->side].fd, file);
	atomic_store(&s->fds, 0);
	end_unpinned(s);
}

/* file: fd, or -1 where the number means another file by now. */
static void drop_number(struct sock *s, int fd, int file)
{
	if (fdtab_set(fd, 0) != ((uintptr_t)s | FD_SOCK))
		return; /* another thread closes the same number */
	/* the last one keeps fds at one until it is through, so that nobody else ends the socket meanwhile */
	uint32_t n = atomic_load(&s->fds);
	while (n > 1 && !atomic_compare_exchange_weak(&s->fds, &n, n - 1))
		;
	bool last = n == 1;
	if (!last && s->fd == fd)
		find_fd(s, fd);
	waitset_forget(s, fd, file >= 0, last);
	if (!last)
		return;
	if (atomic_load(&s->stage) == SOCK_LISTENER && !s->forked)
		registry_unlisten(&s->at);
	sock_unpublish(s);
	/* A call of another thread is inside: as in the kernel the connection lives until it returns, by a copy of the
	 * descriptor. (fds is still one, so that nobody else ends it meanwhile.) */
	int kept = s->fd; /* such a copy of an earlier last close, after which another thread's dup brought the socket back */
	if (kept < 0 || fd_kind(fdtab_get(kept)) != FD_OWN)
		kept = -1;
	if (atomic_load(&s->pins)) {
		int copy = s->slot && kept < 0 ? real.fcntl(file, F_DUPFD_CLOEXEC, 3) : -1;
		s->fd = copy >= 0 ? fdtab_own(copy) : kept;
		if (s->slot && s->link && slot_lane(s->slot))
			atomic_store(&slot_lane(s->slot)->end[s->slot->side].fd, s->fd);
	} else {
		sock_end(s, file);
		s->fd = -1;
		fdtab_disown(kept);
	}
	if (atomic_fetch_sub(&s->fds, 1) != 1)
		return; /* one of those calls is a dup */
	end_unpinned(s);
}

void sock_close(struct sock *s, int fd)
{
	drop_number(s, fd, fd);
}

void sock_lost(struct sock *s, int fd)
{
	drop_number(s, fd, -1);
}

bool addr_from(const struct sockaddr *sa, socklen_t len, struct state_addr *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (len >= (socklen_t)sizeof(struct sockaddr_in) && sa->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)sa;
		ret->ip[10] = ret->ip[11] = 0xff;
		memcpy(ret->ip + 12, &in->sin_addr, 4);
		ret->port = ntohs(in->sin_port);
		ret->v4 = 1;
		return true;
	}
	if (len >= (socklen_t)sizeof(struct sockaddr_in6) && sa->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)sa;
		memcpy(ret->ip, &in->sin6_addr, 16);
		ret->port = ntohs(in->sin6_port);
		ret->v4 = IN6_IS_ADDR_V4MAPPED(&in->sin6_addr);
		return true;
	}
	return false;
}

bool addr_equal(const struct state_addr *a, const struct state_addr *b)
{
	return a->port == b->port && !memcmp(a->ip, b->ip, 16);
}

int sock_addrs(int fd, struct state_addr *ret_local, struct state_addr *ret_peer)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	if (ret_local && (real.getsockname(fd, (struct sockaddr *)&sa, &len) < 0 ||
			  !addr_from((struct sockaddr *)&sa, len, ret_local)))
		return -ENOTCONN;
	len = sizeof(sa);
	if (ret_peer && (real.getpeername(fd, (struct sockaddr *)&sa, &len) < 0 ||
			 !addr_from((struct sockaddr *)&sa, len, ret_peer)))
		return -ENOTCONN;
	return 0;
}

bool sock_slot(struct sock *s, int fd, enum state_role role, const struct state_addr *peer)
{
	struct state_addr local = s->local;
	if (role == ROLE_ACCEPT && sock_addrs(fd, &local, NULL) < 0)
		return false;
	struct slot *t = slot_new();
	if (!t) {
		sock_plain(s, REASON_LIMIT);
		return false;
	}
	t->local = local;
	t->peer = *peer;
	t->role = role;
	t->sent_syn = role == ROLE_CONNECT;
	t->sndbuf = s->sndbuf;
	t->rcvbuf = s->rcvbuf;
	t->timeouts = s->timeouts;
	socklen_t len = sizeof(t->cookie);
	real.getsockopt(fd, SOL_SOCKET, SO_COOKIE, &t->cookie, &len);
	int flags = real.fcntl(fd, F_GETFL);
	t->nonblock = flags >= 0 && flags & O_NONBLOCK;
	/* before this slot nobody followed what was set; options are inherited from listeners, too */
	t->never = flags >= 0 && flags & O_ASYNC ? REASON_SOCKOPT : kernel_options_set(fd);
	/* A fork by another thread gives connections a slot too, to count the child in: the first one stands. */
	struct slot *none = NULL;
	s->solo = !s->forked;
	if (!atomic_compare_exchange_strong(&s->slot, &none, t))
		slot_drop(t);
	return true;
}

void sock_each(void (*fn)(struct sock *s, void *arg), void *arg)
{
	for (unsigned i = 0; i < n_chunks; i++)
		for (int k = 0; k < CHUNK; k++) {
			struct sock *s = &chunk[i][k];
			uint32_t fds = atomic_load(&s->fds);
			if (fds && fds != UINT32_MAX)
				fn(s, arg);
		}
}

static void fork_one(struct sock *s, void *arg)
{
	(void)arg;
	if (s->slot && !slot_ours(s->slot)) {
		/* Made by another thread of the parent between the counting and the fork: the slot is not ours, and may be
		 * somebody else's by now. */
		s->slot = NULL;
		s->link = NULL;
		s->entry = -1;
		s->reason = REASON_HOLDERS;
		atomic_store(&s->stage, SOCK_PLAIN);
	}
	s->rx_inside = s->tx_inside = s->pins = 0; /* the other threads are not here */
	s->solo = 0;
	s->relisted = 0;
	s->handed = 0;
	s->inherited = 1;
	if (atomic_load(&s->stage) == SOCK_PUBLISHED) {
		s->entry = -1; /* the parent's */
		s->reason = REASON_HOLDERS;
		atomic_store(&s->stage, SOCK_PLAIN);
	}
}

void sock_fork_child(void)
{
	pthread_mutex_init(&sock_pool_lock, NULL);
	sock_each(fork_one, NULL);
}
