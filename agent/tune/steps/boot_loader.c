#include "agent/tune/steps/boot_loader.h"

#include <errno.h>
#include <string.h>

#include "agent/sys/cleanup.h"
#include "agent/tune/steps/cmdline.h"

#define GRUB_FILE "/etc/default/grub.d/99-hasten.cfg"
#define ENTRIES "/boot/loader/entries"
#define CMDLINE "/etc/kernel/cmdline"

static void free_list(char ***names)
{
	if (*names)
		sys_list_free(*names);
}

/* ---- Debian: a file that appends; grub-mkconfig reads it after the administrator's. GRUB_CMDLINE_LINUX and not
 * .._DEFAULT, which the files of cloud images set outright. ---- */

static int grub_key(struct sys *s, char **ret)
{
	_cleanup_free_ char *file = NULL;
	int r = step_file_key(s, GRUB_FILE, &file);
	if (r)
		return r;
	*ret = take_ptr(file);
	return 0;
}

static int grub_text(const char *arguments, const char *profile, char **ret)
{
	*ret = step_text(
	    "# Made by hasten (profile %s); hasten revert removes it.\nGRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX %s\"\n",
	    profile, arguments);
	return *ret ? 0 : -ENOMEM;
}

static int grub_admin(struct sys *s, step_line visit, void *arg)
{
	int r = step_lines(s, "/etc/default/grub", NULL, visit, arg);
	return r ?: step_lines(s, "/etc/default/grub.d", ".cfg", visit, arg);
}

static int grub_finish(struct sys *s, struct error *e)
{
	return step_run(s, (const char *const[]){"update-grub", NULL}, e);
}

/* ---- BLS entries: "options ARGUMENTS", one file an installed kernel ---- */

static int plain_text(const char *arguments, const char *profile, char **ret)
{
	*ret = strdup(arguments);
	return *ret ? 0 : -ENOMEM;
}

typedef int (*entry_visit)(struct sys *s, const char *path, const char *text, void *arg);

static int each_entry(struct sys *s, entry_visit visit, void *arg)
{
	_cleanup_(free_list) char **names = NULL;
	int r = sys_list(s, &names, ENTRIES);
	for (size_t i = 0; !r && names[i]; i++) {
		size_t n = strlen(names[i]), len;
		_cleanup_free_ char *path = step_text(ENTRIES "/%s", names[i]), *text = NULL;
		if (n < 6 || strcmp(names[i] + n - 5, ".conf") != 0)
			continue;
		r = path ? sys_read(s, path, &text, &len) : -ENOMEM;
		r = r ?: visit(s, path, text, arg);
	}
	return r;
}

/* The line of options in an entry: where its arguments begin and end. */
static bool options_of(const char *text, size_t *ret_start, size_t *ret_len)
{
	for (const char *line = text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
		if (strncmp(line, "options", 7) == 0 && (line[7] == ' ' || line[7] == '\t')) {
			const char *start = line + 7 + strspn(line + 7, " \t");
			*ret_start = start - text;
			*ret_len = strcspn(start, "\n");
			return true;
		}
	return false;
}

static int has_options(struct sys *s, const char *path, const char *text, void *arg)
{
	size_t start, len;
	*(bool *)arg |= options_of(text, &start, &len);
	return 0;
}

static int bls_key(struct sys *s, char **ret)
{
	bool any = false;
	int r = each_entry(s, has_options, &any);
	if (r && r != -ENOENT)
		return r;
	*ret = any ? strdup("grubby") : NULL;
	return any && !*ret ? -ENOMEM : 0;
}

struct entries {
	char *ours; /* of all entries so far */
	bool lacking;
};

static int entry_ours(struct sys *s, const char *path, const char *text, void *arg)
{
	struct entries *x = arg;
	size_t start, len;
	if (!options_of(text, &start, &len))
		return 0;
	_cleanup_free_ char *line = strndup(text + start, len), *ours = NULL;
	int r = line ? cmdline_split(line, &ours, NULL) : -ENOMEM;
	if (r)
		return r;
	/* A kernel that was installed since has none: what is there is not whole. */
	if (!ours || (x->ours && strcmp(x->ours, ours) != 0))
		x->lacking = true;
	else if (!x->ours)
		x->ours = take_ptr(ours);
	return 0;
}

static int bls_read(struct sys *s, const struct op *op, char **ret)
{
	struct entries x = {};
	int r = each_entry(s, entry_ours, &x);
	if (r || x.lacking) {
		free(x.ours);
		x.ours = NULL;
	}
	if (!r)
		*ret = x.ours;
	return r;
}

static int entry_edit(struct sys *s, const char *path, const char *text, void *arg)
{
	const char *value = arg;
	size_t start, len;
	if (!options_of(text, &start, &len))
		return 0;
	_cleanup_free_ char *line = strndup(text + start, len), *rest = NULL, *whole = NULL;
	int r = line ? cmdline_split(line, NULL, &rest) : -ENOMEM;
	_cleanup_free_ char *edited = r ? NULL : value ? cmdline_join(rest, value) : strdup(rest);
	whole = edited ? step_text("%.*s%s%s", (int)start, text, edited, text + start + len) : NULL;
	if (r || !whole)
		return r ?: -ENOMEM;
	return strcmp(whole, text) == 0 ? 0 : sys_write_file(s, path, whole, strlen(whole), 0);
}

static int entry_remove(struct sys *s, const char *path, const char *text, void *arg)
{
	char **found = arg;
	size_t start, len;
	if (*found || !options_of(text, &start, &len))
		return 0;
	_cleanup_free_ char *line = strndup(text + start, len);
	return line ? cmdline_split(line, found, NULL) : -ENOMEM;
}

static int bls_write(struct sys *s, const struct op *op, const char *value)
{
	if (sys_kind(s) != SYS_LIVE || !sys_exists(s, "/usr/sbin/grubby"))
		return each_entry(s, entry_edit, (void *)value);
	/* On the machine itself grubby does it: it also knows where kernels to come get their arguments from. */
	_cleanup_free_ char *old = NULL;
	int r = each_entry(s, entry_remove, &old);
	_cleanup_free_ char *remove = step_text("--remove-args=%s", old ?: ""),
			    *add = step_text("--args=%s", value ?: "");
	if (r || !remove || !add)
		return r ?: -ENOMEM;
	if (old)
		r = step_run(s, (const char *const[]){"grubby", "--update-kernel=ALL", remove, NULL}, NULL);
	if (!r && value)
		r = step_run(s, (const char *const[]){"grubby", "--update-kernel=ALL", add, NULL}, NULL);
	return r;
}

struct visitor {
	step_line visit;
	void *arg;
};

static int entry_admin(struct sys *s, const char *path, const char *text, void *arg)
{
	const struct visitor *v = arg;
	size_t start, len;
	if (!options_of(text, &start, &len))
		return 0;
	_cleanup_free_ char *line = strndup(text + start, len), *rest = NULL;
	int r = line ? cmdline_split(line, NULL, &rest) : -ENOMEM;
	unsigned number = 1;
	for (size_t i = 0; i < start; i++)
		number += text[i] == '\n';
	return r ?: v->visit(v->arg, path, number, rest);
}

static int bls_admin(struct sys *s, step_line visit, void *arg)
{
	int r = each_entry(s, entry_admin, &(struct visitor){visit, arg});
	return r == -ENOENT ? 0 : r;
}

/* ---- systemd-boot: /etc/kernel/cmdline, from which kernel-install makes the entries ---- */

static int cmdline_key(struct sys *s, char **ret)
{
	_cleanup_free_ char *file = NULL;
	bool made = !sys_exists(s, CMDLINE);
	int r = step_file_key(s, CMDLINE, &file);
	if (r)
		return r;
	*ret = step_text("kernel-cmdline\t%s%s", made ? "made" : "", made ? strchr(file, '\t') : "");
	return *ret ? 0 : -ENOMEM;
}

/* What kernel-install takes where the file is missing: the distribution's, else the running kernel's without what the
 * loader adds. */
static int cmdline_base(struct sys *s, char **ret)
{
	_cleanup_free_ char *text = NULL, *rest = NULL;
	if (sys_read_line(s, &text, "/usr/lib/kernel/cmdline") == 0) {
		*ret = step_text("%s\n", text);
		return *ret ? 0 : -ENOMEM;
	}
	int r = sys_read_line(s, &text, "/proc/cmdline");
	r = r ?: cmdline_split(text, NULL, &rest);
	if (r)
		return r;
	char *out = calloc(1, strlen(rest) + 3), *save;
	if (!out)
		return -ENOMEM;
	for (char *one = strtok_r(rest, " \t\n", &save); one; one = strtok_r(NULL, " \t\n", &save))
		if (strncmp(one, "BOOT_IMAGE=", 11) != 0 && strncmp(one, "initrd=", 7) != 0)
			strcat(strcat(out, *out ? " " : ""), one);
	strcat(out, "\n");
	*ret = out;
	return 0;
}

static int cmdline_read(struct sys *s, const struct op *op, char **ret)
{
	_cleanup_free_ char *text = NULL, *ours = NULL;
	size_t len;
	int r = sys_read(s, CMDLINE, &text, &len);
	if (r == -ENOENT)
		*ret = NULL;
	if (r)
		return r == -ENOENT ? 0 : r;
	r = cmdline_split(text, &ours, NULL);
	if (!r)
		*ret = take_ptr(ours);
	return r;
}

static int cmdline_write(struct sys *s, const struct op *op, const char *value)
{
	_cleanup_free_ char *text = NULL, *rest = NULL, *base = NULL, *whole = NULL;
	size_t len;
	const char *made = strstr(op->key, "\tmade");
	int r = sys_read(s, CMDLINE, &text, &len);
	if (r == -ENOENT && !value)
		return 0;
	if (r && r != -ENOENT)
		return r;
	r = text ? cmdline_split(text, NULL, &rest) : cmdline_base(s, &rest);
	if (r)
		return r;
	if (!value && made) {
		/* Ours as a whole, as long as nobody wrote into it. */
		r = cmdline_base(s, &base);
		_cleanup_free_ char *key = step_text(CMDLINE "%s", made + 5);
		if (!r && !key)
			return -ENOMEM;
		if (!r && strcmp(base, rest) == 0)
			return step_file_write(s, &(struct op){.key = key}, NULL);
	}
	whole = value ? cmdline_join(rest, value) : strdup(rest);
	return whole ? sys_write_file(s, CMDLINE, whole, strlen(whole), text ? 0 : 0644) : -ENOMEM;
}

static int cmdline_admin(struct sys *s, step_line visit, void *arg)
{
	_cleanup_free_ char *text = NULL, *rest = NULL;
	size_t len;
	int r = sys_read(s, CMDLINE, &text, &len);
	if (r)
		return r == -ENOENT ? 0 : r;
	r = cmdline_split(text, NULL, &rest);
	return r ?: visit(arg, CMDLINE, 1, rest);
}

static int cmdline_finish(struct sys *s, struct error *e)
{
	_cleanup_(free_list) char **kernels = NULL;
	int r = sys_list(s, &kernels, "/usr/lib/modules");
	if (r)
		return r == -ENOENT ? 0 : error_set(e, r, "%s/usr/lib/modules: %s", sys_root(s), strerror(-r));
	for (size_t i = 0; !r && kernels[i]; i++) {
		_cleanup_free_ char *image = step_text("/usr/lib/modules/%s/vmlinuz", kernels[i]),
				    *elsewhere = step_text("/boot/vmlinuz-%s", kernels[i]);
		if (!image || !elsewhere)
			return -ENOMEM;
		const char *path = sys_exists(s, "%s", image)       ? image
				   : sys_exists(s, "%s", elsewhere) ? elsewhere
								    : NULL;
		if (path)
			r = step_run(s, (const char *const[]){"kernel-install", "add", kernels[i], path, NULL}, e);
	}
	return r;
}

static const struct boot_place places[] = {
    {BOOT_GRUB_DEBIAN, GRUB_FILE, grub_key, grub_text, step_file_read, step_file_write, grub_admin, grub_finish},
    {BOOT_GRUBBY, "grubby", bls_key, plain_text, bls_read, bls_write, bls_admin, NULL},
    {BOOT_SYSTEMD, "kernel-cmdline", cmdline_key, plain_text, cmdline_read, cmdline_write, cmdline_admin,
     cmdline_finish},
};

const struct boot_place *boot_place_of(enum boot_loader kind)
{
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++)
		if (places[i].kind == kind)
			return &places[i];
	return NULL;
}

const struct boot_place *boot_place_by_key(const char *key)
{
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++)
		if (strncmp(places[i].name, key, strlen(places[i].name)) == 0)
			return &places[i];
	return NULL;
}
