/* Writes one JSON document to a stream, two blanks a level. A key is NULL inside an array and at the top.
 * Bytes that are not valid UTF-8 become U+FFFD; a number that is not finite becomes null. */
#ifndef HASTEN_CLI_JSON_H
#define HASTEN_CLI_JSON_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define JSON_DEPTH_MAX 16

struct json {
	FILE *to;
	unsigned depth;
	bool filled[JSON_DEPTH_MAX]; /* the open object or array has a member already */
	bool array[JSON_DEPTH_MAX];
};

void json_object_begin(struct json *j, const char *key);
void json_array_begin(struct json *j, const char *key);
bool json_begun(void); /* has a document been begun on standard output? */
void json_end(struct json *j); /* of the innermost; a line end follows the last */
void json_string(struct json *j, const char *key, const char *value);
void json_u64(struct json *j, const char *key, uint64_t value);
void json_number(struct json *j, const char *key, double value, int decimals);
void json_bool(struct json *j, const char *key, bool value);
void json_null(struct json *j, const char *key);
#endif
