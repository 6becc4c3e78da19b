/* The journal: DIR/var/lib/hasten/journal, lines of JSON, each with a checksum, appended and fsynced. It is the only truth about what was
 * changed; cut anywhere it still says what to put back (a torn last line counts as not written; a damaged line before the
 * last is an error with file and line, and nothing is changed).
 *
 * Records: begin {transaction, boot_id, machine_id, profiles, consent}, original {id, step, target, device, key, life, value, group, collateral_of},
 * open {id, requested}, close {id, read_back}, commit, confirm {transaction}, restored {id, status}, end. A set that is
 * wholly reverted leaves no journal. */
#ifndef HASTEN_TUNE_JOURNAL_H
#define HASTEN_TUNE_JOURNAL_H
#include <stdbool.h>
#include <stddef.h>

#include "agent/tune/tune.h"

struct journal; /* one open journal, locked for writing or read only */

struct journal_record { /* one setting as the journal knows it */
	char *id, *step, *target, *device, *ifname, *key, *group, *collateral_of;
	char *original;  /* NULL: there was nothing */
	char *requested; /* of the last open record; NULL: never written */
	char *applied;   /* read back; NULL: open (or never written) */
	char *transaction, *boot_id, *machine_id, *profile;
	enum op_life life;
	bool is_open;    /* open without close: a writer died there */
	bool is_live;    /* its original still means something: same boot, or LIFE_FILE */
};

/* write: takes the lock (waits 10 s; -EBUSY with the holder's pid and command in e). A journal that is not there is an empty one. */
int journal_open(struct sys *s, bool write, struct journal **ret, struct error *e);
struct journal *journal_close(struct journal *j); /* gives the lock back */

size_t journal_count(const struct journal *j); /* settings, the first original of each id counts */
const struct journal_record *journal_get(const struct journal *j, size_t i);
const struct journal_record *journal_find(const struct journal *j, const char *id);

int journal_begin(struct journal *j, const char *const profiles[], bool consent, const char **ret_transaction, struct error *e);
int journal_original(struct journal *j, const struct op *op, const char *original, const char *collateral_of, struct error *e); /* no fsync */
int journal_sync(struct journal *j, struct error *e);
int journal_opened(struct journal *j, const char *id, const char *requested, struct error *e); /* fsynced */
int journal_closed(struct journal *j, const char *id, const char *read_back, struct error *e);
int journal_committed(struct journal *j, struct error *e); /* waits for confirm where a timer runs */
int journal_confirmed(struct journal *j, const char *transaction, struct error *e);
int journal_restored(struct journal *j, const char *id, enum op_status status, struct error *e);
/* Rewrites it with what is still needed (atomically), or removes it where nothing is. */
int journal_compact(struct journal *j, struct error *e);
const char *journal_unconfirmed(const struct journal *j); /* a transaction that waits for confirm, or NULL */
#endif
