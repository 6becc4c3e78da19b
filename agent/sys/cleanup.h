/* Locals that release what they own when they go out of scope. */
#ifndef HASTEN_SYS_CLEANUP_H
#define HASTEN_SYS_CLEANUP_H
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void cleanup_free(void *p)
{
	free(*(void **)p);
}

static inline void cleanup_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void cleanup_fclose(FILE **f)
{
	if (*f)
		fclose(*f);
}

static inline void cleanup_closedir(DIR **d)
{
	if (*d)
		closedir(*d);
}

#define _cleanup_(f) __attribute__((cleanup(f)))
#define _cleanup_free_ _cleanup_(cleanup_free)
#define _cleanup_close_ _cleanup_(cleanup_close)
#define _cleanup_fclose_ _cleanup_(cleanup_fclose)
#define _cleanup_closedir_ _cleanup_(cleanup_closedir)

/* The value, and the place it was in no longer owns it. */
#define take_ptr(p) \
	({ \
		__typeof__(p) *_place = &(p); \
		__typeof__(p) _taken = *_place; \
		*_place = NULL; \
		_taken; \
	})
#endif
