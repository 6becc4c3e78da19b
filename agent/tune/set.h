/* The applied set: DIR/var/lib/hasten/set.json: the profiles that the user named and the values they resolved to then. A package upgrade with
 * new values changes nothing until the next apply; status says that newer values exist. While a transaction runs or waits for confirm its set
 * is set-pending.json, and set.json the one before. */
#ifndef HASTEN_TUNE_SET_H
#define HASTEN_TUNE_SET_H
#include <stdbool.h>

#include "agent/profile/profile.h"

struct sys;
struct facts;
struct error;
struct tune_options;

struct applied_set {
	char **profile; /* NULL: nothing was applied */
	struct resolved_set resolved;
	char *machine_id;  /* NULL: of an image, to be worked out anew at its boot */
	char *applied_at;  /* RFC 3339 UTC */
	char *fingerprint; /* of what the profiles' files said: keys, modes, values, conditions */
	bool consent;      /* --allow-disruptive, for the boots to come */
	unsigned made_for_cpus;
	uint64_t made_for_memory_kib;
};
/* -ENOENT: none. -EBADMSG: damaged; e names file and line. */
int set_load(struct sys *s, bool pending, struct applied_set *ret, struct error *e);
int set_store(struct sys *s, const struct applied_set *set, bool pending, struct error *e);
int set_remove(struct sys *s, bool pending, struct error *e); /* none is 0 */
int set_settle(struct sys *s, struct error *e);               /* the pending one becomes the set; none is 0 */
void set_free(struct applied_set *set);
/* Would the same names resolve to other values today? newer: the profiles' files changed; the facts' part (another NIC) is not newer. */
int set_newer(struct sys *s, const struct applied_set *set, const struct facts *f, bool *ret, struct error *e);
/* What the set is after r was applied within o's steps and NIC: outside of them old (NULL: none) stays. */
int set_make(struct sys *s, const struct facts *f, const struct resolved_set *r, const struct tune_options *o, const struct applied_set *old,
	struct applied_set *ret, struct error *e);
/* Takes the values within o's steps and NIC out. */
int set_reduce(struct applied_set *set, const struct facts *f, const struct tune_options *o);
bool set_equal(const struct applied_set *a, const struct applied_set *b); /* but for the time */
bool set_fits_machine(const struct applied_set *set, const struct facts *f); /* as many CPUs, memory within 5 % */
#endif
