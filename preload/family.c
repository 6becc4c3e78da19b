#include "preload/family.h"
#include "common/reasons.h"
#include "preload/fdtab.h"
#include "preload/quiet.h"
#include "preload/real.h"
#include "preload/state.h"
#include "preload/stats/stats.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

struct family *family;
int family_self = -1, family_fd = -1;
struct slot_place *slot_places;
bool family_lifeless;

static void robust_init(pthread_mutex_t *m)
{
	pthread_mutexattr_t a;
	pthread_mutexattr_init(&a);
	pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(m, &a);
	pthread_mutexattr_destroy(&a);
}

static void family_lock(void)
{
	critical_enter();
	if (pthread_mutex_lock(&family->lock) == EOWNERDEAD)
		pthread_mutex_consistent(&family->lock); /* allocation steps are ordered so that a cut loses one slot at most */
}

static void family_unlock(void)
{
	pthread_mutex_unlock(&family->lock);
	critical_leave();
}

/* A memfd, so that an image that we exec can have it too; where there is none anonymous memory will do. */
static struct family *family_map(int *ret_fd)
{
	struct family *f = MAP_FAILED;
	int fd = file_size_allowed(sizeof(*f)) ? memfd_create("hasten-family", MFD_CLOEXEC | MFD_ALLOW_SEALING) : -1;
	if (fd >= 0 && (ftruncate(fd, sizeof(*f)) < 0 || real.fcntl(fd, F_ADD_SEALS, SEALS) < 0 ||
			(f = mmap(NULL, sizeof(*f), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED)) {
		quiet_close(fd);
		fd = -1;
	}
	*ret_fd = fd;
	if (fd < 0)
		f = mmap(NULL, sizeof(*f), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return f;
}

static bool places_map(void)
{
	void *m = mmap(NULL, FAMILY_SLOTS * sizeof(*slot_places), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (m == MAP_FAILED)
		return false;
	slot_places = m;
	return true;
}

int family_start(void)
{
	int fd;
	if (!slot_places && !places_map())
		return -ENOMEM;
	struct family *f = family_map(&fd);
	if (f == MAP_FAILED)
		return -errno;
	family_fd = fdtab_own(fd);
	robust_init(&f->lock);
	robust_init(&f->process[0].life);
	pthread_mutex_lock(&f->process[0].life);
	f->process[0].pid = getpid();
	f->process[FAMILY_OTHERS].pid = -1; /* never free, never dead */
	family_self = 0;
	family = f;
	memory_use->family_reserved = sizeof(*f);
	return 0;
}

int family_adopt(int fd, int index)
{
	struct stat st;
	int seals = real.fcntl(fd, F_GET_SEALS);
	if (index < 0 || index >= FAMILY_OTHERS || seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) < 0 ||
	    (uint64_t)st.st_size != sizeof(struct family))
		return -EPROTO;
	if (!slot_places && !places_map())
		return -ENOMEM;
	struct family *f = mmap(NULL, sizeof(*f), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (f == MAP_FAILED)
		return -errno;
	family = f;
	family_fd = fd;
	family_self = index;
	f->process[index].pid = getpid(); /* before the lock: one that finds it without owner asks for the pid */
	int r = pthread_mutex_lock(&f->process[index].life);
	if (r == EOWNERDEAD)
		pthread_mutex_consistent(&f->process[index].life); /* the image before us, or its thread, had it */
	memory_use->family_reserved = sizeof(*f);
	return 0;
}

struct slot *slot_new(void)
{
	struct slot *s = NULL;
	if (family_self < 0 || family_lifeless)
		return NULL; /* a child without an index, or a life lock, of its own */
	family_lock();
	if (family->free_slots)
		s = &family->slot[family->free_slot[--family->free_slots]];
	else if (family->next_slot < FAMILY_SLOTS)
		s = &family->slot[family->next_slot++];
	family_unlock();
	if (!s)
		return NULL;
	memset(s, 0, sizeof(*s));
	s->index = s - family->slot;
	*slot_place(s) = (struct slot_place){0};
	robust_init(&s->tx.lock);
	robust_init(&s->rx.lock);
	s->tx.reason = s->rx.reason = REASON_NEW;
	s->holders[family_self / 64] = 1ull << (family_self % 64);
	s->used = 1;
	return s;
}

void slot_locks_anew(struct slot *s)
{
	robust_init(&s->tx.lock);
	robust_init(&s->rx.lock);
}

void slot_release(struct slot *s)
{
	if (family_self >= 0)
		atomic_fetch_and(&s->holders[family_self / 64], ~(1ull << (family_self % 64)));
}

bool slot_ours(struct slot *s)
{
	int index = family_self >= 0 ? family_self : FAMILY_OTHERS;
	return atomic_load(&s->holders[index / 64]) & 1ull << (index % 64);
}

static bool slot_held(struct slot *s)
{
	for (int i = 0; i < FAMILY_PROCESSES / 64; i++)
		if (s->holders[i])
			return true;
	return false;
}

void slot_drop(struct slot *s)
{
	if (family_self < 0)
		return;
	atomic_fetch_and(&s->holders[family_self / 64], ~(1ull << (family_self % 64)));
	family_lock();
	if (s->used && !slot_held(s)) {
		s->used = 0;
		family->free_slot[family->free_slots++] = s - family->slot;
	}
	family_unlock();
}

void family_sweep(void)
{
	family_lock();
	for (uint32_t i = 0; i < family->next_slot; i++) {
		struct slot *s = &family->slot[i];
		if (!s->used || slot_held(s))
			continue;
		s->used = 0;
		family->free_slot[family->free_slots++] = i;
	}
	family_unlock();
}

/* A process whose life lock says that its owner died, and whose pid is gone. A main thread that ended by
 * pthread_exit looks dead to the lock only. */
static bool process_dead(int index)
{
	struct family_process *p = &family->process[index];
	if (p->pid == -1)
		return false; /* being forked, or FAMILY_OTHERS */
	if (p->maker) { /* until it is waited for */
		int pid = p->pid;
		return p->maker == getpid() && pid > 0 && kill(pid, 0) < 0 && errno == ESRCH;
	}
	int r = pthread_mutex_trylock(&p->life);
	if (r == EBUSY)
		return false;
	if (r == EOWNERDEAD)
		pthread_mutex_consistent(&p->life);
	if (r == 0 || r == EOWNERDEAD)
		pthread_mutex_unlock(&p->life);
	int pid = p->pid;
	return pid == 0 || (kill(pid, 0) < 0 && errno == ESRCH);
}

bool slot_sole(struct slot *s)
{
	int saved = errno;
	bool sole = family_self >= 0;
	for (int i = 0; i < FAMILY_PROCESSES / 64; i++) {
		uint64_t others = s->holders[i];
		if (family_self >= 0 && i == family_self / 64)
			others &= ~(1ull << (family_self % 64));
		for (; others; others &= others - 1) {
			int index = i * 64 + __builtin_ctzll(others);
			if (process_dead(index))
				atomic_fetch_and(&s->holders[i], ~(1ull << (index % 64)));
			else
				sole = false;
		}
	}
	errno = saved;
	return sole;
}

int family_fork_prepare(bool lifeless)
{
	int index = -1;
	if (!family)
		return -1;
	family_lock();
	for (int i = 0; i < FAMILY_PROCESSES && index < 0; i++)
		if (family->process[i].pid == 0)
			index = i;
	for (int i = 0; i < FAMILY_PROCESSES && index < 0; i++)
		if (i != family_self && process_dead(i)) {
			for (uint32_t k = 0; k < family->next_slot; k++)
				atomic_fetch_and(&family->slot[k].holders[i / 64], ~(1ull << (i % 64)));
			index = i;
		}
	if (index >= 0) {
		robust_init(&family->process[index].life);
		family->process[index].maker = lifeless ? getpid() : 0;
		family->process[index].pid = -1; /* taken; the child writes its pid */
	}
	family_unlock();
	return index;
}

void slot_share(struct slot *s, int index)
{
	if (index < 0)
		index = FAMILY_OTHERS;
	atomic_fetch_or(&s->holders[index / 64], 1ull << (index % 64));
}

void family_fork_parent(int index, int pid)
{
	if (index < 0)
		return;
	if (pid > 0) {
		int taken = -1;
		atomic_compare_exchange_strong(&family->process[index].pid, &taken, pid);
		return;
	}
	for (uint32_t k = 0; k < family->next_slot; k++)
		atomic_fetch_and(&family->slot[k].holders[index / 64], ~(1ull << (index % 64)));
	family->process[index].pid = 0;
}

void family_fork_child(int index, bool lifeless)
{
	family_self = index;
	family_lifeless = lifeless;
	if (index < 0 || lifeless)
		return; /* in a pid name space of its own it does not know what its maker calls it */
	family->process[index].pid = getpid();
	pthread_mutex_lock(&family->process[index].life);
}

void dir_lock(struct slot_dir *d)
{
	critical_enter();
	if (pthread_mutex_lock(&d->lock) == EOWNERDEAD) {
		pthread_mutex_consistent(&d->lock); /* a copy was cut: nothing of it was published */
		d->orphaned = 1;
	}
}

void dir_unlock(struct slot_dir *d)
{
	pthread_mutex_unlock(&d->lock);
	critical_leave();
}
