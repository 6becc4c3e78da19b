/* What the files of the engine share. */
#ifndef HASTEN_TUNE_ENGINE_H
#define HASTEN_TUNE_ENGINE_H
#include "agent/detect/facts.h"
#include "agent/sys/cleanup.h"
#include "agent/sys/error.h"
#include "agent/sys/sys.h"
#include "agent/tune/journal.h"
#include "agent/tune/record.h"
#include "agent/tune/set.h"
#include "agent/tune/tune.h"

/* ---- value.c: one setting ---- */
bool text_same(const char *a, const char *b);                       /* NULL is only NULL */
bool op_same(const struct op *op, const char *a, const char *b);    /* a read, b asked: by the step */
int op_read(struct sys *s, const struct op *op, char **ret);
int op_write(struct sys *s, const struct op *op, const char *value); /* EBUSY and EAGAIN are tried again for a while */
enum op_status op_explain(const struct op *op, int err);
int op_say(struct op *op, enum op_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The operation as the journal knows it. *ret_gone: its device is not there now. */
int op_of_record(const struct facts *f, const struct journal_record *r, struct op *ret, bool *ret_gone);
bool step_chosen(const struct tune_options *o, const char *step);
/* Is it within --only and --nic? identity: nic_chosen's. */
struct scope {
	const struct tune_options *o;
	char *identity; /* of o->nic; NULL all */
};
int scope_begin(const struct facts *f, const struct tune_options *o, struct scope *ret, struct error *e); /* -ENODEV: no such NIC */
void scope_end(struct scope *sc);
bool scope_has(const struct scope *sc, const char *step, const char *device);
/* Once after the writes of each step that is marked; index as in tune_steps(). *ret_step: which failed. */
#define STEPS_MAX 64
int steps_finish(struct sys *s, const bool touched[STEPS_MAX], const struct step **ret_step, struct error *e);
unsigned step_index(const struct step *st);

/* ---- consent.c ---- */
/* Sets effect and needs_consent of each operation, and those that wait for it. allowed: by whom it is run, or by its set. */
void consent_mark(const struct facts *f, struct plan *p, bool allowed);
struct nic_change record_effect(const struct nic_facts *nic, const char *step);

/* ---- plan.c ---- */
/* The operations of the set's values, each with its status against what is there; j for what hasten changed before. */
int plan_values(struct sys *s, const struct facts *f, const struct resolved_set *r, const struct tune_options *o, const struct journal *j,
	struct plan *ret, struct error *e);
/* The kernel said in this boot that it keeps this setting to itself: what op wants was refused, and is not tried again. */
bool op_refused(const struct op *op, const struct journal_record *r);
int op_say_refused(struct op *op);
/* Forgets refusals of settings that keep (NULL: none) does not want, within the scope. */
int refusals_forget(struct journal *j, const struct plan *keep, const struct scope *sc, struct error *e);
/* Does the record's last write stand, and was it a write of what op wants? */
bool op_stands(const struct op *op, const struct journal_record *r);

/* ---- restore.c: putting values back ---- */
enum restore_mode {
	RESTORE_REVERT, /* to the originals; what somebody else changed since stays */
	RESTORE_FORCE,  /* to the originals, whatever is there */
	RESTORE_REMOVE, /* as REVERT, within a transaction that may yet be undone */
	RESTORE_BEFORE, /* to what it was before the transaction that is not over, whatever is there */
};
struct restore {
	struct sys *s;
	const struct facts *f;
	struct journal *j;
	enum restore_mode mode;
	bool may_disrupt;
	bool journal_lost; /* go on without it: it cannot be written any more */
};
/* Which records; results are appended to ret (may be NULL): reverted, drift, orphaned, failed, pending-consent. */
typedef bool (*restore_choice)(void *arg, const struct journal_record *r);
int restore_run(struct restore *x, restore_choice chosen, void *arg, struct plan *ret, struct error *e);
/* A transaction that died, or was not confirmed in time: as it was before it. Ends it. journal_lost: see struct restore. */
int transaction_undo(struct sys *s, const struct facts *f, struct journal *j, bool journal_lost, struct plan *ret, struct error *e);
/* What a writer that died left half done; *ret_n: settings put back. f may be NULL: it is gathered where it is needed. */
int recover_locked(struct sys *s, const struct facts *f, struct journal *j, size_t *ret_n, struct error *e);
int journal_steps_known(const struct journal *j, struct error *e);

/* ---- deadman.c ---- */
#define CONFIRM_S 60
int deadman_start(struct sys *s, const struct facts *f, const char *transaction, unsigned seconds, struct error *e);
void deadman_end(struct sys *s, const char *transaction);
uint64_t boot_clock_s(void);
#endif
