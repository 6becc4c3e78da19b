/* Commands that are programs of their own, so that the libraries that they alone need (libcurl, libcrypto, libarchive and what these pull in: 6
 * to 8 ms at each start) are not loaded for hasten run: beside this one in the build tree, else with the library (packages) or where make install put them. */
#include "config.h"

#include "agent/cli/cli.h"
#include "agent/sys/place.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int run_program(const char *name, char **argv)
{
	char path[PATH_MAX + 64];
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX);
	char *slash;

	path[n > 0 ? n : 0] = 0;
	if ((slash = strrchr(path, '/'))) {
		snprintf(slash + 1, sizeof(path) - (size_t)(slash + 1 - path), "%s", name);
		execv(path, argv);
	}
	snprintf(path, sizeof(path), "%s/%s", place_folder(), name);
	execv(path, argv);
	snprintf(path, sizeof(path), PKGLIBEXECDIR "/%s", name);
	execv(path, argv);
	fprintf(stderr, "%s: %s: %s; install the package again\n", argv[0], path, strerror(errno));
	return 1;
}

int cmd_driver(int argc, char **argv)
{
	(void)argc;
	return run_program("hasten-driver", argv);
}

int cmd_capture(int argc, char **argv)
{
	(void)argc;
	return run_program("hasten-capture", argv);
}
