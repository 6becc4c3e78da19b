/* Which machine a command looks at or changes, and how it prints: the options --root DIR and --json, the same for every command on
 * the host's settings.
 *
 *   static const struct option longs[] = {TARGET_LONGS, {"help", no_argument, NULL, 'h'}, {0}};
 *   while ((c = getopt_long(argc, argv, TARGET_SHORTS "h", longs, NULL)) != -1)
 *           switch (c) {
 *           TARGET_CASES(&target)
 *           ...
 *   if ((r = target_open(&target, "hasten detect", &s)))
 *           return r;
 */
#ifndef HASTEN_CLI_TARGET_H
#define HASTEN_CLI_TARGET_H
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>

struct sys;
struct error;

struct target {
	const char *root; /* NULL: this machine */
	bool json;
};

#define TARGET_SHORTS "jr:"
#define TARGET_LONGS {"json", no_argument, NULL, 'j'}, {"root", required_argument, NULL, 'r'}
#define TARGET_CASES(t) \
	case 'j': \
		(t)->json = true; \
		break; \
	case 'r': \
		(t)->root = optarg; \
		break;
/* Their lines of a command's --help. */
#define TARGET_HELP \
	"  -r, --root DIR   look at the machine whose files lie in DIR: a captured tree or a mounted image\n" \
	"  -j, --json       one JSON document\n"

/* Opens the machine, or prints why not and returns the exit status (1; 64 where DIR is no folder). */
int target_open(const struct target *t, const char *command, struct sys **ret);
/* Prints "COMMAND: what went wrong" on standard error, empties e, returns the exit status 1. */
int target_failed(const char *command, struct error *e, int err);
/* Wrong use, of which getopt has said what (surplus NULL), or one argument too many: where to read on. Returns EXIT_USAGE. */
int target_misused(const char *command, const char *surplus);
/* May this stream be coloured? A terminal that knows colours, and NO_COLOR is not set. */
bool target_colour(FILE *to);
/* A text of the machine's (names of interfaces, files) for a terminal: control characters and broken UTF-8 become "?". Caller frees. */
char *target_plain(const char *text);
#endif
