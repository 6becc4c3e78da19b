/* The kernel's command line as text: our arguments stand together, begun by one that only we write, so that exactly
 * ours are found again and taken out, whatever stands around them. */
#ifndef HASTEN_TUNE_STEPS_CMDLINE_H
#define HASTEN_TUNE_STEPS_CMDLINE_H
#include <stdbool.h>
#include <stdint.h>

/* The first of our arguments: for which machine they were worked out. The kernel takes a name with a dot for a module's
 * parameter and, there being no such module, passes over it in silence (unknown_bootoption, init/main.c). */
#define CMDLINE_MARK "hasten.made_for="

char *cmdline_mark(unsigned cpus, uint64_t memory_kib); /* "hasten.made_for=8cpu,31744mib"; NULL: no memory */
bool cmdline_mark_parse(const char *text, unsigned *ret_cpus, uint64_t *ret_mib); /* the first mark in text */

bool cmdline_is_ours(const char *name, unsigned long len); /* a key that we may set: isolcpus .. */
/* Does line have the argument key (without "=")? Quotes are honoured as the kernel does (next_arg, lib/cmdline.c). */
bool cmdline_has(const char *line, const char *key);
/* Are all arguments of wanted in line? */
bool cmdline_has_all(const char *line, const char *wanted);
/* Our arguments in line, NULL where none (0 with *ret NULL); the line without them. Caller frees. -ENOMEM. */
int cmdline_split(const char *line, char **ret_ours, char **ret_rest);
char *cmdline_join(const char *line, const char *ours); /* ours at its end, a line end after it kept; NULL: no memory */
#endif
