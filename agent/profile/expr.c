/* Expressions of profiles: recursive descent, worked out while it is read. Where nothing is to be worked out
 * (expr_check, the right side of a decided "and" or "or") terms have a kind and no value. */
#include "agent/profile/expr.h"

#include "agent/detect/facts.h"
#include "agent/profile/suggest.h"
#include "agent/sys/cleanup.h"
#include "agent/sys/error.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

struct reader {
	const char *text, *at;
	enum field_scope scope;
	struct expr_place place; /* facts NULL: kinds only */
	unsigned idle;           /* over 0: what is read now does not matter */
	unsigned depth;
	struct error *e;
};

static const char *const kind_names[] = {
    [EXPR_INT] = "a number",
    [EXPR_BOOL] = "true or false",
    [EXPR_WORD] = "a word",
    [EXPR_CPUS] = "a set of CPUs",
};

static const struct name_row {
	struct expr_name name;
	int (*get)(const struct expr_place *at, struct expr_term *ret);
} rows[] = {
#define NAME(name, kind, scope, function, meaning) {{name, kind, scope, meaning}, function},
#include "agent/profile/facts.def"
#undef NAME
};
#define N_ROWS (sizeof(rows) / sizeof(rows[0]))

static const char *const functions[] = {"min", "max", "clamp", "count", "cpus.first", "cpus.cores"};
enum function { F_MIN, F_MAX, F_CLAMP, F_COUNT, F_FIRST, F_CORES, F_NONE };

const struct expr_name *expr_names(size_t *ret_n)
{
	static struct expr_name names[N_ROWS];

	for (size_t i = 0; i < N_ROWS; i++)
		names[i] = rows[i].name;
	*ret_n = N_ROWS;
	return names;
}

static void term_free(struct expr_term *t)
{
	cpumask_free(&t->cpus);
	free(t->word);
	*t = (struct expr_term){0};
}

#define _cleanup_term_ _cleanup_(term_free)

static bool works(const struct reader *r)
{
	return r->place.facts && !r->idle;
}

static int wrong(struct reader *r, const char *what)
{
	return error_set(r->e, -EINVAL, "\"%s\": %s, at character %zu", r->text, what, (size_t)(r->at - r->text) + 1);
}

static int nomem(struct reader *r)
{
	return error_set(r->e, -ENOMEM, "out of memory");
}

static void skip_blanks(struct reader *r)
{
	while (*r->at == ' ' || *r->at == '\t' || *r->at == '\n')
		r->at++;
}

static bool is_name(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '.';
}

/* Takes an operator, or a word that stands alone. */
static bool take(struct reader *r, const char *token)
{
	size_t n = strlen(token);

	skip_blanks(r);
	if (strncmp(r->at, token, n) || (is_name(token[0]) && is_name(r->at[n])))
		return false;
	/* "<" is not the beginning of "<=", nor "!" that of "!=" */
	if (n == 1 && strchr("<>", token[0]) && r->at[1] == '=')
		return false;
	r->at += n;
	return true;
}

static int want_kind(struct reader *r, const struct expr_term *t, int kind, const char *where)
{
	if (t->kind == kind)
		return 0;
	return error_set(r->e, -EINVAL, "\"%s\": %s takes %s, not %s", r->text, where, kind_names[kind],
			 kind_names[t->kind]);
}

/* A quoted list is a set where one is wanted. */
static int want_set(struct reader *r, struct expr_term *t, const char *where)
{
	if (t->kind == EXPR_WORD && t->word) {
		if (cpumask_parse_list(t->word, &t->cpus))
			return error_set(r->e, -EINVAL, "\"%s\": '%s' is not a list of CPUs", r->text, t->word);
		free(take_ptr(t->word));
		t->kind = EXPR_CPUS;
	}
	return want_kind(r, t, EXPR_CPUS, where);
}

static int read_or(struct reader *r, struct expr_term *ret);

static int work_integer(struct reader *r, char op, int64_t a, int64_t b, int64_t *ret)
{
	bool over = false;

	if (!works(r))
		return 0;
	if ((op == '/' || op == '%') && !b)
		return error_set(r->e, -EDOM, "\"%s\": division by zero on this machine", r->text);
	switch (op) {
	case '+':
		over = __builtin_add_overflow(a, b, ret);
		break;
	case '-':
		over = __builtin_sub_overflow(a, b, ret);
		break;
	case '*':
		over = __builtin_mul_overflow(a, b, ret);
		break;
	default:
		over = a == INT64_MIN && b == -1;
		if (!over)
			*ret = op == '/' ? a / b : a % b;
	}
	return over ? error_set(r->e, -EOVERFLOW, "\"%s\": a number beyond 64 bits on this machine", r->text) : 0;
}

static int work(struct reader *r, char op, struct expr_term *a, struct expr_term *b)
{
	char name[] = {'"', op, '"', 0};
	int err;

	if (a->kind != EXPR_CPUS && b->kind != EXPR_CPUS && a->kind != EXPR_WORD) {
		err = want_kind(r, a, EXPR_INT, name);
		if (!err)
			err = want_kind(r, b, EXPR_INT, name);
		return err ? err : work_integer(r, op, a->number, b->number, &a->number);
	}
	if (op != '+' && op != '-')
		return error_set(r->e, -EINVAL, "\"%s\": \"%c\" takes numbers, not sets of CPUs", r->text, op);
	err = want_set(r, a, name);
	if (!err)
		err = want_set(r, b, name);
	if (err)
		return err;
	if (op == '-')
		cpumask_andnot(&a->cpus, &b->cpus);
	else if (cpumask_or(&a->cpus, &b->cpus))
		return nomem(r);
	return 0;
}

static int read_integer(struct reader *r, struct expr_term *ret)
{
	int64_t n = 0;

	for (; isdigit((unsigned char)*r->at); r->at++)
		if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, *r->at - '0', &n))
			return wrong(r, "a number beyond 64 bits");
	if (is_name(*r->at))
		return wrong(r, "a number that ends in a letter (units stand in names)");
	ret->kind = EXPR_INT;
	ret->number = n;
	return 0;
}

static int read_word(struct reader *r, struct expr_term *ret)
{
	const char *end = strchr(r->at + 1, '\'');

	if (!end)
		return wrong(r, "a quote without its end");
	ret->kind = EXPR_WORD;
	ret->word = strndup(r->at + 1, (size_t)(end - r->at - 1));
	r->at = end + 1;
	return ret->word ? 0 : nomem(r);
}

static int first_cpus(struct reader *r, const struct cpumask *set, int64_t n, struct cpumask *ret)
{
	cpumask_each(cpu, set)
	{
		if (n-- <= 0)
			break;
		if (cpumask_set(ret, cpu))
			return nomem(r);
	}
	return 0;
}

static int call_set(struct reader *r, enum function f, struct expr_term *argument, unsigned n, struct expr_term *ret)
{
	unsigned wanted = f == F_COUNT ? 1 : 2;
	int err;

	if (n != wanted)
		return error_set(r->e, -EINVAL, "\"%s\": %s() takes %u values, not %u", r->text, functions[f], wanted,
				 n);
	err = want_set(r, &argument[0], functions[f]);
	if (!err && n == 2)
		err = want_kind(r, &argument[1], EXPR_INT, functions[f]);
	if (err)
		return err;
	ret->kind = f == F_COUNT ? EXPR_INT : EXPR_CPUS;
	if (!works(r))
		return 0;
	if (f == F_COUNT)
		ret->number = cpumask_weight(&argument[0].cpus);
	else if (f == F_FIRST)
		return first_cpus(r, &argument[0].cpus, argument[1].number, &ret->cpus);
	else if (expr_cores(r->place.facts, &argument[0].cpus, argument[1].number, &ret->cpus))
		return nomem(r);
	return 0;
}

static int call_integers(struct reader *r, enum function f, const struct expr_term *argument, unsigned n,
			 struct expr_term *ret)
{
	if (f == F_CLAMP ? n != 3 : n < 1)
		return error_set(r->e, -EINVAL, "\"%s\": %s() takes %s, not %u", r->text, functions[f],
				 f == F_CLAMP ? "3 values" : "1 value or more", n);
	for (unsigned i = 0; i < n; i++) {
		int err = want_kind(r, &argument[i], EXPR_INT, functions[f]);

		if (err)
			return err;
	}
	ret->kind = EXPR_INT;
	ret->number = argument[0].number;
	if (f == F_CLAMP) {
		if (works(r) && argument[1].number > argument[2].number)
			return error_set(r->e, -ERANGE, "\"%s\": clamp() between %jd and %jd", r->text,
					 (intmax_t)argument[1].number, (intmax_t)argument[2].number);
		if (ret->number < argument[1].number)
			ret->number = argument[1].number;
		if (ret->number > argument[2].number)
			ret->number = argument[2].number;
		return 0;
	}
	for (unsigned i = 1; i < n; i++)
		if (f == F_MIN ? argument[i].number < ret->number : argument[i].number > ret->number)
			ret->number = argument[i].number;
	return 0;
}

static int read_call(struct reader *r, enum function f, struct expr_term *ret)
{
	enum { ARGUMENTS_MAX = 8 };
	struct expr_term argument[ARGUMENTS_MAX] = {0};
	unsigned n = 0;
	int err = 0;

	if (!take(r, ")"))
		for (;;) {
			if (n == ARGUMENTS_MAX)
				err = wrong(r, "more than 8 values in a call");
			else
				err = read_or(r, &argument[n++]);
			if (err || take(r, ")"))
				break;
			if (!take(r, ",")) {
				err = wrong(r, "\",\" or \")\" is missing");
				break;
			}
		}
	if (!err)
		err = f == F_COUNT || f == F_FIRST || f == F_CORES ? call_set(r, f, argument, n, ret)
								   : call_integers(r, f, argument, n, ret);
	for (unsigned i = 0; i < n; i++)
		term_free(&argument[i]);
	return err;
}

static int unknown_name(struct reader *r, const char *name, bool call)
{
	struct suggestion s = {.wanted = name};

	for (size_t i = 0; !call && i < N_ROWS; i++)
		suggest_offer(&s, rows[i].name.name);
	for (size_t i = 0; call && i < F_NONE; i++)
		suggest_offer(&s, functions[i]);
	if (s.best)
		return error_set(r->e, -EINVAL, "\"%s\": no %s \"%s\"; did you mean \"%s\"?", r->text,
				 call ? "function" : "name", name, s.best);
	return error_set(r->e, -EINVAL,
			 "\"%s\": no %s \"%s\" (hasten-profile(5) lists them; words stand in single quotes)", r->text,
			 call ? "function" : "name", name);
}

static const char *scope_fault(const struct reader *r, enum field_scope scope)
{
	if (scope == SCOPE_NIC && (r->scope != SCOPE_NIC || (r->place.facts && !r->place.nic)))
		return "may stand in settings of NICs only";
	if (scope == SCOPE_NODE && r->scope != SCOPE_NODE)
		return "may stand in settings of memory nodes only";
	return NULL;
}

static int read_name(struct reader *r, struct expr_term *ret)
{
	const char *begin = r->at, *fault;
	char name[64];
	size_t n;

	while (is_name(*r->at))
		r->at++;
	n = (size_t)(r->at - begin);
	if (n >= sizeof(name)) {
		r->at = begin;
		return wrong(r, "a name longer than 63 characters");
	}
	memcpy(name, begin, n);
	name[n] = 0;
	if (take(r, "(")) {
		for (enum function f = 0; f < F_NONE; f++)
			if (!strcmp(name, functions[f]))
				return read_call(r, f, ret);
		return unknown_name(r, name, true);
	}
	if (!strcmp(name, "true") || !strcmp(name, "false")) {
		*ret = (struct expr_term){.kind = EXPR_BOOL, .number = *name == 't'};
		return 0;
	}
	if (!strcmp(name, "none")) {
		ret->kind = EXPR_CPUS;
		return 0;
	}
	for (size_t i = 0; i < N_ROWS; i++) {
		if (strcmp(name, rows[i].name.name))
			continue;
		fault = scope_fault(r, rows[i].name.scope);
		if (fault)
			return error_set(r->e, -EINVAL, "\"%s\": %s %s", r->text, name, fault);
		ret->kind = rows[i].name.kind;
		return works(r) && rows[i].get(&r->place, ret) ? nomem(r) : 0;
	}
	return unknown_name(r, name, false);
}

static int read_primary(struct reader *r, struct expr_term *ret)
{
	int err;

	skip_blanks(r);
	if (*r->at == '(') {
		r->at++;
		err = read_or(r, ret);
		if (err)
			return err;
		return take(r, ")") ? 0 : wrong(r, "\")\" is missing");
	}
	if (*r->at == '\'')
		return read_word(r, ret);
	if (isdigit((unsigned char)*r->at))
		return read_integer(r, ret);
	if (isalpha((unsigned char)*r->at))
		return read_name(r, ret);
	return wrong(r, *r->at ? "neither a number, a name nor \"(\"" : "it ends too early");
}

static int read_unary(struct reader *r, struct expr_term *ret)
{
	bool minus = take(r, "-");
	int err = read_primary(r, ret);

	if (err || !minus)
		return err;
	err = want_kind(r, ret, EXPR_INT, "\"-\"");
	return err ? err : work_integer(r, '-', 0, ret->number, &ret->number);
}

static int read_term(struct reader *r, struct expr_term *ret)
{
	int err = read_unary(r, ret);

	while (!err) {
		_cleanup_term_ struct expr_term b = {0};
		char op = take(r, "*") ? '*' : take(r, "/") ? '/' : take(r, "%") ? '%' : 0;

		if (!op)
			break;
		err = read_unary(r, &b);
		if (!err)
			err = work(r, op, ret, &b);
	}
	return err;
}

static int read_sum(struct reader *r, struct expr_term *ret)
{
	int err = read_term(r, ret);

	while (!err) {
		_cleanup_term_ struct expr_term b = {0};
		char op = take(r, "+") ? '+' : take(r, "-") ? '-' : 0;

		if (!op)
			break;
		err = read_term(r, &b);
		if (!err)
			err = work(r, op, ret, &b);
	}
	return err;
}

static int compare(struct reader *r, const char *op, struct expr_term *a, struct expr_term *b)
{
	bool equality = op[1] == '=' && (op[0] == '=' || op[0] == '!'), equal, less = false;
	int err = 0;

	if (a->kind == EXPR_CPUS)
		err = want_set(r, b, "a comparison with a set");
	else if (b->kind == EXPR_CPUS)
		err = want_set(r, a, "a comparison with a set");
	if (!err)
		err = want_kind(r, b, a->kind, "this comparison");
	if (!err && !equality)
		err = want_kind(r, a, EXPR_INT, op);
	if (err)
		return err;
	if (a->kind == EXPR_WORD)
		equal = a->word && b->word && !strcmp(a->word, b->word);
	else if (a->kind == EXPR_CPUS)
		equal = cpumask_equal(&a->cpus, &b->cpus);
	else
		equal = a->number == b->number;
	less = a->number < b->number;
	term_free(a);
	a->kind = EXPR_BOOL;
	if (equality)
		a->number = equal == (op[0] == '=');
	else if (op[0] == '<')
		a->number = less || (equal && op[1] == '=');
	else
		a->number = (!less && !equal) || (equal && op[1] == '=');
	return 0;
}

static int read_comparison(struct reader *r, struct expr_term *ret)
{
	static const char *const ops[] = {"==", "!=", "<=", ">=", "<", ">"};
	int err = read_sum(r, ret);

	if (err)
		return err;
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		_cleanup_term_ struct expr_term b = {0};

		if (!take(r, ops[i]))
			continue;
		err = read_sum(r, &b);
		return err ? err : compare(r, ops[i], ret, &b);
	}
	return 0;
}

static int read_not(struct reader *r, struct expr_term *ret)
{
	bool no = false;
	int err;

	/* a loop: a row of "not" must not go as deep as it is long */
	while (take(r, "not"))
		no = !no;
	err = read_comparison(r, ret);
	if (err || !no)
		return err;
	err = want_kind(r, ret, EXPR_BOOL, "\"not\"");
	ret->number = !ret->number;
	return err;
}

static int read_and(struct reader *r, struct expr_term *ret)
{
	int err = read_not(r, ret);

	while (!err && take(r, "and")) {
		_cleanup_term_ struct expr_term b = {0};

		err = want_kind(r, ret, EXPR_BOOL, "\"and\"");
		if (err)
			break;
		r->idle += !ret->number;
		err = read_not(r, &b);
		r->idle -= !ret->number;
		if (!err)
			err = want_kind(r, &b, EXPR_BOOL, "\"and\"");
		ret->number = ret->number && b.number;
	}
	return err;
}

static int read_or(struct reader *r, struct expr_term *ret)
{
	int err;

	if (++r->depth > EXPR_DEPTH_MAX)
		return wrong(r, "nested deeper than 24");
	err = read_and(r, ret);
	while (!err && take(r, "or")) {
		_cleanup_term_ struct expr_term b = {0};

		err = want_kind(r, ret, EXPR_BOOL, "\"or\"");
		if (err)
			break;
		r->idle += ret->number != 0;
		err = read_and(r, &b);
		r->idle -= ret->number != 0;
		if (!err)
			err = want_kind(r, &b, EXPR_BOOL, "\"or\"");
		ret->number = ret->number || b.number;
	}
	r->depth--;
	return err;
}

static int read_all(struct reader *r, struct expr_term *ret)
{
	int err;

	if (strlen(r->text) > EXPR_LENGTH_MAX)
		return error_set(r->e, -E2BIG, "an expression longer than %d characters", EXPR_LENGTH_MAX);
	err = read_or(r, ret);
	if (err)
		return err;
	skip_blanks(r);
	return *r->at ? wrong(r, "something is left over") : 0;
}

int expr_check(const char *text, enum field_scope scope, int *ret_kind, struct error *e)
{
	_cleanup_term_ struct expr_term t = {0};
	struct reader r = {.text = text, .at = text, .scope = scope, .place.node = -1, .e = e};
	int err = read_all(&r, &t);

	if (!err && ret_kind)
		*ret_kind = t.kind;
	return err;
}

int expr_eval(const char *text, const struct facts *f, const struct nic_facts *nic, int node, struct expr_value *ret,
	      struct error *e)
{
	_cleanup_term_ struct expr_term t = {0};
	struct reader r = {
	    .text = text,
	    .at = text,
	    /* a machine without nodes is one node */
	    .scope = nic                              ? SCOPE_NIC
		     : node >= 0 || !f->memory.n_node ? SCOPE_NODE
						      : SCOPE_HOST,
	    .place = {f, nic, node},
	    .e = e,
	};
	char *list = NULL;
	int err = read_all(&r, &t);

	if (!err && t.kind == EXPR_CPUS && cpumask_format_list(&t.cpus, &list))
		err = nomem(&r);
	if (err)
		return err;
	*ret = (struct expr_value){.kind = t.kind, .number = t.number};
	ret->text = t.kind == EXPR_CPUS ? list : take_ptr(t.word);
	return 0;
}
