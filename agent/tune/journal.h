/* The journal: DIR/var/lib/hasten/journal, lines of JSON, each with a checksum over itself and all before it, appended and fsynced. It is
 * the only truth about what was changed; cut anywhere it still says what to put back (a last line without its end counts as not
 * written; any other damage is an error with file and line, and nothing is changed).
 *
 * Lines, by "type":
 *   journal   {version, made}: the first. made: the outermost folder that had to be made for it, null
 *   begin     {transaction, kind, boot_id, machine_id, profiles, consent, pid, started}
 *   original  {id, step, target, device, ifname, key, life, value, group, collateral_of, profile}: before the first write
 *   open      {id, requested, removal}: about to be written
 *   close     {id, value, refused}: what was read back. Without an open: another operation's write changed it too
 *   restored  {id, to, refused}: "original": it is ours no longer; "before": as it was before this transaction
 *             refused: of both, what the kernel keeps to itself and would not take (a managed interrupt); left out where nothing was
 *   commit    {deadline_s}: of the boot clock, by when confirm is due; null: none needed
 *   confirm, end   the transaction is over: persisted; undone
 *
 * A transaction that was neither committed nor ended died: tune_recover undoes it (kind "apply": every setting that it opened gets the
 * value that it had before it, whatever is found there) or finishes it (kind "revert": every open setting gets its original). */
#ifndef HASTEN_TUNE_JOURNAL_H
#define HASTEN_TUNE_JOURNAL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/tune/tune.h"

#define STATE_FOLDER "/var/lib/hasten"
#define JOURNAL_PATH STATE_FOLDER "/journal"
#define LOCK_PATH STATE_FOLDER "/lock"
#define LOCK_WAIT_MS 10000

struct journal; /* one open journal, locked for writing or read only */

struct journal_record { /* one setting as the journal knows it */
	char *id, *step, *target, *device, *ifname, *key, *group, *collateral_of, *profile;
	enum op_life life;
	char *original;            /* NULL: there was nothing */
	char *boot_id, *machine_id; /* of the original */
	bool is_live;              /* its original still means something: same boot and machine, or LIFE_FILE */
	bool is_written;           /* ours: opened, or changed by the write of another */
	bool is_open;              /* open without close: a writer died there */
	bool is_removal;           /* no set wants it any more: what was requested last is the original */
	char *requested;           /* of the last open; NULL: nothing, or not written */
	char *applied;             /* read back; NULL: nothing, or not written */
	char *refused;             /* in this boot the kernel said for good that it takes no such value; NULL */
	/* Before the transaction that is not over: */
	bool is_touched;           /* that transaction opened or changed it */
	bool before_written;
	char *before_requested, *before; /* before: the original, where it was not ours */
	bool is_refused_anew;
	char *before_refused;
	unsigned line;             /* of its original, for messages */
};

enum transaction_kind { TRANSACTION_APPLY, TRANSACTION_REVERT };
struct journal_transaction {
	char *id, *boot_id, *machine_id, *command;
	char **profiles;
	enum transaction_kind kind;
	bool consent;
	bool waits;          /* committed, not confirmed */
	uint64_t deadline_s; /* CLOCK_BOOTTIME of its boot */
	pid_t pid;           /* its writer, and when that started (field 22 of /proc/PID/stat) */
	uint64_t started;
};

/* write: takes the lock (waits 10 s; -EBUSY with the holder's pid and command in e). A journal that is not there is an empty one. */
int journal_open(struct sys *s, bool write, struct journal **ret, struct error *e);
/* Gives the lock back. Where nothing is left to remember, journal, lock and the folders made for them go. Returns NULL. */
struct journal *journal_close(struct journal *j);
const char *journal_path(const struct journal *j); /* with the root: for messages */
const char *journal_boot_id(const struct journal *j); /* now */
const char *journal_machine_id(const struct journal *j);

size_t journal_count(const struct journal *j); /* settings, in the order in which their first originals came */
const struct journal_record *journal_get(const struct journal *j, size_t i);
const struct journal_record *journal_find(const struct journal *j, const char *id);
/* The transaction that is not over, or NULL. */
const struct journal_transaction *journal_transaction(const struct journal *j);

int journal_begin(struct journal *j, enum transaction_kind kind, const char *const profiles[], bool consent, struct error *e);
/* Keeps the original that is there, where that is live. Not fsynced. */
int journal_original(struct journal *j, const struct op *op, const char *original, const char *collateral_of, struct error *e);
/* Room for the rest of the transaction and for its undoing, before its first write. */
int journal_reserve(struct journal *j, struct error *e);
int journal_sync(struct journal *j, struct error *e);
/* fsynced where the original outlives the boot: after a crash of the kernel a runtime setting has its boot value again. */
int journal_opened(struct journal *j, const char *id, const char *requested, bool removal, struct error *e);
int journal_closed(struct journal *j, const char *id, const char *value, struct error *e);
int journal_restored(struct journal *j, const char *id, bool to_before, struct error *e);
/* The kernel kept value and will never take refused: closed where it is ours by another operation's write (written), else restored. */
int journal_refused(struct journal *j, const char *id, bool written, const char *value, const char *refused, struct error *e);
/* deadline_s 0: the transaction is over, and the journal is rewritten with what is still needed. */
int journal_committed(struct journal *j, uint64_t deadline_s, struct error *e);
int journal_confirmed(struct journal *j, struct error *e); /* over, rewritten */
int journal_ended(struct journal *j, struct error *e);     /* over, rewritten */
/* Writes the first line where there is none yet: what made the folder is remembered. */
int journal_keep(struct journal *j, struct error *e);

/* lock.c: OFD lock (fcntl(2)): it belongs to the open file, so neither a thread nor another descriptor of the process loses it. */
struct lock_holder {
	pid_t pid; /* 0 not known */
	char command[128];
};
/* -EBUSY: *ret_holder says who has it after wait_ms. */
int lock_take(struct sys *s, unsigned wait_ms, int *ret_fd, struct lock_holder *ret_holder);
void lock_holder(struct sys *s, struct lock_holder *ret);
uint64_t process_started(pid_t pid); /* field 22 of /proc/PID/stat, clock ticks since boot; 0 no such process */
#endif
