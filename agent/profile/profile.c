/* Finding and merging: folders, includes, overrides, drop-ins. parse.c reads one file. */
#include "agent/profile/profile.h"

#include "agent/profile/parse.h"
#include "agent/sys/cleanup.h"
#include "agent/sys/error.h"
#include "agent/sys/place.h"
#include "agent/sys/sys.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DROP_INS_MAX 64
#define ADMIN_DIR SYSCONFDIR "/hasten/profiles"

/* The vendor's files are those of the program that runs, whatever root it looks at. */
struct loader {
	struct sys *vendor, *admin;
	struct sys *opened; /* ours to close */
	const char *vendor_dir;
	char *own_dir; /* vendor_dir, where it is of the environment */
	char **done; /* names that are merged already */
	size_t n_done;
	const char *stack[PROFILE_INCLUDE_MAX + 1];
	unsigned depth;
	struct error *e;
};

/* A path that a user gave is of the folder that they are in. Caller frees. */
static char *absolute(const char *path)
{
	_cleanup_free_ char *here = *path == '/' ? NULL : getcwd(NULL, 0);
	char *whole = NULL;

	if (*path == '/' || !here)
		return strdup(path);
	return asprintf(&whole, "%s/%s", strcmp(here, "/") ? here : "", path) < 0 ? NULL : whole;
}

static int loader_open(struct sys *s, struct error *e, struct loader *ret)
{
	const char *dir = secure_getenv("HASTEN_PROFILE_DIR");
	char *own = dir && *dir ? absolute(dir) : NULL;

	*ret = (struct loader){.vendor = s, .admin = s, .vendor_dir = own ? own : place_profiles(), .own_dir = own, .e = e};
	if (sys_kind(s) == SYS_LIVE)
		return 0;
	int r = sys_open(NULL, &ret->opened, e);
	ret->vendor = ret->opened;
	return r;
}

static void loader_close(struct loader *l)
{
	sys_close(l->opened);
	free(l->own_dir);
	for (size_t i = 0; i < l->n_done; i++)
		free(l->done[i]);
	free(l->done);
}

static int read_file(struct sys *s, const char *path, const char *name, bool drop_in, struct profile_file *ret,
		     struct error *e)
{
	_cleanup_free_ char *shown = NULL, *text = NULL;
	struct stat st;
	size_t len = 0;
	int r;

	if (asprintf(&shown, "%s%s", sys_root(s), path) < 0)
		return error_set(e, -ENOMEM, "out of memory");
	r = sys_stat(s, path, &st);
	if (!r && !S_ISREG(st.st_mode)) /* opening a pipe would wait */
		return error_set_at(e, S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL, shown, 0, "not a file");
	if (!r && st.st_size > PROFILE_SIZE_MAX)
		return error_set_at(e, -EFBIG, shown, 0, "larger than %d KiB", PROFILE_SIZE_MAX / 1024);
	if (!r)
		r = sys_read(s, path, &text, &len);
	if (r)
		return error_set_at(e, r, shown, 0, "%s", strerror(-r));
	return profile_file_parse(shown, name, drop_in, text, len, ret, e);
}

static bool is_mask(struct sys *s, const char *path)
{
	_cleanup_free_ char *to = NULL;

	return !sys_readlink(s, &to, "%s", path) && !strcmp(to, "/dev/null");
}

static bool yaml_stem(const char *file, size_t *ret_n)
{
	size_t n = strlen(file);

	if (n <= 5 || strcmp(file + n - 5, ".yaml") || *file == '.')
		return false;
	*ret_n = n - 5;
	return true;
}

/* The file that counts for name: the admin's, else the vendor's. -ENOENT: neither, or masked. */
static int find(const struct loader *l, const char *name, struct sys **ret_sys, char **ret_path)
{
	_cleanup_free_ char *admin = NULL, *vendor = NULL;

	if (asprintf(&admin, "%s/%s.yaml", ADMIN_DIR, name) < 0 ||
	    asprintf(&vendor, "%s/%s.yaml", l->vendor_dir, name) < 0)
		return -ENOMEM;
	if (is_mask(l->admin, admin))
		return -ENOENT;
	bool is_admin = sys_exists(l->admin, "%s", admin);
	if (!is_admin && (is_mask(l->vendor, vendor) || !sys_exists(l->vendor, "%s", vendor)))
		return -ENOENT;
	*ret_sys = is_admin ? l->admin : l->vendor;
	*ret_path = is_admin ? take_ptr(admin) : take_ptr(vendor);
	return 0;
}

/* ---- merging ---- */

static int by_key(const void *a, const void *b)
{
	return strcmp(((const struct setting *)a)->key, ((const struct setting *)b)->key);
}

static struct setting *setting_find(struct profile *p, const char *key)
{
	for (size_t i = 0; i < p->n_setting; i++)
		if (!strcmp(p->setting[i].key, key))
			return &p->setting[i];
	return NULL;
}

static void unset(struct profile *p, const char *key)
{
	struct setting *s = setting_find(p, key);

	if (!s)
		return;
	setting_free(s);
	*s = p->setting[--p->n_setting];
}

/* What the file says goes over what is there. Takes the settings out of f. */
static int merge_file(struct profile *p, struct profile_file *f, struct error *e)
{
	for (size_t i = 0; f->unset && f->unset[i]; i++)
		unset(p, f->unset[i]);
	for (size_t i = 0; i < f->n_setting; i++) {
		struct setting *place = setting_find(p, f->setting[i].key);

		if (!place) {
			if (p->n_setting == PROFILE_SETTINGS_MAX)
				return error_set_at(e, -E2BIG, f->path, f->setting[i].line,
						    "more than %d settings, includes counted", PROFILE_SETTINGS_MAX);
			struct setting *grown = realloc(p->setting, (p->n_setting + 1) * sizeof(*grown));
			if (!grown)
				return error_set(e, -ENOMEM, "out of memory");
			p->setting = grown;
			place = &grown[p->n_setting++];
			*place = (struct setting){0};
		}
		setting_free(place);
		*place = f->setting[i];
		f->setting[i] = (struct setting){0};
	}
	p->consent_boot |= f->boot;
	return 0;
}

static int strv_add(char ***list, size_t *n, const char *text)
{
	char **grown = realloc(*list, (*n + 2) * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	*list = grown;
	grown[*n] = strdup(text);
	if (!grown[*n])
		return -ENOMEM;
	grown[++*n] = NULL;
	return 0;
}

/* A name with a line break in it makes no message of two lines. */
static size_t printable(const char *name, size_t most)
{
	size_t n = 0;

	while (n < most && (unsigned char)name[n] >= 0x20 && name[n] != 0x7f)
		n++;
	return n;
}

static int load_into(struct loader *l, const char *name, const char *from, unsigned line, struct profile *p,
		     struct profile_file *ret_file);

static int cycle_error(const struct loader *l, const char *name, const char *from, unsigned line)
{
	char chain[(PROFILE_INCLUDE_MAX + 2) * (PROFILE_NAME_MAX + 4)] = "";
	unsigned i = 0;

	while (strcmp(l->stack[i], name))
		i++;
	for (; i < l->depth; i++) {
		strcat(chain, l->stack[i]);
		strcat(chain, " -> ");
	}
	strcat(chain, name);
	return error_set_at(l->e, -ELOOP, from, line, "includes itself: %s", chain);
}

/* Includes first, in their order, then the file's own. A profile that two of the includes share is merged once. */
static int merge_with_includes(struct loader *l, struct profile_file *f, struct profile *p)
{
	for (size_t i = 0; i < f->n_include; i++) {
		const char *name = f->include[i].name;
		bool merged = false;
		int r;

		for (unsigned d = 0; d < l->depth; d++)
			if (!strcmp(l->stack[d], name))
				return cycle_error(l, name, f->path, f->include[i].line);
		for (size_t d = 0; d < l->n_done; d++)
			merged |= !strcmp(l->done[d], name);
		if (merged)
			continue;
		r = load_into(l, name, f->path, f->include[i].line, p, NULL);
		if (!r)
			r = strv_add(&l->done, &l->n_done, name) ? error_set(l->e, -ENOMEM, "out of memory") : 0;
		if (r)
			return r;
	}
	return merge_file(p, f, l->e);
}

struct drop_in {
	char *name;
	struct sys *sys;
	char *path;
};

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct drop_in *)a)->name, ((const struct drop_in *)b)->name);
}

/* Adds the files of dir to list; one of a name that is there already takes its place. */
static int gather_drop_ins(struct sys *s, const char *dir, struct drop_in *list, size_t *n, struct error *e)
{
	char **names = NULL;
	int r = sys_list(s, &names, "%s", dir);

	if (r == -ENOENT || r == -ENOTDIR)
		return 0;
	if (r)
		return error_set_at(e, r, dir, 0, "%s", strerror(-r));
	for (size_t i = 0; !r && names[i]; i++) {
		size_t stem, k = 0;
		char *path;

		if (!yaml_stem(names[i], &stem))
			continue;
		while (k < *n && strcmp(list[k].name, names[i]))
			k++;
		if (k == DROP_INS_MAX) {
			r = error_set_at(e, -E2BIG, dir, 0, "more than %d drop-ins", DROP_INS_MAX);
			break;
		}
		if (asprintf(&path, "%s/%s", dir, names[i]) < 0) {
			r = -ENOMEM;
			break;
		}
		if (k == *n) {
			list[k] = (struct drop_in){.name = strdup(names[i])};
			if (!list[k].name) {
				free(path);
				r = -ENOMEM;
				break;
			}
			++*n;
		}
		free(list[k].path);
		list[k].path = path;
		list[k].sys = s;
	}
	sys_list_free(names);
	return r == -ENOMEM ? error_set(e, r, "out of memory") : r;
}

static int merge_drop_ins(struct loader *l, const char *name, struct profile *p)
{
	struct drop_in list[DROP_INS_MAX];
	_cleanup_free_ char *vendor = NULL, *admin = NULL;
	size_t n = 0;
	int r;

	if (asprintf(&vendor, "%s/%s.yaml.d", l->vendor_dir, name) < 0 ||
	    asprintf(&admin, "%s/%s.yaml.d", ADMIN_DIR, name) < 0)
		return error_set(l->e, -ENOMEM, "out of memory");
	r = gather_drop_ins(l->vendor, vendor, list, &n, l->e);
	if (!r)
		r = gather_drop_ins(l->admin, admin, list, &n, l->e);
	if (n)
		qsort(list, n, sizeof(list[0]), by_name);
	for (size_t i = 0; !r && i < n; i++) {
		struct profile_file f = {0};

		if (is_mask(list[i].sys, list[i].path))
			continue;
		r = read_file(list[i].sys, list[i].path, name, true, &f, l->e);
		if (!r)
			r = merge_file(p, &f, l->e);
		profile_file_free(&f);
	}
	for (size_t i = 0; i < n; i++) {
		free(list[i].name);
		free(list[i].path);
	}
	return r;
}

/* from, line: who wants it; NULL: the user. */
static int missing(const struct loader *l, const char *name, const char *from, unsigned line)
{
	if (from)
		return error_set_at(l->e, -ENOENT, from, line, "includes \"%s\", and there is no such profile", name);
	if (!sys_is_dir(l->vendor, "%s", l->vendor_dir))
		return error_set(l->e, -ENOENT, "no profile \"%s\": the folder of profiles %s is not there; install the package (make install), or name the folder in HASTEN_PROFILE_DIR",
			name, l->vendor_dir);
	return error_set(l->e, -ENOENT, "no profile \"%s\"; \"hasten profile list\" shows what there is", name);
}

static int load_into(struct loader *l, const char *name, const char *from, unsigned line, struct profile *p,
		     struct profile_file *ret_file)
{
	_cleanup_free_ char *path = NULL;
	struct profile_file f = {0};
	struct sys *s = NULL;
	int r;

	if (!profile_name_valid(name))
		return error_set_at(l->e, -EINVAL, from, line, "\"%.*s\" is not a profile's name (a-z, 0-9, -)", (int)printable(name, 80), name);
	if (l->depth > PROFILE_INCLUDE_MAX)
		return error_set_at(l->e, -ELOOP, from, line, "includes go deeper than %d", PROFILE_INCLUDE_MAX);
	r = find(l, name, &s, &path);
	if (r)
		return r == -ENOENT ? missing(l, name, from, line) : error_set(l->e, r, "out of memory");
	r = read_file(s, path, name, false, &f, l->e);
	if (!r) {
		l->stack[l->depth++] = name;
		r = merge_with_includes(l, &f, p);
		l->depth--;
	}
	if (!r)
		r = merge_drop_ins(l, name, p);
	if (!r && ret_file)
		*ret_file = f;
	else
		profile_file_free(&f);
	return r;
}

/* The file's head becomes the profile's; what was merged on the way becomes its ancestors. */
static int finish(struct loader *l, struct profile_file *f, struct profile *p)
{
	size_t n = 0;

	p->name = take_ptr(f->name);
	p->summary = take_ptr(f->summary);
	p->file = take_ptr(f->path);
	p->recommend = take_ptr(f->recommend);
	p->n_recommend = f->n_recommend;
	f->n_recommend = 0;
	p->include = calloc(f->n_include + 1, sizeof(char *));
	p->ancestor = calloc(l->n_done + 1, sizeof(char *));
	if (!p->include || !p->ancestor)
		return error_set(l->e, -ENOMEM, "out of memory");
	for (size_t i = 0; i < f->n_include; i++)
		p->include[i] = take_ptr(f->include[i].name);
	for (size_t i = 0; i < l->n_done; i++)
		p->ancestor[n++] = take_ptr(l->done[i]);
	l->n_done = 0;
	if (p->n_setting)
		qsort(p->setting, p->n_setting, sizeof(p->setting[0]), by_key);
	return 0;
}

static int deliver(int r, struct profile *p, struct profile *ret)
{
	if (r)
		profile_free(p);
	else
		*ret = *p;
	return r;
}

int profile_load(struct sys *s, const char *name, struct profile *ret, struct error *e)
{
	_cleanup_(loader_close) struct loader l = {0};
	_cleanup_(profile_file_free) struct profile_file f = {0};
	struct profile p = {0};
	int r = loader_open(s, e, &l);

	if (!r)
		r = load_into(&l, name, NULL, 0, &p, &f);
	if (!r)
		r = finish(&l, &f, &p);
	return deliver(r, &p, ret);
}

int profile_load_file(struct sys *s, const char *path, struct profile *ret, struct error *e)
{
	_cleanup_(loader_close) struct loader l = {0};
	_cleanup_(profile_file_free) struct profile_file f = {0};
	struct profile p = {0};
	_cleanup_free_ char *whole = absolute(path);
	int r = loader_open(s, e, &l);

	if (!r && !whole)
		r = -ENOMEM;
	if (!r)
		r = read_file(l.vendor, whole, NULL, false, &f, e);
	if (!r) {
		l.stack[l.depth++] = f.name;
		r = merge_with_includes(&l, &f, &p);
		l.depth--;
	}
	if (!r)
		r = finish(&l, &f, &p);
	return deliver(r, &p, ret);
}

void profile_free(struct profile *p)
{
	for (size_t i = 0; i < p->n_setting; i++)
		setting_free(&p->setting[i]);
	for (size_t i = 0; i < p->n_recommend; i++)
		recommend_free(&p->recommend[i]);
	sys_list_free(p->include);
	sys_list_free(p->ancestor);
	free(p->setting);
	free(p->recommend);
	free(p->name);
	free(p->summary);
	free(p->file);
	*p = (struct profile){0};
}

static int add_names(const struct loader *l, struct sys *s, const char *dir, char ***list, size_t *n)
{
	char **files = NULL;
	int r = sys_list(s, &files, "%s", dir);

	if (r)
		return r == -ENOENT || r == -ENOTDIR ? 0 : r;
	for (size_t i = 0; !r && files[i]; i++) {
		_cleanup_free_ char *path = NULL;
		struct sys *where;
		size_t stem, k = 0;

		if (!yaml_stem(files[i], &stem))
			continue;
		files[i][stem] = 0;
		if (!profile_name_valid(files[i]) || find(l, files[i], &where, &path))
			continue;
		while (k < *n && strcmp((*list)[k], files[i]))
			k++;
		if (k == *n)
			r = strv_add(list, n, files[i]);
	}
	sys_list_free(files);
	return r;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int profile_names(struct sys *s, char ***ret)
{
	_cleanup_(loader_close) struct loader l = {0};
	char **list = calloc(1, sizeof(char *));
	size_t n = 0;
	int r = list ? loader_open(s, NULL, &l) : -ENOMEM;

	if (!r)
		r = add_names(&l, l.vendor, l.vendor_dir, &list, &n);
	if (!r)
		r = add_names(&l, l.admin, ADMIN_DIR, &list, &n);
	if (r) {
		sys_list_free(list);
		return r;
	}
	if (n)
		qsort(list, n, sizeof(list[0]), by_text);
	*ret = list;
	return 0;
}
