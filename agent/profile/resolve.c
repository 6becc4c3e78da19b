/* Profiles over one another, worked out for this machine. Pure: of the machine it reads only the profiles. */
#include "agent/profile/expr.h"
#include "agent/profile/value.h"

#include "agent/detect/facts.h"
#include "agent/nic/nic.h"
#include "agent/sys/cleanup.h"
#include "agent/sys/error.h"
#include "agent/sys/sys.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Where one setting may apply. */
struct target {
	const struct nic_facts *nic;
	int node;
	uint64_t node_kib;
	char *text;       /* as struct resolved has it */
	bool only_driver; /* no interface hangs on the device, or will: nothing but its driver can be set */
	const char *only_driver_why;
};
struct targets {
	struct target *target;
	size_t n;
};

struct work {
	const struct facts *f;
	struct profile *profile;
	size_t n_profile;
	struct targets host, nics, nodes;
	struct resolved_set *set;
	struct error *e;
};

static int nomem(struct work *w)
{
	return error_set(w->e, -ENOMEM, "out of memory");
}

/* An array that doubles: room is the power of two at or above n. */
static void *grow(void *array, size_t n, size_t size)
{
	if (n & (n - 1))
		return array;
	return realloc(array, (n ? 2 * n : 1) * size);
}

#define append(array, n)                                             \
	({                                                           \
		void *_grown = grow((array), (n), sizeof(*(array))); \
		if (_grown) {                                        \
			(array) = _grown;                            \
			memset(&(array)[(n)], 0, sizeof(*(array)));  \
		}                                                    \
		_grown ? &(array)[(n)++] : NULL;                     \
	})

static char *copy_or_null(const char *text, bool *failed)
{
	char *to = text ? strdup(text) : NULL;

	*failed |= text && !to;
	return to;
}

static int skip(struct work *w, const char *key, const struct target *t, const char *why)
{
	struct skipped *s = append(w->set->skipped, w->set->n_skipped);
	bool failed = !s;

	if (s)
		*s = (struct skipped){copy_or_null(key, &failed), copy_or_null(t->text, &failed),
				      copy_or_null(why, &failed)};
	return failed ? nomem(w) : 0;
}

static int add_value(struct work *w, const struct setting *s, const struct target *t, char *value)
{
	struct resolved *v = append(w->set->value, w->set->n_value);
	bool failed = !v;

	if (!v) {
		free(value);
		return nomem(w);
	}
	*v = (struct resolved){
	    .key = copy_or_null(s->key, &failed),
	    .field = s->field,
	    .mode = s->mode,
	    .value = value,
	    .target = copy_or_null(t->text, &failed),
	    .why = copy_or_null(s->why, &failed),
	    .source = copy_or_null(s->source, &failed),
	    .profile = copy_or_null(s->profile, &failed),
	    .file = copy_or_null(s->file, &failed),
	    .line = s->line,
	};
	return failed ? nomem(w) : 0;
}

static const char *const mode_words[] = {
    [SETTING_EXACT] = "", [SETTING_AT_LEAST] = "at least ", [SETTING_AT_MOST] = "at most "};

static int add_conflict(struct work *w, const struct setting *winner, const char *value, const struct setting *loser,
			const char *other)
{
	struct resolved_set *set = w->set;
	_cleanup_free_ char *a = NULL, *b = NULL;
	bool failed = false;

	if (asprintf(&a, "%s%s", mode_words[winner->mode], value) < 0 ||
	    asprintf(&b, "%s%s", mode_words[loser->mode], other) < 0)
		return nomem(w);
	for (size_t i = 0; i < set->n_conflict; i++) { /* another NIC or node showed the same */
		const struct conflict *c = &set->conflict[i];

		if (!strcmp(c->key, winner->key) && !strcmp(c->loser, loser->profile) && !strcmp(c->winner_value, a) &&
		    !strcmp(c->loser_value, b))
			return 0;
	}
	struct conflict *c = append(set->conflict, set->n_conflict);
	if (!c)
		return nomem(w);
	c->key = copy_or_null(winner->key, &failed);
	c->winner = copy_or_null(winner->profile, &failed);
	c->loser = copy_or_null(loser->profile, &failed);
	c->winner_value = take_ptr(a);
	c->loser_value = take_ptr(b);
	return failed ? nomem(w) : 0;
}

/* ---- what a value must not be here ---- */

/* Huge pages beyond half of the memory leave too little for everything else, and reserving them may fail half way. */
static bool too_many_pages(const char *key, const char *value, const struct target *t, const struct facts *f)
{
	uint64_t size_kib, have = t->node_kib;

	if (!strncmp(key, "hugepages.", 10))
		size_kib = strtoull(key + 10, NULL, 10);
	else if (!strcmp(key, "boot.hugepages_1gib"))
		size_kib = 1 << 20, have = f->memory.total_kib;
	else
		return false;
	return strtoull(value, NULL, 10) > have / 2 / size_kib;
}

static int refused_cpus(struct work *w, const struct setting *s, const char *value, const char **ret_why)
{
	_cleanup_(cpumask_free) struct cpumask set = {0};

	if (cpumask_parse_list(value, &set))
		return nomem(w);
	if (cpumask_empty(&set)) /* no RPS is a wish, no CPU for interrupts is none */
		*ret_why = strcmp(s->key, "nic.rps.cpus") ? "no CPU is left for it here" : NULL;
	else if (!cpumask_subset(&set, &w->f->cpus.online))
		*ret_why = "some of these CPUs are not online";
	else if (!strcmp(s->key, "boot.isolated_cpus") || !strcmp(s->key, "boot.nohz_full"))
		*ret_why = cpus_not_isolatable(w->f, &set);
	return 0;
}

/* *ret_why: the value was worked out and cannot be used; buf where words have to be put together. */
static int refused(struct work *w, const struct setting *s, const struct target *t, const char *value,
		   const char **ret_why, char *buf, size_t size)
{
	*ret_why = NULL;
	if (s->field->type == FIELD_CPUS)
		return refused_cpus(w, s, value, ret_why);
	if (s->field->type == FIELD_INT && value_check_range(s->field, strtoll(value, NULL, 10), NULL)) {
		snprintf(buf, size, "\"%.200s\" is %s here, not between %jd and %jd", s->value, value,
			 (intmax_t)s->field->low, (intmax_t)s->field->high);
		*ret_why = buf;
	} else if (too_many_pages(s->key, value, t, w->f)) {
		snprintf(buf, size, "%s pages are more than half of the memory", value);
		*ret_why = buf;
	} else if (!strcmp(s->key, "nic.driver") && strcmp(value, "kernel")) {
		*ret_why = nic_not_takeable(w->f, t->nic);
	}
	return 0;
}

/* ---- one key ---- */

/* An inherited setting does not undo what an earlier profile made of the same ancestor's: "redis erdma", both on top of
 * balanced. */
static bool undoes_earlier(const struct work *w, size_t i, const struct setting *s, const struct setting *const of[])
{
	if (!strcmp(s->profile, w->profile[i].name))
		return false;
	for (size_t j = 0; j < i; j++) {
		const struct profile *p = &w->profile[j];
		bool ancestor = !strcmp(p->name, s->profile);

		for (char **a = p->ancestor; *a && !ancestor; a++)
			ancestor = !strcmp(*a, s->profile);
		if (ancestor && of[j] && strcmp(of[j]->profile, s->profile))
			return true;
	}
	return false;
}

static int condition_holds(struct work *w, const struct setting *s, const struct target *t, bool *ret)
{
	struct expr_value v = {0};
	struct error inner = {0};
	int r;

	*ret = true;
	if (!s->condition)
		return 0;
	r = expr_eval(s->condition, w->f, t->nic, t->node, &v, &inner);
	if (r)
		error_set_at(w->e, r, s->file, s->line, "%s: if: %s", s->key, inner.message);
	*ret = v.number != 0;
	error_clear(&inner);
	free(v.text);
	return r;
}

static int work_out(struct work *w, const struct setting *s, const struct target *t, char **ret)
{
	struct error inner = {0};
	int r = setting_work_out(s, w->f, t->nic, t->node, ret, &inner);

	if (r)
		error_set_at(w->e, r, s->file, s->line, "%s: %s", s->key, inner.message ? inner.message : strerror(-r));
	error_clear(&inner);
	return r;
}

/* of: the key's setting in each profile, NULL none. Later profiles win where their condition holds. */
static int resolve_target(struct work *w, const char *key, const struct setting *const of[], const struct target *t)
{
	const struct setting *winner = NULL, *unmet = NULL;
	_cleanup_free_ char *value = NULL;
	const char *why;
	char buf[320];
	int r;

	for (size_t i = w->n_profile; i--;) {
		_cleanup_free_ char *other = NULL;
		bool holds;

		if (!of[i] || undoes_earlier(w, i, of[i], of))
			continue;
		r = condition_holds(w, of[i], t, &holds);
		if (r)
			return r;
		if (!holds) {
			unmet = unmet ? unmet : of[i];
			continue;
		}
		r = work_out(w, of[i], t, winner ? &other : &value);
		if (r)
			return r;
		if (!winner) {
			winner = of[i];
			continue;
		}
		if (strcmp(other, value) || winner->mode != of[i]->mode) {
			r = add_conflict(w, winner, value, of[i], other);
			if (r)
				return r;
		}
	}
	if (!winner) {
		if (!unmet)
			return 0;
		/* Of a card that is not given away the reader wants the reason, not the expression. */
		why = !strcmp(key, "nic.driver") ? nic_not_takeable(w->f, t->nic) : NULL;
		if (!strcmp(key, "nic.driver"))
			snprintf(buf, sizeof(buf), "does not hold here: %.100s (%.200s)", unmet->condition, unmet->why ? unmet->why : "");
		else
			snprintf(buf, sizeof(buf), "does not hold here: %.250s", unmet->condition);
		return skip(w, key, t, why ? why : buf);
	}
	r = refused(w, winner, t, value, &why, buf, sizeof(buf));
	if (r)
		return r;
	return why ? skip(w, key, t, why) : add_value(w, winner, t, take_ptr(value));
}

static const struct setting *setting_of(const struct profile *p, const char *key)
{
	for (size_t i = 0; i < p->n_setting; i++)
		if (!strcmp(p->setting[i].key, key))
			return &p->setting[i];
	return NULL;
}

static int resolve_key(struct work *w, const char *key)
{
	const struct setting *of[PROFILE_SET_MAX] = {NULL};
	const struct targets *where;
	bool driver = !strcmp(key, "nic.driver");
	enum field_scope scope = field_find(key)->scope;
	int r = 0;

	for (size_t i = 0; i < w->n_profile; i++)
		of[i] = setting_of(&w->profile[i], key);
	where = scope == SCOPE_NIC ? &w->nics : scope == SCOPE_NODE ? &w->nodes : &w->host;
	for (size_t i = 0; !r && i < where->n; i++) {
		struct target *t = &where->target[i];
		size_t before = w->set->n_value;

		if (t->only_driver && !driver)
			continue;
		r = resolve_target(w, key, of, t);
		if (!r && driver && w->set->n_value > before && strcmp(w->set->value[before].value, "kernel")) {
			t->only_driver = true;
			t->only_driver_why = "it is handed to DPDK";
		}
	}
	return r;
}

/* ---- where ---- */

static int add_target(struct work *w, struct targets *to, struct target t)
{
	struct target *place = append(to->target, to->n);

	if (!place) {
		free(t.text);
		return nomem(w);
	}
	*place = t;
	return 0;
}

static int add_nic(struct work *w, const struct nic_facts *nic)
{
	struct target t = {.nic = nic, .node = -1, .text = nic_identity_text(&nic->id)};
	int r;

	if (!t.text)
		return nomem(w);
	if (nic->id.ambiguous) {
		r = skip(w, "nic.*", &t, "another NIC has the same identity or address: which is meant cannot be told");
		free(t.text);
		return r;
	}
	if (!nic->name) {
		t.only_driver = true;
		t.only_driver_why = "it has no network interface";
	}
	return add_target(w, &w->nics, t);
}

static int gather_nics(struct work *w, const char *only)
{
	const struct nic_facts *chosen = only ? facts_nic(w->f, only) : NULL;
	int r = 0;

	if (only && !chosen) {
		char names[256] = "";

		for (size_t i = 0; i < w->f->n_nic; i++) {
			size_t n = strlen(names);

			if (w->f->nic[i].name)
				snprintf(names + n, sizeof(names) - n, "%s%s", n ? ", " : "", w->f->nic[i].name);
		}
		return error_set(w->e, -ENODEV, "no NIC \"%.64s\"; there are: %s", only, *names ? names : "none");
	}
	for (size_t i = 0; !r && i < w->f->n_nic; i++) {
		const struct nic_facts *nic = &w->f->nic[i];

		if (chosen && chosen != nic)
			continue;
		/* bonds, bridges and the like have no queues of their own; a veth is tuned only by name, since
		 * containers come and go */
		if (!chosen && (nic->kind || nic->id.bus == NIC_BUS_VIRTUAL))
			continue;
		if (!nic->name && nic->family &&
		    nic->family->rdma) /* an RDMA function: no interface will ever hang on it */
			continue;
		r = add_nic(w, nic);
	}
	return r;
}

static int gather_nodes(struct work *w)
{
	const struct memory_facts *m = &w->f->memory;
	int r = 0;

	if (!m->n_node)
		return add_target(w, &w->nodes, (struct target){.node = -1, .node_kib = m->total_kib});
	for (size_t i = 0; !r && i < m->n_node; i++) {
		struct target t = {.node = m->node[i].id, .node_kib = m->node[i].total_kib};

		if (!t.node_kib)
			continue;
		if (asprintf(&t.text, "node%d", t.node) < 0)
			return nomem(w);
		r = add_target(w, &w->nodes, t);
	}
	return r;
}

/* ---- all ---- */

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* A NIC that is handed over, or has no interface, is said once and not for each key. */
static int say_only_driver(struct work *w, bool any_nic_key)
{
	int r = 0;

	for (size_t i = 0; any_nic_key && !r && i < w->nics.n; i++)
		if (w->nics.target[i].only_driver)
			r = skip(w, "nic.*", &w->nics.target[i], w->nics.target[i].only_driver_why);
	return r;
}

static int resolve_keys(struct work *w)
{
	const char **keys;
	size_t n = 0;
	bool any_nic_key = false;
	int r = 0;

	for (size_t i = 0; i < w->n_profile; i++)
		n += w->profile[i].n_setting;
	keys = calloc(n ? n : 1, sizeof(char *));
	if (!keys)
		return nomem(w);
	n = 0;
	for (size_t i = 0; i < w->n_profile; i++)
		for (size_t k = 0; k < w->profile[i].n_setting; k++)
			keys[n++] = w->profile[i].setting[k].key;
	qsort(keys, n, sizeof(keys[0]), by_text);
	/* which NICs are handed over decides what else is set on them */
	for (size_t i = 0; !r && i < n; i++)
		if (!strcmp(keys[i], "nic.driver") && (!i || strcmp(keys[i], keys[i - 1])))
			r = resolve_key(w, keys[i]);
	for (size_t i = 0; !r && i < n; i++) {
		if ((i && !strcmp(keys[i], keys[i - 1])) || !strcmp(keys[i], "nic.driver"))
			continue;
		any_nic_key |= field_find(keys[i])->scope == SCOPE_NIC;
		r = resolve_key(w, keys[i]);
	}
	free(keys);
	return r ? r : say_only_driver(w, any_nic_key);
}

static int load_all(struct work *w, struct sys *s, const char *const names[])
{
	for (size_t i = 0; names[i]; i++) {
		char **name;
		int r;

		if (i == PROFILE_SET_MAX)
			return error_set(w->e, -E2BIG, "more than %d profiles", PROFILE_SET_MAX);
		for (size_t k = 0; k < i; k++)
			if (!strcmp(names[k], names[i]))
				return error_set(w->e, -EINVAL, "profile \"%s\" is named twice", names[i]);
		r = profile_load(s, names[i], &w->profile[i], w->e);
		if (r)
			return r;
		w->n_profile = i + 1;
		w->set->consent_boot |= w->profile[i].consent_boot;
		name = &w->set->profile[i];
		*name = strdup(names[i]);
		if (!*name)
			return nomem(w);
	}
	return 0;
}

static void free_targets(struct targets *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->target[i].text);
	free(t->target);
}

int profile_resolve(struct sys *s, const char *const names[], const struct facts *f, const char *only_nic,
		    struct resolved_set *ret, struct error *e)
{
	struct resolved_set set = {.profile = calloc(PROFILE_SET_MAX + 1, sizeof(char *))};
	struct profile profiles[PROFILE_SET_MAX] = {0};
	struct work w = {.f = f, .profile = profiles, .set = &set, .e = e};
	int r = set.profile ? 0 : nomem(&w);

	if (!r)
		r = load_all(&w, s, names);
	if (!r)
		r = add_target(&w, &w.host, (struct target){.node = -1});
	if (!r)
		r = gather_nics(&w, only_nic);
	if (!r)
		r = gather_nodes(&w);
	if (!r)
		r = resolve_keys(&w);
	for (size_t i = 0; i < w.n_profile; i++)
		profile_free(&profiles[i]);
	free_targets(&w.host);
	free_targets(&w.nics);
	free_targets(&w.nodes);
	if (r)
		resolved_set_free(&set);
	else
		*ret = set;
	return r;
}

void resolved_set_free(struct resolved_set *r)
{
	for (size_t i = 0; i < r->n_value; i++) {
		struct resolved *v = &r->value[i];
		char *const owned[] = {v->key, v->value, v->target, v->why, v->source, v->profile, v->file};

		for (size_t k = 0; k < sizeof(owned) / sizeof(owned[0]); k++)
			free(owned[k]);
	}
	for (size_t i = 0; i < r->n_conflict; i++) {
		struct conflict *c = &r->conflict[i];
		char *const owned[] = {c->key, c->winner, c->loser, c->winner_value, c->loser_value};

		for (size_t k = 0; k < sizeof(owned) / sizeof(owned[0]); k++)
			free(owned[k]);
	}
	for (size_t i = 0; i < r->n_skipped; i++) {
		free(r->skipped[i].key);
		free(r->skipped[i].target);
		free(r->skipped[i].why);
	}
	free(r->value);
	free(r->conflict);
	free(r->skipped);
	for (size_t i = 0; r->profile && r->profile[i]; i++)
		free(r->profile[i]);
	free(r->profile);
	*r = (struct resolved_set){0};
}
