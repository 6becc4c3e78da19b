/* Inside agent/detect only: reading what may not be there. A fact that cannot be read is unknown; only the lack of memory stops. */
#ifndef HASTEN_DETECT_GATHER_H
#define HASTEN_DETECT_GATHER_H
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "agent/detect/facts.h"
#include "agent/sys/cleanup.h"
#include "agent/sys/sys.h"

/* -ENOMEM stays, every other failure means "unknown". */
static inline int optional(int r)
{
	return r == -ENOMEM ? r : 0;
}

/* A set of CPUs in the list or the mask form from the file that the format names. */
#define gather_list(s, ret, ...) gather_set((s), cpumask_parse_list, (ret), __VA_ARGS__)
#define gather_hex(s, ret, ...) gather_set((s), cpumask_parse_hex, (ret), __VA_ARGS__)
int gather_set(struct sys *s, int (*parse)(const char *, struct cpumask *), struct cpumask *ret, const char *path, ...)
    __attribute__((format(printf, 4, 5)));

/* The word in brackets: "always [madvise] never". Only word of a text without brackets. -EINVAL where there is none. */
int gather_chosen(const char *text, char **ret);
/* Number after "KEY:" at the beginning of a line; white space around. */
int gather_key(const char *text, const char *key, uint64_t *ret);
/* Value after "KEY" and colon or "=" of the first line that has it. Caller frees. */
int gather_value(const char *text, const char *key, char separator, char **ret);
/* Appends a copy to a NULL-ended list that may be NULL yet. Twice the same is once. */
int gather_add(char ***list, const char *text);
bool gather_has(char *const *list, const char *text);
void gather_list_free(char **list);
/* A decimal number at the end of text, -1 where there is none ("node12" 12). */
int gather_trailing(const char *text);

/* The folder of this process's control group below the controller's mount: cgroup v2, else v1's controller. Caller frees; *ret_v2
 * says which. -ENOENT: no control groups here. gather_parent cuts its last part off; false at the mount. */
int gather_cgroup(struct sys *s, const char *controller, char **ret, size_t *ret_mount_len, bool *ret_v2);
bool gather_parent(char *path, size_t mount_len);

/* Is this systemd service (or the process in its pid file) running? */
bool gather_service(struct sys *s, const char *service, const char *pid_file, const char *comm);
/* The NIC of an interface's index, NULL unknown. Indexes are those of facts_relations's net_links. */
struct nic_facts *gather_nic(struct facts *f, const char *name);
#endif
