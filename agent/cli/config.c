/* hasten config: what holds for a program started now, and where each value came from. */
#include "config.h"

#include "agent/cli/cli.h"
#include "agent/cli/json.h"
#include "agent/cli/settings.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void usage(FILE *to)
{
	fputs("Usage: hasten config [--json]\n"
	      "Print the value of every setting and where it came from, the rules, and what is wrong.\n\n"
	      "  -j, --json   one JSON document\n"
	      "  -h, --help   this text\n\n"
	      "Exit status: 0, 1 where something is wrong in the files or the environment, 64 wrong usage.\n",
	      to);
}

struct complaints {
	struct json *json; /* NULL: on standard error */
	unsigned n;
};

static void take_complaint(void *arg, const char *place, const char *text)
{
	struct complaints *c = arg;

	c->n++;
	if (!c->json) {
		fprintf(stderr, "hasten config: %s: %s\n", place, text);
		return;
	}
	json_object_begin(c->json, NULL);
	json_string(c->json, "place", place);
	json_string(c->json, "text", text);
	json_end(c->json);
}

static const char *const sources[] = {
    [SOURCE_BUILTIN] = "builtin",
    [SOURCE_FILE] = "file",
    [SOURCE_ENVIRONMENT] = "environment",
    [SOURCE_LAUNCHER] = "launcher",
};

static void json_option(struct json *j, const struct hasten_options *o, enum option_id id)
{
	const struct option_row *row = &option_rows[id];
	char value[OPTIONS_PATH_MAX], place[OPTIONS_PLACE_MAX];

	options_value(o, id, value, sizeof(value));
	options_place(o, id, place, sizeof(place));
	json_object_begin(j, NULL);
	json_string(j, "key", row->key);
	if (row->type == OPTION_BOOL)
		json_bool(j, "value", strcmp(value, "0") != 0);
	else if (row->type == OPTION_INT)
		json_number(j, "value", strtod(value, NULL), 0);
	else
		json_string(j, "value", value);
	json_string(j, "source", sources[o->source[id]]);
	json_string(j, "place", place);
	json_string(j, "lane", row->scope == OPTION_RDMA ? "rdma" : "shm");
	json_end(j);
}

static void json_rule(struct json *j, const struct hasten_options *o, unsigned i)
{
	char text[OPTIONS_PATH_MAX], place[OPTIONS_PLACE_MAX];

	options_rule_text(&o->rules[i], text, sizeof(text));
	options_rule_place(o, i, place, sizeof(place));
	json_object_begin(j, NULL);
	json_string(j, "rule", text);
	json_string(j, "place", place);
	json_end(j);
}

static unsigned print_json(struct hasten_options *o)
{
	struct json j = {.to = stdout};
	struct complaints c = {.json = &j};

	json_object_begin(&j, NULL);
	json_string(&j, "id", "hasten.config");
	json_number(&j, "schema_version", 1, 0);
	json_array_begin(&j, "complaints");
	options_load(o, take_complaint, &c);
	json_end(&j);
	json_array_begin(&j, "options");
	for (unsigned id = 0; id < OPTION_COUNT; id++)
		json_option(&j, o, id);
	json_end(&j);
	json_array_begin(&j, "rules");
	for (unsigned i = 0; i < o->n_rules; i++)
		json_rule(&j, o, i);
	json_end(&j);
	json_end(&j);
	return c.n;
}

static unsigned print_text(struct hasten_options *o)
{
	struct complaints c = {0};

	options_load(o, take_complaint, &c);
	settings_print(stdout, o, "", NULL);
	return c.n;
}

int cmd_config(int argc, char **argv)
{
	static const struct option longs[] = {
	    {"json", no_argument, NULL, 'j'},
	    {"help", no_argument, NULL, 'h'},
	    {0},
	};
	static struct hasten_options o;
	bool json = false;
	int opt;

	while ((opt = getopt_long(argc, argv, "jh", longs, NULL)) != -1)
		switch (opt) {
		case 'j':
			json = true;
			break;
		case 'h':
			usage(stdout);
			return 0;
		default:
			usage(stderr);
			return EXIT_USAGE;
		}
	if (optind < argc) {
		fprintf(stderr, "hasten config: %s: takes no argument; \"hasten config --help\" says more\n",
			argv[optind]);
		return EXIT_USAGE;
	}
	return (json ? print_json(&o) : print_text(&o)) ? 1 : 0;
}
