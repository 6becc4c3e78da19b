/* What the steps share: the table's declarations, operations made from resolved values, files that are made and removed
 * whole, attributes of the kernel. Nothing here knows a kind of setting. Strings returned are the caller's to free. */
#ifndef HASTEN_TUNE_STEPS_STEP_H
#define HASTEN_TUNE_STEPS_STEP_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/detect/facts.h"
#include "agent/sys/error.h"
#include "agent/sys/sys.h"
#include "agent/tune/tune.h"

#define STEP(symbol) extern const struct step symbol;
#include "agent/tune/steps.def"
#undef STEP

/* ---- resolved values ---- */
bool step_owns(const struct step *st, const struct resolved *v);
#define step_each(v, r, st)                                                                        \
	for (const struct resolved *v = (r)->value, *v##_end = v + (r)->n_value; v < v##_end; v++) \
		if (step_owns((st), v))
/* What "*" of the field's key stands for: "net.core.somaxconn" of sysctl.*; "" where the key has none. */
const char *step_key_tail(const struct resolved *v);
/* The value of key, for the host or for one NIC (identity); NULL where the set does not have it. */
const struct resolved *step_value(const struct resolved_set *r, const char *key, const char *target);
bool step_true(const struct resolved *v); /* a FIELD_BOOL; NULL is false */
/* A FIELD_INT with its mode (exact, at least, at most) against base; *ret is base where that is enough. -EINVAL: not a
 * number. */
int step_number(const struct resolved *v, int64_t base, int64_t *ret);
/* What its mode compares with (plan_base) for the operation that step_add will make of these. Caller frees; *ret NULL:
 * nothing there. */
int step_base(const struct plan *p, const struct step *st, const struct nic_facts *nic, const char *name,
	      const char *current, char **ret);
/* The NIC whose identity the value's target is; NULL where it is gone. */
const struct nic_facts *step_nic(const struct facts *f, const char *identity);

/* The set hands the NIC to DPDK (and may): there is no interface to tune then. */
bool step_taken(const struct facts *f, const struct resolved_set *r, const struct nic_facts *nic);

/* ---- operations ---- */
struct op_spec {
	const struct step *step;
	const struct resolved *value; /* NULL: collateral */
	const struct nic_facts *nic;  /* NULL: the machine */
	const char *name;             /* id: STEP/NAME, STEP/NIC/NAME, or without NAME where NULL */
	const char *target, *key;
	const char *current, *desired; /* copied */
	const char *group;
	enum op_status status;
	const char *status_text; /* copied */
};
/* Appends; the effect of an operation of a NIC is set by step_effect. *ret may be NULL. -ENOMEM. */
int step_add(struct plan *p, const struct op_spec *spec, struct op **ret);
/* What a change of this kind does to the NIC's traffic, and whether that needs consent. */
void step_effect(struct op *op, const struct nic_facts *nic, enum eth_kind kind);
/* Another setting that the same operation carries out: its reason and source join op's. */
int step_join(struct op *op, const struct resolved *v);
int step_status(struct op *op, enum op_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));

char *step_text(const char *format, ...) __attribute__((format(printf, 1, 2))); /* NULL: no memory */
/* "pci-0000:00:05.0": the identity's first part, as ids of operations have it. */
char *step_nic_short(const struct nic_facts *nic);

/* ---- files ----
 * The key of such an operation is the path, a tab, and how many of the folders above it were not there when it was
 * planned: writing NULL removes the file and so many folders, if they are empty then, so that a folder which somebody
 * else made stays. */
int step_file_key(struct sys *s, const char *path, char **ret);
char *step_file_path(const struct op *op);
int step_file_read(struct sys *s, const struct op *op, char **ret); /* 0 with *ret NULL: no such file */
int step_file_write(struct sys *s, const struct op *op, const char *value);
/* Plans one file: current is read. */
int step_add_file(struct sys *s, struct plan *p, struct op_spec *spec, const char *path, struct op **ret);

/* ---- configuration of the administrator ----
 * Calls visit for each line (blanks around removed; no comment, not empty) of path, or of the files in the folder path
 * that end in suffix, in order of name, our own (containing "hasten" in the name) left out. visit returns 0 to go on,
 * else that is returned. Missing is 0. */
typedef int (*step_line)(void *arg, const char *file, unsigned line, char *text);
int step_lines(struct sys *s, const char *path, const char *suffix, step_line visit, void *arg);

/* ---- attributes ---- */
int step_attr_read(struct sys *s, const struct op *op, char **ret); /* the key is the path */
int step_attr_write(struct sys *s, const struct op *op, const char *value);
bool step_same_cpus(const struct op *op, const char *a, const char *b); /* two lists of CPUs; "none" is the empty one */
/* A list for a person and a journal: "0-3", "none". */
int step_cpus_text(const struct cpumask *m, char **ret);
int step_cpus_parse(const char *text, struct cpumask *ret);
/* Width of the kernel's masks: highest possible CPU + 1; 0 unknown. */
unsigned step_nr_cpu_ids(struct sys *s);

/* Runs a program of the machine. 0, or -EIO with e saying what it printed; not the live machine: 0 without running it.
 */
int step_run(struct sys *s, const char *const argv[], struct error *e);
/* systemctl daemon-reload where systemd runs. */
int step_daemon_reload(struct sys *s, struct error *e);

/* ---- shared between tuned.c and the steps whose settings tuned takes over ---- */
/* tuned runs and the set asks to hand it the settings: sysctl, THP and governor are then its own. */
bool step_tuned_owns(const struct facts *f, const struct resolved_set *r);
/* ---- queues ----
 * How many the NIC will have when the set is applied: what the set asks for, bounded by the device, else those of now;
 * 0 unknown. */
void step_queues(const struct resolved_set *r, const struct nic_facts *nic, unsigned *ret_rx, unsigned *ret_tx);
/* What hangs on the queues of a NIC and is lost when channels or rings change: appends operations of rss, coalesce,
 * irq, xps, rps. */
int step_queue_collateral(struct sys *s, const struct facts *f, const struct op *op, struct plan *ret);
/* The pool in the order in which the NIC's n queues take its CPUs: as spread_order, or as the driver's hints say where
 * they are of use. */
int step_irq_order(const struct facts *f, const struct nic_facts *nic, const struct cpumask *pool, unsigned n,
		   unsigned **ret, size_t *ret_n);
int step_irq_collateral(struct sys *s, const struct facts *f, const struct nic_facts *nic, struct plan *ret);
int step_rss_collateral(const struct nic_facts *nic, struct plan *ret);
int step_coalesce_collateral(const struct nic_facts *nic, struct plan *ret);
int step_xps_collateral(struct sys *s, const struct nic_facts *nic, struct plan *ret);
int step_rps_collateral(struct sys *s, const struct nic_facts *nic, struct plan *ret);
#endif
