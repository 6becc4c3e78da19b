/* The settings of the acceleration library: values, where each came from, and the rules that say which
 * connections are accelerated. Rows in options.def.
 *
 * Order of precedence: option of "hasten run" (handed on as HASTEN_RUN_*), environment (HASTEN_* then NACC_*),
 * files (/etc/hasten/hasten.conf, then /etc/hasten/hasten.conf.d/[*].conf in name order, later wins; NetACC's
 * /etc/netacc.conf before all of them), built-in.
 *
 * Safe inside a foreign process: no allocation, no logging, no exit, no locale, errno is preserved.
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

enum option_id {
#define OPT(field, ...) OPTION_##field,
#include "common/options.def"
#undef OPT
	OPTION_COUNT
};

enum option_promote { PROMOTE_AUTO = 0, PROMOTE_EAGER = 1, PROMOTE_OFF = 2 };
enum option_source { SOURCE_BUILTIN, SOURCE_FILE, SOURCE_ENVIRONMENT, SOURCE_LAUNCHER };
enum rule_action { RULE_ACCELERATE, RULE_KERNEL };
enum rule_role { RULE_ANY_ROLE, RULE_CONNECT, RULE_ACCEPT };

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
	char file[OPTIONS_PATH_MAX];             /* NetACC-style -f file, else empty: the standard files */
	unsigned n_rules;
	struct hasten_rule rules[OPTIONS_RULES_MAX];
};

/* One complaint: place is "FILE:LINE" or "environment" or an option; text names the value and the allowed range.
 * Both live only during the call. */
typedef void (*options_report)(void *arg, const char *place, const char *text);

/* Fills *ret from built-in values, files and environment. A wrong value is reported and its default kept;
 * report may be NULL. Returns the number of complaints. */
int options_load(struct hasten_options *ret, options_report report, void *arg);

/* Sets one option from text, as from source. Returns 0, -ENOENT (no such key), -EINVAL (reported). */
int options_set(struct hasten_options *o, const char *key, const char *value, enum option_source source,
		const char *place, options_report report, void *arg);

/* Checks that relate options to each other (mr_min_inc, mr_max_inc). Returns the number of complaints;
 * offending options go back to their defaults. */
int options_check(struct hasten_options *o, options_report report, void *arg);

/* Writes "key=value=source\n" lines, always terminated; returns the length that the whole would have. */
size_t options_format(const struct hasten_options *o, char *buf, size_t size);

/* May this connection be accelerated? program is the base name; peer and port as in struct hasten_rule. */
bool options_allow(const struct hasten_options *o, const char *program, enum rule_role role,
		   const struct in6_addr *peer, uint16_t port);
#endif
