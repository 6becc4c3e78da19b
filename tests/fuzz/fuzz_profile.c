/* A profile as somebody hostile may write it: it is refused in one line with its place, or it gives values of its
 * fields' types. A text that begins with "=" is an expression. With libFuzzer where clang has it (tests/fuzz/run.sh);
 * alone it takes one input from standard input. */
#include "agent/profile/parse.h"
#include "agent/profile/value.h"
#include "agent/sys/cpumask.h"
#include "agent/sys/error.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/machine.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct machine machine;

static void must(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "does not hold: %s\n", what);
	abort();
}

/* One line for a terminal. */
static void check_error(int r, struct error *e, unsigned lines, bool placed)
{
	must(r < 0 && e->message && *e->message, "a fault has a message");
	for (const char *c = e->message; *c; c++)
		must((unsigned char)*c >= ' ' && *c != 0x7f, "a message is one line without control characters");
	must(!placed || (e->file && e->line <= lines), "a fault has its place");
	error_clear(e);
}

static void check_value(const struct setting *s, const char *value)
{
	struct cpumask set = {0};
	char *end;

	switch (s->field->type) {
	case FIELD_INT:
		strtoll(value, &end, 10);
		must(*value && !*end, "a number is one");
		break;
	case FIELD_BOOL:
		must(!strcmp(value, "0") || !strcmp(value, "1"), "true or false is 1 or 0");
		break;
	case FIELD_CPUS:
		must(!cpumask_parse_list(value, &set), "a set of CPUs is a list");
		cpumask_free(&set);
		break;
	default:
		must(!strpbrk(value, "\n\t") && !strstr(value, "  "), "words stand apart by one blank");
	}
}

static void work_out(const struct setting *s)
{
	static const enum field_scope scopes[] = {SCOPE_HOST, SCOPE_NIC, SCOPE_NODE};
	const struct nic_facts *nic = s->field->scope == scopes[1] ? &machine.nic[0] : NULL;
	int node = s->field->scope == scopes[2] ? 0 : -1;
	struct expr_value condition = {0};
	struct error e = {0};
	char *value = NULL;
	int r;

	must(field_find(s->key) == s->field && s->value && s->why && s->source && s->profile && s->file,
	     "a setting is whole");
	must(!setting_value_check(s->field, s->key, s->mode, s->value, NULL), "a value that was taken is taken again");
	if (s->condition) {
		r = expr_eval(s->condition, &machine.facts, nic, node, &condition, &e);
		if (r)
			check_error(r, &e, 0, false);
		else
			must(condition.kind == EXPR_BOOL && !condition.text, "a condition is true or false");
	}
	r = setting_work_out(s, &machine.facts, nic, node, &value, &e);
	if (r)
		check_error(r, &e, 0, false);
	else
		check_value(s, value);
	free(value);
}

static void run_profile(const char *text, size_t size)
{
	struct profile_file f = {0};
	struct error e = {0};
	unsigned lines = 1;
	int r;

	/* NEL, LS and PS end lines in YAML too: as many as there are bytes will do */
	for (size_t i = 0; i < size; i++)
		lines += text[i] == '\n' || text[i] == '\r' || (unsigned char)text[i] == 0xc2 ||
			 (unsigned char)text[i] == 0xe2;
	r = profile_file_parse("t.yaml", size & 1 ? "t" : NULL, size & 1, text, size, &f, &e);
	if (r)
		check_error(r, &e, lines, true);
	for (size_t i = 0; i < f.n_setting; i++)
		work_out(&f.setting[i]);
	profile_file_free(&f);
}

static void run_expression(const char *data, size_t size)
{
	char *text = strndup(data, size);
	struct expr_value v = {0}, again = {0};
	struct error e = {0};
	int kind, checked, r;

	must(text != NULL, "memory");
	checked = expr_check(text, SCOPE_NIC, &kind, NULL);
	for (char *c = text; *c; c++) /* YAML lets none through */
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = ' ';
	checked = expr_check(text, SCOPE_NIC, &kind, NULL);
	r = expr_eval(text, &machine.facts, &machine.nic[0], -1, &v, &e);
	if (r) {
		check_error(r, &e, 0, false);
		must(checked || r == -EDOM || r == -EOVERFLOW || r == -ERANGE || r == -EINVAL,
		     "what is right fails by the machine's numbers only");
	} else {
		must(!checked && kind == (int)v.kind, "what has a value was right, and of that kind");
		must(!expr_eval(text, &machine.facts, &machine.nic[0], -1, &again, NULL), "again");
		must(again.number == v.number && !strcmp(again.text ? again.text : "", v.text ? v.text : ""),
		     "the same again");
	}
	free(v.text);
	free(again.text);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!machine.facts.n_nic)
		machine_make(&machine, "0-7");
	if (size && *data == '=')
		run_expression((const char *)data + 1, size - 1);
	else
		run_profile((const char *)data, size);
	return 0;
}

#ifndef WITH_LIBFUZZER
int main(void)
{
	static uint8_t data[1 << 20];
	size_t n = fread(data, 1, sizeof(data), stdin);
	int r = LLVMFuzzerTestOneInput(data, n);

	machine_free(&machine);
	return r;
}
#endif
