/* Handing over, in the image that calls exec; adopt.c is the other half. */
#include "preload/proc/handover.h"
#include "preload/family.h"
#include "preload/io.h"
#include "preload/link/inherit.h"
#include "preload/proc/adopt.h"
#include "preload/proc/limits.h"
#include "preload/proc/locks.h"
#include "preload/quiet.h"
#include "preload/real.h"
#include "preload/state.h"
#include "preload/stats/stats.h"
#include "preload/switch.h"
#include "preload/wait/waitset.h"
#include "preload/wait/waker.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct by_cookie {
	uint64_t cookie;
	struct sock *found;
};

static void match(struct sock *s, void *arg)
{
	struct by_cookie *b = arg;
	if (s->slot && s->slot->cookie == b->cookie)
		b->found = s;
}

/* What a number of a vfork child means: it has descriptors of its own under the parent's table. */
static struct sock *meant(int fd)
{
	struct by_cookie b = {0, NULL};
	socklen_t len = sizeof(b.cookie);
	if (real.getsockopt(fd, SOL_SOCKET, SO_COOKIE, &b.cookie, &len) < 0)
		return NULL;
	struct sock *s = fdtab_sock(fd);
	if (s && s->slot && s->slot->cookie == b.cookie)
		return s;
	sock_each(match, &b);
	return b.found;
}

void kept_each(bool actions, void (*fn)(struct sock *s, int fd, void *arg), void *arg)
{
	int last = fdtab_highest;
	bool vforked = self_thread.vfork_child;
	if (vforked && last < 1023)
		last = 1023;
	for (int fd = 0; fd <= last; fd++) {
		if (!vforked && !fdtab_sock(fd))
			continue;
		int flags = fd_kind(fdtab_get(fd)) == FD_OWN ? -1 : real.fcntl(fd, F_GETFD);
		struct sock *s = flags < 0 || (flags & FD_CLOEXEC && !actions) ? NULL : vforked ? meant(fd) : fdtab_sock(fd);
		if (s && (!(flags & FD_CLOEXEC) || s->in_actions))
			fn(s, fd, arg);
	}
}

/* What an image that knows nothing of it could do wrong by, or could go on with. */
static bool concerns(struct sock *s)
{
	uint32_t stage = atomic_load(&s->stage);
	return stage >= SOCK_ACCEPTED || (s->slot && sock_watched(s));
}

struct listing {
	struct handover *h;
	size_t room, n;
};

static void list(struct sock *s, int fd, void *arg)
{
	struct listing *l = arg;
	struct handover *h = l->h;
	if (!concerns(s))
		return;
	h->highest = fd;
	for (size_t i = 0; i < l->n && i < l->room && (self_thread.vfork_child || atomic_load(&s->fds) > 1); i++)
		if (h->kept[i].sock == s)
			return;
	if (l->n < l->room)
		h->kept[l->n] = (struct kept){s, s->slot, false};
	l->n++;
}

bool handover_look(struct handover *h, struct kept *room, size_t n, bool spawn, bool actions)
{
	*h = (struct handover){.kept = room, .fd = -1, .index = -1, .spawn = spawn};
	if (!family || family_fd < 0 || family_self < 0 || family_lifeless)
		return false;
	struct listing l = {h, n, 0};
	kept_each(actions, list, &l);
	if (l.n > n) {
		/* memory that is mapped in a vfork child stays with the parent */
		size_t size = (l.n + 16) * sizeof(*room);
		void *m = self_thread.vfork_child ? MAP_FAILED :
			  mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (m == MAP_FAILED)
			return false;
		h->mapped = size;
		h->kept = m;
		l = (struct listing){h, size / sizeof(*room), 0};
		kept_each(actions, list, &l);
		if (l.n > l.room)
			l.n = l.room;
	}
	h->n_kept = l.n;
	if (actions && h->highest < 1023)
		h->highest = 1023; /* an action may put it anywhere */
	if (!l.n)
		handover_end(h);
	return l.n > 0;
}

void handover_end(struct handover *h)
{
	if (h->mapped)
		munmap(h->kept, h->mapped);
	h->mapped = h->n_kept = 0;
}

/* Is this thread the only one of its process? libc forgets it in the child of a process that had others. */
static bool one_thread(void)
{
	struct stat st;
	return alone() || (stat("/proc/self/task", &st) == 0 && st.st_nlink == 3);
}

static bool can_go(struct kept *k, bool shared, bool threads)
{
	struct sock *s = k->sock;
	struct slot *t = k->slot;
	uint32_t stage = atomic_load(&s->stage);
	if (t != s->slot || waitset_kept(s))
		return false;
	if (stage == SOCK_ACCEPTED || stage == SOCK_PUBLISHED)
		return !shared || (t && stage == SOCK_ACCEPTED);
	return stage > SOCK_PUBLISHED && t && s->link && slot_lane(t) && link_portable(s->link, shared) && !atomic_load(&t->rx.guests) &&
	       (!threads || slot_sole(t));
}

/* Which of the links go over: those of the connections that do. */
static bool link_goes(const struct handover *h, const struct link *l)
{
	for (size_t i = 0; i < h->n_kept; i++)
		if (h->kept[i].goes && h->kept[i].sock->link == l)
			return true;
	return false;
}

/* FD_CLOEXEC of all that the next image needs. */
static bool stay_open(struct handover *h, bool open)
{
	int flags = open ? 0 : FD_CLOEXEC;
	struct waker_image wakers;
	bool all = waker_portable(&wakers);
	const int fds[] = {family_fd, h->fd, wakers.epochs, wakers.epochs_read, wakers.bell};
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] >= 0)
			all &= real.fcntl(fds[i], F_SETFD, flags) == 0;
	for (struct link *l = links; l; l = l->next) {
		struct link_image image;
		if (!link_goes(h, l))
			continue;
		link_describe(l, &image);
		for (int i = 0; i < LINK_IMAGE_FDS; i++)
			if (image.fd[i] >= 0)
				all &= real.fcntl(image.fd[i], F_SETFD, flags) == 0;
	}
	return all;
}

static bool put(int fd, const void *what, size_t n)
{
	return quiet_write(fd, what, n) == (ssize_t)n;
}

static int32_t number_of(const struct handover *h, const struct link *link)
{
	int32_t n = 0;
	for (struct link *l = links; l; l = l->next) {
		if (l == link)
			return n;
		n += link_goes(h, l);
	}
	return -1;
}

static void describe(struct kept *k, const struct handover *h, struct sock_image *ret)
{
	struct sock *s = k->sock;
	*ret = (struct sock_image){.cookie = k->slot ? k->slot->cookie : 0, .slot = k->slot ? k->slot->index : UINT32_MAX,
				   .stage = s->stage, .link = s->link ? number_of(h, s->link) : -1, .lane = s->lane, .taken = -1,
				   .calls = s->calls, .reads = s->reads, .lowat = s->lowat, .sndbuf = s->sndbuf,
				   .rcvbuf = s->rcvbuf, .timeouts = s->timeouts, .role = s->role, .domain = s->domain,
				   .reason = s->reason, .forked = s->forked, .inherited = s->inherited || h->index >= 0,
				   .local = s->local, .at = s->at};
	socklen_t len = sizeof(ret->cookie);
	if (!k->slot)
		real.getsockopt(s->fd, SOL_SOCKET, SO_COOKIE, &ret->cookie, &len);
}

static bool write_record(struct handover *h)
{
	struct handover_record r = {.magic = HANDOVER_MAGIC, .version = HANDOVER_VERSION, .pid = h->spawn ? 0 : getpid(), .parent = getpid(), .family_fd = family_fd,
				    .index = h->index >= 0 ? h->index : family_self, .highest = h->highest, .vforked = h->index >= 0,
				    .locked = h->locked && !h->spawn};
	r.build_size = image_build(r.build);
	if (!waker_portable(&r.wakers))
		return false;
	if (h->index < 0)
		stats_carry(&r.counters);
	for (struct link *l = links; l; l = l->next)
		r.n_links += link_goes(h, l);
	for (size_t i = 0; i < h->n_kept; i++)
		r.n_socks += h->kept[i].goes;
	size_t size = sizeof(r) + r.n_links * sizeof(struct link_image) + r.n_socks * sizeof(struct sock_image);
	if (r.n_links > HANDOVER_LINKS_MAX || r.n_socks > HANDOVER_SOCKS_MAX || !file_size_allowed(size))
		return false;
	h->fd = memfd_create("hasten-handover", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (h->fd < 0 || !put(h->fd, &r, sizeof(r)))
		return false;
	for (struct link *l = links; l; l = l->next) {
		struct link_image image = {0};
		if (!link_goes(h, l))
			continue;
		link_describe(l, &image);
		if (!put(h->fd, &image, sizeof(image)))
			return false;
	}
	for (size_t i = 0; i < h->n_kept; i++) {
		struct sock_image image;
		if (!h->kept[i].goes)
			continue;
		describe(&h->kept[i], h, &image);
		if (!put(h->fd, &image, sizeof(image)))
			return false;
	}
	return real.fcntl(h->fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
}

/* Other threads: nobody is inside a direction, a promotion or a table of ours from here on. A promotion takes the fork's
 * lock under tx, an agreement takes rx under the fork's. */
static bool stop_threads(struct handover *h)
{
	critical_enter();
	for (size_t i = 0; i < h->n_kept; i++)
		if (h->kept[i].goes && h->kept[i].slot)
			dir_lock(&h->kept[i].slot->tx);
	pthread_mutex_lock(&switch_fork_lock);
	for (size_t i = 0; i < h->n_kept; i++)
		if (h->kept[i].goes && h->kept[i].slot)
			dir_lock(&h->kept[i].slot->rx);
	h->table_locks = locks_hold();
	limits_hold(); /* a limit that is raised for a moment would be the next image's */
	h->locked = true;
	bool same = true;
	for (size_t i = 0; i < h->n_kept; i++) {
		struct kept *k = &h->kept[i];
		same &= !k->goes || (k->sock->slot == k->slot && atomic_load(&k->sock->fds) && (!k->slot || slot_sole(k->slot)));
	}
	return same;
}

static void go_on_threads(struct handover *h)
{
	if (!h->locked)
		return;
	h->locked = false;
	limits_release();
	locks_release(h->table_locks);
	for (size_t i = 0; i < h->n_kept; i++)
		if (h->kept[i].goes && h->kept[i].slot)
			dir_unlock(&h->kept[i].slot->rx);
	pthread_mutex_unlock(&switch_fork_lock);
	for (size_t i = 0; i < h->n_kept; i++)
		if (h->kept[i].goes && h->kept[i].slot)
			dir_unlock(&h->kept[i].slot->tx);
	critical_leave();
}

/* An index and a share in each connection for the next image of a child: its parent goes on with them. */
static bool own_share(struct handover *h)
{
	h->index = family_fork_prepare(false);
	if (h->index < 0)
		return false;
	if (!h->spawn)
		family->process[h->index].pid = getpid(); /* killed from here on it is found dead */
	for (size_t i = 0; i < h->n_kept; i++)
		if (h->kept[i].goes) {
			slot_share(h->kept[i].slot, h->index);
			h->kept[i].sock->solo = 0; /* the parent's word: from now on it locks */
		}
	return true;
}

/* In this process another image goes on beside the next one. */
static bool shared(const struct handover *h)
{
	return h->spawn || self_thread.vfork_child;
}

bool handover_choose(struct handover *h)
{
	bool any = false;
	h->threads = !shared(h) && !one_thread();
	for (size_t i = 0; i < h->n_kept; i++) {
		struct kept *k = &h->kept[i];
		/* as before a fork: from here on two processes hold it, and slots are what counts them */
		if (h->spawn && !k->slot && atomic_load(&k->sock->stage) == SOCK_ACCEPTED &&
		    sock_slot(k->sock, k->sock->fd, ROLE_ACCEPT, &k->sock->at))
			k->slot = k->sock->slot;
		k->goes = can_go(k, shared(h), h->threads);
		any |= k->goes;
		if (!shared(h))
			k->sock->handed = k->goes;
	}
	return any;
}

bool handover_prepare(struct handover *h)
{
	if (h->threads && !stop_threads(h))
		return false;
	if (h->spawn) {
		critical_enter();
		pthread_mutex_lock(&switch_fork_lock); /* as a fork: no promotion by who counts the holders before us */
		h->locked = true;
	}
	/* other threads, a vfork child's parent's too, run on: none of them gives a link back meanwhile */
	if (shared(h) && pthread_mutex_trylock(&link_walk_lock))
		return false;
	bool ready = (!shared(h) || own_share(h)) && write_record(h) && stay_open(h, true);
	if (shared(h))
		pthread_mutex_unlock(&link_walk_lock);
	snprintf(h->variable, sizeof(h->variable), HANDOVER_VARIABLE "%d", h->fd);
	return ready;
}

static void close_record(struct handover *h)
{
	bool walk = shared(h);
	for (int i = 0; walk && i < 1000 && pthread_mutex_trylock(&link_walk_lock); i++)
		if (i == 999)
			walk = false;
		else
			sched_yield();
	if (walk || !shared(h))
		stay_open(h, false);
	if (walk)
		pthread_mutex_unlock(&link_walk_lock);
	if (h->fd >= 0)
		quiet_close(h->fd);
	h->fd = -1;
}

void handover_spawned(struct handover *h, int pid)
{
	int saved = errno;
	close_record(h);
	if (h->index >= 0)
		family_fork_parent(h->index, pid);
	h->index = -1;
	if (h->locked) {
		h->locked = false;
		pthread_mutex_unlock(&switch_fork_lock);
		critical_leave();
	}
	errno = saved;
}

void handover_undo(struct handover *h)
{
	int saved = errno;
	close_record(h);
	if (h->index >= 0)
		family_fork_parent(h->index, -1);
	h->index = -1;
	go_on_threads(h);
	for (size_t i = 0; i < h->n_kept && !shared(h); i++)
		h->kept[i].sock->handed = 0;
	errno = saved;
}
