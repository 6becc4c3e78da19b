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
 * and line. Also: "key: VALUE" without a map (exact; the reason is the file), "unset: [key ..]" (of what was included), "boot: true" (else no
 * boot.* key may stand in the file), "recommend: [{if: .., program: .., why: ..}]".
 *
 * Numbers, booleans and sets of CPUs may be expressions; a TEXT value that begins with "=" is one. at-least and at-most are for numbers and lists
 * of numbers (element by element); who applies them compares with what is there.
 *
 * Folders: the vendor's (agent/sys/place.h, always of the running program; variable HASTEN_PROFILE_DIR, for an uninstalled one), the admin's
 * below the root of the struct sys (/etc/hasten/profiles; same name: the admin's whole file instead), drop-ins NAME.yaml.d/x.yaml of both, by
 * name, the admin's instead of the vendor's of the same name (settings of the later win; they may hold schema, settings, unset, boot). A file
 * that is a link to /dev/null masks. */
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

#define SYSCTL_PORTS "net.ipv4.ip_local_reserved_ports" /* the one sysctl that is a set: at-least adds to what there is */
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
	char **ancestor;         /* names of all that it includes, directly or not, NULL ended; never NULL */
	struct profile_recommend {
		char *condition, *program; /* NULL always; a program of the machine that must be installed, NULL none */
		char *why;
		unsigned line;
	} *recommend; /* "recommend:" of the file itself */
	size_t n_recommend;
};
int profile_load(struct sys *s, const char *name, struct profile *ret, struct error *e);
void profile_free(struct profile *p);
/* One file by itself, without admin's folders and drop-ins, its includes looked up as usual: what "hasten profile check FILE" does. path is
 * of the calling program's machine, not below a root. */
int profile_load_file(struct sys *s, const char *path, struct profile *ret, struct error *e);
int profile_names(struct sys *s, char ***ret); /* NULL ended, sorted; those masked are not among them; by sys_list_free */
/* Does some condition of "recommend:" hold here? *ret_why borrowed from p; NULL: no. */
int profile_recommended(struct sys *s, const struct profile *p, const struct facts *f, const char **ret_why, struct error *e);

/* Several profiles over one another: later wins. A key that two of them give different values is a conflict, for plan to show. */
struct conflict {
	char *key, *winner, *loser, *winner_value, *loser_value;
};
/* A setting with its value worked out for this machine: one per key and NIC or node. */
struct resolved {
	char *key;
	const struct field *field;
	enum setting_mode mode;
	char *value;  /* canonical: INT decimal; BOOL "1", "0"; WORD as in the row; CPUS the kernel's list form, "" none; TEXT one blank between words */
	char *target; /* identity of the NIC (nic_identity_text); "node0", NULL on a machine without nodes; NULL for the host */
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

/* expr.c. By rising strength: or; and; not; == != < <= > >=; + -; * / %; - before a number. On sets of CPUs + joins, - takes away, == and !=
 * compare. Integers, true, false, none (no CPU), words in single quotes (a list of CPUs where a set is wanted). Functions: min(..) max(..)
 * clamp(x, low, high); count(SET); cpus.first(SET, N) its N lowest; cpus.cores(SET, N) its first N whole cores. Names: facts.def. Unlike kinds,
 * overflow and division by zero are errors; what "and" and "or" do not need is not worked out. */
#define EXPR_LENGTH_MAX 1024
#define EXPR_DEPTH_MAX 24
struct expr_value {
	enum { EXPR_INT, EXPR_BOOL, EXPR_WORD, EXPR_CPUS } kind;
	int64_t number;
	char *text; /* of WORD and CPUS (a list); owned */
};
int expr_eval(const char *text, const struct facts *f, const struct nic_facts *nic, int node, struct expr_value *ret, struct error *e);
/* Names, kinds and syntax, without facts. *ret_kind may be NULL. */
int expr_check(const char *text, enum field_scope scope, int *ret_kind, struct error *e);
struct expr_name {
	const char *name;
	int kind;
	enum field_scope scope;
	const char *meaning;
};
const struct expr_name *expr_names(size_t *ret_n);
#endif
