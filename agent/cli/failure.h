/* With --json a command that fails before it has a document prints one all the same: {"id": "hasten.error", ..} with what it said on
 * standard error, where that stays as well. */
#ifndef HASTEN_CLI_FAILURE_H
#define HASTEN_CLI_FAILURE_H
#include <stdbool.h>

/* First: looks for --json among the command's arguments, and remembers from here on what is said on stderr. command stays. */
void failure_watch(const char *command, int argc, char **argv);
bool failure_wants_json(void);
/* Last, before streams_close: prints the document where status is not 0 and none was begun on standard output. Returns status. */
int failure_report(int status);
#endif
