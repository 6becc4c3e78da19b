#include "preload/quiet.h"
#include "preload/state.h"
#include "preload/wait/waker.h"
#include "preload/family.h"
#include "preload/fdtab.h"
#include "preload/proc/inside.h"
#include "preload/real.h"
#include "preload/state.h"
#include "preload/sock.h"
#include "preload/stats/stats.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x10 /* Linux 5.1 */
#endif

static struct link_epochs *epochs; /* shared by the family: mapped before any fork that matters */
static int epochs_fd = -1, bell = -1; /* what peers get */
static int epochs_write = -1;         /* to map them again after an exec; -1: nobody can */
pthread_mutex_t waker_epochs_lock = PTHREAD_MUTEX_INITIALIZER; /* making them */
static struct waker wakers[LINK_WAITERS]; /* this process's own, by word; eventfd 0 none */
static _Atomic uint64_t own_words;
static uint32_t sleepers[LINK_WAITERS];
static uint32_t users[LINK_WAITERS];
pthread_mutex_t waker_lock = PTHREAD_MUTEX_INITIALIZER; /* wakers, own_words, users */
static _Atomic uint32_t word_lock[LINK_WAITERS];               /* sleepers and the epoch of a word */
static unsigned next_shared;

static pthread_key_t thread_key;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;
static __thread struct waker *thread_waker __attribute__((tls_model("initial-exec")));
static __thread int thread_epfd __attribute__((tls_model("initial-exec")));

/* Peers hold it too, of other users perhaps. As a semaphore with a count that nobody lives to read down it cannot be
 * silenced by one of them for the others (at zero a write wakes nobody), and a write of zero always fits. */
static int wakefd(void)
{
	int fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
	uint64_t many = 1ull << 62;
	if (fd >= 0 && quiet_write(fd, &many, sizeof(many)) != sizeof(many)) {
		quiet_close(fd);
		return -1;
	}
	return fd;
}

static int open_again(int fd)
{
	char path[32];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return quiet_open(path, O_RDONLY | O_CLOEXEC);
}

/* Once for the whole family: a link that was made over a second memory would be woken by words that nobody stores. */
static struct link_epochs *epochs_new(void)
{
	if (!file_size_allowed(sizeof(struct link_epochs)))
		return NULL;
	int fd = memfd_create("hasten-epochs", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return NULL;
	void *map = MAP_FAILED;
	int ring = wakefd();
	if (ring >= 0 && ftruncate(fd, sizeof(struct link_epochs)) == 0)
		map = mmap(NULL, sizeof(struct link_epochs), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	/* A peer that could write here could keep us asleep. It gets a descriptor for reading, of a file that only its owner may
	 * open; an image that we exec maps the one for writing. Without /proc: FUTURE_WRITE (5.1), our mapping stays
	 * writable and nobody, no later image of ours either, can make another. */
	int reading = map == MAP_FAILED || fchmod(fd, 0600) < 0 ? -1 : open_again(fd);
	if (map == MAP_FAILED || real.fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL |
					    (reading < 0 ? F_SEAL_FUTURE_WRITE : 0)) < 0) {
		if (reading >= 0)
			quiet_close(reading);
		if (map != MAP_FAILED)
			munmap(map, sizeof(struct link_epochs));
		if (ring >= 0)
			quiet_close(ring);
		quiet_close(fd);
		return NULL;
	}
	bell = fdtab_own(ring);
	if (reading >= 0)
		epochs_write = fdtab_own(fd);
	epochs_fd = fdtab_own(reading >= 0 ? reading : fd);
	return map;
}

bool waker_portable(struct waker_image *ret)
{
	*ret = (struct waker_image){epochs_write, epochs_fd, bell};
	return !epochs || epochs_write >= 0;
}

int waker_adopt(const struct waker_image *from)
{
	struct stat st;
	if (from->epochs < 0)
		return 0;
	if (fstat(from->epochs, &st) < 0 || (uint64_t)st.st_size != sizeof(struct link_epochs))
		return -EPROTO;
	void *map = mmap(NULL, sizeof(struct link_epochs), PROT_READ | PROT_WRITE, MAP_SHARED, from->epochs, 0);
	if (map == MAP_FAILED)
		return -errno;
	epochs = map;
	epochs_write = from->epochs;
	epochs_fd = from->epochs_read;
	bell = from->bell;
	/* Words of the image before: nobody sleeps on them any more. */
	for (int w = 0; w < LINK_WAITERS; w++)
		if (family->waiter_owner[w] == family_self + 1) {
			atomic_fetch_and(&family->waiters_used, ~(1ull << w));
			family->waiter_owner[w] = 0;
		}
	return 0;
}

struct link_epochs *waker_epochs(int *ret_fd, int *ret_bell)
{
	own_lock(&waker_epochs_lock);
	if (!epochs)
		epochs = epochs_new();
	own_unlock(&waker_epochs_lock);
	*ret_fd = epochs_fd;
	*ret_bell = bell;
	return epochs;
}

/* A word that nobody has; where there is none, one of a process that has ended without giving it back (its threads may
 * have slept on it to the last, so it does not do that itself). */
static int word_claim(void)
{
	int32_t self = family_self >= 0 ? family_self + 1 : -getpid();
	for (int pass = 0; pass < 2; pass++)
		for (int w = 0; w < LINK_WAITERS; w++) {
			int32_t owner = atomic_load(&family->waiter_owner[w]);
			bool dead = pass && owner != self &&
				    (owner > 0 ? family_left(owner - 1) : owner < 0 && kill(-owner, 0) < 0 && errno == ESRCH);
			if ((dead || !owner) && atomic_compare_exchange_strong(&family->waiter_owner[w], &owner, self)) {
				atomic_fetch_or(&family->waiters_used, 1ull << w);
				return w;
			}
		}
	return -1;
}

static struct waker *waker_reuse(void)
{
	struct waker *found = NULL;
	own_lock(&waker_lock);
	for (uint64_t m = own_words; m && !found; m &= m - 1)
		if (!users[__builtin_ctzll(m)])
			found = &wakers[__builtin_ctzll(m)];
	if (found)
		users[found->word]++;
	own_unlock(&waker_lock);
	return found;
}

struct waker *waker_new(void)
{
	struct waker *made = NULL;
	int saved = errno, fds[2];
	if (!waker_epochs(&fds[0], &fds[1]) || !family)
		return NULL;
	made = waker_reuse(); /* of a sleeper that has gone: peers hold its descriptor already */
	if (made)
		return made;
	own_lock(&waker_lock);
	int w = word_claim();
	if (w >= 0) {
		int fd = wakefd();
		if (fd >= 0) {
			wakers[w].word = w;
			wakers[w].eventfd = fdtab_own(fd);
			uint32_t e = atomic_load(&epochs->w[w].epoch);
			atomic_store(&epochs->w[w].epoch, (e + 2) & ~1u); /* a killed owner may have left it asleep */
			atomic_fetch_add(&epochs->w[w].incarnation, 1); /* peers' descriptors of the last owner are void */
			own_words |= 1ull << w;
			made = &wakers[w];
		} else {
			atomic_fetch_and(&family->waiters_used, ~(1ull << w));
			family->waiter_owner[w] = 0;
		}
	}
	if (!made && own_words) {
		do
			next_shared = (next_shared + 1) % LINK_WAITERS;
		while (!(own_words & 1ull << next_shared));
		made = &wakers[next_shared];
	}
	if (made)
		users[made->word]++;
	own_unlock(&waker_lock);
	errno = saved;
	return made;
}

void waker_free(struct waker *w)
{
	own_lock(&waker_lock);
	/* The word and its eventfd stay ours: peers hold the fd, and the next sleeper takes it over. */
	if (users[w->word])
		users[w->word]--;
	own_unlock(&waker_lock);
}

int waker_register(struct waker *w, int epfd, uint64_t data)
{
	struct epoll_event e = {.events = EPOLLIN | EPOLLET, .data.u64 = data};
	if ((real.epoll_ctl(epfd, EPOLL_CTL_ADD, w->eventfd, &e) < 0 && errno != EEXIST) ||
	    (real.epoll_ctl(epfd, EPOLL_CTL_ADD, bell, &e) < 0 && errno != EEXIST)) {
		int r = -errno;
		real.epoll_ctl(epfd, EPOLL_CTL_DEL, w->eventfd, &e);
		return r;
	}
	return 0;
}

void waker_unregister(struct waker *w, int epfd)
{
	struct epoll_event e;
	real.epoll_ctl(epfd, EPOLL_CTL_DEL, w->eventfd, &e);
	real.epoll_ctl(epfd, EPOLL_CTL_DEL, bell, &e);
}

static void thread_gone(void *p)
{
	(void)p;
	if (thread_waker) {
		fdtab_disown(thread_epfd);
		waker_free(thread_waker);
		thread_waker = NULL;
	}
}

static void thread_key_make(void)
{
	pthread_key_create(&thread_key, thread_gone);
}

struct waker *waker_thread(int *ret_epfd)
{
	if (!thread_waker) {
		int saved = errno;
		int ep = real.epoll_create1(EPOLL_CLOEXEC);
		if (ep < 0)
			return NULL;
		struct waker *w = waker_new();
		if (!w || waker_register(w, ep, 0) < 0) {
			if (w)
				waker_free(w);
			quiet_close(ep);
			errno = saved;
			return NULL;
		}
		thread_epfd = fdtab_own(ep);
		thread_waker = w;
		pthread_once(&thread_once, thread_key_make);
		pthread_setspecific(thread_key, w);
		errno = saved;
	}
	*ret_epfd = thread_epfd;
	return thread_waker;
}

static void lock_word(unsigned w)
{
	while (atomic_exchange_explicit(&word_lock[w], 1, memory_order_acquire))
		sched_yield();
}

_Atomic uint32_t waker_kept;

void waker_sleep(struct waker *w)
{
	if (unlikely(atomic_load_explicit(&waker_kept, memory_order_relaxed)) && !waker_only()) {
		waker_kept = 0;
		link_announce_kept();
	}
	critical_enter();
	inside_record(INSIDE_ASLEEP, w);
	lock_word(w->word);
	uint32_t e = atomic_load_explicit(&epochs->w[w->word].epoch, memory_order_relaxed);
	/* seq_cst: published before the caller's last look (fence on the other side: ring_publish). A new epoch for every
	 * sleeper: a peer that has woken the others of this word by the old one would not do so again. */
	atomic_store(&epochs->w[w->word].epoch, sleepers[w->word]++ == 0 ? e + 1 : e + 2);
	atomic_store_explicit(&word_lock[w->word], 0, memory_order_release);
	critical_leave();
}

void waker_awake(struct waker *w)
{
	critical_enter();
	if (inside_forget(INSIDE_ASLEEP, w))
		waker_up(w);
	critical_leave();
}

void waker_up(struct waker *w)
{
	lock_word(w->word);
	uint32_t e = atomic_load_explicit(&epochs->w[w->word].epoch, memory_order_relaxed);
	/* others still sleep on the word: a new odd epoch, so that the next change wakes one of them */
	atomic_store(&epochs->w[w->word].epoch, --sleepers[w->word] == 0 ? e + 1 : e + 2);
	atomic_store_explicit(&word_lock[w->word], 0, memory_order_release);
}

void waker_poke(struct waker *w)
{
	uint64_t zero = 0;
	int saved = errno;
	if (quiet_write(w->eventfd, &zero, sizeof(zero)) < 0)
		errno = saved;
}

void waker_poke_words(uint64_t words)
{
	for (words &= own_words; words; words &= words - 1)
		waker_poke(&wakers[__builtin_ctzll(words)]);
}

void waker_ring(void)
{
	uint64_t zero = 0;
	int saved = errno;
	if (bell >= 0 && quiet_write(bell, &zero, sizeof(zero)) < 0)
		errno = saved;
}

uint32_t waker_sleepers(struct waker *w)
{
	critical_enter();
	lock_word(w->word);
	uint32_t n = sleepers[w->word];
	atomic_store_explicit(&word_lock[w->word], 0, memory_order_release);
	critical_leave();
	return n;
}

bool waker_only(void)
{
	uint64_t used = atomic_load_explicit(&family->waiters_used, memory_order_relaxed);
	return (used & (used - 1)) == 0;
}

bool waker_descriptor(int word, int *ret_fd, uint32_t *ret_incarnation)
{
	if (!(own_words & 1ull << word))
		return false;
	*ret_fd = wakers[word].eventfd;
	*ret_incarnation = atomic_load(&epochs->w[word].incarnation);
	return true;
}

void waker_fork_child(void)
{
	/* The words are the parent's: a child takes words of its own. The inherited descriptors go. */
	pthread_mutex_init(&waker_lock, NULL);
	pthread_mutex_init(&waker_epochs_lock, NULL);
	for (uint64_t m = own_words; m; m &= m - 1)
		fdtab_disown(wakers[__builtin_ctzll(m)].eventfd);
	own_words = 0;
	memset(sleepers, 0, sizeof(sleepers));
	memset(users, 0, sizeof(users));
	memset(word_lock, 0, sizeof(word_lock));
	if (thread_waker) {
		fdtab_disown(thread_epfd);
		thread_waker = NULL;
	}
}

void news_post(struct link *l, uint32_t lane, int to)
{
	uint64_t waiters = atomic_load(&l->lane[lane].end[to].waiters);
	struct link_news *news = &l->news[to];
	uint64_t bit = 1ull << (lane % 64), group = 1ull << (lane / 64);
	for (; waiters; waiters &= waiters - 1) {
		unsigned w = __builtin_ctzll(waiters);
		/* A set bit that we see will be cleared before the ring is looked at, so what we stored is seen then. */
		if (!(atomic_load(&news->ready[w][lane / 64]) & bit))
			atomic_fetch_or(&news->ready[w][lane / 64], bit);
		if (!(atomic_load(&news->summary[w]) & group))
			atomic_fetch_or(&news->summary[w], group);
		if (!l->complete)
			link_receive(l);
		if (!l->peer_epochs)
			continue;
		uint32_t e = atomic_load(&l->peer_epochs->w[w].epoch);
		if (!(e & 1) || atomic_load_explicit(&l->woken[w], memory_order_relaxed) == e)
			continue;
		uint64_t zero = 0;
		int saved = errno;
		if (quiet_write(link_wakefd(l, w), &zero, sizeof(zero)) < 0)
			errno = saved;
		COUNT(wakes_sent, 1);
		/* after the write: a thread stopped in between wakes twice, never not at all */
		atomic_store_explicit(&l->woken[w], e, memory_order_relaxed);
	}
}

bool news_any(unsigned word)
{
	bool any = false, locked = !alone();
	if (locked)
		own_lock(&links_lock);
	for (struct link *l = links; l && !any; l = l->next)
		any = l->header && atomic_load(&l->news[l->side].summary[word]);
	if (locked)
		own_unlock(&links_lock);
	return any;
}

int news_take(unsigned word, void (*fn)(struct sock *s, void *arg), void *arg)
{
	int n = 0;
	bool locked = !alone();
	if (locked)
		own_lock(&links_lock);
	for (struct link *l = links; l; l = l->next) {
		if (!l->header || !atomic_load_explicit(&l->news[l->side].summary[word], memory_order_relaxed))
			continue;
		struct link_news *news = &l->news[l->side];
		/* cleared before the rings are looked at (seq_cst exchange) */
		uint64_t groups = atomic_exchange(&news->summary[word], 0);
		for (; groups; groups &= groups - 1) {
			unsigned g = __builtin_ctzll(groups);
			uint64_t lanes = atomic_exchange(&news->ready[word][g], 0);
			for (; lanes; lanes &= lanes - 1) {
				struct sock *s = l->by_lane[g * 64 + __builtin_ctzll(lanes)];
				if (s)
					fn(s, arg);
				n++;
			}
		}
	}
	if (locked)
		own_unlock(&links_lock);
	return n;
}
