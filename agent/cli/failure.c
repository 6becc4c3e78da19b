#include "config.h"

#include "agent/cli/failure.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/cli/json.h"

#define TEXT_MAX 4096

static bool wanted;
static const char *command;
static char said[TEXT_MAX];
static size_t n_said;

static ssize_t keep(void *cookie, const char *text, size_t len)
{
	size_t room = sizeof(said) - 1 - n_said, n = len < room ? len : room;
	ssize_t done;

	(void)cookie;
	memcpy(said + n_said, text, n);
	n_said += n;
	done = write(STDERR_FILENO, text, len);
	return done < 0 ? 0 : done;
}

void failure_watch(const char *name, int argc, char **argv)
{
	FILE *to;

	/* What follows "run" is another program's. */
	if (!strcmp(name, "run"))
		return;
	command = name;
	for (int i = 1; i < argc && strcmp(argv[i], "--") && !wanted; i++)
		wanted = !strcmp(argv[i], "--json") || !strcmp(argv[i], "-j");
	/* getopt's own messages go by this variable, too. */
	to = wanted ? fopencookie(NULL, "w", (cookie_io_functions_t){.write = keep}) : NULL;
	if (!to)
		return;
	setvbuf(to, NULL, _IONBF, 0);
	stderr = to;
}

bool failure_wants_json(void)
{
	return wanted;
}

/* Its own help is no reason. */
static const char *reason(void)
{
	char *help = !strncmp(said, "Usage:", 6) ? said : strstr(said, "\nUsage:");

	if (help)
		*help = '\0';
	n_said = strlen(said);
	while (n_said && said[n_said - 1] == '\n')
		said[--n_said] = '\0';
	return n_said ? said : "wrong usage";
}

int failure_report(int status)
{
	struct json j = {.to = stdout};

	if (!wanted || !status || json_begun())
		return status;
	json_object_begin(&j, NULL);
	json_u64(&j, "schema_version", 1);
	json_string(&j, "id", "hasten.error");
	json_string(&j, "command", command);
	json_u64(&j, "exit_status", (uint64_t)status);
	json_string(&j, "error", reason());
	json_end(&j);
	return status;
}
