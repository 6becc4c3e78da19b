#include "agent/detect/module.h"

#include "agent/sys/cleanup.h"
#include "agent/sys/sys.h"

#include <errno.h>
#include <libkmod.h>
#include <stdio.h>
#include <string.h>

void module_free(struct module_fact *m)
{
	free(m->name);
	free(m->version);
	free(m->source_version);
	free(m->disk_version);
	free(m->disk_source_version);
	free(m->path);
	free(m->signer);
	*m = (struct module_fact){0};
}

static void unref_context(struct kmod_ctx **c)
{
	kmod_unref(*c);
}

static void unref_module(struct kmod_module **m)
{
	kmod_module_unref(*m);
}

/* sysfs names use '_' where files may use '-'. */
static void sysfs_name(const char *name, char *buf, size_t size)
{
	snprintf(buf, size, "%s", name);
	for (char *p = buf; *p; p++)
		if (*p == '-')
			*p = '_';
}

static void quiet_log(void *data, int priority, const char *file, int line, const char *fn, const char *format,
		      va_list args)
{
	(void)data, (void)priority, (void)file, (void)line, (void)fn, (void)format, (void)args;
}

static int look_on_disk(struct sys *s, const char *kernel, struct module_fact *m)
{
	_cleanup_free_ char *folder = NULL;
	_cleanup_(unref_context) struct kmod_ctx *context = NULL;
	_cleanup_(unref_module) struct kmod_module *module = NULL;
	struct kmod_list *list = NULL, *info = NULL, *item;

	if (asprintf(&folder, "%s/lib/modules/%s", sys_root(s), kernel) < 0)
		return -ENOMEM;
	/* No configuration: options and aliases of modprobe.d are not what is asked for. */
	const char *none = NULL;
	context = kmod_new(folder, &none);
	if (!context)
		return -ENOMEM;
	kmod_set_log_fn(context, quiet_log, NULL);
	if (kmod_module_new_from_lookup(context, m->name, &list) < 0 || !list)
		return 0;
	module = kmod_module_get_module(list);
	kmod_module_unref_list(list);
	const char *path = kmod_module_get_path(module);
	/* libkmod names "builtin" by a state and no path. */
	if (!path) {
		m->built_in = kmod_module_get_initstate(module) == KMOD_MODULE_BUILTIN;
		return 0;
	}
	m->on_disk = true;
	if (!(m->path = strdup(path + strlen(sys_root(s)))))
		return -ENOMEM;
	if (kmod_module_get_info(module, &info) < 0)
		return 0;
	kmod_list_foreach(item, info)
	{
		const char *key = kmod_module_info_get_key(item), *value = kmod_module_info_get_value(item);
		char **place = !strcmp(key, "version")      ? &m->disk_version
			       : !strcmp(key, "srcversion") ? &m->disk_source_version
			       : !strcmp(key, "signer")     ? &m->signer
							    : NULL;

		if (!strcmp(key, "sig_id") || !strcmp(key, "signature"))
			m->signed_file = true;
		if (place && !*place && *value)
			*place = strdup(value);
	}
	kmod_module_info_free_list(info);
	return 0;
}

int module_look(struct sys *s, const char *name, const char *kernel, struct module_fact *ret)
{
	struct module_fact m = {.name = strdup(name)};
	_cleanup_free_ char *running = NULL, *taint = NULL;
	char in_sysfs[64];
	int r = m.name ? 0 : -ENOMEM;

	if (!r && sys_read_line(s, &running, "/proc/sys/kernel/osrelease") < 0)
		running = NULL;
	sysfs_name(name, in_sysfs, sizeof(in_sysfs));
	/* What is loaded says nothing about another kernel. */
	if (!r && (!kernel || (running && !strcmp(kernel, running)))) {
		m.loaded = sys_exists(s, "/sys/module/%s/initstate", in_sysfs);
		m.built_in = !m.loaded && sys_is_dir(s, "/sys/module/%s", in_sysfs);
		if (sys_read_line(s, &m.version, "/sys/module/%s/version", in_sysfs) < 0)
			m.version = NULL;
		if (sys_read_line(s, &m.source_version, "/sys/module/%s/srcversion", in_sysfs) < 0)
			m.source_version = NULL;
		if (sys_read_line(s, &taint, "/sys/module/%s/taint", in_sysfs) >= 0) {
			m.out_of_tree = strchr(taint, 'O');
			m.unsigned_taint = strchr(taint, 'E');
		}
	}
	if (!kernel)
		kernel = running;
	if (!r && kernel && *kernel && !strchr(kernel, '/'))
		r = look_on_disk(s, kernel, &m);
	if (!r && !m.loaded && !m.built_in && !m.on_disk)
		r = -ENOENT;
	if (r < 0) {
		module_free(&m);
		return r;
	}
	*ret = m;
	return 0;
}

int module_newest_kernel(struct sys *s, char **ret)
{
	char **names, *newest = NULL;
	int r = sys_list(s, &names, "/lib/modules");

	if (r < 0)
		return r;
	for (size_t i = 0; names[i]; i++) /* in version order */
		if (sys_exists(s, "/lib/modules/%s/modules.dep", names[i]) ||
		    sys_exists(s, "/lib/modules/%s/modules.dep.bin", names[i]))
			newest = names[i];
	r = newest ? ((newest = strdup(newest)) ? 0 : -ENOMEM) : -ENOENT;
	sys_list_free(names);
	if (!r)
		*ret = newest;
	return r;
}
