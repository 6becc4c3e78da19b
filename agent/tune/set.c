#include "agent/tune/engine.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SCHEMA_VERSION 1

static const char *const modes[] = {[SETTING_EXACT] = "exact", [SETTING_AT_LEAST] = "at-least", [SETTING_AT_MOST] = "at-most"};

static const char *path_of(bool pending)
{
	return pending ? STATE_FOLDER "/set-pending.json" : STATE_FOLDER "/set.json";
}

static void value_free(struct resolved *v)
{
	free(v->key);
	free(v->value);
	free(v->target);
	free(v->why);
	free(v->source);
	free(v->profile);
	free(v->file);
	*v = (struct resolved){0};
}

void set_free(struct applied_set *set)
{
	texts_free(set->profile);
	resolved_set_free(&set->resolved);
	free(set->machine_id);
	free(set->applied_at);
	free(set->fingerprint);
	*set = (struct applied_set){0};
}

static int copy(char **to, const char *text)
{
	*to = text ? strdup(text) : NULL;
	return text && !*to ? -ENOMEM : 0;
}

static int value_copy(const struct resolved *v, struct resolved *ret)
{
	*ret = (struct resolved){.field = v->field, .mode = v->mode, .line = v->line};
	if (copy(&ret->key, v->key) || copy(&ret->value, v->value) || copy(&ret->target, v->target) || copy(&ret->why, v->why) ||
	    copy(&ret->source, v->source) || copy(&ret->profile, v->profile) || copy(&ret->file, v->file)) {
		value_free(ret);
		return -ENOMEM;
	}
	return 0;
}

static int values_add(struct resolved_set *set, const struct resolved *v)
{
	struct resolved *grown = reallocarray(set->value, set->n_value + 1, sizeof(*grown));
	int r;

	if (!grown)
		return -ENOMEM;
	set->value = grown;
	r = value_copy(v, &grown[set->n_value]);
	if (!r)
		set->n_value++;
	return r;
}

/* ---- reading ---- */

static int read_value(const struct record *from, struct resolved *ret, const char **why)
{
	const char *key = record_text(from, "key"), *mode = record_text(from, "mode"), *value = record_text(from, "value");
	struct resolved v = {0};
	uint64_t line = 0;

	*why = "a value without key, mode or value";
	if (!key || !mode || !value)
		return -EBADMSG;
	*why = "a mode that is none of exact, at-least, at-most";
	for (v.mode = SETTING_EXACT; strcmp(modes[v.mode], mode); v.mode++)
		if (v.mode == SETTING_AT_MOST)
			return -EBADMSG;
	v.field = field_find(key);
	*why = "a setting that this hasten does not know";
	if (!v.field)
		return -EBADMSG;
	record_u64(from, "line", &line);
	v.line = (unsigned)line;
	v.key = (char *)key;
	v.value = (char *)value;
	v.target = (char *)record_text(from, "target");
	v.why = (char *)record_text(from, "why");
	v.source = (char *)record_text(from, "source");
	v.profile = (char *)record_text(from, "profile");
	v.file = (char *)record_text(from, "file");
	*why = "no memory";
	return value_copy(&v, ret);
}

static int read_set(const struct record *from, struct applied_set *set, const char **why)
{
	const struct record *values = record_get(from, "values");
	uint64_t version = 0, cpus = 0;
	int r;

	*why = "written by another version of hasten";
	if (record_u64(from, "schema_version", &version) || version != SCHEMA_VERSION)
		return -EBADMSG;
	*why = "profiles is no list of names";
	if (record_texts(from, "profiles", &set->profile))
		return -EBADMSG;
	*why = "values is no list";
	if (!values || values->kind != RECORD_LIST)
		return -EBADMSG;
	set->consent = record_true(from, "consent");
	set->resolved.consent_boot = record_true(from, "boot_arguments");
	record_u64(from, "made_for_cpus", &cpus);
	set->made_for_cpus = (unsigned)cpus;
	record_u64(from, "made_for_memory_kib", &set->made_for_memory_kib);
	*why = "no memory";
	if (copy(&set->machine_id, record_text(from, "machine_id")) || copy(&set->applied_at, record_text(from, "applied_at")) ||
	    copy(&set->fingerprint, record_text(from, "fingerprint")) || texts_copy((const char *const *)set->profile, &set->resolved.profile))
		return -ENOMEM;
	set->resolved.value = calloc(values->n_child + 1, sizeof(*set->resolved.value));
	if (!set->resolved.value)
		return -ENOMEM;
	for (size_t i = 0; i < values->n_child; i++) {
		r = read_value(&values->child[i], &set->resolved.value[i], why);
		if (r)
			return r;
		set->resolved.n_value++;
	}
	return 0;
}

int set_load(struct sys *s, bool pending, struct applied_set *ret, struct error *e)
{
	_cleanup_free_ char *text = NULL, *file = NULL;
	struct applied_set set = {0};
	struct record from = {0};
	const char *why = NULL;
	unsigned line = 1;
	size_t len;
	int r = sys_read(s, path_of(pending), &text, &len);

	if (r == -ENOENT || r == -ENOTDIR)
		return -ENOENT;
	if (asprintf(&file, "%s%s", sys_root(s), path_of(pending)) < 0) {
		file = NULL;
		return -ENOMEM;
	}
	if (r)
		return error_set(e, r, "%s: %s", file, strerror(-r));
	r = record_parse(text, len, &from, &why, &line);
	if (!r) {
		line = 1;
		r = read_set(&from, &set, &why);
	}
	record_free(&from);
	if (r) {
		set_free(&set);
		return error_set_at(e, r, file, line, "%s; nothing was changed. \"hasten apply PROFILE..\" writes it anew once it is removed", why);
	}
	*ret = set;
	return 0;
}

/* ---- writing ---- */

static void put(FILE *to, const char *key, const char *value)
{
	fprintf(to, "\"%s\": ", key);
	record_write(to, value);
}

static void write_value(FILE *to, const struct resolved *v, bool last)
{
	fputs("    {", to);
	put(to, "key", v->key);
	fputs(", ", to);
	put(to, "mode", modes[v->mode]);
	fputs(", ", to);
	put(to, "value", v->value);
	fputs(", ", to);
	put(to, "target", v->target);
	fputs(", ", to);
	put(to, "why", v->why);
	fputs(", ", to);
	put(to, "source", v->source);
	fputs(", ", to);
	put(to, "profile", v->profile);
	fputs(", ", to);
	put(to, "file", v->file);
	fprintf(to, ", \"line\": %u}%s\n", v->line, last ? "" : ",");
}

int set_store(struct sys *s, const struct applied_set *set, bool pending, struct error *e)
{
	_cleanup_free_ char *text = NULL;
	size_t len;
	FILE *to = open_memstream(&text, &len);
	int r;

	if (!to)
		return -ENOMEM;
	fprintf(to, "{\n  \"schema_version\": %d,\n  \"profiles\": [", SCHEMA_VERSION);
	for (size_t i = 0; set->profile && set->profile[i]; i++) {
		fputs(i ? ", " : "", to);
		record_write(to, set->profile[i]);
	}
	fputs("],\n  ", to);
	put(to, "machine_id", set->machine_id);
	fputs(",\n  ", to);
	put(to, "applied_at", set->applied_at);
	fputs(",\n  ", to);
	put(to, "fingerprint", set->fingerprint);
	fprintf(to, ",\n  \"consent\": %s,\n  \"boot_arguments\": %s,\n  \"made_for_cpus\": %u,\n  \"made_for_memory_kib\": %" PRIu64 ",\n  \"values\": [\n",
		set->consent ? "true" : "false", set->resolved.consent_boot ? "true" : "false", set->made_for_cpus, set->made_for_memory_kib);
	for (size_t i = 0; i < set->resolved.n_value; i++)
		write_value(to, &set->resolved.value[i], i + 1 == set->resolved.n_value);
	fputs("  ]\n}\n", to);
	if (fclose(to))
		return -ENOMEM;
	r = sys_write_file(s, path_of(pending), text, len, 0644);
	return r ? error_set(e, r, "%s%s: %s", sys_root(s), path_of(pending), strerror(-r)) : 0;
}

int set_remove(struct sys *s, bool pending, struct error *e)
{
	int r = sys_exists(s, "%s", path_of(pending)) ? sys_unlink(s, path_of(pending)) : 0;

	return r && r != -ENOENT ? error_set(e, r, "%s%s: %s", sys_root(s), path_of(pending), strerror(-r)) : 0;
}

int set_settle(struct sys *s, struct error *e)
{
	int r = sys_rename(s, path_of(true), path_of(false));

	return r && r != -ENOENT && r != -ENOTDIR ? error_set(e, r, "%s%s: %s", sys_root(s), path_of(false), strerror(-r)) : 0;
}

/* ---- making ---- */

/* Of what the profiles' files say, not of what that means on this machine. */
static int fingerprint(struct sys *s, const char *const names[], char **ret, struct error *e)
{
	uint32_t a = 0, b = 1;
	int r = 0;

	for (size_t i = 0; names && names[i] && !r; i++) {
		struct profile p = {0};

		r = profile_load(s, names[i], &p, e);
		for (size_t k = 0; k < p.n_setting && !r; k++) {
			const struct setting *set = &p.setting[k];
			_cleanup_free_ char *text = NULL;
			int len = asprintf(&text, "%s\n%d\n%s\n%s\n", set->key, set->mode, set->value ? set->value : "", set->condition ? set->condition : "");

			if (len < 0) {
				text = NULL;
				r = -ENOMEM;
				break;
			}
			a = record_crc(a, text, (size_t)len);
			b = record_crc(b ^ a, text, (size_t)len);
		}
		profile_free(&p);
	}
	if (r)
		return r;
	return asprintf(ret, "%08x%08x", a, b) < 0 ? -ENOMEM : 0;
}

int set_newer(struct sys *s, const struct applied_set *set, const struct facts *f, bool *ret, struct error *e)
{
	_cleanup_free_ char *now = NULL;
	int r = fingerprint(s, (const char *const *)set->profile, &now, e);

	(void)f;
	if (!r)
		*ret = !set->fingerprint || strcmp(set->fingerprint, now);
	return r;
}

static bool named(char *const *names, const char *name)
{
	for (; names && *names; names++)
		if (!strcmp(*names, name))
			return true;
	return false;
}

static int names_join(const struct resolved_set *r, const struct applied_set *old, bool keep_old, char ***ret)
{
	size_t n = 0, n_old = 0, n_new = 0;
	char **names;

	while (keep_old && old && old->profile && old->profile[n_old])
		n_old++;
	while (r->profile && r->profile[n_new])
		n_new++;
	names = calloc(n_old + n_new + 1, sizeof(*names));
	if (!names)
		return -ENOMEM;
	for (size_t i = 0; i < n_old + n_new; i++) {
		const char *name = i < n_old ? old->profile[i] : r->profile[i - n_old];

		if (i < n_old && named(r->profile, name))
			continue;
		if (!(names[n++] = strdup(name))) {
			texts_free(names);
			return -ENOMEM;
		}
	}
	*ret = names;
	return 0;
}

static char *now_text(void)
{
	time_t now = time(NULL);
	struct tm tm;
	char text[32];

	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
	return strdup(text);
}

int set_make(struct sys *s, const struct facts *f, const struct resolved_set *r, const struct tune_options *o, const struct applied_set *old,
	struct applied_set *ret, struct error *e)
{
	struct applied_set set = {.consent = o && o->allow_disruptive, .made_for_cpus = (unsigned)f->cpus.n_cpu, .made_for_memory_kib = f->memory.total_kib};
	bool partly = o && (o->only || o->nic);
	struct scope scope;
	int err = scope_begin(f, o, &scope, e);

	for (size_t i = 0; !err && partly && old && i < old->resolved.n_value; i++)
		if (!scope_has(&scope, old->resolved.value[i].field->step, old->resolved.value[i].target))
			err = values_add(&set.resolved, &old->resolved.value[i]);
	for (size_t i = 0; !err && i < r->n_value; i++)
		if (scope_has(&scope, r->value[i].field->step, r->value[i].target))
			err = values_add(&set.resolved, &r->value[i]);
	if (!err)
		err = names_join(r, old, partly, &set.profile);
	if (!err)
		err = texts_copy((const char *const *)set.profile, &set.resolved.profile);
	/* Of an image only the names count: its boot finds CPUs and NICs that are not to be seen here, whatever machine id it has. */
	if (sys_kind(s) == SYS_IMAGE)
		set.made_for_cpus = 0, set.made_for_memory_kib = 0;
	else if (!err)
		err = sys_machine_id(s, &set.machine_id);
	if (!err)
		err = fingerprint(s, (const char *const *)set.profile, &set.fingerprint, e);
	if (!err && !(set.applied_at = now_text()))
		err = -ENOMEM;
	if (partly && old && old->consent)
		set.consent = true;
	set.resolved.consent_boot = r->consent_boot || (partly && old && old->resolved.consent_boot);
	scope_end(&scope);
	if (err) {
		set_free(&set);
		return err;
	}
	*ret = set;
	return 0;
}

int set_reduce(struct applied_set *set, const struct facts *f, const struct tune_options *o)
{
	struct scope scope;
	size_t n = 0;
	int r = scope_begin(f, o, &scope, NULL);

	if (r)
		return r;
	for (size_t i = 0; i < set->resolved.n_value; i++) {
		struct resolved *v = &set->resolved.value[i];

		if (scope_has(&scope, v->field->step, v->target))
			value_free(v);
		else
			set->resolved.value[n++] = *v;
	}
	set->resolved.n_value = n;
	scope_end(&scope);
	return 0;
}

static bool value_equal(const struct resolved *a, const struct resolved *b)
{
	return a->mode == b->mode && a->line == b->line && text_same(a->key, b->key) && text_same(a->value, b->value) && text_same(a->target, b->target) &&
	       text_same(a->why, b->why) && text_same(a->source, b->source) && text_same(a->profile, b->profile) && text_same(a->file, b->file);
}

bool set_equal(const struct applied_set *a, const struct applied_set *b)
{
	if (!texts_equal((const char *const *)a->profile, (const char *const *)b->profile) || !text_same(a->machine_id, b->machine_id) ||
	    !text_same(a->fingerprint, b->fingerprint) || a->consent != b->consent || a->made_for_cpus != b->made_for_cpus ||
	    a->resolved.n_value != b->resolved.n_value)
		return false;
	for (size_t i = 0; i < a->resolved.n_value; i++)
		if (!value_equal(&a->resolved.value[i], &b->resolved.value[i]))
			return false;
	return true;
}

bool set_fits_machine(const struct applied_set *set, const struct facts *f)
{
	uint64_t then = set->made_for_memory_kib, now = f->memory.total_kib, most = then > now ? then : now;

	if (set->made_for_cpus && set->made_for_cpus != f->cpus.n_cpu)
		return false;
	/* The kernel itself takes more or less from one boot to the next. */
	return !then || !now || (then > now ? then - now : now - then) <= most / 20;
}
