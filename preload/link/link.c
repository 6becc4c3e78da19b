#include "preload/link/link_inner.h"
#include "preload/discover/registry.h"
#include "preload/family.h"
#include "preload/fdtab.h"
#include "preload/quiet.h"
#include "preload/real.h"
#include "preload/state.h"
#include "preload/stats/stats.h"
#include "preload/wait/waker.h"

#include <errno.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define OWN_FDS_MAX 256
#define LANE_LOOKS 16

struct link *links;
pthread_mutex_t links_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t link_walk_lock = PTHREAD_MUTEX_INITIALIZER;
_Atomic uint32_t links_any;
static uint32_t serial;

#define TABLES (LINK_LANES * (sizeof(struct sock *) + sizeof(struct link_left) + sizeof(uint32_t) + sizeof(uint16_t)))

struct link *link_new(void)
{
	size_t size = (sizeof(struct link) + 4095) & ~4095ul;
	size_t lanes = LINK_LANES * sizeof(struct sock *), left = LINK_LANES * sizeof(struct link_left);
	uint8_t *m = mmap(NULL, size + TABLES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (m == MAP_FAILED)
		return NULL;
	struct link *l = (struct link *)m;
	l->by_lane = (struct sock **)(m + size);
	l->left = (struct link_left *)(m + size + lanes);
	l->quiet = (uint32_t *)(m + size + lanes + left);
	l->closing = (uint16_t *)(l->quiet + LINK_LANES);
	l->serial = ++serial;
	l->socket = l->memory = l->epochs_fd = -1;
	l->peer_bell = -1;
	for (int i = 0; i < LINK_WAITERS; i++)
		l->peer_wakefd[i] = -1;
	return l;
}

void link_discard(struct link *l)
{
	for (int w = 0; w < LINK_WAITERS; w++)
		fdtab_disown(l->peer_wakefd[w]);
	fdtab_disown(l->peer_bell);
	fdtab_disown(l->memory);
	fdtab_disown(l->epochs_fd);
	if (l->peer_epochs)
		munmap((void *)l->peer_epochs, sizeof(*l->peer_epochs));
	if (l->header)
		munmap(l->header, LINK_SIZE);
	munmap(l, ((sizeof(struct link) + 4095) & ~4095ul) + TABLES);
}

int link_map(struct link *l, int fd)
{
	uint8_t *m = mmap(NULL, LINK_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (m == MAP_FAILED)
		return -errno;
	madvise(m, LINK_SIZE, MADV_DONTDUMP);
	l->header = (struct link_header *)m;
	l->news = (struct link_news *)(m + LINK_NEWS_OFFSET);
	l->lane = (struct link_lane *)(m + LINK_LANE_OFFSET);
	l->rings = m + LINK_RING_OFFSET;
	return 0;
}

void link_enter(struct link *l)
{
	own_lock(&links_lock);
	l->next = links;
	links = l;
	own_unlock(&links_lock);
	atomic_store(&links_any, 1);
	COUNT(links, 1);
	USE(links_open, 1);
	USE(ring_reserved, LINK_SIZE);
}

static uint64_t fd_budget(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_max / 4 > OWN_FDS_MAX)
		return OWN_FDS_MAX;
	return limit.rlim_max / 4;
}

bool link_fd_room(void)
{
	return IN_USE(own_fds) + 4 <= fd_budget();
}

int link_keep(int fd)
{
	if (IN_USE(own_fds) <= fd_budget() / 4)
		return fdtab_own(fd);
	quiet_close(fd);
	return -1;
}

int link_to(const struct registry_hit *hit, struct link **ret, uint32_t *ret_lane)
{
	struct link *found = NULL;
	int lane = -1;
	own_lock(&links_lock);
	for (struct link *l = links; l && !found; l = l->next)
		if (l->side == 0 && !l->dead && !l->inherited && l->peer == hit->process && (lane = link_lane_take(l)) >= 0)
			found = l;
	if (found)
		found->lanes_open++; /* keeps it from being given back before the caller has bound its lane */
	own_unlock(&links_lock);
	if (!found) {
		link_reap(); /* room for a new one */
		int r = link_knock(hit, &found);
		if (r < 0)
			return r;
		own_lock(&links_lock);
		lane = link_lane_take(found);
		own_unlock(&links_lock);
	}
	*ret = found;
	*ret_lane = lane;
	return 0;
}

static void lane_reset(struct link *l, uint32_t index)
{
	struct link_lane *lane = &l->lane[index];
	atomic_store(&lane->token, 0); /* before the closed marks */
	for (int d = 0; d < 2; d++) {
		ring_reset((struct ring){&lane->dir[d], link_area(l, index, d)});
		atomic_store(&lane->end[d].waiters, 0);
		atomic_store(&lane->end[d].closed, 0);
		atomic_store(&lane->end[d].rcvbuf, 0);
		atomic_store(&lane->final[d], 0);
	}
	atomic_store(&lane->reason, 0);
	atomic_store(&lane->state, LANE_FREE);
}

/* A lane that this process gave up: has it been given up by the whole family? Where the others were killed nobody else
 * says so. */
static bool closed_here(struct link *l, uint32_t index)
{
	struct link_left *left = &l->left[index];
	_Atomic uint32_t *closed = &l->lane[index].end[l->side].closed;
	if (left->slot) {
		family_lock();
		bool ended = slot_abandoned(left->slot - 1, left->serial);
		/* Under the lock: of several who find it out one says so. In this order: it may be another connection's by now,
		 * and a lane that begins anew loses its token first. */
		if (ended && !atomic_load(closed) && atomic_load(&l->lane[index].token) == left->token)
			atomic_store(closed, 1);
		family_unlock();
		if (!ended)
			return false;
		left->slot = 0;
		l->n_left--;
	}
	return l->side == 1 || atomic_load(closed);
}

bool link_lane_closed(struct link *l, uint32_t lane)
{
	return closed_here(l, lane) &&
	       (atomic_load(&l->lane[lane].state) == LANE_REFUSED || atomic_load(&l->lane[lane].end[1].closed));
}

/* Out of the way of those that come next. */
static void sink(struct link *l, uint32_t at)
{
	uint32_t to = l->sunk++ % l->n_closing;
	uint16_t index = l->closing[at];
	l->closing[at] = l->closing[to];
	l->closing[to] = index;
}

int link_lane_take(struct link *l)
{
	/* Given up by both sides: newest first, its pages are warm. A few looks, then a fresh one; when there is none, all. */
	uint32_t looks = l->lanes_used == LINK_LANES ? l->n_closing : LANE_LOOKS;
	for (uint32_t k = 0; k < looks && k < l->n_closing; k++) {
		uint32_t at = l->n_closing - 1 - k, index = l->closing[at];
		if (!link_lane_closed(l, index)) {
			sink(l, at);
			continue;
		}
		l->closing[at] = l->closing[--l->n_closing];
		lane_reset(l, index);
		return index;
	}
	if (l->lanes_used == LINK_LANES)
		return -1;
	for (int i = 0; i < 2 * RING_CLASSES; i++) /* no pages yet */
		atomic_store(&l->lane[l->lanes_used].dir[i & 1].start[i / 2], OFFSET_NONE);
	lane_reset(l, l->lanes_used);
	return l->lanes_used++;
}

/* Connector: the acceptor waits for the end of lanes that killed processes of ours held. */
static void look_at_left(struct link *l)
{
	for (uint32_t k = 0; k < 2 && l->n_left && l->n_closing; k++) {
		uint32_t at = l->sunk++ % l->n_closing;
		if (closed_here(l, l->closing[at]))
			l->closing[at] = l->closing[--l->n_closing];
	}
}

void link_lane_done(struct link *l, uint32_t lane, const struct link_left *held)
{
	own_lock(&links_lock);
	l->by_lane[lane] = NULL;
	/* After our own table: the acceptor may offer the lane again at once, and another thread take that offer. */
	if (!held)
		atomic_store(&l->lane[lane].end[l->side].closed, 1);
	bool last = --l->lanes_open == 0;
	if (l->side == 0 ? !l->inherited : held != NULL) {
		if (l->left[lane].slot)
			l->n_left--;
		l->left[lane] = held ? *held : (struct link_left){0};
		l->n_left += held != NULL;
		if (l->n_closing < LINK_LANES)
			l->closing[l->n_closing++] = lane;
	}
	if (l->side == 1)
		look_at_left(l);
	USE(lanes_bound, -1);
	own_unlock(&links_lock);
	if (last)
		link_reap();
}

static bool peer_gone(struct link *l)
{
	struct pollfd p = {l->socket, POLLRDHUP, 0};
	return l->socket < 0 || (quiet_poll(&p, 1) == 1 && p.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

void link_reap(void)
{
	int saved = errno;
	critical_enter();
	if (pthread_mutex_trylock(&link_walk_lock)) { /* somebody walks over them: another time */
		critical_leave();
		return;
	}
	own_lock(&links_lock);
	for (struct link **at = &links, *l; (l = *at);) {
		if (l->lanes_open || !peer_gone(l)) {
			at = &l->next;
			continue;
		}
		*at = l->next;
		fdtab_disown(l->socket);
		link_discard(l);
		USE(links_open, -1);
		USE(ring_reserved, -LINK_SIZE);
	}
	own_unlock(&links_lock);
	own_unlock(&link_walk_lock);
	errno = saved;
}

void link_fork_prepare(void)
{
	for (struct link *l = links; l; l = l->next)
		if (!l->complete)
			l->forked_early = 1;
}

void link_fork_child(void)
{
	pthread_mutex_init(&links_lock, NULL);
	pthread_mutex_init(&link_rendezvous_lock, NULL);
	pthread_mutex_init(&link_receive_lock, NULL);
	pthread_mutex_init(&link_walk_lock, NULL);
	identity_renew();
	link_rendezvous_close();
	for (struct link *l = links; l; l = l->next) {
		l->inherited = 1;
		l->sent_wakefds = l->kept_wakefds = 0; /* those were the parent's words */
		for (; l->n_closing; l->n_closing--) /* and lanes that it gave up */
			l->left[l->closing[l->n_closing - 1]].slot = 0;
		l->n_left = 0;
	}
}

void link_forget(void)
{
	identity_renew();
	link_rendezvous_close();
	for (struct link *l = links; l; l = l->next)
		l->dead = 1;
}
