#include "config.h"
#include "agent/cli/cli.h"
#include "agent/cli/failure.h"
#include "agent/cli/wrap.h"
#include "agent/sys/streams.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct command {
	const char *name;
	command_fn run;
	const char *help;
} commands[] = {
#define COMMAND(name, function, help) {#name, function, help},
#include "agent/cli/commands.def"
#undef COMMAND
};
/* Names of other programs that users' scripts have: links to this one. */
static const struct {
	const char *program, *command;
} names[] = {
	{"netacc_run", "run"},
	{"netacc_ss", "ss"},
};
#define N_NAMES (sizeof(names) / sizeof(names[0]))
#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void usage(FILE *to)
{
	fprintf(to, "Usage: hasten COMMAND [ARGUMENT...]\n\nCommands:\n");
	for (size_t i = 0; i < N_COMMANDS; i++)
		fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].help);
	fprintf(to, "\n\"hasten COMMAND --help\" and \"man hasten-COMMAND\" say more.\n");
}

int cmd_version(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	puts("hasten " PACKAGE_VERSION);
	return 0;
}

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < N_COMMANDS; i++)
		if (!strcmp(name, commands[i].name))
			return &commands[i];
	return NULL;
}

static int run_found(const struct command *c, int argc, char **argv)
{
	static char called[32];

	/* getopt begins its messages with it. What "run" is called says who calls. */
	if (c->run != cmd_run) {
		snprintf(called, sizeof(called), "hasten %s", c->name);
		argv[0] = called;
	}
	failure_watch(c->name, argc, argv);
	/* Tables with a line an item are not broken. */
	if (c->run != cmd_run && c->run != cmd_bench && c->run != cmd_ss && c->run != cmd_config && !failure_wants_json())
		wrap_open();
	return failure_report(c->run(argc, argv));
}

static int run_command(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : NULL;

	for (size_t i = 0; i < N_NAMES; i++)
		if (!strcmp(program_invocation_short_name, names[i].program))
			return run_found(find_command(names[i].command), argc, argv);
	if (!name) {
		usage(stderr);
		return EXIT_USAGE;
	}
	if (!strcmp(name, "-h") || !strcmp(name, "--help") || !strcmp(name, "help")) {
		usage(stdout);
		return 0;
	}
	if (!strcmp(name, "-v") || !strcmp(name, "--version"))
		name = "version";
	const struct command *c = find_command(name);
	if (c)
		return run_found(c, argc - 1, argv + 1);
	fprintf(stderr, "hasten: no command \"%s\"; \"hasten --help\" lists them\n", name);
	return EXIT_USAGE;
}

int main(int argc, char **argv)
{
	streams_open();
	return streams_close("hasten", run_command(argc, argv));
}
