#include "agent/sys/streams.h"
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

void streams_open(void)
{
	/* The lowest free number is taken, so each of the three that is missing is filled in turn. */
	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR | O_CLOEXEC) < 0)
			return;
}

int streams_close(const char *program, int status)
{
	int before = ferror(stdout), err = fflush(stdout) ? errno : 0;

	if (!before && !err)
		return status;
	fprintf(stderr, "%s: what was to be printed did not arrive: %s\n", program, err ? strerror(err) : "it could not be written");
	return status ? status : 1;
}
