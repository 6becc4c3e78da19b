/* Between expr.c and expr_facts.c: what a name of facts.def stands for. */
#ifndef HASTEN_PROFILE_EXPR_H
#define HASTEN_PROFILE_EXPR_H
#include "agent/profile/profile.h"
#include "agent/sys/cpumask.h"

struct expr_place {
	const struct facts *facts;
	const struct nic_facts *nic; /* NULL: none */
	int node;                    /* -1: none */
};
/* While it is worked out; cpus and word are owned. */
struct expr_term {
	int kind; /* EXPR_INT .. */
	int64_t number;
	struct cpumask cpus;
	char *word;
};
/* Fill one member of *ret, which is empty and of the row's kind. 0, -ENOMEM. */
#define NAME(name, kind, scope, function, meaning) int function(const struct expr_place *at, struct expr_term *ret);
#include "agent/profile/facts.def"
#undef NAME

/* The first n whole cores of set, as far as it has them. */
int expr_cores(const struct facts *f, const struct cpumask *set, int64_t n, struct cpumask *ret);
/* May these CPUs be taken from the scheduler? NULL, or the rule that they break. */
const char *cpus_not_isolatable(const struct facts *f, const struct cpumask *set);
#endif
