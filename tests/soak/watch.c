/* What the run takes of memory and descriptors, and whether it goes on growing. */
#include "soak.h"

#include <dirent.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

double clock_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The number behind a word at the begin of a line, 0 without one. */
static uint64_t number_of(const char *path, const char *word)
{
	char line[256];
	uint64_t v = 0;
	FILE *f = fopen(path, "re");
	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, word, strlen(word)))
			v = strtoull(line + strlen(word), NULL, 10);
	fclose(f);
	return v;
}

static unsigned descriptors(pid_t pid)
{
	char path[64];
	unsigned n = 0;
	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	DIR *d = opendir(path);
	if (!d)
		fail("%s cannot be read", path);
	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

static uint64_t files_in(const char *folder)
{
	struct statfs s;
	if (statfs(folder, &s) < 0 || s.f_type != 0x01021994 /* tmpfs */)
		return 0;
	return (uint64_t)(s.f_blocks - s.f_bfree) * s.f_bsize;
}

void watch_sample(struct sample *ret, const pid_t *pids, unsigned n)
{
	const char *group = getenv("SOAK_CGROUP");
	char path[256];
	/* State files of processes that were killed stay until somebody clears them. */
	const char *clear = getenv("SOAK_CLEAR");
	if (clear) {
		pid_t pid;
		char *argv[] = {(char *)clear, "ss", "-c", NULL}, *environment[] = {NULL};
		posix_spawn_file_actions_t quiet;
		posix_spawn_file_actions_init(&quiet);
		posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0);
		if (posix_spawn(&pid, clear, &quiet, NULL, argv, environment) == 0)
			waitpid(pid, NULL, 0);
		posix_spawn_file_actions_destroy(&quiet);
	}
	*ret = (struct sample){.at = clock_now(), .messages = atomic_load(&shared->messages)};
	for (unsigned i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", pids[i]);
		ret->pss += number_of(path, "Pss:") << 10;
		ret->fds += descriptors(pids[i]);
	}
	if (group) {
		snprintf(path, sizeof(path), "%s/memory.stat", group);
		ret->shmem = number_of(path, "shmem ");
	}
	ret->files = files_in("/run/hasten") + files_in("/dev/shm");
}

struct figure {
	const char *name;
	double allowed, share; /* of growth: so many of the unit, and so much of what it was */
	double unit;
	const char *unit_name;
};

static double least(const double *v, unsigned n)
{
	double low = v[0];
	for (unsigned i = 1; i < n; i++)
		low = v[i] < low ? v[i] : low;
	return low;
}

/* The last quarter against the one before, by the lowest value of each: links to processes that have ended go when the
 * next one is made, so single values are higher by chance; what leaks raises the lowest too. */
static int grows(const struct figure *f, const double *v, unsigned n)
{
	double before = least(v, n / 2), after = least(v + n / 2, n - n / 2), growth = after - before;
	bool bad = growth > f->allowed * f->unit + f->share * before;
	printf("%-42s third quarter from %.1f, fourth from %.1f %s%s\n", f->name, before / f->unit, after / f->unit, f->unit_name,
	       bad ? ": GROWS" : "");
	return bad;
}

int watch_flat(const struct sample *s, unsigned n)
{
	static const struct figure figures[] = {
		{"descriptors of the servers", 8, 0, 1, ""},
		{"memory of the servers (PSS)", 1.5, 0.04, 1 << 20, "MiB"},
		{"shared memory of all processes (cgroup)", 1.5, 0.04, 1 << 20, "MiB"},
		{"files in /run/hasten and /dev/shm", 0.125, 0, 1 << 20, "MiB"},
	};
	double v[4][SAMPLES_MAX];
	unsigned from = n / 2;
	int bad = 0;
	for (unsigned i = from; i < n; i++) {
		v[0][i - from] = s[i].fds;
		v[1][i - from] = (double)s[i].pss;
		v[2][i - from] = (double)s[i].shmem;
		v[3][i - from] = (double)s[i].files;
	}
	for (int k = 0; k < 4; k++)
		bad |= grows(&figures[k], v[k], n - from);
	return bad;
}
