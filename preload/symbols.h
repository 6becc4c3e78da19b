/* Functions of loaded objects, found without dlsym: that is ours (proc/dl.c), and the table of real calls is bound
 * before it can be used.
 *
 * The walk follows the loader's own list of objects (_r_debug) and not dl_iterate_phdr, which programs define
 * themselves, some with a dlsym inside. At start the list is the order of the global scope, so "after us" is what
 * RTLD_NEXT means. Nothing here may be instrumented by a sanitizer: its runtime asks dlsym before it is ready. */
#ifndef HASTEN_SYMBOLS_H
#define HASTEN_SYMBOLS_H
#include <link.h>
#include <stdbool.h>
#include <stdint.h>

#define EARLY __attribute__((no_sanitize("address", "undefined", "thread")))

struct symbols {
	const char *object;              /* the file's path as the loader has it */
	uintptr_t base;
	const ElfW(Sym) *symbol;
	const char *string;
	const uint32_t *gnu_hash, *sysv_hash; /* one of them, or NULL */
	const ElfW(Half) *version;
};

#define SYMBOL_BY_RESOLVER ((void *)1) /* STT_GNU_IFUNC: dlsym must resolve it */

uint32_t symbols_hash(const char *name);
/* Tables of the object that m stands for. */
void symbols_of(const struct link_map *m, struct symbols *ret);
/* The default version of name that the object defines; NULL none; SYMBOL_BY_RESOLVER. */
void *symbols_find(const struct symbols *in, const char *name, uint32_t hash);
/* This library among the loaded objects; NULL: the loader's list does not have it. */
const struct link_map *symbols_self(void);
/* Is it libc, or the libraries that were split from it before glibc 2.34? */
bool symbols_is_libc(const struct symbols *in);
bool symbols_same(const char *a, const char *b);
#endif
