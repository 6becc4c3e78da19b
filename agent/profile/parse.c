#include "agent/profile/parse.h"

#include "agent/profile/suggest.h"
#include "agent/sys/cleanup.h"
#include "agent/sys/error.h"
#include "agent/sys/yaml.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define SCHEMA "1"
#define INCLUDES_MAX 16
#define RECOMMENDS_MAX 16

struct file_reader {
	const char *path;
	bool drop_in;
	struct profile_file *f;
	struct error *e;
};

static int nomem(struct file_reader *r)
{
	return error_set(r->e, -ENOMEM, "out of memory");
}

static int copy(struct file_reader *r, const char *text, char **ret)
{
	*ret = strdup(text);
	return *ret ? 0 : nomem(r);
}

void setting_free(struct setting *s)
{
	free(s->key);
	free(s->value);
	free(s->condition);
	free(s->why);
	free(s->source);
	free(s->profile);
	free(s->file);
	*s = (struct setting){0};
}

void recommend_free(struct profile_recommend *r)
{
	free(r->condition);
	free(r->program);
	free(r->why);
	*r = (struct profile_recommend){0};
}

void profile_file_free(struct profile_file *f)
{
	for (size_t i = 0; i < f->n_include; i++)
		free(f->include[i].name);
	for (size_t i = 0; i < f->n_setting; i++)
		setting_free(&f->setting[i]);
	for (size_t i = 0; i < f->n_recommend; i++)
		recommend_free(&f->recommend[i]);
	for (size_t i = 0; f->unset && f->unset[i]; i++)
		free(f->unset[i]);
	free(f->include);
	free(f->setting);
	free(f->recommend);
	free(f->unset);
	free(f->path);
	free(f->name);
	free(f->summary);
	*f = (struct profile_file){0};
}

bool profile_name_valid(const char *name)
{
	size_t n = strlen(name);

	if (!n || n > PROFILE_NAME_MAX || !isalnum((unsigned char)*name))
		return false;
	for (const char *c = name; *c; c++)
		if (!islower((unsigned char)*c) && !isdigit((unsigned char)*c) && *c != '-')
			return false;
	return true;
}

/* A scalar with something in it; line ends of folded text become blanks, the last goes. */
static int text_of(struct file_reader *r, const struct yaml_node *n, const char *what, char **ret)
{
	int err;
	size_t len;

	if (n->kind != YAML_NODE_SCALAR)
		return error_set_at(r->e, -EINVAL, r->path, n->line, "%s: one value must stand here", what);
	err = copy(r, n->text, ret);
	if (err)
		return err;
	for (char *c = *ret; *c; c++)
		if (*c == '\n' || *c == '\t')
			*c = ' ';
	len = strlen(*ret);
	while (len && (*ret)[len - 1] == ' ')
		(*ret)[--len] = 0;
	if (len)
		return 0;
	free(take_ptr(*ret));
	return error_set_at(r->e, -EINVAL, r->path, n->line, "%s: the value is empty", what);
}

static int unknown_key(struct file_reader *r, const char *key, unsigned line)
{
	struct suggestion s = {.wanted = key};
	size_t n;
	const struct field *all = field_all(&n);

	for (size_t i = 0; i < n; i++)
		suggest_offer(&s, all[i].key);
	if (s.best)
		return error_set_at(r->e, -EINVAL, r->path, line, "unknown setting \"%s\"; did you mean \"%s\"?", key,
				    s.best);
	return error_set_at(r->e, -EINVAL, r->path, line, "unknown setting \"%s\"; hasten-profile(5) lists them", key);
}

/* The error of an inner function, which knows no file, gets ours. */
static int placed(struct file_reader *r, struct error *inner, int err, const char *key, unsigned line)
{
	if (err == -ENOMEM || !inner->message)
		error_set(r->e, err, "%s", inner->message ? inner->message : strerror(-err));
	else
		error_set_at(r->e, err, r->path, line, "%s: %s", key, inner->message);
	error_clear(inner);
	return err;
}

static int take_mode(struct file_reader *r, const struct yaml_node *n, struct setting *s)
{
	static const struct {
		const char *key;
		enum setting_mode mode;
	} modes[] = {{"value", SETTING_EXACT}, {"at-least", SETTING_AT_LEAST}, {"at-most", SETTING_AT_MOST}};

	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		const struct yaml_node *v = yaml_get(n, modes[i].key);
		int err;

		if (!v)
			continue;
		if (s->value)
			return error_set_at(r->e, -EINVAL, r->path, v->line, "%s: only one of value, at-least, at-most",
					    n->key);
		s->mode = modes[i].mode;
		err = text_of(r, v, n->key, &s->value);
		if (err)
			return err;
	}
	if (!s->value)
		return error_set_at(r->e, -EINVAL, r->path, n->line, "%s: value (or at-least, at-most) is missing",
				    n->key);
	return 0;
}

static int take_setting_map(struct file_reader *r, const struct yaml_node *n, struct setting *s)
{
	static const char *const allowed[] = {"value", "at-least", "at-most", "why", "source", "if", NULL};
	const struct yaml_node *condition, *why, *source;
	int err = yaml_only(n, r->path, allowed, r->e);

	if (!err)
		err = take_mode(r, n, s);
	if (err)
		return err;
	condition = yaml_get(n, "if");
	why = yaml_get(n, "why");
	source = yaml_get(n, "source");
	if (!why)
		return error_set_at(r->e, -EINVAL, r->path, n->line,
				    "%s: why is missing: say in a sentence what this value does here", n->key);
	err = text_of(r, why, "why", &s->why);
	if (!err && source)
		err = text_of(r, source, "source", &s->source);
	if (!err && condition)
		err = text_of(r, condition, "if", &s->condition);
	if (!err && s->condition) {
		struct error inner = {0};
		int kind;

		err = expr_check(s->condition, s->field->scope, &kind, &inner);
		if (!err && kind != EXPR_BOOL)
			err = error_set(&inner, -EINVAL, "\"%s\" is not true or false", s->condition);
		if (err)
			return placed(r, &inner, err, "if", condition->line);
	}
	return err;
}

static int take_setting(struct file_reader *r, const struct yaml_node *n, struct setting *s)
{
	struct error inner = {0};
	int err;

	s->field = field_find(n->key);
	s->line = n->line;
	if (!s->field)
		return unknown_key(r, n->key, n->line);
	if (!strncmp(n->key, "boot.", 5) && !r->f->boot)
		return error_set_at(r->e, -EINVAL, r->path, n->line,
				    "%s is a boot argument, and this file does not say \"boot: true\"", n->key);
	err = copy(r, n->key, &s->key);
	if (!err)
		err = copy(r, r->path, &s->file);
	if (!err)
		err = copy(r, r->f->name, &s->profile);
	if (!err && n->kind == YAML_NODE_SCALAR)
		err = text_of(r, n, n->key, &s->value);
	else if (!err)
		err = take_setting_map(r, n, s);
	if (!err && !s->why && asprintf(&s->why, "set in %s", r->path) < 0) {
		s->why = NULL;
		err = nomem(r);
	}
	if (!err && !s->source)
		err = copy(r, r->path, &s->source);
	if (err)
		return err;
	err = setting_value_check(s->field, s->key, s->mode, s->value, &inner);
	return err ? placed(r, &inner, err, s->key, n->line) : 0;
}

static int take_settings(struct file_reader *r, const struct yaml_node *n)
{
	int err = 0;

	if (n->kind != YAML_NODE_MAP)
		return error_set_at(r->e, -EINVAL, r->path, n->line, "settings: keys with values must stand here");
	if (n->n_child > PROFILE_SETTINGS_MAX)
		return error_set_at(r->e, -E2BIG, r->path, n->line, "more than %d settings", PROFILE_SETTINGS_MAX);
	r->f->setting = calloc(n->n_child ? n->n_child : 1, sizeof(*r->f->setting));
	if (!r->f->setting)
		return nomem(r);
	while (!err && r->f->n_setting < n->n_child) {
		size_t i = r->f->n_setting++;

		err = take_setting(r, &n->child[i], &r->f->setting[i]);
	}
	return err;
}

static int want_list(struct file_reader *r, const struct yaml_node *n, size_t max)
{
	if (n->kind != YAML_NODE_LIST)
		return error_set_at(r->e, -EINVAL, r->path, n->line, "%s: a list must stand here: [.., ..]", n->key);
	if (n->n_child > max)
		return error_set_at(r->e, -E2BIG, r->path, n->line, "%s: more than %zu", n->key, max);
	return 0;
}

static int take_includes(struct file_reader *r, const struct yaml_node *n)
{
	int err = want_list(r, n, INCLUDES_MAX);

	if (err)
		return err;
	r->f->include = calloc(n->n_child + 1, sizeof(*r->f->include));
	if (!r->f->include)
		return nomem(r);
	while (!err && r->f->n_include < n->n_child) {
		size_t i = r->f->n_include++;

		r->f->include[i].line = n->child[i].line;
		err = text_of(r, &n->child[i], "include", &r->f->include[i].name);
		if (!err && !profile_name_valid(r->f->include[i].name))
			err = error_set_at(r->e, -EINVAL, r->path, n->child[i].line,
					   "\"%.80s\" is not a profile's name (a-z, 0-9, -)", r->f->include[i].name);
	}
	return err;
}

static int take_unset(struct file_reader *r, const struct yaml_node *n)
{
	int err = want_list(r, n, PROFILE_SETTINGS_MAX);

	if (err)
		return err;
	r->f->unset = calloc(n->n_child + 1, sizeof(char *));
	if (!r->f->unset)
		return nomem(r);
	for (size_t i = 0; !err && i < n->n_child; i++) {
		err = text_of(r, &n->child[i], "unset", &r->f->unset[i]);
		if (!err && !field_find(r->f->unset[i]))
			err = unknown_key(r, r->f->unset[i], n->child[i].line);
	}
	return err;
}

static int take_recommend(struct file_reader *r, const struct yaml_node *n, struct profile_recommend *ret)
{
	static const char *const allowed[] = {"if", "program", "why", NULL};
	const struct yaml_node *condition, *program, *why;
	struct error inner = {0};
	int kind = EXPR_BOOL, err = yaml_only(n, r->path, allowed, r->e);

	if (err)
		return err;
	ret->line = n->line;
	condition = yaml_get(n, "if");
	program = yaml_get(n, "program");
	why = yaml_get(n, "why");
	if (!why || (!condition && !program))
		return error_set_at(r->e, -EINVAL, r->path, n->line,
				    "recommend: why, and if or program, must stand here");
	err = text_of(r, why, "why", &ret->why);
	if (!err && program)
		err = text_of(r, program, "program", &ret->program);
	if (!err && ret->program && strchr(ret->program, '/'))
		return error_set_at(r->e, -EINVAL, r->path, program->line,
				    "program: a name without folders must stand here");
	if (!err && condition)
		err = text_of(r, condition, "if", &ret->condition);
	if (err || !condition)
		return err;
	err = expr_check(ret->condition, SCOPE_HOST, &kind, &inner);
	if (!err && kind != EXPR_BOOL)
		err = error_set(&inner, -EINVAL, "\"%s\" is not true or false", ret->condition);
	return err ? placed(r, &inner, err, "if", condition->line) : 0;
}

static int take_recommends(struct file_reader *r, const struct yaml_node *n)
{
	int err = want_list(r, n, RECOMMENDS_MAX);

	if (err)
		return err;
	r->f->recommend = calloc(n->n_child + 1, sizeof(*r->f->recommend));
	if (!r->f->recommend)
		return nomem(r);
	while (!err && r->f->n_recommend < n->n_child) {
		size_t i = r->f->n_recommend++;

		err = take_recommend(r, &n->child[i], &r->f->recommend[i]);
	}
	return err;
}

static int take_head(struct file_reader *r, const struct yaml_node *root, const char *name)
{
	const struct yaml_node *schema = yaml_get(root, "schema"), *own = yaml_get(root, "name"),
			       *summary = yaml_get(root, "summary"), *boot = yaml_get(root, "boot");
	int err = 0;

	if (!schema || schema->kind != YAML_NODE_SCALAR || strcmp(schema->text, SCHEMA))
		return error_set_at(r->e, -EINVAL, r->path, schema ? schema->line : 1,
				    "\"schema: 1\" must stand here; %s",
				    schema ? "this hasten knows no other" : "it is missing");
	if (boot && (boot->kind != YAML_NODE_SCALAR || (strcmp(boot->text, "true") && strcmp(boot->text, "false"))))
		return error_set_at(r->e, -EINVAL, r->path, boot->line, "boot: true or false must stand here");
	r->f->boot = boot && *boot->text == 't';
	if (r->drop_in)
		return copy(r, name, &r->f->name);
	if (!own || !summary)
		return error_set_at(r->e, -EINVAL, r->path, 1, "%s is missing", own ? "summary" : "name");
	err = text_of(r, own, "name", &r->f->name);
	if (!err)
		err = text_of(r, summary, "summary", &r->f->summary);
	if (!err && name && strcmp(name, r->f->name))
		return error_set_at(r->e, -EINVAL, r->path, own->line,
				    "calls itself \"%.80s\" and must be \"%s\", as its file", r->f->name, name);
	if (!err && !profile_name_valid(r->f->name))
		return error_set_at(r->e, -EINVAL, r->path, own->line,
				    "\"%.80s\" is not a profile's name (a-z, 0-9, -)", r->f->name);
	return err;
}

static int take_file(struct file_reader *r, const struct yaml_node *root, const char *name)
{
	static const char *const whole[] = {"schema",    "name",  "summary",  "include", "boot",
					    "recommend", "unset", "settings", NULL};
	static const char *const part[] = {"schema", "boot", "unset", "settings", NULL};
	static const struct {
		const char *key;
		int (*take)(struct file_reader *r, const struct yaml_node *n);
	} bodies[] = {{"include", take_includes},
		      {"unset", take_unset},
		      {"recommend", take_recommends},
		      {"settings", take_settings}};
	int err = yaml_only(root, r->path, r->drop_in ? part : whole, r->e);

	if (!err)
		err = take_head(r, root, name);
	for (size_t i = 0; !err && i < sizeof(bodies) / sizeof(bodies[0]); i++) {
		const struct yaml_node *n = yaml_get(root, bodies[i].key);

		if (n)
			err = bodies[i].take(r, n);
	}
	return err;
}

int profile_file_parse(const char *path, const char *name, bool drop_in, const char *text, size_t len,
		       struct profile_file *ret, struct error *e)
{
	struct profile_file f = {0};
	struct file_reader r = {.path = path, .drop_in = drop_in, .f = &f, .e = e};
	struct yaml_node *root = NULL;
	int err = 0;

	if (len > PROFILE_SIZE_MAX)
		err = error_set_at(e, -EFBIG, path, 0, "larger than %d KiB", PROFILE_SIZE_MAX / 1024);
	if (!err)
		err = copy(&r, path, &f.path);
	if (!err)
		err = yaml_parse(path, text, len, &root, e);
	if (!err)
		err = take_file(&r, root, name);
	yaml_node_free(root);
	if (err)
		profile_file_free(&f);
	else
		*ret = f;
	return err;
}
