/* The tuning engine: facts and a resolved set of profiles give operations; the same list is printed by plan, executed by apply, compared
 * by verify and inverted by revert.
 *
 *   profile_resolve -> tune_plan (pure) -> tune_apply (journal first) -> tune_verify / tune_revert / tune_recover
 *
 * Invariants
 *  - Nothing is written that plan did not list. What an operation destroys as a side effect is read and journalled with it.
 *  - Every original is on disk (fsync) before the first write of the plan. A record is open before its write, closed after it with the
 *    value read back. Recovery of an open record in the same boot restores the original whatever it finds.
 *  - One writer: an OFD lock beside the journal; a second waits 10 s, then is told who holds it.
 *  - A value that somebody else changed since is kept and reported (status drift), never fought over.
 *  - Runtime originals belong to one boot id; files and boot arguments survive boots; another machine id: files and boot arguments only. */
#ifndef HASTEN_TUNE_TUNE_H
#define HASTEN_TUNE_TUNE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/nic/nic.h"
#include "agent/profile/profile.h"

struct sys;
struct facts;
struct error;
struct journal;

enum op_status {
#define STATUS(symbol, name, is_good, text) OP_##symbol,
#include "agent/tune/statuses.def"
#undef STATUS
	OP_STATUS_MAX
};
const char *op_status_name(enum op_status s); /* "ok", "drift", .. */
const char *op_status_meaning(enum op_status s);
bool op_status_good(enum op_status s);        /* verify exits 0 with it */

/* How long an original means something. */
enum op_life { LIFE_BOOT /* runtime settings */, LIFE_FILE /* files, boot arguments */ };

struct op {
	char *id;     /* stable, unique in a plan: "sysctl/net.core.somaxconn", "irq/pci-0000:00:05.0/queue-2" */
	const struct step *step;
	char *target; /* what a user calls it: "net.core.somaxconn", "eth0 queue 2 (IRQ 27)" */
	char *device; /* identity of the NIC, NULL */
	char *ifname; /* its name now, NULL */
	char *key;    /* what the step's read and write need: a path, "combined", a file */
	char *current, *desired; /* canonical texts; current NULL: not there */
	char *why, *source, *profile;
	enum op_life life;
	struct nic_change effect; /* EFFECT_NONE for all that is not a NIC's */
	bool needs_reboot, needs_consent; /* consent: reset or flap on a protected NIC; the engine sets it */
	bool is_removal; /* no profile of the set wants it any more: desired is its first original. The engine's */
	char *group;  /* all or nothing: the operations of one NIC; paired keys. NULL: alone */
	enum op_status status;
	char *status_text; /* why this status: file and line of the admin's setting, the kernel's error; NULL */
};
struct plan {
	struct op *op; /* in the order of execution */
	size_t n_op;
	struct conflict *conflict; /* borrowed from the resolved set */
	size_t n_conflict;
	const struct journal *journal; /* while it is made: for plan_base; else NULL */
};
/* What raise-only compares with: the value before hasten changed the setting, where it did in this boot, else current. Without this an
 * "at least" of a second set would keep the larger value of the first. Borrowed. */
const char *plan_base(const struct plan *p, const char *id, const char *current);
/* Appends an operation with everything zero; pointers to earlier ones may move. NULL: no memory. */
struct op *plan_add(struct plan *p);
void op_free(struct op *op); /* what it owns; and empties */
void plan_free(struct plan *p);

/* A tuning step: one file agent/tune/steps/NAME.c and one row in steps.def. */
struct step {
	const char *name; /* what --only takes */
	const char *title;
	enum op_life life;
	const char *under; /* all its operations write below this folder, a mount of its own in containers. NULL: not so */
	bool by_queue; /* its plan counts on the number of queues that the plan asks for: waits with channels that wait for consent */
	/* Appends this step's operations for the resolved values that name it (field->step). Reads facts, and files by s; writes nothing. It fills
	 * current too, and where nothing can be done the status with its text (skipped, unsupported, admin, manual): the engine never writes
	 * those. */
	int (*plan)(struct sys *s, const struct facts *f, const struct resolved_set *r, struct plan *p, struct error *e);
	/* The value now, canonical. It knows no more of op than the journal does: id, target, device, ifname, key. 0 with *ret NULL: nothing is
	 * there, but write can make it (a file; a queue that comes with more channels). -ENOENT, -EOPNOTSUPP: the knob is missing (status
	 * unsupported). */
	int (*read)(struct sys *s, const struct op *op, char **ret);
	/* value NULL: as it was when there was nothing (remove what we made). The kernel's error. */
	int (*write)(struct sys *s, const struct op *op, const char *value);
	/* Is a (read back) what b (asked) means? NULL: the same text. Kernels round: a ring of 500 becomes 512. */
	bool (*same)(const struct op *op, const char *a, const char *b);
	/* What writing op destroys: appends operations whose current is to be journalled and restored. NULL: nothing. */
	int (*collateral)(struct sys *s, const struct facts *f, const struct op *op, struct plan *ret);
	/* What a value that is as wanted is worth now: boot arguments are pending-reboot or stale. *ret_text (caller frees) may say why.
	 * NULL: ok. */
	enum op_status (*standing)(struct sys *s, const struct op *op, char **ret_text);
	/* What the error of a write means: managed IRQ, denied, .. NULL: the engine's table. */
	enum op_status (*explain)(const struct op *op, int err);
	/* Once after the last operation of this step was written or reverted (update-grub, systemctl daemon-reload). NULL: nothing. */
	int (*finish)(struct sys *s, struct error *e);
};
const struct step *const *tune_steps(void); /* in the order of execution, NULL ended */
const struct step *tune_step(const char *name);

struct tune_options {
	const char *const *only; /* steps, NULL ended; NULL all */
	const char *nic;         /* NULL all */
	bool allow_disruptive;
	bool boot;               /* at boot, before network-pre.target: no dead-man timer, boot arguments made for another size go */
	bool stored;             /* the values are those of set.json, which stays as it is */
	bool keep_drift;         /* hastend: what somebody else changed since stays theirs (drift); a user's apply sets it again */
	unsigned confirm_s;      /* dead-man timer, 0: 60 */
	void (*progress)(void *arg, const struct op *op); /* after each; NULL */
	void *arg;
};

/* Pure. 0 with a plan that may be empty. */
int tune_plan(struct sys *s, const struct facts *f, const struct resolved_set *r, const struct tune_options *o, struct plan *ret,
	struct error *e);
/* Executes; each op's status says what became of it. -EBUSY: another writer (e names it). *ret_transaction (caller frees) names what the
 * dead-man timer and confirm use; NULL where nothing waits for confirmation. */
int tune_apply(struct sys *s, const struct facts *f, const struct resolved_set *r, struct plan *p, const struct tune_options *o,
	char **ret_transaction, struct error *e);
int tune_confirm(struct sys *s, const char *transaction, struct error *e);
/* What was applied against what is: a plan with statuses. */
int tune_verify(struct sys *s, const struct facts *f, const struct tune_options *o, struct plan *ret, struct error *e);
/* Puts everything back, or what one transaction (NULL all) or steps changed. force: also what somebody else changed since. */
int tune_revert(struct sys *s, const struct facts *f, const char *transaction, const struct tune_options *o, bool force, struct plan *ret,
	struct error *e);
/* What a command that was killed left half done; every writing command and hastend call it first. *ret_n: records recovered. */
int tune_recover(struct sys *s, size_t *ret_n, struct error *e);
/* At boot: is a card that the set hands to a program still without its kernel driver, which alone knows the card's address? */
bool tune_cards_to_come(struct sys *s, const struct facts *f, const struct resolved_set *r);
const struct nic_facts *device_nic(const struct facts *f, const char *identity); /* NULL: gone */
#endif
