#include "preload/discover/registry.h"
#include "preload/fdtab.h"
#include "preload/link/format.h"
#include "preload/real.h"
#include "preload/state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71 /* Linux 5.14 */
#endif

#define REGISTRY_MAGIC   0x7967657274736168ull
/* The second number is of this file's own bytes. Processes whose links have another format must not meet either. */
#define REGISTRY_VERSION (100 * LINK_VERSION + 2)
#define LISTENERS        1024u
#define CONNS            16384u
#define WINDOW           16u   /* entries that one key may stand in */
#define OTHERS_MAX       32    /* other users' registries looked at */
#define NAMES_FEW        1000u /* in the folder: it is read again as soon as it has changed */
#define NAMES_MOST       20000u

enum entry_state { ENTRY_FREE = 0, ENTRY_BUSY = 1, ENTRY_VALID = 2 };

struct listener_entry {
	_Atomic uint32_t state;
	int32_t pid;
	uint64_t process;
	struct state_addr at;
	uint32_t count;
};

struct conn_entry {
	_Atomic uint32_t state;
	_Atomic uint32_t knocked; /* by the acceptor */
	int32_t pid;
	uint32_t spare;
	uint64_t process, token;
	struct state_addr local, peer;
};

struct registry {
	uint64_t magic;
	uint32_t version, size;
	uint8_t spare[48];
	struct listener_entry listener[LISTENERS + WINDOW];
	struct conn_entry conn[CONNS + WINDOW];
};

static char dir[64];
static struct registry *own;
static uint64_t netns;
static _Atomic uint64_t self;
static uint32_t uid; /* of the registry in use */
static int32_t pid;  /* ours; 0 not asked yet, as after fork */
static uint64_t seed;
static _Atomic uint64_t drawn;

static struct {
	int fd;
	uint32_t uid;
} others[OTHERS_MAX];
static int n_others;
static struct timespec others_seen;
static time_t others_due; /* the folder is not read again before */
pthread_mutex_t registry_others_lock = PTHREAD_MUTEX_INITIALIZER; /* others; held for system calls on files only */

uint64_t random64(void)
{
	if (!seed && getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed)) {
		struct timespec t;
		clock_gettime(CLOCK_MONOTONIC, &t);
		seed = (uint64_t)t.tv_nsec << 32 ^ (uint64_t)getpid() ^ (uintptr_t)&t;
	}
	uint64_t z = seed + 0x9e3779b97f4a7c15ull * (1 + atomic_fetch_add(&drawn, 1)); /* splitmix64 */
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	z ^= z >> 31;
	return z ? z : 1;
}

uint64_t identity(void)
{
	uint64_t none = 0;
	if (!atomic_load(&self))
		atomic_compare_exchange_strong(&self, &none, random64()); /* one for all threads */
	return self;
}

void identity_renew(void)
{
	seed = 0;
	self = 0;
	pid = 0;
}

static bool usable(const char *path, bool shared)
{
	struct stat st;
	if (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode))
		return false;
	if (shared) /* root's, and nobody can replace another's file: sticky where others may write */
		return st.st_uid == 0 && (!(st.st_mode & 022) || (st.st_mode & S_ISVTX)) && access(path, W_OK | X_OK) == 0;
	return st.st_uid == geteuid() && !(st.st_mode & 022);
}

const char *registry_dir(void)
{
	if (dir[0])
		return dir;
	const char *given = secure_getenv("HASTEN_RUN_DIR");
	if (given && strlen(given) < sizeof(dir)) {
		if (usable(given, false) || usable(given, true))
			strcpy(dir, given);
		return dir;
	}
	if (geteuid() == 0 && mkdir("/run/hasten", 01777) == 0)
		chmod("/run/hasten", 01777); /* the umask took bits away */
	if (usable("/run/hasten", true)) {
		strcpy(dir, "/run/hasten");
		return dir;
	}
	char path[64] = "/dev/shm/hasten-";
	char digits[12];
	int n = 0;
	unsigned rest = geteuid();
	do
		digits[n++] = '0' + rest % 10;
	while (rest /= 10);
	size_t at = strlen(path);
	while (n)
		path[at++] = digits[--n];
	path[at] = 0;
	mkdir(path, 0755);
	if (usable(path, false))
		strcpy(dir, path);
	return dir;
}


static int32_t own_pid(void)
{
	if (!pid)
		pid = getpid();
	return pid;
}

static void file_name(char *ret, size_t size, unsigned user)
{
	snprintf(ret, size, "reg%d-%u-%llx", REGISTRY_VERSION, user, (unsigned long long)netns);
}

uint64_t registry_netns(void)
{
	return netns;
}

static int failed; /* not tried again before registry_close */

void registry_close(void)
{
	own_lock(&registry_others_lock);
	if (own)
		munmap(own, sizeof(*own));
	own = NULL;
	failed = 0;
	dir[0] = 0;
	others_seen.tv_nsec = -1;
	others_due = 0;
	own_unlock(&registry_others_lock);
}

void registry_fork_child(void)
{
	pthread_mutex_init(&registry_others_lock, NULL);
}

int registry_open(int fd)
{
	if (own)
		return 0;
	if (failed)
		return failed;
	socklen_t len = sizeof(netns);
	if (real.getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &netns, &len) < 0) {
		struct stat st; /* before 5.14: the name space's inode */
		netns = stat("/proc/self/ns/net", &st) == 0 ? st.st_ino : 0;
	}
	if (!registry_dir()[0])
		return failed = -ENOENT;
	if (!file_size_allowed(sizeof(struct registry)))
		return failed = -EFBIG;
	char path[128], name[56];
	file_name(name, sizeof(name), geteuid());
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	int file = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (file < 0)
		return failed = -errno;
	struct stat st;
	if (fstat(file, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 022) || st.st_nlink != 1) {
		real.close(file);
		return failed = -EPERM; /* a squatted name */
	}
	/* The memory is had before it is mapped: a full /dev/shm is an error here and no SIGBUS later. */
	if (fallocate(file, 0, 0, sizeof(struct registry)) < 0) {
		failed = -errno;
		real.close(file);
		return failed;
	}
	struct registry *r = mmap(NULL, sizeof(*r), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	real.close(file);
	if (r == MAP_FAILED)
		return failed = -errno;
	if (r->magic == 0) {
		r->version = REGISTRY_VERSION;
		r->size = sizeof(*r);
		r->magic = REGISTRY_MAGIC; /* two first users write the same */
	}
	if (r->magic != REGISTRY_MAGIC || r->version != REGISTRY_VERSION || r->size != sizeof(*r)) {
		munmap(r, sizeof(*r));
		return failed = -EPROTO;
	}
	own = r;
	uid = geteuid();
	return 0;
}

/* Opens the registries of other users again when files came or went. */
static void refresh_others(void)
{
	struct stat st;
	struct timespec at;
	if (others_due && clock_gettime(CLOCK_MONOTONIC, &at) == 0 && at.tv_sec < others_due)
		return;
	if (stat(dir, &st) < 0 || (st.st_mtim.tv_sec == others_seen.tv_sec && st.st_mtim.tv_nsec == others_seen.tv_nsec))
		return;
	others_seen = st.st_mtim;
	for (int i = 0; i < n_others; i++)
		fdtab_disown(others[i].fd);
	n_others = 0;
	DIR *d = opendir(dir);
	if (!d)
		return;
	unsigned seen = 0;
	for (struct dirent *e; (e = readdir(d)) && n_others < OTHERS_MAX && seen < NAMES_MOST; seen++) {
		const char *number = strchr(e->d_name, '-');
		if (strncmp(e->d_name, "reg", 3) || !number)
			continue;
		/* One file a user: letter by letter the name that it has, or one user takes the places of all others with names
		 * that mean the same. */
		unsigned long theirs = strtoul(number + 1, NULL, 10);
		char name[56];
		file_name(name, sizeof(name), theirs);
		if (theirs == uid || strcmp(e->d_name, name))
			continue;
		int file = openat(dirfd(d), e->d_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
		if (file < 0)
			continue;
		if (fstat(file, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != theirs || (st.st_mode & 022)) {
			real.close(file);
			continue;
		}
		others[n_others].fd = fdtab_own(file);
		others[n_others++].uid = theirs;
	}
	closedir(d);
	/* Everybody may write to the folder: who fills it with names, or changes it all the time, must not have others read it
	 * at each of their connections. What is short is read as often as it changes. */
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	others_due = seen > NAMES_FEW ? now.tv_sec + 1 + seen / NAMES_FEW : 0;
}

static uint32_t hash(const struct state_addr *a, bool with_ip)
{
	uint64_t h = a->port * 0x9e3779b97f4a7c15ull;
	uint64_t w[2];
	memcpy(w, a->ip, 16);
	if (with_ip)
		h = (h ^ w[0]) * 0xff51afd7ed558ccdull ^ w[1] * 0xc4ceb9fe1a85ec53ull;
	return h >> 32;
}

static bool any_ip(const struct state_addr *a)
{
	static const uint8_t any6[16], any4[16] = {[10] = 255, 255};
	return !memcmp(a->ip, any6, 16) || !memcmp(a->ip, any4, 16);
}

static bool same(const struct state_addr *a, const struct state_addr *b)
{
	return a->port == b->port && !memcmp(a->ip, b->ip, 16);
}

/* Takes an entry of a window: a free one, else one whose process is gone. */
#define TAKE(window) ({ \
	typeof(&(window)[0]) taken_ = NULL; \
	for (unsigned pass_ = 0; pass_ < 2 && !taken_; pass_++) \
		for (unsigned i_ = 0; i_ < WINDOW && !taken_; i_++) { \
			uint32_t is_ = (window)[i_].state; \
			if (is_ == ENTRY_BUSY || (is_ == ENTRY_VALID && \
			    (!pass_ || !(kill((window)[i_].pid, 0) < 0 && errno == ESRCH)))) \
				continue; \
			if (atomic_compare_exchange_strong(&(window)[i_].state, &is_, ENTRY_BUSY)) \
				taken_ = &(window)[i_]; \
		} \
	taken_; })

void registry_listen(const struct state_addr *at)
{
	if (!own)
		return;
	int saved = errno;
	struct listener_entry *w = own->listener + hash(at, false) % LISTENERS;
	for (unsigned i = 0; i < WINDOW; i++)
		if (w[i].state == ENTRY_VALID && w[i].process == identity() && same(&w[i].at, at)) {
			w[i].count++;
			return;
		}
	struct listener_entry *e = TAKE(w);
	if (e) {
		e->pid = own_pid();
		e->process = identity();
		e->at = *at;
		e->count = 1;
		atomic_store_explicit(&e->state, ENTRY_VALID, memory_order_release);
	}
	errno = saved;
}

void registry_unlisten(const struct state_addr *at)
{
	if (!own)
		return;
	struct listener_entry *w = own->listener + hash(at, false) % LISTENERS;
	for (unsigned i = 0; i < WINDOW; i++)
		if (w[i].state == ENTRY_VALID && w[i].process == identity() && same(&w[i].at, at) && --w[i].count == 0)
			w[i].state = ENTRY_FREE;
}

static bool listener_in(const struct listener_entry *w, const struct state_addr *to)
{
	for (unsigned i = 0; i < WINDOW; i++)
		if (atomic_load_explicit(&w[i].state, memory_order_acquire) == ENTRY_VALID && w[i].at.port == to->port &&
		    (any_ip(&w[i].at) || same(&w[i].at, to)))
			return true;
	return false;
}

bool registry_listed(const struct state_addr *to)
{
	if (!own)
		return false;
	uint32_t at = hash(to, false) % LISTENERS;
	if (listener_in(own->listener + at, to))
		return true;
	bool found = false;
	own_lock(&registry_others_lock);
	refresh_others();
	for (int i = 0; i < n_others && !found; i++) {
		struct listener_entry w[WINDOW];
		off_t off = offsetof(struct registry, listener) + at * sizeof(*w);
		found = pread(others[i].fd, w, sizeof(w), off) == sizeof(w) && listener_in(w, to);
	}
	own_unlock(&registry_others_lock);
	return found;
}

int registry_publish(const struct state_addr *local, const struct state_addr *peer, uint64_t token)
{
	if (!own)
		return -1;
	int saved = errno;
	struct conn_entry *e = TAKE(own->conn + hash(local, true) % CONNS);
	errno = saved;
	if (!e)
		return -1;
	e->pid = own_pid();
	e->process = identity();
	e->token = token;
	e->local = *local;
	e->peer = *peer;
	atomic_store_explicit(&e->knocked, 0, memory_order_relaxed);
	atomic_store_explicit(&e->state, ENTRY_VALID, memory_order_release);
	return e - own->conn;
}

void registry_withdraw(int entry)
{
	if (!own || entry < 0)
		return;
	struct conn_entry *e = &own->conn[entry];
	if (e->state == ENTRY_VALID && e->process == identity())
		e->state = ENTRY_FREE;
}

static bool conn_in(const struct conn_entry *w, uint32_t at, const struct state_addr *end, const struct state_addr *local,
		    uint32_t owner, struct registry_hit *ret)
{
	for (unsigned i = 0; i < WINDOW; i++) {
		if (atomic_load_explicit(&w[i].state, memory_order_acquire) != ENTRY_VALID || !same(&w[i].local, end) ||
		    !same(&w[i].peer, local))
			continue;
		ret->token = w[i].token;
		ret->process = w[i].process;
		ret->pid = w[i].pid;
		ret->entry = at + i;
		ret->uid = owner;
		return true;
	}
	return false;
}

bool registry_find(const struct state_addr *end, const struct state_addr *local, struct registry_hit *ret)
{
	if (!own)
		return false;
	uint32_t at = hash(end, true) % CONNS;
	if (conn_in(own->conn + at, at, end, local, uid, ret))
		return true;
	bool found = false;
	own_lock(&registry_others_lock);
	refresh_others();
	for (int i = 0; i < n_others && !found; i++) {
		struct conn_entry w[WINDOW];
		off_t off = offsetof(struct registry, conn) + at * sizeof(*w);
		found = pread(others[i].fd, w, sizeof(w), off) == sizeof(w) &&
			conn_in(w, at, end, local, others[i].uid, ret);
	}
	own_unlock(&registry_others_lock);
	return found;
}

void registry_knock(const struct registry_hit *hit)
{
	if (own && hit->uid == uid && own->conn[hit->entry].token == hit->token)
		atomic_store_explicit(&own->conn[hit->entry].knocked, 1, memory_order_release);
}

bool registry_knocked(int entry)
{
	return own && entry >= 0 && atomic_load_explicit(&own->conn[entry].knocked, memory_order_acquire);
}
