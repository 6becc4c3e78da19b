/* One profile file as it is written, checked by itself: between parse.c and profile.c. */
#ifndef HASTEN_PROFILE_PARSE_H
#define HASTEN_PROFILE_PARSE_H
#include "agent/profile/profile.h"

#define PROFILE_NAME_MAX 64 /* bytes */

struct profile_file {
	char *path; /* what messages call it: with the root before it */
	char *name, *summary;
	struct profile_include {
		char *name;
		unsigned line;
	} * include;
	size_t n_include;
	char **unset; /* NULL ended, or NULL */
	struct setting *setting;
	size_t n_setting;
	struct profile_recommend *recommend;
	size_t n_recommend;
	bool boot;
};
/* Reads nothing but text. name: what the file must call itself, or whose drop-in it is; NULL: what it likes. On failure
 * *ret is empty. */
int profile_file_parse(const char *path, const char *name, bool drop_in, const char *text, size_t len,
		       struct profile_file *ret, struct error *e);
void profile_file_free(struct profile_file *f);
void setting_free(struct setting *s);
void recommend_free(struct profile_recommend *r);
bool profile_name_valid(const char *name);
/* Is value (a literal or an expression) one that the field takes? */
int setting_value_check(const struct field *field, const char *key, enum setting_mode mode, const char *value,
			struct error *e);
#endif
