/* Reading the state files of accelerated processes (common/state.h), from outside and without their aid.
 *
 * Only pread is used, never mmap: the owner of a file could truncate it under a reader that mapped it.
 * A file counts only where it is a regular file of mode 0600, is owned by the user in its name, and was not
 * reached through a symbolic link. */
#ifndef HASTEN_CLI_STATE_FILE_H
#define HASTEN_CLI_STATE_FILE_H
#include "common/state.h"

#include <stdbool.h>
#include <sys/types.h>

enum state_owner {               /* the process that a file belongs to */
	OWNER_RUNS,
	OWNER_GONE,              /* no such process, or a zombie */
	OWNER_OTHER,             /* the pid was given to another process since */
};

struct state_file {
	int fd;
	char path[128];
	uid_t uid;               /* from the name, checked against the file */
	pid_t pid;
	enum state_owner owner;
	struct state_header header;      /* strings are terminated */
};

/* Folders that may hold state files, for a user or, as root, of all users; dir not NULL: that one only.
 * Calls visit(arg, dirfd, dirname) for each that exists and can be trusted. Returns 0, or what visit
 * returned where that is not 0. */
typedef int (*state_dir_visit)(void *arg, int dirfd, const char *dirname);
int state_dirs(const char *dir, state_dir_visit visit, void *arg);

/* Takes "proc-UID-PID" apart. */
bool state_file_name(const char *name, uid_t *ret_uid, pid_t *ret_pid);

/* Opens and checks dirfd/name. Returns 0; -ENOENT; -EACCES (another user's); -EPERM (owner, mode or kind of
 * the file is wrong); -ELOOP (a symbolic link); -EPROTO (another version of the format); -EBADMSG (not a state file, or
 * cut short). ret->uid, ret->pid and ret->owner are set for -EPROTO and -EBADMSG too. The caller ends with
 * state_file_close where it returned 0. */
int state_file_open(int dirfd, const char *dirname, const char *name, struct state_file *ret);
void state_file_close(struct state_file *file);

/* Opens the file of a process of any user; errors as state_file_open. */
int state_file_find(const char *dir, pid_t pid, struct state_file *ret);

/* Calls each(arg, row) for every valid row. A row that its writer never leaves alone long enough is counted
 * in *ret_torn and left out. Returns 0 or -errno. */
typedef void (*state_row_each)(void *arg, const struct state_row *row);
int state_file_rows(const struct state_file *file, state_row_each each, void *arg, unsigned *ret_torn);

/* Bytes and messages of the whole process by lane, closed connections and open ones. */
struct state_sum {
	uint64_t tx_bytes, rx_bytes, tx_msgs, rx_msgs;
	unsigned connections, on_lane;   /* open ones; on_lane: at least one direction is */
};
int state_file_sum(const struct state_file *file, struct state_sum *ret);

/* Field 22 of /proc/PID/stat and whether the process can still run. Returns 0 or -errno (-ESRCH: gone). */
int process_start_time(pid_t pid, uint64_t *ret_start, bool *ret_zombie);
#endif
