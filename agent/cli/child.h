/* Child processes of the command that must end: in time, with it, and without touching anybody else's. */
#ifndef HASTEN_CLI_CHILD_H
#define HASTEN_CLI_CHILD_H
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/types.h>

struct child {
	pid_t pid; /* 0: none */
	int pidfd;
	int out; /* its standard output, -1 not taken */
};

struct child_order {
	char *const *argv; /* argv[0] is a path */
	const char *log;   /* file that takes standard error, and output where that is not taken */
	bool take_output;
	bool terminal;       /* the output that is taken goes through a pseudo terminal, not a pipe */
	const char *preload; /* put before LD_PRELOAD; NULL: libhasten.so is taken out of it */
};

/* SIGINT, SIGTERM and SIGHUP set a flag from here on instead of ending the process. */
void child_catch_signals(void);
bool child_stop_asked(void);
int child_stop_signal(void);

/* The child is its own process group (so a terminal's Ctrl-C reaches us only) and dies with us. Not for use with
 * threads. Returns 0 or -errno, of execv too. */
int child_start(const struct child_order *order, struct child *ret);

/* Waits until it ends, gathering output. *ret_output (NULL: none) is terminated, to be freed, and set on
 * success and on -ETIMEDOUT. Returns 0; -ETIMEDOUT; -EINTR (stop asked). In the last two it still runs. */
int child_wait(struct child *child, double timeout_s, char **ret_output, int *ret_status, struct rusage *ret_usage);

/* Signals its group, waits grace_s, then kills. Always reaps it. */
void child_stop(struct child *child, int sig, double grace_s);

double monotonic_s(void);
#endif
