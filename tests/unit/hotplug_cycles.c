/* hotplug_cycles ROOT CYCLES: the looks that hastend makes when a NIC comes and goes, that many times, on a captured tree with an applied set.
 * Memory and open files must be flat over the last half. Prints what it saw; status 1 where they grew. */
#include "agent/daemon/daemon.h"
#include "agent/sys/cleanup.h"
#include "agent/sys/error.h"
#include "agent/sys/sys.h"

#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static unsigned long resident_kib(void)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/self/statm", "re");
	unsigned long all, resident;

	if (!f || fscanf(f, "%lu %lu", &all, &resident) != 2)
		exit(2);
	return resident * (unsigned long)sysconf(_SC_PAGESIZE) / 1024;
}

static unsigned open_files(void)
{
	_cleanup_closedir_ DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	while (d && readdir(d))
		n++;
	return n;
}

int main(int argc, char **argv)
{
	unsigned long cycles = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
	struct error e = {0};
	struct sys *s;
	struct keep k;
	char there[4096], gone[4096];

	if (cycles < 4 || sys_open(argv[1], &s, &e) < 0) {
		fprintf(stderr, "usage: hotplug_cycles ROOT CYCLES (4 or more)\n");
		return 64;
	}
	snprintf(there, sizeof(there), "%s/sys/class/net/eth0", argv[1]);
	snprintf(gone, sizeof(gone), "%s/eth0-is-out", argv[1]);
	if (keep_start(&k, s) < 0 || !k.has_set) {
		fprintf(stderr, "hotplug_cycles: no set is applied in %s\n", argv[1]);
		return 2;
	}
	unsigned long half_kib = 0;
	unsigned half_files = 0;
	for (unsigned long i = 0; i < cycles; i++) {
		/* Out, a look, in, a look: two looks a cycle. */
		if (rename(there, gone) < 0)
			return perror("out"), 2;
		keep_look(&k, WATCH_NET);
		if (rename(gone, there) < 0)
			return perror("in"), 2;
		keep_look(&k, WATCH_NET);
		if (i == cycles / 2) {
			half_kib = resident_kib();
			half_files = open_files();
		}
	}
	unsigned long end_kib = resident_kib();
	unsigned end_files = open_files();
	printf("%lu cycles: resident %lu KiB at half, %lu KiB at the end; files %u, %u; applied %lu times; %u in order, %u drift, %u failed\n", cycles, half_kib, end_kib,
		half_files, end_files, (unsigned long)k.reapplied, k.n_ok, k.n_drift, k.n_failed);
	int bad = end_kib > half_kib + 128 || end_files != half_files || k.reapplied < cycles || k.n_failed;
	keep_end(&k);
	sys_close(s);
	return bad;
}
