#include "agent/driver/dkms.h"

#include "agent/driver/driver.h"
#include "agent/sys/cleanup.h"
#include "agent/sys/error.h"
#include "agent/sys/sys.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

/* ---- dkms.conf ---- dkms sources it as a shell script, as root: only assignments of words are let through. */

static const char *const hook_names[] = {"PRE_BUILD", "POST_BUILD", "PRE_INSTALL", "POST_INSTALL", "POST_ADD", "POST_REMOVE"};

/* Length of NAME or NAME[0] before '=', 0 where it is no assignment. */
static size_t assignment(const char *line)
{
	size_t n = 0;

	while (isalnum((unsigned char)line[n]) || line[n] == '_')
		n++;
	if (!n || isdigit((unsigned char)*line))
		return 0;
	size_t end = n;
	if (line[end] == '[') {
		end += 1 + strspn(line + end + 1, "0123456789");
		if (line[end++] != ']')
			return 0;
	}
	return line[end] == '=' ? end : 0;
}

/* One shell word without anything that runs: *ret_text without its quotes. False: more than that. */
static bool plain_word(const char *text, char *ret_text, size_t size)
{
	size_t n = 0;
	char quote = 0, before = 0;

	for (; *text && (quote || !isspace((unsigned char)*text)); before = *text++) {
		if (!quote && (*text == '"' || *text == '\'')) {
			quote = *text;
			continue;
		}
		if (quote == *text) {
			quote = 0;
			continue;
		}
		if (quote != '\'' && (*text == '`' || *text == '\\' || (*text == '$' && (text[1] == '(' || text[1] == '['))))
			return false;
		/* ${x:=..}, ${x@P} and their like compute; ${x} and $x do not. */
		if (quote != '\'' && *text == '$' && text[1] == '{') {
			size_t name = strspn(text + 2, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
			if (text[2 + name] != '}')
				return false;
		}
		if (!quote && strchr(";&|<>(){*?~!#", *text) && !(*text == '{' && before == '$'))
			return false;
		if (n + 1 < size)
			ret_text[n++] = *text;
	}
	ret_text[n] = 0;
	while (isspace((unsigned char)*text))
		text++;
	return !quote && (!*text || *text == '#');
}

int dkms_conf_check(const char *text, const char *file, const char *const hooks[], const char *name, const char *version, struct error *e)
{
	bool named = false, versioned = false;
	unsigned number = 0;

	for (const char *next; *text; text = next) {
		_cleanup_free_ char *line = NULL;
		char value[1024], variable[64];
		size_t len = strcspn(text, "\n"), n;

		number++;
		next = text + len + (text[len] == '\n');
		if (!(line = strndup(text, len)))
			return -ENOMEM;
		char *p = line + strspn(line, " \t\r");
		if (!*p || *p == '#')
			continue;
		n = assignment(p);
		if (!n || !plain_word(p + n + 1, value, sizeof(value)))
			return error_set_at(e, -EPERM, file, number, "more than NAME=\"words\", and dkms would run it as root; refused");
		snprintf(variable, sizeof(variable), "%.*s", (int)strcspn(p, "[="), p);
		for (size_t i = 0; i < sizeof(hook_names) / sizeof(hook_names[0]); i++) {
			if (strcmp(variable, hook_names[i]) || !*value)
				continue;
			const char *const *hook = hooks;
			while (hook && *hook && strcmp(*hook, variable))
				hook++;
			if (!hook || !*hook)
				return error_set_at(e, -EPERM, file, number, "%s would run \"%s\", and the signed manifest names no such hook; refused", variable, value);
		}
		if (!strcmp(variable, "PACKAGE_NAME")) {
			if (strcmp(value, name))
				return error_set_at(e, -EINVAL, file, number, "PACKAGE_NAME is \"%s\", the manifest's name is \"%s\"", value, name);
			named = true;
		} else if (!strcmp(variable, "PACKAGE_VERSION")) {
			if (strcmp(value, version))
				return error_set_at(e, -EINVAL, file, number, "PACKAGE_VERSION is \"%s\", the manifest's version is \"%s\"", value, version);
			versioned = true;
		} else if (!strcmp(variable, "LD_PRELOAD") || !strcmp(variable, "PATH") || !strcmp(variable, "BASH_ENV") || !strcmp(variable, "ENV")) {
			return error_set_at(e, -EPERM, file, number, "sets %s; refused", variable);
		}
	}
	if (!named || !versioned)
		return error_set_at(e, -EINVAL, file, 0, "%s is missing", named ? "PACKAGE_VERSION" : "PACKAGE_NAME");
	return 0;
}

/* ---- running dkms and its kin ---- */

int run_told(struct sys *s, const char *const argv[], unsigned timeout_ms, struct error *e)
{
	_cleanup_free_ char *output = NULL;
	int status, r = sys_run(s, argv, timeout_ms, &output, &status);

	if (r < 0)
		return error_set(e, r, "%s: %s", argv[0], r == -ENOENT ? "not installed" : strerror(-r));
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return 0;
	/* The last line that says something is the one that says why. */
	char *end = output ? output + strlen(output) : NULL;
	while (end && end > output && isspace((unsigned char)end[-1]))
		*--end = 0;
	char *last = output ? strrchr(output, '\n') : NULL;
	last = last ? last + 1 : output;
	if (WIFSIGNALED(status))
		return error_set(e, -EREMOTEIO, "%s %s: ended by signal %d: %s", argv[0], argv[1], WTERMSIG(status), last ? last : "");
	return error_set(e, -EREMOTEIO, "%s %s: exit status %d: %s", argv[0], argv[1], WEXITSTATUS(status), last ? last : "");
}

int dkms_add(struct sys *s, const char *folder, struct error *e)
{
	const char *const argv[] = {"dkms", "add", folder, NULL};
	return run_told(s, argv, 120000, e);
}

int dkms_build(struct sys *s, const struct dkms_module *m, struct error *e)
{
	const char *const argv[] = {"dkms", "build", "-m", m->name, "-v", m->version, "-k", m->kernel, NULL};
	return run_told(s, argv, 1200000, e);
}

int dkms_install(struct sys *s, const struct dkms_module *m, struct error *e)
{
	const char *const argv[] = {"dkms", "install", "-m", m->name, "-v", m->version, "-k", m->kernel, NULL};
	return run_told(s, argv, 600000, e);
}

/* The tree under /usr/src too: dkms leaves what dkms add put there. */
int dkms_remove(struct sys *s, const struct dkms_module *m, struct error *e)
{
	_cleanup_free_ char *source = NULL;
	const char *const argv[] = {"dkms", "remove", "-m", m->name, "-v", m->version, "--all", NULL};
	int r = run_told(s, argv, 600000, e);

	if (asprintf(&source, "/usr/src/%s-%s", m->name, m->version) < 0)
		return -ENOMEM;
	const char *const rm[] = {"rm", "-rf", "--one-file-system", "--", source, NULL};
	int gone = run_told(s, rm, 60000, r ? NULL : e);
	return r ? r : gone;
}
