/* The applied set: DIR/var/lib/hasten/set.json: the profiles that the user named and the values they resolved to then. A package upgrade with
 * new values changes nothing until the next apply; status says that newer values exist. */
#ifndef HASTEN_TUNE_SET_H
#define HASTEN_TUNE_SET_H
#include <stdbool.h>

#include "agent/profile/profile.h"

struct sys;
struct facts;
struct error;

struct applied_set {
	char **profile; /* NULL: nothing was applied */
	struct resolved_set resolved;
	char *machine_id, *applied_at; /* RFC 3339 UTC */
	bool consent; /* --allow-disruptive, for the boots to come */
	unsigned made_for_cpus;
	uint64_t made_for_memory_kib;
};
int set_load(struct sys *s, struct applied_set *ret, struct error *e); /* -ENOENT: none */
int set_store(struct sys *s, const struct applied_set *set, struct error *e);
int set_remove(struct sys *s, struct error *e);
void set_free(struct applied_set *set);
/* Would the same names resolve to other values today? newer: profiles changed; the facts' part (another NIC) is not newer. */
int set_newer(struct sys *s, const struct applied_set *set, const struct facts *f, bool *ret, struct error *e);
#endif
