#include "config.h"

#include "agent/cli/tuning.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/cli/cli.h"
#include "agent/sys/cleanup.h"

static int add_steps(struct tuning *t, char *list)
{
	for (char *save = NULL, *name = strtok_r(list, ",", &save); name; name = strtok_r(NULL, ",", &save)) {
		if (!tune_step(name)) {
			fprintf(stderr, "%s: no step \"%s\"; there are:", t->command, name);
			for (const struct step *const *st = tune_steps(); *st; st++)
				fprintf(stderr, " %s", (*st)->name);
			fputc('\n', stderr);
			return EXIT_USAGE;
		}
		if (t->n_only == TUNING_ONLY_MAX) {
			fprintf(stderr, "%s: more than %d steps after --only\n", t->command, TUNING_ONLY_MAX);
			return EXIT_USAGE;
		}
		t->only[t->n_only++] = name;
	}
	t->options.only = t->only;
	return 0;
}

bool tuning_option(struct tuning *t, int c, int *ret_status)
{
	*ret_status = 0;
	switch (c) {
		TARGET_CASES(&t->target)
	case 'o':
		*ret_status = add_steps(t, optarg);
		break;
	case 'n':
		t->options.nic = optarg;
		break;
	case 'a':
		t->all = true;
		break;
	default:
		return false;
	}
	return true;
}

int tuning_failed(struct tuning *t, int err)
{
	return target_failed(t->command, &t->e, err);
}

int tuning_open(struct tuning *t, bool writes)
{
	size_t recovered = 0;
	int r = target_open(&t->target, t->command, &t->s);

	if (r)
		return r;
	if (writes && sys_kind(t->s) == SYS_LIVE && geteuid()) {
		fprintf(stderr, "%s: only root may change this machine's settings: the same again with sudo in front\n", t->command);
		return 1;
	}
	/* A slip in DIR shall not leave state of ours in somebody's home. */
	if (sys_kind(t->s) == SYS_TREE && !sys_exists(t->s, "/proc") && !sys_exists(t->s, "/sys") && !sys_exists(t->s, "/etc") &&
	    !sys_exists(t->s, STATE_FOLDER)) {
		fprintf(stderr, "%s: %s: nothing of a machine is there (no /proc, /sys or /etc)\n", t->command, t->target.root);
		return EXIT_USAGE;
	}
	if (writes && (r = tune_recover(t->s, &recovered, &t->e)))
		return tuning_failed(t, r);
	if (recovered)
		fprintf(stderr, "%s: a command before this one died at its work: %zu setting%s as before it\n", t->command, recovered,
			recovered == 1 ? " is" : "s are");
	r = facts_gather(t->s, &t->facts, &t->e);
	if (r)
		return tuning_failed(t, r);
	if (t->options.nic && !facts_nic(&t->facts, t->options.nic)) {
		_cleanup_free_ char *name = target_plain(t->options.nic);

		fprintf(stderr, "%s: %s: this machine has no such NIC; \"hasten detect\" lists them\n", t->command, name ? name : "");
		return EXIT_USAGE;
	}
	return 0;
}

void tuning_close(struct tuning *t)
{
	facts_free(&t->facts);
	t->s = sys_close(t->s);
	error_clear(&t->e);
}

int tuning_resolve(struct tuning *t, char **names, struct resolved_set *ret)
{
	struct applied_set set = {0};
	const char *const *from = (const char *const *)names;
	int r = 0;

	if (!names[0]) {
		r = set_load(t->s, false, &set, &t->e);
		if (r == -ENOENT) {
			fprintf(stderr, "%s: name one or more profiles; \"hasten profile list\" shows them, \"hasten profile recommend\" those that fit\n",
				t->command);
			return EXIT_USAGE;
		}
		if (r)
			return tuning_failed(t, r);
		from = (const char *const *)set.profile;
	}
	r = profile_resolve(t->s, from, &t->facts, t->options.nic, ret, &t->e);
	set_free(&set);
	return r ? tuning_failed(t, r) : 0;
}

size_t plan_count(const struct plan *p, enum op_status status)
{
	size_t n = 0;

	for (size_t i = 0; i < p->n_op; i++)
		n += p->op[i].status == status;
	return n;
}

/* ---- JSON ---- */

void json_text(struct json *j, const char *key, const char *value)
{
	if (value)
		json_string(j, key, value);
	else
		json_null(j, key);
}

static void print_operation(struct json *j, const struct op *op)
{
	json_object_begin(j, NULL);
	json_string(j, "id", op->id);
	json_string(j, "step", op->step->name);
	json_string(j, "target", op->target);
	json_text(j, "device", op->device);
	json_text(j, "interface", op->ifname);
	json_text(j, "group", op->group);
	json_string(j, "status", op_status_name(op->status));
	json_text(j, "status_text", op->status_text);
	json_text(j, "current", op->current);
	json_text(j, "desired", op->desired);
	json_text(j, "why", op->why);
	json_text(j, "source", op->source);
	json_text(j, "profile", op->profile);
	json_string(j, "effect", nic_effect_name(op->effect.effect));
	json_bool(j, "needs_consent", op->needs_consent);
	json_bool(j, "needs_reboot", op->needs_reboot);
	json_bool(j, "removal", op->is_removal);
	json_end(j);
}

static void print_json(enum tuning_report what, const struct plan *p, const struct resolved_set *set, const char *transaction)
{
	static const char *const ids[] = {"hasten.plan", "hasten.apply", "hasten.verify", "hasten.revert"};
	struct json j = {.to = stdout};

	json_object_begin(&j, NULL);
	json_u64(&j, "schema_version", 1);
	json_string(&j, "id", ids[what]);
	json_array_begin(&j, "profiles");
	for (size_t i = 0; set && set->profile && set->profile[i]; i++)
		json_string(&j, NULL, set->profile[i]);
	json_end(&j);
	json_text(&j, "transaction", transaction);
	json_u64(&j, "changes", plan_count(p, what == REPORT_PLAN ? OP_PLANNED : what == REPORT_REVERT ? OP_REVERTED : OP_CHANGED));
	json_array_begin(&j, "operations");
	for (size_t i = 0; i < p->n_op; i++)
		print_operation(&j, &p->op[i]);
	json_end(&j);
	json_array_begin(&j, "conflicts");
	for (size_t i = 0; i < p->n_conflict; i++) {
		json_object_begin(&j, NULL);
		json_string(&j, "key", p->conflict[i].key);
		json_string(&j, "winner", p->conflict[i].winner);
		json_string(&j, "winner_value", p->conflict[i].winner_value);
		json_string(&j, "loser", p->conflict[i].loser);
		json_string(&j, "loser_value", p->conflict[i].loser_value);
		json_end(&j);
	}
	json_end(&j);
	json_array_begin(&j, "left_out");
	for (size_t i = 0; set && i < set->n_skipped; i++) {
		json_object_begin(&j, NULL);
		json_string(&j, "key", set->skipped[i].key);
		json_text(&j, "device", set->skipped[i].target);
		json_string(&j, "why", set->skipped[i].why);
		json_end(&j);
	}
	json_end(&j);
	json_end(&j);
}

/* ---- for people ---- */

static const char *colour_of(enum op_status s)
{
	switch (s) {
	case OP_PLANNED:
		return "\033[36m";
	case OP_FAILED:
	case OP_DENIED:
	case OP_DRIFT:
	case OP_STALE:
		return "\033[31m";
	case OP_PENDING_CONSENT:
	case OP_PENDING_REBOOT:
	case OP_MANUAL:
		return "\033[33m";
	default:
		return op_status_good(s) ? "\033[32m" : "";
	}
}

/* What a reader of the plan need not be told each time. */
static bool is_dull(const struct tuning *t, const struct op *op)
{
	return !t->all && (op->status == OP_OK || op->status == OP_UNSUPPORTED) && !op->is_removal;
}

static void print_value(const char *before, const char *value)
{
	_cleanup_free_ char *copy = strdup(value);
	bool lines = copy && strchr(copy, '\n');

	if (!copy)
		return;
	if (!lines) {
		_cleanup_free_ char *plain = target_plain(copy);

		printf("%s%s", before, plain && *plain ? plain : "\"\"");
		return;
	}
	printf("%sa file:", before);
	for (char *save = NULL, *line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		for (char *tab = line; (tab = strchr(tab, '\t'));)
			*tab = ' ';
		_cleanup_free_ char *plain = target_plain(line);

		printf("\n        | %s", plain ? plain : "");
	}
}

static void print_text(const char *before, const char *text)
{
	_cleanup_free_ char *plain = target_plain(text);

	printf("%s%s\n", before, plain ? plain : "");
}

static void print_heading(const struct tuning *t, const struct op *op)
{
	const struct nic_facts *nic = op->ifname ? facts_nic(&t->facts, op->ifname) : NULL;
	_cleanup_free_ char *name = target_plain(op->ifname ? op->ifname : op->device ? op->device : op->step->title);

	if (nic)
		printf("\n%s (%s%s%s)%s%s\n", name, nic->id.driver ? nic->id.driver : "no driver", nic->id.path ? ", " : "", nic->id.path ? nic->id.path : "",
			nic->protected_by ? ": in use, " : "", nic->protected_by ? nic->protected_by : "");
	else
		printf("\n%s\n", name ? name : "");
}

static bool same_text(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

static bool same_heading(const struct op *a, const struct op *b)
{
	return a->device || b->device ? same_text(a->device, b->device) : a->step == b->step;
}

static void print_op(const struct op *op, const struct op *last, bool colour)
{
	_cleanup_free_ char *target = target_plain(op->target);

	printf("  %s%-15s%s %s", colour ? colour_of(op->status) : "", op->status == OP_PLANNED ? "change" : op_status_name(op->status),
		colour ? "\033[0m" : "", target ? target : "");
	if (op->current)
		print_value(": ", op->current);
	else if (op->desired && op->status != OP_SKIPPED && op->status != OP_UNSUPPORTED)
		fputs(": nothing", stdout);
	if (op->desired && !same_text(op->current, op->desired))
		print_value(" -> ", op->desired);
	else if (!op->desired && op->current)
		fputs(" -> nothing", stdout);
	putchar('\n');
	if (op->status_text && !(last && same_text(last->status_text, op->status_text) && same_heading(last, op)))
		print_text("      ", op->status_text);
	if (op->why && !(last && same_text(last->why, op->why) && same_heading(last, op))) {
		_cleanup_free_ char *why = target_plain(op->why);

		printf("      %s", why ? why : "");
		if (op->profile)
			printf(" [%s]", op->profile);
		putchar('\n');
	}
	if (op->needs_consent && op->status == OP_PLANNED)
		printf("      interrupts the NIC: %s\n", op->effect.effect == EFFECT_RESET ? "its queues stop for some ms" : "its link may go down");
	if (op->needs_reboot && op->status == OP_PLANNED)
		puts("      in effect after the next boot");
}

/* A card of a hundred queues has hundreds of settings that differ in a number. */
#define RUN_SHOWN 3
#define RUN_FOLDED 5

static bool is_like(const struct op *a, const struct op *b)
{
	return a->step == b->step && a->status == b->status && same_heading(a, b) && same_text(a->why, b->why) && same_text(a->status_text, b->status_text) &&
	       a->is_removal == b->is_removal && !(b->desired && strchr(b->desired, '\n'));
}

static size_t count_alike(const struct tuning *t, const struct plan *p, size_t i)
{
	size_t n = 0;

	for (size_t k = i; k < p->n_op && (is_dull(t, &p->op[k]) || !same_heading(&p->op[i], &p->op[k]) || is_like(&p->op[i], &p->op[k])); k++)
		n += !is_dull(t, &p->op[k]) && same_heading(&p->op[i], &p->op[k]);
	return n;
}

static void print_folded(const struct plan *p, size_t i, size_t n, bool *printed)
{
	const struct op *end = &p->op[i];
	size_t left = n;

	for (size_t k = i; k < p->n_op && left; k++)
		if (is_like(&p->op[i], &p->op[k])) {
			printed[k] = true;
			end = &p->op[k];
			left--;
		}
	_cleanup_free_ char *target = target_plain(end->target);
	printf("  %-15s and %zu more like these, to %s", "", n, target ? target : "");
	if (end->current)
		print_value(": ", end->current);
	if (end->desired && !same_text(end->current, end->desired))
		print_value(" -> ", end->desired);
	puts("; --all shows each");
}

static void print_summary(const struct tuning *t, enum tuning_report what, const struct plan *p)
{
	static const struct {
		enum op_status status;
		const char *one, *many;
	} words[] = {
		{OP_PLANNED, "change to make", "changes to make"},
		{OP_CHANGED, "changed", "changed"},
		{OP_REVERTED, "as before hasten again", "as before hasten again"},
		{OP_OK, "in order", "in order"},
		{OP_DRIFT, "changed by somebody else", "changed by somebody else"},
		{OP_FAILED, "failed", "failed"},
		{OP_DENIED, "not allowed here", "not allowed here"},
		{OP_ADMIN, "left to the administrator", "left to the administrator"},
		{OP_AT_BOOT, "at the next boot", "at the next boot"},
		{OP_PENDING_REBOOT, "in effect after the next boot", "in effect after the next boot"},
		{OP_PENDING_CONSENT, "waits for --allow-disruptive", "wait for --allow-disruptive"},
		{OP_IMMUTABLE, "managed by the kernel", "managed by the kernel"},
		{OP_STALE, "made for another size of the machine", "made for another size of the machine"},
		{OP_ORPHANED, "without its device", "without their devices"},
		{OP_SKIPPED, "left alone", "left alone"},
		{OP_MANUAL, "to be done by hand", "to be done by hand"},
		{OP_UNSUPPORTED, "not there on this machine", "not there on this machine"},
	};
	bool any = false;

	(void)t;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		size_t n = plan_count(p, words[i].status);
		bool differs = what == REPORT_VERIFY && words[i].status == OP_DRIFT;

		if (n)
			printf("%s%zu %s", any ? ", " : "\n", n, differs ? "not as applied" : n == 1 ? words[i].one : words[i].many);
		any |= n > 0;
	}
	if (any)
		puts(".");
	else if (what == REPORT_REVERT)
		puts("Nothing of hasten's is left to revert.");
	else if (what == REPORT_VERIFY)
		puts("No set of profiles is applied.");
	else
		puts("These profiles ask for nothing on this machine.");
}

/* A NIC that is left alone altogether, or stays with the kernel, is news; a single setting whose condition does not hold is not. */
static void print_left_out(const struct tuning *t, const struct resolved_set *set)
{
	bool any = false;

	if (sys_kind(t->s) == SYS_IMAGE) {
		puts("\nAn image: its CPUs, memory and NICs show when it boots; \"hasten apply --boot\", which the boot unit runs, works the profiles out for them.");
		return;
	}
	for (size_t i = 0; set && i < set->n_skipped; i++) {
		const struct skipped *s = &set->skipped[i];
		const struct nic_facts *nic = s->target ? device_nic(&t->facts, s->target) : NULL;
		bool whole = nic && (!strcmp(s->key, "nic.*") || !strcmp(s->key, "nic.driver"));
		_cleanup_free_ char *name = s->target ? target_plain(nic && nic->name ? nic->name : s->target) : NULL, *why = target_plain(s->why);

		if (!whole && !t->all)
			continue;
		if (!any)
			puts("\nLeft out");
		any = true;
		printf("  %s%s%s: %s\n", strcmp(s->key, "nic.*") ? s->key : "all settings", name ? " of " : "", name ? name : "", why ? why : "");
	}
}

void tuning_print(const struct tuning *t, enum tuning_report what, const struct plan *p, const struct resolved_set *set, const char *transaction)
{
	const struct op *last = NULL;
	bool colour = target_colour(stdout);

	if (t->target.json) {
		print_json(what, p, set, transaction);
		return;
	}
	for (size_t i = 0; i < p->n_conflict; i++)
		printf("%s: %s of %s, not %s of %s (the later profile wins)\n", p->conflict[i].key, p->conflict[i].winner_value, p->conflict[i].winner,
			p->conflict[i].loser_value, p->conflict[i].loser);
	_cleanup_free_ bool *printed = calloc(p->n_op + 1, sizeof(*printed));
	/* What is done step by step reads better card by card. */
	for (size_t first = 0; printed && first < p->n_op; first++) {
		if (printed[first] || is_dull(t, &p->op[first]))
			continue;
		print_heading(t, &p->op[first]);
		for (size_t i = first, run = 0; i < p->n_op; i++) {
			const struct op *op = &p->op[i];
			size_t alike;

			if (printed[i] || is_dull(t, op) || !same_heading(&p->op[first], op))
				continue;
			run = last && is_like(last, op) ? run + 1 : 0;
			alike = run == RUN_SHOWN && !t->all ? count_alike(t, p, i) : 0;
			if (alike > RUN_FOLDED) {
				print_folded(p, i, alike, printed);
				continue;
			}
			print_op(op, last, colour);
			printed[i] = true;
			last = op;
		}
	}
	print_left_out(t, set);
	print_summary(t, what, p);
}
