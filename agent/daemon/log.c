#include "agent/daemon/daemon.h"

#include <stdarg.h>
#include <stdio.h>
#include <syslog.h>

void log_line(int priority, const char *format, ...)
{
	char line[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	/* A name of the machine's must not make a second line of the journal. */
	for (char *p = line; *p; p++)
		if ((unsigned char)*p < ' ')
			*p = '?';
	fprintf(stderr, "<%d>%s\n", priority & LOG_PRIMASK, line);
}
