/* Sets of CPU numbers, 0 to CPUMASK_MAX - 1, in the two forms of the kernel: lists ("0-3,8", /sys/.../cpulist) and masks ("ff,00000001",
 * 32-bit groups, highest first: Documentation/core-api/irq/irq-affinity.rst, lib/bitmap.c). All zero is the empty set. A set owns
 * its memory; copying the struct does not copy the set. */
#ifndef HASTEN_SYS_CPUMASK_H
#define HASTEN_SYS_CPUMASK_H
#include <stdbool.h>
#include <stdint.h>

#define CPUMASK_MAX 8192 /* NR_CPUS of the largest distribution kernels (x86_64 Debian, RHEL) */

struct cpumask {
	unsigned n_words; /* words beyond it are zero */
	uint64_t *words;
};

/* 0, -EINVAL (not such a text), -ERANGE (a number of CPUMASK_MAX or more), -ENOMEM. White space around it is fine; empty is the
 * empty set. The list form also knows the kernel's "0-31:2/4" and "N-" is refused. */
int cpumask_parse_list(const char *text, struct cpumask *ret);
int cpumask_parse_hex(const char *text, struct cpumask *ret);
/* Caller frees. hex: as many 32-bit groups as nr_cpu_ids needs (0: as the set needs), the kernel refuses more, zeros or
 * not, and prints that many; -EOVERFLOW where the set has a CPU of nr_cpu_ids or more (the kernel would say so too). */
int cpumask_format_list(const struct cpumask *m, char **ret);
int cpumask_format_hex(const struct cpumask *m, unsigned nr_cpu_ids, char **ret);

void cpumask_free(struct cpumask *m); /* and empties */
int cpumask_copy(const struct cpumask *m, struct cpumask *ret);
int cpumask_set(struct cpumask *m, unsigned cpu); /* -ERANGE, -ENOMEM */
void cpumask_clear(struct cpumask *m, unsigned cpu);
bool cpumask_test(const struct cpumask *m, unsigned cpu);
int cpumask_next(const struct cpumask *m, int after); /* the first above after (-1: the first), or -1 */
unsigned cpumask_weight(const struct cpumask *m);
bool cpumask_empty(const struct cpumask *m);
bool cpumask_equal(const struct cpumask *a, const struct cpumask *b);
bool cpumask_subset(const struct cpumask *a, const struct cpumask *of);
bool cpumask_intersects(const struct cpumask *a, const struct cpumask *b);
/* a op= b */
void cpumask_and(struct cpumask *a, const struct cpumask *b);
void cpumask_andnot(struct cpumask *a, const struct cpumask *b);
int cpumask_or(struct cpumask *a, const struct cpumask *b);

#define cpumask_each(cpu, m) for (int cpu = cpumask_next((m), -1); cpu >= 0; cpu = cpumask_next((m), cpu))
#endif
