/* Locked memory: for sessions by limits.d (pam_limits), for services by a drop-in of systemd, since services have no
 * session. */
#include <errno.h>
#include <string.h>

#include "agent/sys/cleanup.h"
#include "agent/tune/steps/step.h"

#define SESSIONS "/etc/security/limits.d/90-hasten-memlock.conf"

struct admin {
	char *file;
	unsigned line;
	const char *skip; /* a file name that is ours */
};

static int found(struct admin *a, const char *file, unsigned line)
{
	free(a->file);
	a->file = strdup(file);
	a->line = line;
	return a->file ? 0 : -ENOMEM;
}

/* "*  -  memlock  unlimited": a rule for everybody; the last one holds. */
static int limits_line(void *arg, const char *file, unsigned line, char *text)
{
	char *save, *domain = strtok_r(text, " \t", &save), *type = strtok_r(NULL, " \t", &save),
		    *item = strtok_r(NULL, " \t", &save);
	if (!domain || !type || !item || strcmp(item, "memlock") != 0 || strcmp(domain, "*") != 0)
		return 0;
	return found(arg, file, line);
}

static int unit_line(void *arg, const char *file, unsigned line, char *text)
{
	return strncmp(text, "LimitMEMLOCK", 12) == 0 && text[12 + strspn(text + 12, " \t")] == '='
		   ? found(arg, file, line)
		   : 0;
}

static int admin_status(struct op *op, const struct admin *a)
{
	return a->file ? step_status(op, OP_ADMIN, "%s:%u sets it", a->file, a->line) : 0;
}

static int plan_sessions(struct sys *s, const struct resolved *v, struct plan *p)
{
	bool none = strcmp(v->value, "-1") == 0;
	const char *amount = none ? "unlimited" : v->value;
	_cleanup_free_ char *text = step_text(
	    "# Made by hasten (profile %s); hasten revert removes it.\n*\t-\tmemlock\t%s\nroot\t-\tmemlock\t%s\n",
	    v->profile ?: "-", amount, amount);
	struct op *op;
	struct admin a = {};
	if (!text)
		return -ENOMEM;
	int r = step_add_file(s, p,
			      &(struct op_spec){.step = &step_memlock,
						.value = v,
						.name = "sessions",
						.target = "locked memory of sessions (" SESSIONS ")",
						.desired = text},
			      SESSIONS, &op);
	r = r ?: step_lines(s, "/etc/security/limits.conf", NULL, limits_line, &a);
	r = r ?: step_lines(s, "/etc/security/limits.d", ".conf", limits_line, &a);
	if (!r && op->status == OP_PLANNED)
		r = admin_status(op, &a);
	free(a.file);
	return r;
}

static bool is_unit_name(const char *name)
{
	return *name && *name != '.' &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:_.@\\-") == strlen(name);
}

static int plan_service(struct sys *s, const struct resolved *limit, const struct resolved *v, const char *service,
			struct plan *p)
{
	size_t n = strlen(service);
	_cleanup_free_ char *unit =
	    step_text("%s%s", service, n > 8 && strcmp(service + n - 8, ".service") == 0 ? "" : ".service");
	_cleanup_free_ char *folder = step_text("/etc/systemd/system/%s.d", unit),
			    *path = step_text("%s/50-hasten-memlock.conf", folder);
	_cleanup_free_ char *name = step_text("service/%s", unit), *target = step_text("locked memory of %s", unit);
	bool none = strcmp(limit->value, "-1") == 0;
	_cleanup_free_ char *text =
	    step_text("# Made by hasten (profile %s); hasten revert removes it.\n[Service]\nLimitMEMLOCK=%s%s\n",
		      limit->profile ?: "-", none ? "infinity" : limit->value, none ? "" : "K");
	struct op *op;
	struct admin a = {};
	if (!unit || !folder || !path || !name || !target || !text)
		return -ENOMEM;
	int r = step_add_file(
	    s, p, &(struct op_spec){.step = &step_memlock, .value = v, .name = name, .target = target, .desired = text},
	    path, &op);
	r = r ?: step_lines(s, folder, ".conf", unit_line, &a);
	if (!r && op->status == OP_PLANNED)
		r = admin_status(op, &a);
	if (!r && op->status == OP_PLANNED && sys_kind(s) == SYS_LIVE && !sys_is_dir(s, "/run/systemd/system"))
		r = step_status(op, OP_SKIPPED, "systemd does not run here; %s has the limit of whoever starts it",
				unit);
	free(a.file);
	return r;
}

static int plan(struct sys *s, const struct facts *f, const struct resolved_set *r, struct plan *p, struct error *e)
{
	const struct resolved *limit = step_value(r, "memlock.kib", NULL),
			      *services = step_value(r, "memlock.services", NULL);
	if (!limit)
		return 0;
	int err = plan_sessions(s, limit, p);
	_cleanup_free_ char *names = services ? strdup(services->value) : NULL;
	char *save;
	for (char *name = names ? strtok_r(names, " ,", &save) : NULL; name && !err;
	     name = strtok_r(NULL, " ,", &save)) {
		if (!is_unit_name(name))
			return error_set_at(e, -EINVAL, services->file, services->line,
					    "%s: \"%s\" is not the name of a service", services->key, name);
		err = plan_service(s, limit, services, name, p);
	}
	return err ? error_set(e, err, "the limit of locked memory could not be planned: %s", strerror(-err)) : 0;
}

const struct step step_memlock = {
    .name = "memlock",
    .title = "Locked memory",
    .life = LIFE_FILE,
    .plan = plan,
    .read = step_file_read,
    .write = step_file_write,
    .finish = step_daemon_reload,
};
