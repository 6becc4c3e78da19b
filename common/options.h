/* The settings of the acceleration library: values, where each came from, and the rules that say which
 * connections are accelerated. Rows in options.def.
 *
 * Order of precedence: option of "hasten run" (handed on as HASTEN_RUN_*), environment (HASTEN_* then NACC_*),
 * files (/etc/hasten/hasten.conf, then /etc/hasten/hasten.conf.d/[*].conf in name order, later wins; NetACC's
 * /etc/netacc.conf before all of them), built-in.
 *
 * HASTEN_CONF_DIR in the environment takes the place of both configuration directories (tests). In a set-uid
 * program (AT_SECURE) the environment is not looked at.
 *
 * Safe inside a foreign process: no allocation, no logging, no exit, no locale, errno is preserved, at most
 * 4 KiB of stack before report. It calls open, fstat, read, getdents64 and close: a library that intercepts them
 * loads its options after it bound the real ones.
 * Not thread safe on one object; distinct objects may be loaded at once. */
#ifndef HASTEN_OPTIONS_H
#define HASTEN_OPTIONS_H
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OPTIONS_PATH_MAX 256
#define OPTIONS_CPUS_MAX 128
#define OPTIONS_RULES_MAX 64
#define OPTIONS_FILES_MAX 34    /* netacc.conf, hasten.conf and 32 drop-ins */
#define OPTIONS_NAME_MAX  96    /* name of such a file below its root, with the terminating NUL */
#define OPTIONS_PLACE_MAX (OPTIONS_PATH_MAX + OPTIONS_NAME_MAX + 16)

enum option_id {
#define OPT(field, ...) OPTION_##field,
#include "common/options.def"
#undef OPT
	OPTION_COUNT
};

enum option_promote { PROMOTE_AUTO = 0, PROMOTE_EAGER = 1, PROMOTE_OFF = 2 };
enum option_source { SOURCE_BUILTIN, SOURCE_FILE, SOURCE_ENVIRONMENT, SOURCE_LAUNCHER };
enum option_type { OPTION_INT, OPTION_BOOL, OPTION_ENUM_PROMOTE, OPTION_PATH, OPTION_CPUS };
enum option_scope { OPTION_SHM, OPTION_RDMA };
enum rule_action { RULE_ACCELERATE, RULE_KERNEL };
enum rule_role { RULE_ANY_ROLE, RULE_CONNECT, RULE_ACCEPT };

struct option_row {                      /* a row of options.def; text is the default of PATH and CPUS */
	const char *key, *nacc, *help, *text;
	int64_t value, min, max;
	uint16_t offset, size;           /* of the member of struct hasten_options */
	uint8_t type;                    /* enum option_type */
	uint8_t scope;                   /* enum option_scope */
	char flag;
};
extern const struct option_row option_rows[OPTION_COUNT];

struct options_place {                   /* where a value or a rule stands */
	uint8_t file;                    /* 1 + index in files, 0: not in a file */
	uint16_t line;                   /* in that file; without a file 1 says that the NACC_ variable gave it */
};

struct hasten_rule {                     /* first match wins; no match accelerates */
	enum rule_action action;
	enum rule_role role;             /* connect: this end called connect; accept: it accepted */
	char program[64];                /* base name of the program, empty any */
	struct in6_addr address;         /* peer's address, IPv4 as v4-mapped */
	uint8_t prefix;                  /* bits of address that count, 0 any */
	uint16_t port_min, port_max;     /* the listening side's port; 0,65535 any */
};

struct hasten_options {
#define OPT(field, TYPE, ...) OPTION_TYPE_##TYPE(field);
#define OPTION_TYPE_INT(f) int64_t f
#define OPTION_TYPE_BOOL(f) int64_t f
#define OPTION_TYPE_ENUM_PROMOTE(f) int64_t f
#define OPTION_TYPE_PATH(f) char f[OPTIONS_PATH_MAX]
#define OPTION_TYPE_CPUS(f) char f[OPTIONS_CPUS_MAX]
#include "common/options.def"
#undef OPT
	uint8_t source[OPTION_COUNT];            /* enum option_source */
	struct options_place place[OPTION_COUNT];
	char file[OPTIONS_PATH_MAX];             /* -f file (either style), else empty: the standard files */
	char root[OPTIONS_PATH_MAX];             /* HASTEN_CONF_DIR, else empty */
	unsigned n_files;
	char files[OPTIONS_FILES_MAX][OPTIONS_NAME_MAX]; /* those that were read, in that order; not with -f */
	unsigned n_rules;
	struct hasten_rule rules[OPTIONS_RULES_MAX];
	struct options_place rule_place[OPTIONS_RULES_MAX];
};

/* One complaint: place is "FILE:LINE", "environment NAME", "hasten run" or what options_set was given; text names the
 * key, the value, the allowed range and what is used instead.
 * Both live only during the call. */
typedef void (*options_report)(void *arg, const char *place, const char *text);

/* Fills *ret from built-in values, files and environment. A wrong value is reported and its default kept;
 * report may be NULL. Returns the number of complaints. */
int options_load(struct hasten_options *ret, options_report report, void *arg);

/* Fills *ret with the built-in values. */
void options_default(struct hasten_options *ret);

/* Sets one option from text, as from source; key as in hasten.conf or in netacc.conf. Returns 0, -ENOENT (no such key), -EINVAL (reported). */
int options_set(struct hasten_options *o, const char *key, const char *value, enum option_source source,
		const char *place, options_report report, void *arg);

/* Appends a rule: "ACTION [program=NAME] [role=connect|accept] [address=ADDRESS[/PREFIX]] [port=N[-M]]", ACTION
 * accelerate or kernel; "clear" alone drops the rules so far. Returns 0, -EINVAL or -ENOSPC (both reported). */
int options_rule(struct hasten_options *o, const char *text, const char *place, options_report report, void *arg);

/* Checks that relate options to each other (mr_min_inc, mr_max_inc). Returns the number of complaints;
 * offending options go back to their defaults, and one that nobody set follows msg_size without a complaint.
 * debug raises log_level. options_load has done this already. */
int options_check(struct hasten_options *o, options_report report, void *arg);

/* Writes "key=value=source\n" lines, always terminated; returns the length that the whole would have. */
size_t options_format(const struct hasten_options *o, char *buf, size_t size);

/* Write the value of one option, the place that it came from ("FILE:LINE", "environment HASTEN_X", "hasten run",
 * "built-in"), the text and place of one rule; terminated, cut where buf is too small. */
void options_value(const struct hasten_options *o, enum option_id id, char *buf, size_t size);
void options_place(const struct hasten_options *o, enum option_id id, char *buf, size_t size);
void options_rule_text(const struct hasten_rule *rule, char *buf, size_t size);
void options_rule_place(const struct hasten_options *o, unsigned rule, char *buf, size_t size);

/* The values that an option may have, as complaints say them: "0 to 100", "auto, eager or off". */
void options_allowed(enum option_id id, char *buf, size_t size);

/* May this connection be accelerated? program is the base name; peer and port as in struct hasten_rule. */
bool options_allow(const struct hasten_options *o, const char *program, enum rule_role role,
		   const struct in6_addr *peer, uint16_t port);
#endif
