/* What an exec would start: will it be preloaded with this very library? Only then may it be handed what is on a lane
 * (handover.h). Asked before the exec, of the files themselves; whatever is not known for sure is a no:
 *
 *   - a program of this architecture with the loader that this process has, or a script whose interpreter is one
 *   - no set-uid, set-gid or capabilities on the file, and no other user than the real one here: the loader would
 *     take LD_PRELOAD out (AT_SECURE); the same for a security module that has its own rules at exec
 *   - LD_PRELOAD in its environment names, by a path, a file with our build id: another build has other layouts */
#ifndef HASTEN_IMAGE_H
#define HASTEN_IMAGE_H
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How a call names the program. */
struct exec_target {
	enum { EXEC_PATH, EXEC_SEARCH, EXEC_FD, EXEC_AT } by;
	const char *path;
	int fd;                      /* EXEC_FD, EXEC_AT */
	int flags;                   /* EXEC_AT */
};

/* ret_path (PATH_MAX): for EXEC_SEARCH the file that was found and that must be the one to be executed. */
bool image_preloaded(const struct exec_target *t, char *const *envp, char *ret_path);

#define IMAGE_BUILD_MAX 32
/* This library's build id; returns its length, 0 none. */
size_t image_build(uint8_t *ret);
#endif
