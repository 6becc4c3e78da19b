/* Inside agent/sys only: the rules of the write model, by subject. Each takes the path that was written and the value without a line end; it
 * puts the file's new content into *ret, or leaves it NULL where the file does not show what was written, and changes what else the kernel
 * would. The error is the kernel's. */
#ifndef HASTEN_SYS_MODEL_RULES_H
#define HASTEN_SYS_MODEL_RULES_H
#include "agent/sys/cpumask.h"
#include "agent/sys/root.h"

struct model_rule {
	const char *pattern; /* fnmatch(3) of the whole path; "*" takes "/" too */
	int (*write)(struct sys *s, const char *path, const char *value, const struct model_rule *rule, char **ret);
	int64_t low, high;  /* of numbers; both 0: those of an int */
	const char *other;  /* a file beside it that the rule looks at or changes */
	const char *source; /* kernel file and function */
};
#define MODEL_WRITE(name) int name(struct sys *s, const char *path, const char *value, const struct model_rule *rule, char **ret)

MODEL_WRITE(model_mask);     /* model_cpus.c: masks of queues */
MODEL_WRITE(model_affinity); /* smp_affinity, smp_affinity_list, default_smp_affinity */
MODEL_WRITE(model_hugepages);
MODEL_WRITE(model_driver_override); /* model_driver.c */
MODEL_WRITE(model_unbind);
MODEL_WRITE(model_bind);
MODEL_WRITE(model_probe);

/* model_cpus.c */
int model_cpu_set(struct sys *s, const char *name, struct cpumask *ret); /* "online", "possible" */
/* In the width that the file has now: the kernel's own, nr_cpumask_bits, which a tree does not tell otherwise. */
int model_format_mask(struct sys *s, const char *path, const struct cpumask *m, char **ret);
/* Affinity of an IRQ as the kernel keeps it: both forms, and the effective CPU. */
int model_put_affinity(struct sys *s, unsigned irq, const struct cpumask *m);

/* model_interrupts.c: lines of /proc/interrupts. */
struct interrupts;
int interrupts_load(struct sys *s, struct interrupts **ret); /* a tree without the file has no lines */
int interrupts_store(struct sys *s, const struct interrupts *l);
void interrupts_free(struct interrupts *l); /* NULL is fine */
/* Requested: its old line with a name, or one like another's with counts of zero. */
int interrupts_add(struct interrupts *l, unsigned irq, const char *action, unsigned like, const char *like_action);
/* Freed: its line goes, or stays without a name where it has counted something (true). */
bool interrupts_remove(struct interrupts *l, unsigned irq, const char *action);

/* "a/b/c" -> "a/b/NAME" */
int model_beside(const char *path, const char *name, char **ret);
#endif
