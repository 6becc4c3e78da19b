/* What plan, apply, confirm, verify, revert and status share: their options, the machine opened and looked at, operations printed. */
#ifndef HASTEN_CLI_TUNING_H
#define HASTEN_CLI_TUNING_H
#include <getopt.h>
#include <stdbool.h>

#include "agent/cli/json.h"
#include "agent/cli/target.h"
#include "agent/detect/facts.h"
#include "agent/sys/error.h"
#include "agent/sys/sys.h"
#include "agent/tune/journal.h"
#include "agent/tune/set.h"
#include "agent/tune/tune.h"

#define TUNING_ONLY_MAX 32

struct tuning {
	const char *command; /* "hasten plan": before each message */
	struct target target;
	struct tune_options options;
	const char *only[TUNING_ONLY_MAX + 1];
	size_t n_only;
	bool all;
	struct sys *s;
	struct facts facts;
	struct error e;
};

#define TUNING_SHORTS TARGET_SHORTS "o:n:ah"
#define TUNING_LONGS \
	TARGET_LONGS, {"only", required_argument, NULL, 'o'}, {"nic", required_argument, NULL, 'n'}, {"all", no_argument, NULL, 'a'}, \
		{"help", no_argument, NULL, 'h'}
#define TUNING_HELP \
	"  -o, --only STEP  only these steps (sysctl, channels, irq ..), separated by commas; may be repeated\n" \
	"  -n, --nic NAME   only this NIC\n" \
	"  -a, --all        also what is in order already and what does not exist here; each of many alike\n" TARGET_HELP \
	"  -h, --help       this text\n"

/* An option of the above: true where it was one. Wrong use: *ret_status is set. */
bool tuning_option(struct tuning *t, int c, int *ret_status);
/* Opens the machine and gathers its facts. 0, or the exit status. writes: must be root on the live machine, and recovers first. */
int tuning_open(struct tuning *t, bool writes);
void tuning_close(struct tuning *t);
int tuning_failed(struct tuning *t, int err); /* prints t->e; 1 */
/* The values: of the profiles named, of those of the stored set where none is named. 0, or the exit status. */
int tuning_resolve(struct tuning *t, char **names, struct resolved_set *ret);

enum tuning_report { REPORT_PLAN, REPORT_APPLY, REPORT_VERIFY, REPORT_REVERT };
/* transaction: that waits for confirm, NULL. set: NULL for those that have none. */
void tuning_print(const struct tuning *t, enum tuning_report what, const struct plan *p, const struct resolved_set *set, const char *transaction);
size_t plan_count(const struct plan *p, enum op_status status);
void json_text(struct json *j, const char *key, const char *value); /* NULL: null */
#endif
