/* The JSON that the engine keeps on disk: a line of the journal, set.json. Strings carry any byte but zero: what is not valid UTF-8 is
 * written as \udc80 .. \udcff (a lone low surrogate, which no valid text has) and read back as the byte. */
#ifndef HASTEN_TUNE_RECORD_H
#define HASTEN_TUNE_RECORD_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define RECORD_DEPTH_MAX 8

struct record {
	enum { RECORD_NULL, RECORD_FALSE, RECORD_TRUE, RECORD_NUMBER, RECORD_TEXT, RECORD_LIST, RECORD_MAP } kind;
	char *key;  /* in its map */
	char *text; /* of numbers and texts */
	struct record *child;
	size_t n_child;
};
/* Exactly one value, white space around it; -EBADMSG: *ret_why (static) says what is wrong and *ret_line in which line of text, from 1. */
int record_parse(const char *text, size_t len, struct record *ret, const char **ret_why, unsigned *ret_line);
void record_free(struct record *r);
const struct record *record_get(const struct record *map, const char *key);
const char *record_text(const struct record *map, const char *key); /* NULL: not there, or null */
bool record_true(const struct record *map, const char *key);
int record_u64(const struct record *map, const char *key, uint64_t *ret); /* -ENOENT, -ERANGE, -EINVAL */
int record_texts(const struct record *map, const char *key, char ***ret); /* of a list of texts; NULL ended, caller frees by texts_free */

void record_write(FILE *to, const char *text); /* with the quotes; NULL: null */

void texts_free(char **texts);
int texts_copy(const char *const *texts, char ***ret);
bool texts_equal(const char *const *a, const char *const *b);
/* CRC-32C (Castagnoli, reflected 0x82f63b78) of len bytes after what crc was for; 0 begins. */
uint32_t record_crc(uint32_t crc, const void *data, size_t len);
#endif
