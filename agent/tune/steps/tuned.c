/* Where tuned runs it owns what its profiles can set. It gets a profile that includes the one before and adds ours; one
 * operation writes the file and switches, since neither means anything without the other. Boot arguments never go this
 * way.
 *
 * Texts: "manual:balanced", "auto:virtual-guest", "manual:" (off), and for ours "manual:hasten", a line end, and the
 * profile's text. */
#include <errno.h>
#include <string.h>

#include "agent/sys/cleanup.h"
#include "agent/tune/steps/step.h"
#include "agent/tune/steps/tuned_profile.h"

#define ACTIVE "/etc/tuned/active_profile"
#define MODE "/etc/tuned/profile_mode"
#define OURS "manual:" TUNED_NAME "\n"

static bool is_ours(const char *value)
{
	return value && strncmp(value, OURS, strlen(OURS)) == 0;
}

static const char *content_of(const char *value)
{
	return value + strlen(OURS);
}

/* tuned 2.23 moved its profiles one folder down. */
static const char *conf_path(struct sys *s)
{
	return sys_is_dir(s, "/usr/lib/tuned/profiles") ? "/etc/tuned/profiles/" TUNED_NAME "/tuned.conf"
							: "/etc/tuned/" TUNED_NAME "/tuned.conf";
}

static bool runs(struct sys *s)
{
	uint64_t pid;
	return sys_kind(s) == SYS_LIVE && sys_read_u64(s, &pid, "/run/tuned/tuned.pid") == 0 &&
	       sys_is_dir(s, "/proc/%llu", (unsigned long long)pid);
}

static int read_profile(struct sys *s, const struct op *op, char **ret)
{
	_cleanup_free_ char *names = NULL, *mode = NULL, *content = NULL;
	int r = sys_read_line(s, &names, ACTIVE);
	if (r && r != -ENOENT)
		return r;
	/* tuned itself takes a missing mode with a profile for manual. */
	r = sys_read_line(s, &mode, MODE);
	if (r && r != -ENOENT)
		return r;
	if (names && strcmp(names, TUNED_NAME) == 0) {
		r = step_file_read(s, op, &content);
		if (r)
			return r;
		*ret = step_text(OURS "%s", content ?: "");
	} else {
		*ret = step_text("%s:%s", mode && strcmp(mode, "auto") == 0 ? "auto" : "manual", names ?: "");
	}
	return *ret ? 0 : -ENOMEM;
}

static int plan_profile(struct sys *s, const struct facts *f, const struct resolved_set *set, const struct resolved *v,
			struct plan *p, struct error *e)
{
	_cleanup_free_ char *key = NULL, *current = NULL, *include = NULL, *content = NULL, *desired = NULL;
	struct op *op;
	if (!step_tuned_owns(f, set)) {
		int r = step_add(p,
				 &(struct op_spec){.step = &step_tuned,
						   .value = v,
						   .name = "profile",
						   .target = "tuned's profile",
						   .key = "",
						   .desired = v->value},
				 &op);
		return r
			   ?: step_status(op, OP_UNSUPPORTED,
					  f->owners.tuned_installed ? "tuned does not run" : "tuned is not installed");
	}
	int r = step_file_key(s, conf_path(s), &key);
	r = r ?: read_profile(s, &(struct op){.key = key}, &current);
	if (r)
		return r;
	include = is_ours(current) ? tuned_included(content_of(current)) : strdup(strchr(current, ':') + 1);
	r = tuned_generate(s, f, set, include ?: "", &content, e);
	if (r || !content)
		return r;
	desired = step_text(OURS "%s", content);
	if (!desired)
		return -ENOMEM;
	r = step_add(p,
		     &(struct op_spec){
			 .step = &step_tuned,
			 .value = v,
			 .name = "profile",
			 .target = "tuned's profile",
			 .key = key,
			 .current = current,
			 .desired = desired,
		     },
		     &op);
	if (!r && sys_kind(s) == SYS_LIVE && !sys_exists(s, "/usr/sbin/tuned-adm"))
		r = step_status(op, OP_MANUAL, "there is no /usr/sbin/tuned-adm to switch tuned's profile with");
	return r;
}

static int plan(struct sys *s, const struct facts *f, const struct resolved_set *r, struct plan *p, struct error *e)
{
	const struct resolved *v = step_value(r, "tuned.cooperate", NULL);
	int err = v && step_true(v) ? plan_profile(s, f, r, v, p, e) : 0;
	return err ? error_set(e, err, "tuned's profile could not be planned: %s", strerror(-err)) : 0;
}

/* Without a running tuned the choice is left in its files, for its next start. */
static int choose_by_file(struct sys *s, const char *mode, const char *names)
{
	_cleanup_free_ char *active = step_text("%s%s", names, *names ? "\n" : ""), *line = step_text("%s\n", mode);
	if (!active || !line)
		return -ENOMEM;
	int r = sys_write_file(s, ACTIVE, active, strlen(active), sys_exists(s, ACTIVE) ? 0 : 0644);
	return r ?: sys_write_file(s, MODE, line, strlen(line), sys_exists(s, MODE) ? 0 : 0644);
}

static int run_profile(struct sys *s, char *names)
{
	const char *argv[32] = {"tuned-adm", "profile"};
	size_t n = 2;
	char *save;
	for (char *name = strtok_r(names, " ", &save); name && n < 31; name = strtok_r(NULL, " ", &save))
		argv[n++] = name;
	return step_run(s, argv, NULL);
}

static int choose(struct sys *s, const char *value)
{
	const char *colon = strchr(value, ':');
	if (!colon)
		return -EINVAL;
	_cleanup_free_ char *mode = strndup(value, colon - value),
			    *names = strndup(colon + 1, strcspn(colon + 1, "\n"));
	if (!mode || !names)
		return -ENOMEM;
	if (!runs(s))
		return choose_by_file(s, mode, names);
	if (!*names)
		return step_run(s, (const char *const[]){"tuned-adm", "off", NULL}, NULL);
	if (strcmp(mode, "auto") == 0) {
		_cleanup_free_ char *now = NULL;
		int r = step_run(s, (const char *const[]){"tuned-adm", "auto_profile", NULL}, NULL);
		r = r ?: sys_read_line(s, &now, ACTIVE);
		/* What is recommended may be another one by now; the profile counts for more than the mode. */
		if (r || strcmp(now, names) == 0)
			return r;
	}
	return run_profile(s, names);
}

/* What a third party wrote where tuned's profiles write too is lost when tuned takes its own values back. */
static int rewrite(struct sys *s, const struct tuned_attrs *before, const char *old, const char *new)
{
	int ret = 0;
	for (size_t i = 0; i < before->n; i++) {
		const struct tuned_attr *a = &before->attr[i];
		struct tuned_holding was = {}, will = {};
		if (is_ours(old))
			was = tuned_holds(content_of(old), a->path, a->value);
		if (is_ours(new))
			will = tuned_holds(content_of(new), a->path, a->value);
		/* The value that our own profile put there goes with it; one that the new profile wants otherwise is
		 * not kept. */
		if (will.names ? !will.holds : was.exact)
			continue;
		_cleanup_free_ char *now = NULL;
		bool thp = strncmp(a->path, "/sys/", 5) == 0;
		int r =
		    thp ? step_thp.read(s, &(struct op){.key = a->path}, &now) : sys_read_line(s, &now, "%s", a->path);
		for (char *c = now; c && *c; c++)
			if (*c == '\t')
				*c = ' ';
		if (!r && strcmp(now, a->value) != 0)
			r = sys_write_attr(s, a->path, a->value);
		ret = ret ?: r;
	}
	return ret;
}

static int write_profile(struct sys *s, const struct op *op, const char *value)
{
	_cleanup_(tuned_attrs_free) struct tuned_attrs before = {};
	_cleanup_free_ char *old = NULL, *names = NULL;
	if (!value)
		value = "manual:";
	int r = read_profile(s, op, &old);
	if (r)
		return r;
	if (strcmp(old, value) == 0)
		return is_ours(value) ? 0 : step_file_write(s, op, NULL);
	names = strndup(strchr(old, ':') + 1, strcspn(strchr(old, ':') + 1, "\n"));
	r = names ? tuned_attrs_read(s, names, &before) : -ENOMEM;
	if (!r && is_ours(value)) {
		r = tuned_attrs_add(s, content_of(value), &before);
		r = r ?: step_file_write(s, op, content_of(value));
	}
	r = r ?: choose(s, value);
	if (r)
		return r;
	r = rewrite(s, &before, old, value);
	if (!r && !is_ours(value))
		r = step_file_write(s, op, NULL);
	return r;
}

/* tuned's own verify sends its reader to a log; here each value is looked at. */
static enum op_status standing(struct sys *s, const struct op *op, char **ret_text)
{
	_cleanup_(tuned_attrs_free) struct tuned_attrs now = {};
	if (!is_ours(op->desired) || tuned_attrs_add(s, content_of(op->desired), &now))
		return OP_OK;
	for (size_t i = 0; i < now.n; i++) {
		struct tuned_holding is = tuned_holds(content_of(op->desired), now.attr[i].path, now.attr[i].value);
		if (is.names && !is.holds) {
			*ret_text = step_text("%s is %s, which is not what tuned's profile " TUNED_NAME " says",
					      now.attr[i].path, now.attr[i].value);
			return OP_DRIFT;
		}
	}
	return OP_OK;
}

const struct step step_tuned = {
    .name = "tuned",
    .title = "tuned",
    .life = LIFE_FILE,
    .plan = plan,
    .read = read_profile,
    .write = write_profile,
    .standing = standing,
};
