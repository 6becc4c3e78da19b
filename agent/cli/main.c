#include "config.h"
#include "agent/cli/cli.h"
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

static command_fn find_command(const char *name)
{
	for (size_t i = 0; i < N_COMMANDS; i++)
		if (!strcmp(name, commands[i].name))
			return commands[i].run;
	return NULL;
}

static int run_command(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : NULL;

	for (size_t i = 0; i < N_NAMES; i++)
		if (!strcmp(program_invocation_short_name, names[i].program))
			return find_command(names[i].command)(argc, argv);
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
	command_fn run = find_command(name);
	if (run)
		return run(argc - 1, argv + 1);
	fprintf(stderr, "hasten: no command \"%s\"; \"hasten --help\" lists them\n", name);
	return EXIT_USAGE;
}

int main(int argc, char **argv)
{
	streams_open();
	return streams_close("hasten", run_command(argc, argv));
}
