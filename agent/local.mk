# The command: one file per subcommand, a row each in agent/cli/commands.def.
bin_PROGRAMS += hasten
hasten_SOURCES = agent/cli/main.c agent/cli/cli.h agent/cli/commands.def
hasten_LDADD = libcommon.la
