/* The command "hasten": one subcommand a file, one row each in commands.def.
 * Exit status: 0 done, 1 failed, 64 usage error; a command that says otherwise documents it. */
#ifndef HASTEN_CLI_H
#define HASTEN_CLI_H

#define EXIT_USAGE 64

/* argv[0] is the name of the subcommand. Returns the exit status. */
typedef int (*command_fn)(int argc, char **argv);
#define COMMAND(name, function, help) int function(int argc, char **argv);
#include "agent/cli/commands.def"
#undef COMMAND
#endif
