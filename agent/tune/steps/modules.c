/* Kernel modules: loaded now, loaded at boot (modules-load.d), their options (modprobe.d). */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "agent/sys/cleanup.h"
#include "agent/tune/steps/step.h"

#define NOW "now:" /* the key of an operation that loads at once: NOW and the module's name */

/* /sys/module and modprobe take "-" and "_" for the same. */
static char *underscored(const char *name)
{
	char *text = strdup(name);
	for (char *c = text; c && *c; c++)
		if (*c == '-')
			*c = '_';
	return text;
}

static bool is_module_name(const char *name)
{
	return *name &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == strlen(name);
}

static bool same_name(const char *a, size_t n, const char *b)
{
	if (strlen(b) != n)
		return false;
	for (size_t i = 0; i < n; i++)
		if (a[i] != b[i] && !(strchr("-_", a[i]) && strchr("-_", b[i])))
			return false;
	return true;
}

struct search {
	const char *module, *options;
	char *file;
	unsigned line;
	bool known;
};

/* "kernel/drivers/vfio/pci/vfio-pci.ko.xz: kernel/..." of modules.dep, the same without ":" of modules.builtin. */
static int list_line(void *arg, const char *file, unsigned line, char *text)
{
	struct search *x = arg;
	size_t end = strcspn(text, ":");
	while (end && text[end - 1] != '/')
		end--;
	x->known |= same_name(text + end, strcspn(text + end, ".:"), x->module);
	return x->known ? 1 : 0;
}

static bool kernel_lacks(struct sys *s, const struct facts *f, const char *module)
{
	struct search x = {.module = module};
	const char *kernel = f->platform.kernel;
	if (!kernel || !sys_exists(s, "/lib/modules/%s/modules.dep", kernel))
		return false;
	_cleanup_free_ char *dep = step_text("/lib/modules/%s/modules.dep", kernel),
			    *builtin = step_text("/lib/modules/%s/modules.builtin", kernel);
	if (!dep || !builtin)
		return false;
	return step_lines(s, dep, NULL, list_line, &x) == 0 && step_lines(s, builtin, NULL, list_line, &x) == 0 &&
	       !x.known;
}

static int load_line(void *arg, const char *file, unsigned line, char *text)
{
	struct search *x = arg;
	if (x->file || !same_name(text, strlen(text), x->module))
		return 0;
	x->file = strdup(file);
	x->line = line;
	return x->file ? 0 : -ENOMEM;
}

/* An option of ours that the administrator sets too: "options vfio_pci ids=..". */
static int option_line(void *arg, const char *file, unsigned line, char *text)
{
	struct search *x = arg;
	char *save, *word = strtok_r(text, " \t", &save), *module = strtok_r(NULL, " \t", &save);
	if (!word || !module || strcmp(word, "options") != 0 || !same_name(module, strlen(module), x->module))
		return 0;
	for (char *option; !x->file && (option = strtok_r(NULL, " \t", &save));) {
		size_t n = strcspn(option, "=");
		for (const char *at = x->options; *at; at += strcspn(at, " "), at += strspn(at, " "))
			if (strcspn(at, "= ") == n && strncmp(at, option, n) == 0 && !x->file) {
				x->file = strdup(file);
				x->line = line;
				if (!x->file)
					return -ENOMEM;
			}
	}
	return 0;
}

static int admin_of(struct sys *s, const char *folder, step_line visit, struct search *x, struct op *op)
{
	int r = step_lines(s, folder, ".conf", visit, x);
	if (!r && x->file)
		r = step_status(op, OP_ADMIN, "%s:%u has it", x->file, x->line);
	free(x->file);
	x->file = NULL;
	return r;
}

static bool loaded(struct sys *s, const char *module)
{
	_cleanup_free_ char *name = underscored(module);
	return name && sys_is_dir(s, "/sys/module/%s", name);
}

static int plan_load(struct sys *s, const struct facts *f, const struct resolved *v, struct plan *p)
{
	const char *module = step_key_tail(v);
	_cleanup_free_ char *text =
	    step_text("# Made by hasten (profile %s); hasten revert removes it.\n%s\n", v->profile ?: "-", module);
	_cleanup_free_ char *path = step_text("/etc/modules-load.d/hasten-%s.conf", module),
			    *at_boot = step_text("boot/%s", module), *now = step_text("now/%s", module);
	_cleanup_free_ char *boot_target = step_text("module %s at boot", module),
			    *now_target = step_text("module %s", module), *key = step_text(NOW "%s", module);
	struct op *op;
	if (!text || !path || !at_boot || !now || !boot_target || !now_target || !key)
		return -ENOMEM;
	if (!step_true(v))
		return 0;
	bool lacks = !loaded(s, module) && kernel_lacks(s, f, module);
	int r = step_add(p,
			 &(struct op_spec){
			     .step = &step_modules,
			     .value = v,
			     .name = now,
			     .target = now_target,
			     .key = key,
			     .current = loaded(s, module) ? "loaded" : "not loaded",
			     .desired = "loaded",
			 },
			 &op);
	if (r)
		return r;
	op->life = LIFE_BOOT;
	uint64_t disabled = 0;
	if (lacks)
		r = step_status(op, OP_UNSUPPORTED, "kernel %s has no module %s", f->platform.kernel, module);
	else if (!loaded(s, module) && sys_read_u64(s, &disabled, "/proc/sys/kernel/modules_disabled") == 0 && disabled)
		r = step_status(op, OP_DENIED,
				"kernel.modules_disabled is 1: no module can be loaded until the next boot");
	else if (!loaded(s, module) && sys_kind(s) != SYS_LIVE)
		r = step_status(op, OP_AT_BOOT, "%s is loaded when the machine boots", module);
	if (r)
		return r;
	r = step_add_file(
	    s, p,
	    &(struct op_spec){
		.step = &step_modules, .value = v, .name = at_boot, .target = boot_target, .desired = text},
	    path, &op);
	if (!r && lacks)
		return step_status(op, OP_UNSUPPORTED, "kernel %s has no module %s", f->platform.kernel, module);
	return r || op->status != OP_PLANNED
		   ? r
		   : admin_of(s, "/etc/modules-load.d", load_line, &(struct search){.module = module}, op);
}

static int plan_options(struct sys *s, const struct resolved *v, struct plan *p)
{
	const char *module = step_key_tail(v);
	_cleanup_free_ char *text =
	    step_text("# Made by hasten (profile %s); hasten revert removes it.\noptions %s %s\n", v->profile ?: "-",
		      module, v->value);
	_cleanup_free_ char *path = step_text("/etc/modprobe.d/hasten-%s.conf", module),
			    *name = step_text("options/%s", module);
	_cleanup_free_ char *target = step_text("options of module %s", module);
	struct op *op;
	if (!text || !path || !name || !target)
		return -ENOMEM;
	int r = step_add_file(
	    s, p, &(struct op_spec){.step = &step_modules, .value = v, .name = name, .target = target, .desired = text},
	    path, &op);
	return r || op->status != OP_PLANNED ? r
					     : admin_of(s, "/etc/modprobe.d", option_line,
							&(struct search){.module = module, .options = v->value}, op);
}

static int plan(struct sys *s, const struct facts *f, const struct resolved_set *r, struct plan *p, struct error *e)
{
	/* Options first: a module that is loaded below is to have them. */
	for (int pass = 0; pass < 2; pass++)
		step_each(v, r, &step_modules) {
			bool options = strncmp(v->key, "module.options.", 15) == 0;
			if (options == pass)
				continue;
			if (!is_module_name(step_key_tail(v)) || strpbrk(v->value, "\n\r"))
				return error_set_at(e, -EINVAL, v->file, v->line,
						    "%s: \"%s\" is not the name of a module with its options", v->key,
						    step_key_tail(v));
			int err = options ? plan_options(s, v, p) : plan_load(s, f, v, p);
			if (err)
				return error_set(e, err, "%s could not be planned: %s", v->key, strerror(-err));
		}
	return 0;
}

static int read_module(struct sys *s, const struct op *op, char **ret)
{
	if (strncmp(op->key, NOW, strlen(NOW)) != 0)
		return step_file_read(s, op, ret);
	char *text = strdup(loaded(s, op->key + strlen(NOW)) ? "loaded" : "not loaded");
	if (!text)
		return -ENOMEM;
	*ret = text;
	return 0;
}

static int write_module(struct sys *s, const struct op *op, const char *value)
{
	if (strncmp(op->key, NOW, strlen(NOW)) != 0)
		return step_file_write(s, op, value);
	const char *module = op->key + strlen(NOW);
	bool load = value && strcmp(value, "loaded") == 0;
	if (load == loaded(s, module))
		return 0;
	if (sys_kind(s) != SYS_LIVE)
		return -ENOTCONN;
	/* modprobe -r leaves a module that is in use, and says so. */
	int r = step_run(s,
			 load ? (const char *const[]){"modprobe", module, NULL}
			      : (const char *const[]){"modprobe", "-r", module, NULL},
			 NULL);
	return r == -EIO && !load ? -EBUSY : r;
}

static enum op_status explain(const struct op *op, int err)
{
	switch (err < 0 ? -err : err) {
	case EBUSY:
		return OP_SKIPPED;
	case ENOTCONN:
		return OP_AT_BOOT;
	case EACCES:
	case EPERM:
	case EROFS:
		return OP_DENIED;
	default:
		return OP_FAILED;
	}
}

/* Options are taken when a module is loaded; one that was loaded before has what it had. */
static enum op_status standing(struct sys *s, const struct op *op, char **ret_text)
{
	const char *at = op->desired ? strstr(op->desired, "\noptions ") : NULL;
	if (!at)
		return OP_OK;
	_cleanup_free_ char *line = strndup(at + 1, strcspn(at + 1, "\n"));
	char *save, *module = line ? (strtok_r(line, " ", &save), strtok_r(NULL, " ", &save)) : NULL;
	_cleanup_free_ char *name = module ? underscored(module) : NULL;
	for (char *option; name && (option = strtok_r(NULL, " ", &save));) {
		_cleanup_free_ char *now = NULL;
		char *value = strchr(option, '=');
		if (value)
			*value++ = 0;
		if (sys_read_line(s, &now, "/sys/module/%s/parameters/%s", name, option))
			continue;
		bool yes = !value || strchr("yY1", *value), no = value && strchr("nN0", *value);
		if ((value && strcmp(now, value) == 0) || (yes && strcmp(now, "Y") == 0) ||
		    (no && strcmp(now, "N") == 0))
			continue;
		*ret_text = step_text("module %s is loaded with %s=%s; the option is taken when it is loaded again",
				      module, option, now);
		return OP_PENDING_REBOOT;
	}
	return OP_OK;
}

const struct step step_modules = {
    .name = "modules",
    .title = "Kernel modules",
    .life = LIFE_FILE,
    .plan = plan,
    .read = read_module,
    .write = write_module,
    .explain = explain,
    .standing = standing,
};
