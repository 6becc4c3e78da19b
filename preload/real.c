#include "preload/real.h"
#include "preload/symbols.h"

#include <dlfcn.h>

struct real real;
bool real_bound;

#define CALL(ret, name, params, group) + 1
enum { CALLS = 0
#include "preload/calls.def"
};
#undef CALL
_Static_assert(sizeof(struct real) == CALLS * sizeof(void *), "one pointer a row");

/* In one string: a table of pointers would have to be relocated at every start. */
#define CALL(ret, name, params, group) #name "\0"
static const char names[] =
#include "preload/calls.def"
	;
#undef CALL

EARLY static const char *after(const char *name)
{
	while (*name)
		name++;
	return name + 1;
}

EARLY static uint32_t bind_from(const struct link_map *m, const uint32_t *hash, bool libc_only)
{
	void **entry = (void **)&real;
	uint32_t found = 0, i = 0;
	struct symbols in;
	symbols_of(m, &in);
	if ((!in.gnu_hash && !in.sysv_hash) || (libc_only && !symbols_is_libc(&in)))
		return 0;
	for (const char *n = names; i < CALLS; n = after(n), i++)
		if (!entry[i])
			found += (entry[i] = symbols_find(&in, n, hash[i])) != NULL;
	return found;
}

/* One walk over the objects behind us for all rows: a dlsym for each would be a third of what starting `true` costs. */
EARLY void real_bind(void)
{
	void **entry = (void **)&real;
	uint32_t hash[CALLS], left = 0, i = 0;
	for (const char *n = names; i < CALLS; n = after(n), i++) {
		hash[i] = symbols_hash(n);
		left += !entry[i];
	}
	const struct link_map *self = symbols_self();
	/* behind us, as RTLD_NEXT; then libc wherever it is: we were not preloaded but opened by the program */
	for (const struct link_map *m = self; left && m && (m = m->l_next);)
		left -= bind_from(m, hash, false);
	for (const struct link_map *m = _r_debug.r_map; left && m && m != self; m = m->l_next)
		left -= bind_from(m, hash, true);
	i = 0;
	for (const char *n = names; i < CALLS; n = after(n), i++)
		if (entry[i] == SYMBOL_BY_RESOLVER)
			entry[i] = real.dlsym(RTLD_NEXT, n);
	real_bound = true;
}
