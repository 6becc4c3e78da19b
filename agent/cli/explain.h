/* Can this program be accelerated? Looks at the file, never runs it. */
#ifndef HASTEN_EXPLAIN_H
#define HASTEN_EXPLAIN_H
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

enum obstacle {
	OBSTACLE_NONE,
#define OBSTACLE(NAME, word, text) OBSTACLE_##NAME,
#include "agent/cli/obstacles.def"
#undef OBSTACLE
	OBSTACLE_COUNT
};

struct explanation {
	enum obstacle obstacle;
	char path[PATH_MAX];    /* the file that decided: the program or the interpreter of its script */
	char detail[320];       /* what was found there: a loader, a library, a machine; may be empty */
	bool uring;             /* links liburing: the library gives way if it is used */
	bool unread;            /* may be run but not read: nothing is known */
};

/* Finds name as execvp does. Returns 0, -ENOENT or -EACCES (found, but nobody may run it). */
int explain_find(const char *name, char *ret_path, size_t size);

/* Looks at the file at path, and for a script at its interpreters. Returns 0; -ENOENT, -EACCES. */
int explain_program(const char *path, struct explanation *ret);

/* The sanitizer runtime that a library needs first, as a soname; empty: none. Returns 0 or -errno. */
int explain_library(const char *path, char *ret_sanitizer, size_t size);

const char *obstacle_word(enum obstacle obstacle);
const char *obstacle_text(enum obstacle obstacle);
#endif
