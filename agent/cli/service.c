#include "config.h"
#include "agent/cli/service.h"

#include "agent/cli/explain.h"
#include "agent/sys/cleanup.h"
#include "agent/sys/error.h"
#include "agent/sys/sys.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

void service_free(struct service *v)
{
	char *const texts[] = {v->unit, v->folder, v->load_state, v->active_state, v->program, v->preload, v->address_families, v->inaccessible,
		v->root_directory, v->protect_system, v->selinux_context, v->ambient};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		free(texts[i]);
	*v = (struct service){0};
}

/* systemd.unit(5): letters, digits, ":-_.\@". It becomes part of a path. */
static bool is_unit_name(const char *name)
{
	size_t n = strlen(name);

	if (!n || n > 200 || *name == '.' || *name == '-')
		return false;
	for (; *name; name++)
		if (!isalnum((unsigned char)*name) && !strchr(":-_.\\@", *name))
			return false;
	return true;
}

static void take(char **place, const char *value)
{
	if (*value && strcmp(value, "[not set]")) {
		free(*place);
		*place = strdup(value);
	}
}

/* Environment=A=b "LD_PRELOAD=x y": words, quoted where they have blanks. */
static void take_preload(struct service *v, const char *value)
{
	const char *at = value;

	while ((at = strstr(at, "LD_PRELOAD="))) {
		if (at == value || at[-1] == ' ' || at[-1] == '"') {
			bool quoted = at > value && at[-1] == '"';
			at += strlen("LD_PRELOAD=");
			free(v->preload);
			v->preload = strndup(at, strcspn(at, quoted ? "\"" : " "));
			continue;
		}
		at++;
	}
}

/* ExecStart={ path=/usr/bin/x ; argv[]=... } */
static void take_program(struct service *v, const char *value)
{
	const char *path = strstr(value, "path=");

	if (path && !v->program) {
		path += 5;
		v->program = strndup(path, strcspn(path, " ;"));
	}
}

static void take_line(struct service *v, char *line)
{
	char *value = strchr(line, '=');

	if (!value)
		return;
	*value++ = 0;
	const struct {
		const char *key;
		char **place;
	} plain[] = {{"LoadState", &v->load_state}, {"ActiveState", &v->active_state}, {"RestrictAddressFamilies", &v->address_families},
		{"InaccessiblePaths", &v->inaccessible}, {"RootDirectory", &v->root_directory}, {"RootImage", &v->root_directory},
		{"ProtectSystem", &v->protect_system}, {"SELinuxContext", &v->selinux_context}, {"AmbientCapabilities", &v->ambient}};
	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
		if (!strcmp(line, plain[i].key))
			take(plain[i].place, value);
	if (!strcmp(line, "MainPID"))
		v->main_pid = (pid_t)strtol(value, NULL, 10);
	else if (!strcmp(line, "Environment"))
		take_preload(v, value);
	else if (!strcmp(line, "ExecStart"))
		take_program(v, value);
}

static int ask_manager(struct sys *s, struct service *v, struct error *e)
{
	const char *const argv[] = {"systemctl", v->user ? "--user" : "--system", "show", "--no-pager", "-p",
		"LoadState,ActiveState,MainPID,Environment,ExecStart,RestrictAddressFamilies,InaccessiblePaths,RootDirectory,RootImage,ProtectSystem,"
		"SELinuxContext,AmbientCapabilities", v->unit, NULL};
	_cleanup_free_ char *output = NULL;
	int status, r = sys_run(s, argv, 20000, &output, &status);

	if (r < 0)
		return error_set(e, r, "systemctl: %s; services are systemd's", r == -ENOENT ? "not installed" : strerror(-r));
	if (!WIFEXITED(status) || WEXITSTATUS(status)) {
		if (output)
			output[strcspn(output, "\n")] = 0;
		return error_set(e, -EREMOTEIO, "systemctl show %s: %s", v->unit, output && *output ? output : "failed");
	}
	for (char *line = output, *next; line && *line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		take_line(v, line);
	}
	return 0;
}

int service_look(struct sys *s, const char *name, bool user, struct service *ret, struct error *e)
{
	struct service v = {.user = user};
	const char *dot = strrchr(name, '.');
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	int r = 0;

	if (!is_unit_name(name) || (dot && (!strcmp(dot, ".socket") || !strcmp(dot, ".timer") || !strcmp(dot, ".target"))))
		return error_set(e, -EINVAL, "\"%s\" is no name of a service", name);
	if (asprintf(&v.unit, "%s%s", name, dot && !strcmp(dot, ".service") ? "" : ".service") < 0)
		return -ENOMEM;
	if (!user)
		r = asprintf(&v.folder, "/etc/systemd/system/%s.d", v.unit);
	else if (config && *config == '/')
		r = asprintf(&v.folder, "%s/systemd/user/%s.d", config, v.unit);
	else if (home && *home == '/')
		r = asprintf(&v.folder, "%s/.config/systemd/user/%s.d", home, v.unit);
	else
		r = error_set(e, -ENOENT, "neither XDG_CONFIG_HOME nor HOME says where the user's services are");
	if (r > 0)
		r = sys_kind(s) == SYS_LIVE ? ask_manager(s, &v, e) : 0;
	if (!r && v.load_state && strcmp(v.load_state, "loaded"))
		r = error_set(e, -ENOENT, "%s is %s; systemctl list-unit-files shows the services that there are", v.unit, v.load_state);
	if (r < 0) {
		service_free(&v);
		return r;
	}
	*ret = v;
	return 0;
}

int service_has_library(pid_t pid)
{
	char path[64], line[4608];
	_cleanup_fclose_ FILE *f = NULL;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return -errno;
	while (fgets(line, sizeof(line), f))
		if (strstr(line, "/libhasten.so"))
			return 1;
	return ferror(f) ? -EIO : 0;
}

/* ---- reasons ---- */

struct reasons {
	struct service_reason *reason;
	size_t n;
	int err;
};

static void because(struct reasons *all, bool fatal, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void because(struct reasons *all, bool fatal, const char *format, ...)
{
	struct service_reason *more = reallocarray(all->reason, all->n + 1, sizeof(*more));
	va_list args;

	if (!more) {
		all->err = -ENOMEM;
		return;
	}
	all->reason = more;
	va_start(args, format);
	more[all->n].fatal = fatal;
	if (vasprintf(&more[all->n].text, format, args) < 0)
		all->err = -ENOMEM;
	else
		all->n++;
	va_end(args);
}

/* "AF_INET AF_UNIX": those alone; "~AF_X": all but those. */
static bool family_allowed(const char *list, const char *family)
{
	size_t n = strlen(family);
	bool inverted = *list == '~', found = false;

	for (const char *p = list + inverted; *p;) {
		size_t len = strcspn(p, " ");
		found |= len == n && !strncmp(p, family, n);
		p += len + strspn(p + len, " ");
	}
	return found != inverted;
}

static void of_program(struct sys *s, const struct service *v, struct reasons *all)
{
	_cleanup_free_ char *path = NULL;
	struct explanation what;

	if (!v->program || asprintf(&path, "%s%s", sys_root(s), v->program) < 0)
		return;
	if (explain_program(path, &what))
		return;
	if (what.obstacle != OBSTACLE_NONE)
		because(all, true, "%s %s%s%s%s", what.path, obstacle_text(what.obstacle), *what.detail ? " (" : "", what.detail, *what.detail ? ")" : "");
	else if (what.uring)
		because(all, false, "%s can use io_uring for its sockets; where it does, it is not accelerated", what.path);
}

int service_reasons(struct sys *s, const struct service *v, struct service_reason **ret, size_t *ret_n)
{
	struct reasons all = {0};
	_cleanup_free_ char *enforce = NULL;

	of_program(s, v, &all);
	if (v->root_directory)
		because(&all, true, "it runs in a root of its own (%s): the library must lie in there too, under the same path", v->root_directory);
	if (v->address_families && !family_allowed(v->address_families, "AF_UNIX"))
		because(&all, true, "RestrictAddressFamilies=%s leaves out AF_UNIX, by which two programs meet; a drop-in with RestrictAddressFamilies=AF_UNIX allows it",
			v->address_families);
	if (v->inaccessible && (strstr(v->inaccessible, "/run/hasten") || strstr(v->inaccessible, "/dev/shm")))
		because(&all, true, "InaccessiblePaths=%s takes away the folders in which two programs meet", v->inaccessible);
	if (v->ambient)
		because(&all, false, "AmbientCapabilities=%s: the program starts with capabilities; where its file has some too, the dynamic linker ignores LD_PRELOAD",
			v->ambient);
	if (sys_read_line(s, &enforce, "/sys/fs/selinux/enforce") >= 0 && !strcmp(enforce, "1"))
		because(&all, false, "SELinux enforces: where starting the service changes its domain, the dynamic linker ignores LD_PRELOAD (AT_SECURE) unless the policy "
				     "allows noatsecure; whether the library is loaded shows after the start");
	if (all.err) {
		service_reasons_free(all.reason, all.n);
		return all.err;
	}
	*ret = all.reason;
	*ret_n = all.n;
	return 0;
}

void service_reasons_free(struct service_reason *r, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(r[i].text);
	free(r);
}

char *service_drop_in(const struct service *v, const char *library)
{
	/* What it preloads already (an allocator) stays behind ours. A second enabling finds ours in the list. */
	const char *others = v->preload && !strstr(v->preload, "libhasten.so") ? v->preload : NULL;
	bool read_only = v->protect_system && !strcmp(v->protect_system, "strict");
	char *text;

	if (asprintf(&text, "# Made by \"hasten enable\": its TCP connections to programs of this host go by shared memory.\n"
			    "# \"hasten disable %s\" removes it.\n"
			    "[Service]\nEnvironment=\"LD_PRELOAD=%s%s%s\"\n%s", v->unit, library, others ? ":" : "", others ? others : "",
		read_only ? "# ProtectSystem=strict: the folder in which two programs meet.\nReadWritePaths=-/run/hasten\n" : "") < 0)
		return NULL;
	return text;
}

int service_manager(struct sys *s, const struct service *v, const char *verb, const char *unit, struct error *e)
{
	const char *const argv[] = {"systemctl", v->user ? "--user" : "--system", verb, unit, NULL};
	_cleanup_free_ char *output = NULL;
	int status, r = sys_run(s, argv, 120000, &output, &status);

	if (r < 0)
		return error_set(e, r, "systemctl %s: %s", verb, strerror(-r));
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return 0;
	if (output)
		output[strcspn(output, "\n")] = 0;
	return error_set(e, -EREMOTEIO, "systemctl %s%s%s: %s", verb, unit ? " " : "", unit ? unit : "", output && *output ? output : "failed");
}
