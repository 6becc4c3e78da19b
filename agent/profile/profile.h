/* Workload profiles: YAML files that say which value each setting shall have, with its reason and source.
 *
 *   schema: 1
 *   name: redis
 *   summary: Redis and its relatives on this host
 *   include: [balanced]
 *   settings:
 *     sysctl.net.core.somaxconn: {at-least: 4096, why: "...", source: "..."}
 *     nic.channels.combined:     {value: "min(cpus.local, nic.queues.max)", why: "...", source: "...", if: "nic.queues.max > 1"}
 *
 * Plain scalars only, typed by the field; no anchors, aliases, tags, duplicate keys or unknown keys; bounded depth and size. A fault names file
 * and line. Folders: the vendor's (/usr/lib/hasten/profiles), the admin's (/etc/hasten/profiles; same name: the admin's whole file
 * instead), drop-ins NAME.yaml.d/x.yaml of both (settings of the later win; "unset: [key ..]" takes keys away). A file that is a link to
 * /dev/null masks. */
#ifndef HASTEN_PROFILE_PROFILE_H
#define HASTEN_PROFILE_PROFILE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sys;
struct error;
struct facts;
struct nic_facts;

#define PROFILE_SIZE_MAX (256 * 1024) /* bytes of one file */
#define PROFILE_SETTINGS_MAX 1024     /* of one profile, all includes in */
#define PROFILE_INCLUDE_MAX 8         /* deep */
#define PROFILE_SET_MAX 16            /* profiles of one applied set */

/* fields.def: one row a settable key: FIELD(key pattern, type, low, high, words, step, scope, one line for the man page). */
enum field_type { FIELD_INT, FIELD_BOOL, FIELD_WORD /* one of words */, FIELD_TEXT, FIELD_CPUS /* list, or an expression of sets */, FIELD_INTS /* "4096 131072 16777216" */ };
enum field_scope { SCOPE_HOST, SCOPE_NIC /* for every NIC that the condition holds for */, SCOPE_NODE /* per memory node */ };
struct field {
	const char *key; /* "sysctl.*" stands for every key that begins so */
	enum field_type type;
	int64_t low, high;
	const char *words; /* of FIELD_WORD: "always|madvise|never" */
	const char *step;  /* which tuning step owns it */
	enum field_scope scope;
	const char *help;
};
const struct field *field_find(const char *key);
const struct field *field_all(size_t *ret_n);

enum setting_mode { SETTING_EXACT, SETTING_AT_LEAST /* raise only */, SETTING_AT_MOST };
struct setting {
	char *key;
	const struct field *field;
	enum setting_mode mode;
	char *value;     /* as written: a literal or an expression */
	char *condition; /* "if", NULL always */
	char *why, *source;
	char *profile, *file; /* where it came from */
	unsigned line;
};
struct profile {
	char *name, *summary, *file;
	char **include; /* names, NULL ended */
	bool consent_boot; /* boot: true in the file: it may ask for boot arguments */
	struct setting *setting; /* sorted by key, includes resolved */
	size_t n_setting;
	struct profile_recommend { char *condition, *why; } *recommend; /* "recommend:" in the file */
	size_t n_recommend;
};
int profile_load(struct sys *s, const char *name, struct profile *ret, struct error *e);
void profile_free(struct profile *p);
int profile_names(struct sys *s, char ***ret); /* NULL ended, sorted; those masked are not among them */

/* Several profiles over one another: later wins. A key that two of them give different values is a conflict, for plan to show. */
struct conflict {
	char *key, *winner, *loser, *winner_value, *loser_value;
};
/* A setting with its value worked out for this machine: one per key and NIC or node. */
struct resolved {
	char *key;
	const struct field *field;
	enum setting_mode mode;
	char *value;  /* canonical text of the field's type */
	char *target; /* identity of the NIC (nic_identity_text), "node0", or NULL */
	char *why, *source, *profile, *file;
	unsigned line;
};
struct resolved_set {
	char **profile; /* names, as given */
	struct resolved *value;
	size_t n_value;
	struct conflict *conflict;
	size_t n_conflict;
	struct skipped { char *key, *target, *why; } *skipped; /* condition false, NIC ambiguous .. */
	size_t n_skipped;
	bool consent_boot;
};
/* only_nic: an interface, or NULL for all. Pure: facts in, values out. */
int profile_resolve(struct sys *s, const char *const names[], const struct facts *f, const char *only_nic, struct resolved_set *ret,
	struct error *e);
void resolved_set_free(struct resolved_set *r);

/* expr.c: + - * / min() max() clamp() comparison and or not, integers, words, sets of CPUs; names of facts (facts.def: one row a name, with
 * unit and meaning): cpus.online cpus.local nic.queues.max memory.total_mib platform.vendor .. Overflow and division by zero are errors. */
struct expr_value {
	enum { EXPR_INT, EXPR_BOOL, EXPR_WORD, EXPR_CPUS } kind;
	int64_t number;
	char *text; /* of WORD and CPUS (a list); owned */
};
int expr_eval(const char *text, const struct facts *f, const struct nic_facts *nic, int node, struct expr_value *ret, struct error *e);
int expr_check(const char *text, enum field_scope scope, struct error *e); /* names and syntax only, no facts */
#endif
