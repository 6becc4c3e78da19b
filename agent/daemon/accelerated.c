#include "agent/daemon/daemon.h"

#include "agent/sys/cleanup.h"
#include "common/state.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define STATE_FOLDER "/run/hasten"

/* proc-UID-PID (common/state.h). */
static bool is_state_file(const char *name, uid_t *ret_uid, pid_t *ret_pid)
{
	unsigned uid;
	int pid, end = 0;

	if (sscanf(name, "proc-%u-%d%n", &uid, &pid, &end) != 2 || name[end] || pid <= 0 || !isdigit((unsigned char)name[5]))
		return false;
	*ret_uid = uid;
	*ret_pid = pid;
	return true;
}

/* The folder of the process in /proc was made when the process was: a file that is older by more than the clock's grain is of another. */
static bool is_alive(int dir, const char *file, pid_t pid)
{
	char path[64];
	struct stat state;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	char text[1024], *p;
	size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;

	if (!n || fstatat(dir, file, &state, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	text[n] = 0;
	if (!(p = strrchr(text, ')')) || p[1] != ' ' || p[2] == 'Z' || p[2] == 'X')
		return false;
	/* Field 22: start, in ticks since boot. */
	unsigned long long ticks = 0;
	for (int field = 3; field < 22 && p; field++)
		p = strchr(p + (field == 3 ? 2 : 1), ' ');
	if (!p || sscanf(p, "%llu", &ticks) != 1)
		return true;
	struct timespec boot, now;
	clock_gettime(CLOCK_BOOTTIME, &boot);
	clock_gettime(CLOCK_REALTIME, &now);
	double started = (double)now.tv_sec - (double)boot.tv_sec + (double)ticks / (double)sysconf(_SC_CLK_TCK);
	/* 10 s: clocks are set; a number comes round in less only where processes are made by the ten thousand a second. */
	return (double)state.st_ctim.tv_sec + 10 >= started;
}

typedef int (*visit)(void *arg, int dir, const char *name, uid_t uid, pid_t pid, bool alive);

static int each(visit visit_one, void *arg)
{
	_cleanup_closedir_ DIR *d = opendir(STATE_FOLDER);
	struct stat st;
	int r = 0;

	if (!d)
		return errno == ENOENT ? 0 : -errno;
	if (fstat(dirfd(d), &st) < 0 || st.st_uid)
		return 0;
	for (struct dirent *entry; !r && (entry = readdir(d));) {
		uid_t uid;
		pid_t pid;
		if (is_state_file(entry->d_name, &uid, &pid))
			r = visit_one(arg, dirfd(d), entry->d_name, uid, pid, is_alive(dirfd(d), entry->d_name, pid));
	}
	return r;
}

struct list {
	struct accelerated *process;
	size_t n;
};

static int add(void *arg, int dir, const char *name, uid_t uid, pid_t pid, bool alive)
{
	struct list *l = arg;
	char path[64];

	if (!alive)
		return 0;
	struct accelerated *more = reallocarray(l->process, l->n + 1, sizeof(*more));
	if (!more)
		return -ENOMEM;
	l->process = more;
	more += l->n++;
	*more = (struct accelerated){.pid = pid, .uid = uid};
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	if (f && fgets(more->name, sizeof(more->name), f))
		more->name[strcspn(more->name, "\n")] = 0;
	return 0;
}

int accelerated_list(struct accelerated **ret, size_t *ret_n)
{
	struct list l = {0};
	int r = each(add, &l);

	if (r < 0) {
		free(l.process);
		return r;
	}
	*ret = l.process;
	*ret_n = l.n;
	return 0;
}

static int clear(void *arg, int dir, const char *name, uid_t uid, pid_t pid, bool alive)
{
	unsigned *removed = arg;

	/* Root owns the sticky folder, so it may remove there without a capability. */
	if (!alive && !unlinkat(dir, name, 0))
		(*removed)++;
	return 0;
}

int accelerated_clear(unsigned *ret_removed)
{
	*ret_removed = 0;
	return each(clear, ret_removed);
}
