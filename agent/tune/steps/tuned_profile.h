/* tuned's profiles as files: which keys one sets, with all that it includes; the generated one. */
#ifndef HASTEN_TUNE_STEPS_TUNED_PROFILE_H
#define HASTEN_TUNE_STEPS_TUNED_PROFILE_H
#include "agent/tune/steps/step.h"

#define TUNED_NAME "hasten"

/* Calls visit for each KEY=VALUE of an INI text; stops at the first that does not return 0. type: of the section
 * ("type=" in it, else its name). */
typedef int (*tuned_visit)(void *arg, const char *type, const char *key, const char *value);
int tuned_each(const char *text, tuned_visit visit, void *arg);

/* The attributes that profiles set at runtime (sysctl, THP), with their values now: to be written again where a switch
 * of profiles loses what a third party wrote there. */
struct tuned_attr {
	char *path, *value;
};
struct tuned_attrs {
	struct tuned_attr *attr;
	size_t n;
};
void tuned_attrs_free(struct tuned_attrs *a);
/* Of the profiles named (blanks between), with their includes; what cannot be read is left out. -ENOMEM. */
int tuned_attrs_read(struct sys *s, const char *names, struct tuned_attrs *ret);
/* Of one text (the generated profile). */
int tuned_attrs_add(struct sys *s, const char *text, struct tuned_attrs *ret);

/* The generated profile: what tuned is to set of the set, over the profiles named. *ret NULL: nothing is tuned's to
 * set. */
int tuned_generate(struct sys *s, const struct facts *f, const struct resolved_set *set, const char *include,
		   char **ret, struct error *e);
/* The profiles that a generated text includes, blanks between. Caller frees; NULL: none, or no memory. */
char *tuned_included(const char *text);
struct tuned_holding {
	bool names; /* the text sets this attribute */
	bool holds; /* the value is what it says (">4096": at least so much) */
	bool exact; /* and is the very value that it would write */
};
struct tuned_holding tuned_holds(const char *text, const char *path, const char *value);
#endif
