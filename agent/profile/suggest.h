/* What somebody may have meant who wrote a name wrong. */
#ifndef HASTEN_PROFILE_SUGGEST_H
#define HASTEN_PROFILE_SUGGEST_H
#include <stddef.h>

/* Start with {.wanted = name}; offer each candidate; best is NULL where none is near. */
struct suggestion {
	const char *wanted, *best;
	size_t distance;
};
void suggest_offer(struct suggestion *s, const char *candidate);
#endif
