/* Tuning of the machine it runs on, by values from the command line instead of a profile: for interfaces that profiles
 * leave alone (veth in a network name space).
 *
 *   steps_driver plan|apply|verify|revert IFNAME|- [KEY=VALUE..]    one line an operation: STATUS ID CURRENT -> DESIRED
 *
 *   steps_driver interrupt NAME CPUS    moves one interrupt by its name, and back; says what became of it: moved,
 * immutable ..
 *
 * 0 where every status is good. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/detect/facts.h"
#include "agent/sys/error.h"
#include "agent/sys/sys.h"
#include "agent/tune/tune.h"

static int values(const struct facts *f, const char *ifname, char **argument, struct resolved_set *ret)
{
	static char *names[] = {(char *)"balanced", NULL};
	const struct nic_facts *nic = facts_nic(f, ifname);
	size_t n = 0;
	ret->profile = names;
	while (argument[n])
		n++;
	ret->value = calloc(n + 1, sizeof(*ret->value));
	for (size_t i = 0; i < n; i++) {
		char *equals = strchr(argument[i], '=');
		struct resolved *v = &ret->value[ret->n_value++];
		if (!equals)
			return -1;
		*equals = 0;
		*v = (struct resolved){.key = argument[i],
				       .field = field_find(argument[i]),
				       .value = equals + 1,
				       .why = (char *)"why",
				       .source = (char *)"source",
				       .profile = (char *)"balanced",
				       .file = (char *)"-"};
		if (!v->field)
			return -1;
		if (v->field->scope == SCOPE_NIC && nic)
			v->target = nic_identity_text(&nic->id);
		if (v->field->scope == SCOPE_NODE)
			v->target = strdup("node0");
	}
	return 0;
}

static int show(const struct plan *p, int r, struct error *e)
{
	int bad = r != 0;
	if (r) {
		char *text = error_text(e, r);
		printf("error: %s\n", text);
		free(text);
	}
	for (size_t i = 0; i < p->n_op; i++) {
		const struct op *op = &p->op[i];
		printf("%s %s %s -> %s%s%s\n", op_status_name(op->status), op->id, op->current ? op->current : "-",
		       op->desired ? op->desired : "-", op->status_text ? " # " : "",
		       op->status_text ? op->status_text : "");
		bad |= !op_status_good(op->status) && op->status != OP_PLANNED;
	}
	return bad;
}

/* Any interrupt, not only a NIC's: the loopback device lists none of its own, so all are looked through. */
static int interrupt(struct sys *s, const char *name, const char *cpus)
{
	char key[128], *before = NULL;
	const struct step *step = tune_step("irq");
	snprintf(key, sizeof(key), "%s\t", name);
	struct op op = {.step = step, .key = key, .ifname = (char *)"lo"};
	if (step->read(s, &op, &before) || !before) {
		printf("none\n");
		return 1;
	}
	int r = step->write(s, &op, cpus), back = r ? 0 : step->write(s, &op, before);
	printf("%s\n", r ? op_status_name(step->explain(&op, r)) : back ? "stuck" : "moved");
	free(before);
	return back != 0;
}

int main(int argc, char **argv)
{
	struct error e = {};
	struct sys *s = NULL;
	struct facts f = {};
	struct resolved_set set = {};
	struct plan p = {};
	struct tune_options o = {.allow_disruptive = true};
	char *transaction = NULL;
	if (argc < 3 || sys_open(NULL, &s, &e) || facts_gather(s, &f, &e) ||
	    (strcmp(argv[1], "interrupt") != 0 && values(&f, argv[2], argv + 3, &set))) {
		fprintf(stderr, "usage: steps_driver plan|apply|verify|revert IFNAME|- [KEY=VALUE..]\n");
		return 64;
	}
	int r = 0;
	if (strcmp(argv[1], "interrupt") == 0 && argc == 4)
		r = interrupt(s, argv[2], argv[3]);
	else if (strcmp(argv[1], "verify") == 0)
		r = tune_verify(s, &f, &o, &p, &e);
	else if (strcmp(argv[1], "revert") == 0)
		r = tune_revert(s, &f, NULL, &o, false, &p, &e);
	else {
		r = tune_plan(s, &f, &set, &o, &p, &e);
		if (!r && strcmp(argv[1], "apply") == 0)
			r = tune_apply(s, &f, &set, &p, &o, &transaction, &e);
		if (!r && transaction)
			r = tune_confirm(s, transaction, &e);
	}
	int bad = show(&p, r, &e);
	free(transaction);
	plan_free(&p);
	for (size_t i = 0; i < set.n_value; i++)
		free(set.value[i].target);
	free(set.value);
	facts_free(&f);
	sys_close(s);
	error_clear(&e);
	return bad;
}
