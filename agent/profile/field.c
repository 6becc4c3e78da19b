#include "agent/profile/profile.h"

#include <string.h>

static const struct field fields[] = {
#define FIELD(...) {__VA_ARGS__},
#include "agent/profile/fields.def"
#undef FIELD
};
#define N_FIELDS (sizeof(fields) / sizeof(fields[0]))

static bool pattern_takes(const char *pattern, const char *key)
{
	size_t n = strlen(pattern);

	if (n < 2 || strcmp(pattern + n - 2, ".*"))
		return !strcmp(pattern, key);
	return !strncmp(pattern, key, n - 1) && key[n - 1];
}

const struct field *field_find(const char *key)
{
	for (size_t i = 0; i < N_FIELDS; i++)
		if (pattern_takes(fields[i].key, key))
			return &fields[i];
	return NULL;
}

const struct field *field_all(size_t *ret_n)
{
	*ret_n = N_FIELDS;
	return fields;
}
