/* RLIMIT_NOFILE up to what fs.nr_open allows, 2^30 at most: a soft limit that high costs nothing, the table of descriptors
 * stays as long as the program's own numbers make it, and loops over all numbers meet only what is open. Whoever may not
 * raise the limit says so, natively as well as preloaded. */
#include "conform.h"
#include <sys/resource.h>

/* Entries of the kernel's table: each fork copies it. */
static unsigned long table_size(void)
{
	char line[200];
	unsigned long size = 0;
	FILE *f = fopen("/proc/self/status", "re");
	CHECK(f, "/proc/self/status");
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "FDSize: %lu", &size) == 1)
			break;
	fclose(f);
	return size;
}

static void work(rlim_t soft)
{
	int c[20], s[20], high = soft > 60000 ? 60000 : (int)soft - 1;
	for (int i = 0; i < 20; i++) {
		pair(&c[i], &s[i]);
		warm(c[i], s[i]);
		CHECK(c[i] < 64 && s[i] < 64, "not the lowest numbers: %d %d", c[i], s[i]);
	}
	CHECK(table_size() <= 65536, "a table of %lu entries", table_size());
	struct rlimit now;
	CHECK(!getrlimit(RLIMIT_NOFILE, &now) && now.rlim_cur == soft, "the limit reads back");
	pid_t pid = child();
	if (!pid) {
		still_works(c[0], s[0]);
		_exit(0);
	}
	CHECK(reap(pid) == 0, "child");
	int top = dup2(s[0], high);
	CHECK(top == high, "dup2 to %d", high);
	carry(c[0], top, 500, 0, 1);
	struct pollfd p = {top, POLLIN, 0};
	send_all(c[0], "x", 1);
	char b;
	CHECK(poll(&p, 1, 1000) == 1 && recv(top, &b, 1, 0) == 1, "the highest number");
	int beyond = soft < 1u << 30 ? dup2(s[0], (int)soft) : -1;
	CHECK(beyond == -1, "a number beyond the limit");
	/* As daemons do, that do not know of closefrom. */
	for (int fd = 50; fd < 3000; fd++)
		if (fd != high)
			close(fd);
	carry(c[0], top, 500, 0, 2);
	CHECK(!close_range(1000, ~0u, 0), "close_range");
	still_works(c[0], s[0]);
	still_works(c[1], s[1]);
	closefrom(c[1] < s[1] ? s[1] + 1 : c[1] + 1);
	still_works(c[1], s[1]);
	pair(&c[2], &s[2]);
	warm(c[2], s[2]);
}

static void test(void)
{
	static const rlim_t soft[] = {64, 1024, 16384, 16385, 65536, 524288, 1 << 20, 1 << 30};
	struct rlimit most;
	unsigned long open_most = 0;
	FILE *f = fopen("/proc/sys/fs/nr_open", "re");
	CHECK(f && fscanf(f, "%lu", &open_most) == 1 && !fclose(f), "fs.nr_open");
	CHECK(!getrlimit(RLIMIT_NOFILE, &most), "getrlimit");
	closefrom(3);
	for (size_t i = 0; i < ARRAY_SIZE(soft); i++)
		for (int all = 0; all < 2; all++) {
			rlim_t hard = all ? soft[i] : open_most > 1u << 30 ? 1u << 30 : open_most;
			pid_t pid = child();
			if (!pid) {
				struct rlimit limit = {soft[i], hard < soft[i] ? soft[i] : hard};
				int r = setrlimit(RLIMIT_NOFILE, &limit);
				if (r && !all && soft[i] <= most.rlim_max) { /* may not raise it: as high as it is */
					limit.rlim_max = most.rlim_max;
					r = setrlimit(RLIMIT_NOFILE, &limit);
				}
				if (r)
					printf("%lu: %s\n", (unsigned long)soft[i], strerrorname_np(errno));
				else
					work(soft[i]);
				fflush(stdout);
				_exit(0);
			}
			CHECK(reap(pid) == 0, "limit %lu", (unsigned long)soft[i]);
		}
}

int main(void)
{
	return once(test);
}
