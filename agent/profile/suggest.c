#include "agent/profile/suggest.h"

#include <string.h>

#define LENGTH_MAX 64

/* Levenshtein's distance, one row at a time. */
static size_t distance(const char *a, const char *b, size_t n_a, size_t n_b)
{
	size_t row[LENGTH_MAX + 1];

	for (size_t j = 0; j <= n_b; j++)
		row[j] = j;
	for (size_t i = 1; i <= n_a; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= n_b; j++) {
			size_t best = diagonal + (a[i - 1] != b[j - 1]);

			diagonal = row[j];
			if (best > row[j] + 1)
				best = row[j] + 1;
			if (best > row[j - 1] + 1)
				best = row[j - 1] + 1;
			row[j] = best;
		}
	}
	return row[n_b];
}

void suggest_offer(struct suggestion *s, const char *candidate)
{
	size_t n = strlen(s->wanted), n_candidate = strlen(candidate), d;

	if (!n || n > LENGTH_MAX || n_candidate > LENGTH_MAX)
		return;
	d = distance(s->wanted, candidate, n, n_candidate);
	/* a third of the letters wrong is another word */
	if (d * 3 > n || (s->best && d >= s->distance))
		return;
	s->best = candidate;
	s->distance = d;
}
