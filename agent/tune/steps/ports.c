#include "agent/tune/steps/ports.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/sys/cleanup.h"

#define N_PORTS 65536

static int add(const char *text, bool port[N_PORTS])
{
	while (*text) {
		char *end;
		unsigned long low, high;

		if (!isdigit((unsigned char)*text))
			return -EINVAL;
		low = high = strtoul(text, &end, 10);
		if (*end == '-' && isdigit((unsigned char)end[1]))
			high = strtoul(end + 1, &end, 10);
		if (low > high || high >= N_PORTS || (*end && *end != ','))
			return -EINVAL;
		memset(port + low, true, high - low + 1);
		text = *end ? end + 1 : end;
	}
	return 0;
}

int ports_both(const char *a, const char *b, char **ret)
{
	_cleanup_free_ bool *port = calloc(N_PORTS + 1, sizeof(*port));
	_cleanup_free_ char *text = NULL;
	size_t len;
	FILE *to = port ? open_memstream(&text, &len) : NULL;
	int r = to ? add(a, port) : -ENOMEM;

	if (!r)
		r = add(b, port);
	for (unsigned low = 0, high; low < N_PORTS && !r; low = high + 1) {
		for (high = low; port[high + 1] && port[low]; high++)
			;
		if (!port[low])
			continue;
		fprintf(to, ftell(to) ? ",%u" : "%u", low);
		if (high > low)
			fprintf(to, "-%u", high);
	}
	if (to && fclose(to) && !r)
		r = -ENOMEM;
	if (!r)
		*ret = take_ptr(text);
	return r;
}
