/* Taking over what the image before has handed (handover.h). Runs before main, in one thread. */
#include "preload/proc/adopt.h"
#include "preload/family.h"
#include "preload/io.h"
#include "preload/link/link.h"
#include "preload/proc/handover.h"
#include "preload/proc/process.h"
#include "preload/quiet.h"
#include "preload/real.h"
#include "preload/state.h"
#include "preload/stats/stats.h"
#include "preload/switch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEALS (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

struct adoption {
	struct handover_record *r;
	struct link_image *link;
	struct sock_image *sock;
	struct link *made[HANDOVER_LINKS_MAX];
	int first;                   /* number of a connection, -1 none yet */
};

/* The variable is for this image alone. */
static int take_variable(void)
{
	int fd = -1;
	char **to = environ;
	for (char **e = environ; e && *e; e++)
		if (!strncmp(*e, HANDOVER_VARIABLE, strlen(HANDOVER_VARIABLE)))
			fd = atoi(*e + strlen(HANDOVER_VARIABLE));
		else
			*to++ = *e;
	if (to)
		*to = NULL;
	return fd;
}

/* The record, mapped, where it is one that was made for this process: anybody can set a variable. */
static void *read_record(int fd, size_t *ret_size)
{
	struct stat st;
	uint8_t build[IMAGE_BUILD_MAX];
	int seals = real.fcntl(fd, F_GET_SEALS);
	if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) < 0 || st.st_uid != geteuid() ||
	    (uint64_t)st.st_size < sizeof(struct handover_record))
		return NULL;
	void *m = mmap(NULL, st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	if (m == MAP_FAILED)
		return NULL;
	const struct handover_record *r = m;
	if (r->magic == HANDOVER_MAGIC && r->version == HANDOVER_VERSION && r->build_size && r->build_size == image_build(build) &&
	    !memcmp(build, r->build, r->build_size) && (r->pid == getpid() || (!r->pid && r->parent == getppid())) && r->n_links <= HANDOVER_LINKS_MAX &&
	    r->n_socks <= HANDOVER_SOCKS_MAX &&
	    (uint64_t)st.st_size == sizeof(*r) + r->n_links * sizeof(struct link_image) + r->n_socks * sizeof(struct sock_image)) {
		*ret_size = st.st_size;
		return m;
	}
	munmap(m, st.st_size);
	return NULL;
}

/* Its number was out of the program's way in the image before, and is so still. */
static void own(int fd)
{
	if (fd < 0 || real.fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
		return;
	fdtab_set(fd, FD_OWN);
	USE(own_fds, 1);
}

static struct sock_image *by_cookie(struct adoption *a, int fd)
{
	uint64_t cookie;
	socklen_t len = sizeof(cookie);
	if (real.getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &len) < 0)
		return NULL;
	for (uint32_t i = 0; i < a->r->n_socks; i++)
		if (a->sock[i].cookie == cookie)
			return &a->sock[i];
	return NULL;
}

static bool bind_slot(struct adoption *a, const struct sock_image *from, struct sock *s, int fd)
{
	struct slot *t = from->slot < FAMILY_SLOTS ? &family->slot[from->slot] : NULL;
	if (!t || !t->used || t->cookie != from->cookie || !slot_ours(t))
		return false;
	if (a->r->locked)
		slot_locks_anew(t);
	s->solo = slot_sole(t);
	if (from->link >= 0) {
		struct link *l = (uint32_t)from->link < a->r->n_links ? a->made[from->link] : NULL;
		if (!l || from->lane >= LINK_LANES)
			return false;
		s->link = l;
		s->lane = from->lane;
		*slot_place(t) = (struct slot_place){&l->lane[s->lane], {link_area(l, s->lane, 0), link_area(l, s->lane, 1)}};
		l->by_lane[s->lane] = s;
		l->lanes_open++;
		USE(lanes_bound, 1);
		atomic_store(&l->lane[s->lane].end[t->side].pid, getpid());
		atomic_store(&l->lane[s->lane].end[t->side].fd, fd);
	}
	s->slot = t;
	return true;
}

static bool adopt_sock(struct adoption *a, struct sock_image *from, int fd)
{
	struct sock *s = from->taken >= 0 ? fdtab_sock(from->taken) : NULL;
	if (s) {
		sock_dup(s, fd);
		return true;
	}
	from->taken = fd;
	s = sock_new(fd, SOCK_PLAIN);
	if (!s)
		return false;
	if (a->first < 0)
		a->first = fd;
	s->calls = from->calls;
	s->reads = from->reads;
	s->lowat = from->lowat;
	s->sndbuf = from->sndbuf;
	s->rcvbuf = from->rcvbuf;
	s->timeouts = from->timeouts;
	s->role = from->role;
	s->domain = from->domain;
	s->reason = from->reason;
	s->forked = from->forked;
	s->inherited = from->inherited;
	s->local = from->local;
	s->at = from->at;
	s->kernel_events = EPOLLIN; /* what was latched is not known here: the first call looks */
	if (from->slot != UINT32_MAX && !bind_slot(a, from, s, fd))
		return false;
	atomic_store(&s->stage, from->stage);
	return true;
}

static bool adopt(struct adoption *a)
{
	own(a->r->family_fd);
	own(a->r->wakers.epochs);
	own(a->r->wakers.epochs_read);
	own(a->r->wakers.bell);
	for (uint32_t i = 0; i < a->r->n_links; i++)
		for (int k = 0; k < LINK_IMAGE_FDS; k++)
			own(a->link[i].fd[k]);
	if (family_adopt(a->r->family_fd, a->r->index) < 0)
		return false;
	if (!a->r->vforked)
		stats_carried(&a->r->counters);
	bool all = waker_adopt(&a->r->wakers) == 0;
	for (uint32_t i = 0; i < a->r->n_links; i++)
		all &= (a->made[i] = link_inherit(&a->link[i])) != NULL;
	for (int fd = 0; fd <= a->r->highest; fd++) {
		struct sock_image *from = fd_kind(fdtab_get(fd)) == FD_OWN ? NULL : by_cookie(a, fd);
		if (from)
			all &= adopt_sock(a, from, fd);
	}
	for (uint32_t i = 0; i < a->r->n_socks; i++)
		if (a->sock[i].taken < 0 && a->sock[i].slot < FAMILY_SLOTS)
			slot_release(&family->slot[a->sock[i].slot]); /* closed on the way */
	family_sweep();
	return all;
}

static void after_start(struct sock *s, void *arg)
{
	(void)arg;
	if (atomic_load(&s->stage) == SOCK_PUBLISHED && (!active || link_rendezvous() < 0 || !sock_publish(s)))
		sock_plain(s, REASON_LIMIT);
	else if (s->link)
		stats_row_new(s, s->fd);
}

/* Memory or descriptors ran out between the two images: whoever holds a number must not read bytes out of order. */
static void cut(struct adoption *a)
{
	for (int fd = 0; fd <= a->r->highest; fd++) {
		struct sock_image *from = fd_kind(fdtab_get(fd)) == FD_OWN ? NULL : by_cookie(a, fd);
		if (!from || from->link < 0 || (fdtab_sock(fd) && atomic_load(&fdtab_sock(fd)->stage) != SOCK_PLAIN))
			continue;
		struct linger reset = {1, 0};
		real.setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
		real.shutdown(fd, SHUT_RDWR);
		log_message(LOG_ERROR, "fd %d: could not be taken over at exec (no memory): the connection is ended", fd);
	}
}

void handover_adopt(void)
{
	size_t size;
	int fd = take_variable();
	if (fd < 0 || getauxval(AT_SECURE))
		return;
	struct adoption a = {.r = read_record(fd, &size), .first = -1};
	if (!a.r)
		return;
	a.link = (struct link_image *)(a.r + 1);
	a.sock = (struct sock_image *)(a.link + a.r->n_links);
	quiet_close(fd);
	bool all = adopt(&a);
	if (a.first >= 0 && state_start(a.first))
		process_watch_forks();
	if (!all)
		cut(&a);
	sock_each(after_start, NULL);
	log_message(LOG_DEBUG, "%u connections and %u links came over from the image before", a.r->n_socks, a.r->n_links);
	munmap(a.r, size);
}
