/* A systemd service as hasten enable and disable see it: what systemctl show says of it, and the drop-in that wraps it. */
#ifndef HASTEN_CLI_SERVICE_H
#define HASTEN_CLI_SERVICE_H
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct sys;
struct error;

#define SERVICE_DROP_IN "60-hasten.conf"

struct service {
	char *unit;    /* "redis-server.service" */
	char *folder;  /* of its drop-ins: /etc/systemd/system/UNIT.d, or the user's */
	bool user;     /* of the user's own manager */
	/* As systemctl show says; NULL where no manager was asked (a root other than this machine). */
	char *load_state, *active_state, *program, *preload; /* preload: LD_PRELOAD of its Environment= */
	char *address_families, *inaccessible, *root_directory, *protect_system, *selinux_context, *ambient;
	pid_t main_pid;
};
/* name: with or without .service. -EINVAL: no name of a service; -ENOENT: systemd knows none. */
int service_look(struct sys *s, const char *name, bool user, struct service *ret, struct error *e);
void service_free(struct service *v);

/* Does the process have the library mapped? 1, 0, -errno (-EACCES: another user's). */
int service_has_library(pid_t pid);

/* What keeps it from being accelerated, or hinders it: each a sentence with the remedy. fatal: it will not be accelerated at all. */
struct service_reason {
	bool fatal;
	char *text;
};
int service_reasons(struct sys *s, const struct service *v, struct service_reason **ret, size_t *ret_n);
void service_reasons_free(struct service_reason *r, size_t n);

/* The text of the drop-in. Caller frees. */
char *service_drop_in(const struct service *v, const char *library);
int service_manager(struct sys *s, const struct service *v, const char *verb, const char *unit, struct error *e); /* systemctl [--user] VERB [UNIT] */
#endif
