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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
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

void family_lock(void)
{
	critical_enter();
	if (pthread_mutex_lock(&family->lock) == EOWNERDEAD)
		pthread_mutex_consistent(&family->lock); /* allocation steps are ordered so that a cut loses one slot at most */
}

void family_unlock(void)
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

/* This process stands for its index from here on. */
static void enter(int index)
{
	struct family_process *p = &family->process[index];
	struct timespec t;
	p->pid = getpid(); /* before the lock: one that finds it without owner asks for the pid */
	if (pthread_mutex_lock(&p->life) == EOWNERDEAD)
		pthread_mutex_consistent(&p->life); /* the image before us, or its thread, had it */
	p->by_main = real.syscall(SYS_gettid) == getpid();
	clock_gettime(CLOCK_BOOTTIME, &t);
	p->born = t.tv_sec * 100ull + t.tv_nsec / 10000000 + 1;
	family_self = index;
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
	f->process[FAMILY_OTHERS].pid = -1; /* never free, never dead */
	family = f;
	enter(0);
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
	enter(index);
	memory_use->family_reserved = sizeof(*f);
	return 0;
}

static bool slot_held(struct slot *s)
{
	for (int i = 0; i < FAMILY_PROCESSES / 64; i++)
		if (s->holders[i])
			return true;
	return false;
}

/* All of these under the family's lock. */
static void slot_free(struct slot *s)
{
	s->used = 0;
	family->free_slot[family->free_slots++] = s - family->slot;
}

/* What a process had that has ended, or never came to be. */
static void forget(int index)
{
	uint64_t bit = 1ull << (index % 64);
	for (uint32_t k = 0; k < family->next_slot; k++) {
		struct slot *s = &family->slot[k];
		if (s->used && atomic_fetch_and(&s->holders[index / 64], ~bit) & bit && !slot_held(s))
			slot_free(s);
	}
	for (int w = 0; w < LINK_WAITERS; w++) {
		int32_t owner = index + 1;
		if (atomic_load(&family->waiter_owner[w]) == owner) {
			atomic_fetch_and(&family->waiters_used, ~(1ull << w)); /* first: its next owner sets it */
			atomic_compare_exchange_strong(&family->waiter_owner[w], &owner, 0);
		}
	}
}

/* Gives back what processes had that have ended. True: there was one. */
static bool sweep_dead(void)
{
	bool found = false;
	for (int i = 0; i < FAMILY_OTHERS; i++)
		if (i != family_self && family->process[i].pid && family_dead(i)) {
			forget(i);
			family->process[i].born = 0;
			family->process[i].pid = 0;
			found = true;
		}
	return found;
}

struct slot *slot_new(void)
{
	struct slot *s = NULL;
	if (family_self < 0 || family_lifeless)
		return NULL; /* a child without an index, or a life lock, of its own */
	family_lock();
	if (!family->free_slots && family->next_slot == FAMILY_SLOTS)
		sweep_dead();
	if (family->free_slots)
		s = &family->slot[family->free_slot[--family->free_slots]];
	else if (family->next_slot < FAMILY_SLOTS)
		s = &family->slot[family->next_slot++];
	uint32_t serial = s ? s->serial + 1 : 0;
	if (s) {
		memset(s, 0, sizeof(*s));
		s->serial = serial;
		s->holders[family_self / 64] = 1ull << (family_self % 64);
		s->used = 1;
	}
	family_unlock();
	if (!s)
		return NULL;
	s->index = s - family->slot;
	*slot_place(s) = (struct slot_place){0};
	robust_init(&s->tx.lock);
	robust_init(&s->rx.lock);
	s->tx.reason = s->rx.reason = REASON_NEW;
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

bool slot_last(struct slot *s)
{
	if (family_self < 0)
		return false;
	family_lock(); /* of several that close at the same time one is told */
	bool last = slot_sole(s);
	if (!last)
		slot_release(s);
	family_unlock();
	return last;
}

void slot_drop(struct slot *s)
{
	if (family_self < 0)
		return;
	uint64_t bit = 1ull << (family_self % 64);
	family_lock();
	if (atomic_fetch_and(&s->holders[family_self / 64], ~bit) & bit && s->used && !slot_held(s))
		slot_free(s);
	family_unlock();
}

void family_sweep(void)
{
	family_lock();
	for (uint32_t i = 0; i < family->next_slot; i++)
		if (family->slot[i].used && !slot_held(&family->slot[i]))
			slot_free(&family->slot[i]);
	family_unlock();
}

bool slot_abandoned(uint32_t index, uint32_t serial)
{
	struct slot *s = &family->slot[index];
	bool ended = !s->used || s->serial != serial;
	if (!ended) {
		slot_sole(s); /* takes the dead out */
		ended = !slot_held(s);
		if (ended)
			slot_free(s);
	}
	return ended;
}

/* What /proc says of a process: its state, its threads and when it began. False: nothing to be had. */
static bool process_stat(int pid, char *ret_state, long *ret_threads, uint64_t *ret_start)
{
	char path[32], text[1024], *end;
	ssize_t length = readlink("/proc/self", path, sizeof(path) - 1);
	path[length > 0 ? length : 0] = 0;
	if (strtol(path, &end, 10) != getpid() || *end)
		return false; /* of another pid name space */
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	int fd = quiet_open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ssize_t n = quiet_read(fd, text, sizeof(text) - 1);
	quiet_close(fd);
	text[n > 0 ? n : 0] = 0;
	char *at = strrchr(text, ')'); /* the name before it may hold anything */
	unsigned long long start;
	if (!at || sscanf(at + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld %*d %llu", ret_state,
			  ret_threads, &start) != 3)
		return false;
	*ret_start = start;
	return true;
}

enum fate { HERE, BECAME_ANOTHER, ENDED };

static enum fate fate_of(int index)
{
	struct family_process *p = &family->process[index];
	if (p->pid == -1)
		return HERE; /* being forked, or FAMILY_OTHERS */
	if (p->maker) { /* until it is waited for */
		int pid = p->pid;
		return p->maker == getpid() && pid > 0 && kill(pid, 0) < 0 && errno == ESRCH ? ENDED : HERE;
	}
	int r = pthread_mutex_trylock(&p->life);
	if (r == EBUSY)
		return HERE;
	if (r == EOWNERDEAD)
		pthread_mutex_consistent(&p->life);
	if (r == 0 || r == EOWNERDEAD)
		pthread_mutex_unlock(&p->life);
	/* Its thread has ended. And the process? */
	int pid = p->pid;
	char state;
	long threads;
	uint64_t start, born = p->born;
	if (pid == 0 || (kill(pid, 0) < 0 && errno == ESRCH))
		return ENDED;
	if (!born || !process_stat(pid, &state, &threads, &start))
		return HERE;
	if (start > born)
		return ENDED; /* the number is another one's by now */
	if (state == 'Z' || state == 'X')
		return threads <= 1 ? ENDED : HERE; /* not waited for yet; more: its main thread has left by pthread_exit */
	return p->by_main ? BECAME_ANOTHER : HERE; /* alive, and yet it holds no lock */
}

bool family_dead(int index)
{
	return fate_of(index) == ENDED;
}

bool family_left(int index)
{
	return fate_of(index) != HERE;
}

bool family_only(void)
{
	int saved = errno;
	bool only = family_self >= 0;
	for (int i = 0; only && i < FAMILY_OTHERS; i++)
		only = i == family_self || !family->process[i].pid || family_dead(i);
	errno = saved;
	return only;
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
			if (family_dead(index))
				atomic_fetch_and(&s->holders[i], ~(1ull << (index % 64)));
			else
				sole = false;
		}
	}
	errno = saved;
	return sole;
}

static int index_free(void)
{
	for (int i = 0; i < FAMILY_PROCESSES; i++)
		if (family->process[i].pid == 0)
			return i;
	return -1;
}

int family_fork_prepare(bool lifeless)
{
	if (!family)
		return -1;
	family_lock();
	int index = index_free();
	if (index < 0 && sweep_dead())
		index = index_free();
	if (index >= 0) {
		robust_init(&family->process[index].life);
		family->process[index].born = 0;
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
	family_lock();
	forget(index);
	family->process[index].pid = 0;
	family_unlock();
}

void family_fork_child(int index, bool lifeless)
{
	family_self = index;
	family_lifeless = lifeless;
	if (index < 0 || lifeless)
		return; /* in a pid name space of its own it does not know what its maker calls it */
	enter(index);
}

static void locked(struct slot_dir *d, int r)
{
	if (r == EOWNERDEAD) {
		pthread_mutex_consistent(&d->lock); /* a copy was cut: nothing of it was published */
		d->orphaned = 1;
	}
}

void dir_lock(struct slot_dir *d)
{
	critical_enter();
	locked(d, pthread_mutex_lock(&d->lock));
}

bool dir_trylock(struct slot_dir *d)
{
	critical_enter();
	int r = pthread_mutex_trylock(&d->lock);
	if (r != 0 && r != EOWNERDEAD) {
		critical_leave();
		return false;
	}
	locked(d, r);
	return true;
}

void dir_unlock(struct slot_dir *d)
{
	pthread_mutex_unlock(&d->lock);
	critical_leave();
}
