/* Sections of "hasten ss": one row each, printed as text or as members of a JSON object. */
#ifndef HASTEN_CLI_SS_H
#define HASTEN_CLI_SS_H
#include "agent/cli/json.h"
#include "agent/cli/kernel_sockets.h"
#include "agent/cli/state_file.h"

struct ss_view {
	const struct state_file *file;
	const struct kernel_sockets *kernel;     /* NULL: cannot be read, kernel_error says why */
	const char *kernel_error;
	struct json *json;                       /* NULL: text */
};

struct ss_section {
	const char *name;
	int (*print)(const struct ss_view *view);        /* 0 or -errno */
	const char *help;
};

/* Ends with a row whose name is NULL. */
extern const struct ss_section ss_sections[];

/* Writes text that came from another process: what a terminal could take for an order becomes '?'. */
void print_safe(FILE *to, const char *text);
#endif
