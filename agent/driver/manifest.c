#include "agent/driver/driver.h"

#include "agent/detect/facts.h"
#include "agent/sys/cleanup.h"
#include "agent/sys/error.h"
#include "agent/sys/sys.h"
#include "agent/sys/yaml.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *const folders[] = {"/etc/hasten/drivers", "/usr/lib/hasten/drivers"}; /* the first wins */
static const char *const hook_names[] = {"PRE_BUILD", "POST_BUILD", "PRE_INSTALL", "POST_INSTALL", "POST_ADD", "POST_REMOVE", NULL};

static void free_list(char **list)
{
	for (char **p = list; p && *p; p++)
		free(*p);
	free(list);
}

void manifest_free(struct manifest *m)
{
	char *const texts[] = {m->file, m->name, m->title, m->version, m->module, m->url, m->sha256, m->kernel_min, m->kernel_max, m->firmware};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		free(texts[i]);
	free_list(m->distributions);
	free_list(m->architectures);
	free_list(m->hooks);
	*m = (struct manifest){0};
}

static void free_root(struct yaml_node **n)
{
	*n = yaml_node_free(*n);
}

/* What may become part of a path or of a command's argument: a letter or digit first, then also . _ + - */
static bool is_word(const char *text)
{
	if (!isalnum((unsigned char)*text))
		return false;
	for (; *text; text++)
		if (!isalnum((unsigned char)*text) && !strchr("._+-", *text))
			return false;
	return true;
}

static int take_text(const struct yaml_node *map, const char *file, const char *key, bool required, bool word, char **place, struct error *e)
{
	const struct yaml_node *n = yaml_get(map, key);

	if (!n)
		return required ? error_set_at(e, -EINVAL, file, map->line, "\"%s\" is missing", key) : 0;
	if (n->kind != YAML_NODE_SCALAR || !*n->text)
		return error_set_at(e, -EINVAL, file, n->line, "%s: one word is wanted", key);
	if (strlen(n->text) > 1024)
		return error_set_at(e, -EINVAL, file, n->line, "%s: longer than 1024 characters", key);
	if (word && (!is_word(n->text) || strlen(n->text) > 64))
		return error_set_at(e, -EINVAL, file, n->line, "%s: \"%s\": letters, digits, '.', '_', '+' and '-' only, at most 64, a letter or digit first", key, n->text);
	*place = strdup(n->text);
	return *place ? 0 : -ENOMEM;
}

static int take_list(const struct yaml_node *map, const char *file, const char *key, bool required, char ***place, struct error *e)
{
	const struct yaml_node *n = yaml_get(map, key);

	if (!n && required)
		return error_set_at(e, -EINVAL, file, map->line, "\"%s\" is missing", key);
	if (n && (n->kind != YAML_NODE_LIST || (required && !n->n_child) || n->n_child > 64))
		return error_set_at(e, -EINVAL, file, n->line, "%s: a list of 1 to 64 words is wanted: [a, b]", key);
	*place = calloc((n ? n->n_child : 0) + 1, sizeof(char *));
	if (!*place)
		return -ENOMEM;
	for (size_t i = 0; n && i < n->n_child; i++) {
		if (n->child[i].kind != YAML_NODE_SCALAR || !is_word(n->child[i].text))
			return error_set_at(e, -EINVAL, file, n->child[i].line, "%s: words of letters, digits, '.', '_', '+' and '-' are wanted", key);
		if (!((*place)[i] = strdup(n->child[i].text)))
			return -ENOMEM;
	}
	return 0;
}

static int take_number(const struct yaml_node *map, const char *file, const char *key, uint64_t low, uint64_t high, uint64_t *ret, struct error *e)
{
	const struct yaml_node *n = yaml_get(map, key);
	char *end;

	if (!n)
		return error_set_at(e, -EINVAL, file, map->line, "\"%s\" is missing", key);
	errno = 0;
	unsigned long long v = n->kind == YAML_NODE_SCALAR && isdigit((unsigned char)*n->text) ? strtoull(n->text, &end, 10) : (end = "x", 0);
	if (*end || errno || v < low || v > high)
		return error_set_at(e, -EINVAL, file, n->line, "%s: a whole number from %llu to %llu is wanted", key, (unsigned long long)low,
			(unsigned long long)high);
	*ret = v;
	return 0;
}

static int check_values(const struct yaml_node *root, struct manifest *m, struct error *e)
{
	size_t digits = strspn(m->sha256, "0123456789abcdef");

	if (strncmp(m->url, "https://", 8) || strpbrk(m->url, " \t\n\"'\\"))
		return error_set_at(e, -EINVAL, m->file, yaml_get(root, "url")->line, "url: \"%s\": https:// is wanted", m->url);
	if (digits != 64 || m->sha256[64])
		return error_set_at(e, -EINVAL, m->file, yaml_get(root, "sha256")->line, "sha256: 64 digits 0-9a-f are wanted");
	for (char **hook = m->hooks; *hook; hook++) {
		const char *const *known = hook_names;
		while (*known && strcmp(*known, *hook))
			known++;
		if (!*known)
			return error_set_at(e, -EINVAL, m->file, yaml_get(root, "hooks")->line,
				"hooks: \"%s\": dkms has PRE_BUILD, POST_BUILD, PRE_INSTALL, POST_INSTALL, POST_ADD, POST_REMOVE", *hook);
	}
	return 0;
}

static int parse(const char *text, size_t len, struct manifest *m, struct error *e)
{
	static const char *const keys[] = {"schema", "name", "title", "version", "module", "serial", "url", "sha256", "size", "distributions", "architectures",
		"kernel-min", "kernel-max", "firmware", "hooks", NULL};
	_cleanup_(free_root) struct yaml_node *root = NULL;
	uint64_t schema;
	int r = yaml_parse(m->file, text, len, &root, e);

	if (!r)
		r = yaml_only(root, m->file, keys, e);
	if (!r)
		r = take_number(root, m->file, "schema", 1, 1, &schema, e);
	if (!r)
		r = take_text(root, m->file, "name", true, true, &m->name, e);
	if (!r)
		r = take_text(root, m->file, "title", false, false, &m->title, e);
	if (!r)
		r = take_text(root, m->file, "version", true, true, &m->version, e);
	if (!r)
		r = take_text(root, m->file, "module", true, true, &m->module, e);
	if (!r)
		r = take_number(root, m->file, "serial", 1, INT64_MAX, &m->serial, e);
	if (!r)
		r = take_text(root, m->file, "url", true, false, &m->url, e);
	if (!r)
		r = take_text(root, m->file, "sha256", true, false, &m->sha256, e);
	if (!r)
		r = take_number(root, m->file, "size", 1, PAYLOAD_SIZE_MAX, &m->size, e);
	if (!r)
		r = take_list(root, m->file, "distributions", true, &m->distributions, e);
	if (!r)
		r = take_list(root, m->file, "architectures", true, &m->architectures, e);
	if (!r)
		r = take_text(root, m->file, "kernel-min", false, true, &m->kernel_min, e);
	if (!r)
		r = take_text(root, m->file, "kernel-max", false, true, &m->kernel_max, e);
	if (!r)
		r = take_text(root, m->file, "firmware", false, true, &m->firmware, e);
	if (!r)
		r = take_list(root, m->file, "hooks", false, &m->hooks, e);
	return r ? r : check_values(root, m, e);
}

int manifest_parse(const char *file, const char *text, size_t len, struct manifest *ret, struct error *e)
{
	struct manifest m = {.file = strdup(file)};
	int r = m.file ? parse(text, len, &m, e) : -ENOMEM;

	if (r < 0) {
		manifest_free(&m);
		return r;
	}
	*ret = m;
	return 0;
}

int manifest_load(struct sys *s, const char *path, struct manifest *ret, struct error *e)
{
	_cleanup_free_ char *text = NULL, *signature = NULL, *signature_path = NULL, *key = NULL;
	_cleanup_(error_clear) struct error inner = {0};
	size_t len, signature_len;
	int r = sys_read(s, path, &text, &len);

	if (r < 0)
		return error_set_at(e, r, path, 0, "%s", strerror(-r));
	if (len > MANIFEST_SIZE_MAX)
		return error_set_at(e, -EFBIG, path, 0, "%zu bytes; a manifest has at most %d", len, MANIFEST_SIZE_MAX);
	if (asprintf(&signature_path, "%s.sig", path) < 0)
		return -ENOMEM;
	r = sys_read(s, signature_path, &signature, &signature_len);
	if (r < 0)
		return error_set_at(e, r, signature_path, 0, "%s; a manifest without its signature is not used",
			r == -ENOENT ? "there is no signature" : strerror(-r));
	r = signature_verify(s, text, len, signature, signature_len, &key, &inner);
	if (r < 0)
		return error_set_at(e, r, path, 0, "%s", inner.message ? inner.message : strerror(-r));
	return manifest_parse(path, text, len, ret, e);
}

int manifest_find(struct sys *s, const char *name, char **ret_path)
{
	if (!is_word(name))
		return -ENOENT;
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		char *path;
		if (!sys_exists(s, "%s/%s.yaml", folders[i], name))
			continue;
		if (asprintf(&path, "%s/%s.yaml", folders[i], name) < 0)
			return -ENOMEM;
		*ret_path = path;
		return 0;
	}
	return -ENOENT;
}

/* Compares "6.1.0-57-amd64" with "6.1": as many numbers as the limit has. */
static int compare_kernel(const char *kernel, const char *limit)
{
	while (*limit) {
		char *k, *l;
		unsigned long a = strtoul(kernel, &k, 10), b = strtoul(limit, &l, 10);
		if (a != b)
			return a < b ? -1 : 1;
		if (l == limit)
			break;
		kernel = *k ? k + 1 : k;
		limit = *l ? l + 1 : l;
	}
	return 0;
}

static bool listed(char *const *list, const char *word)
{
	for (; word && *list; list++)
		if (!strcmp(*list, word))
			return true;
	return false;
}

static char *joined(char *const *list)
{
	char *all = strdup("");

	for (; all && *list; list++) {
		char *more;
		if (asprintf(&more, "%s%s%s", all, *all ? ", " : "", *list) < 0)
			more = NULL;
		free(all);
		all = more;
	}
	return all;
}

int manifest_fits(const struct manifest *m, const struct facts *f, const char *kernel, const char *firmware, struct error *e)
{
	_cleanup_free_ char *release = NULL, *all = NULL;
	const char *id = f->platform.os_id ? f->platform.os_id : "unknown";

	if (asprintf(&release, "%s-%s", id, f->platform.os_version ? f->platform.os_version : "") < 0)
		return -ENOMEM;
	if (!listed(m->distributions, release) && !listed(m->distributions, id)) {
		all = joined(m->distributions);
		return error_set_at(e, -EOPNOTSUPP, m->file, 0, "made for %s, this is %s", all ? all : "", release);
	}
	if (!listed(m->architectures, f->cpus.architecture)) {
		all = joined(m->architectures);
		return error_set_at(e, -EOPNOTSUPP, m->file, 0, "made for %s, this is %s", all ? all : "",
			f->cpus.architecture ? f->cpus.architecture : "unknown");
	}
	if (m->kernel_min && compare_kernel(kernel, m->kernel_min) < 0)
		return error_set_at(e, -EOPNOTSUPP, m->file, 0, "needs kernel %s or newer, this is %s", m->kernel_min, kernel);
	if (m->kernel_max && compare_kernel(kernel, m->kernel_max) > 0)
		return error_set_at(e, -EOPNOTSUPP, m->file, 0, "made for kernels up to %s, this is %s", m->kernel_max, kernel);
	if (m->firmware && firmware && strncmp(firmware, m->firmware, strlen(m->firmware)))
		return error_set_at(e, -EOPNOTSUPP, m->file, 0, "made for firmware %s, the device has %s", m->firmware, firmware);
	return 0;
}
