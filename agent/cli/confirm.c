/* hasten confirm: keeps changes that interrupted a NIC in use. */
#include "config.h"

#include <stdio.h>

#include "agent/cli/cli.h"
#include "agent/cli/tuning.h"

static void usage(FILE *to)
{
	fputs("Usage: hasten confirm [OPTION...] [TRANSACTION]\n"
	      "Keep what \"hasten apply --allow-disruptive\" changed; without this it is undone after its time.\n\n" TARGET_HELP
	      "  -h, --help       this text\n\nExit status: 0, 1 nothing waits or it failed, 64 wrong usage.\n",
	      to);
}

int cmd_confirm(int argc, char **argv)
{
	static const struct option longs[] = {TARGET_LONGS, {"help", no_argument, NULL, 'h'}, {0}};
	struct tuning t = {.command = "hasten confirm"};
	int c, r, err;

	while ((c = getopt_long(argc, argv, TARGET_SHORTS "h", longs, NULL)) != -1)
		switch (c) {
			TARGET_CASES(&t.target)
		case 'h':
			usage(stdout);
			return 0;
		default:
			return target_misused(t.command, NULL);
		}
	if (argc - optind > 1)
		return target_misused(t.command, argv[optind + 1]);
	r = target_open(&t.target, t.command, &t.s);
	if (!r) {
		err = tune_confirm(t.s, argv[optind], &t.e);
		r = err ? tuning_failed(&t, err) : 0;
	}
	if (!r && t.target.json) {
		struct json j = {.to = stdout};

		json_object_begin(&j, NULL);
		json_u64(&j, "schema_version", 1);
		json_string(&j, "id", "hasten.confirm");
		json_bool(&j, "confirmed", true);
		json_end(&j);
	} else if (!r) {
		puts("Kept; it is applied at every boot.");
	}
	tuning_close(&t);
	return r;
}
