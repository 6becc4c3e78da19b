/* What journal.c (state, reading) and journal_write.c (appending, rewriting) share. */
#ifndef HASTEN_TUNE_JOURNAL_INNER_H
#define HASTEN_TUNE_JOURNAL_INNER_H
#include "agent/tune/journal.h"

struct journal {
	struct sys *s;
	char *path; /* for messages */
	char *boot_id, *machine_id;
	int lock, fd; /* -1 */
	bool exists;
	char *made;     /* outermost folder made for the state, NULL */
	uint32_t sum;   /* of the last line: the next one's begins with it */
	off_t size;     /* of the whole lines */
	unsigned lines;
	struct journal_record **record;
	size_t n_record;
	uint32_t *bucket; /* index + 1 of a record, by the sum of its id; 0 none */
	size_t n_bucket;
	struct journal_transaction *transaction; /* that is not over */
};

/* One line, parsed, makes the state what it says: reading and writing go the same way, so what was written is what will be read. */
struct record;
int journal_take_line(struct journal *j, const struct record *line, const char **ret_why);
struct journal_record *journal_record_mutable(const struct journal *j, const char *id);
int journal_reindex(struct journal *j);
void journal_record_free(struct journal_record *r);
void journal_transaction_free(struct journal_transaction *t);
#endif
