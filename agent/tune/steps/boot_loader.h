/* Where a boot loader keeps the kernel's command line: one row a kind. A row's text is what one operation of bootargs
 * reads and writes. */
#ifndef HASTEN_TUNE_STEPS_BOOT_LOADER_H
#define HASTEN_TUNE_STEPS_BOOT_LOADER_H
#include "agent/tune/steps/step.h"

struct boot_place {
	enum boot_loader kind;
	const char *name; /* what the key of the operation begins with, and messages say */
	/* The key of the operation; 0 with *ret NULL: this machine has no such place after all. */
	int (*key)(struct sys *s, char **ret);
	/* The text to be there for arguments. Caller frees. */
	int (*text)(const char *arguments, const char *profile, char **ret);
	int (*read)(struct sys *s, const struct op *op, char **ret); /* 0 with *ret NULL: nothing of ours */
	int (*write)(struct sys *s, const struct op *op, const char *value);
	/* Visits the administrator's lines of arguments; as step_lines. */
	int (*admin)(struct sys *s, step_line visit, void *arg);
	int (*finish)(struct sys *s, struct error *e);
};
const struct boot_place *boot_place_of(enum boot_loader kind); /* NULL: unknown */
const struct boot_place *boot_place_by_key(const char *key);
#endif
