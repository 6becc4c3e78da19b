/* The write model of binding: which driver a device of a bus has. */
#include "agent/sys/cleanup.h"
#include "agent/sys/model_rules.h"

#include <errno.h>
#include <json-c/json.h>
#include <limits.h>
#include <string.h>

#define NAME_ROOM 128

static bool is_name(const char *name)
{
	return *name && strlen(name) < NAME_ROOM && !strchr(name, '/') && strcmp(name, ".") && strcmp(name, "..");
}

static int take_bus(const char *path, char bus[static NAME_ROOM])
{
	return sscanf(path, "/sys/bus/%127[^/]/", bus) == 1 ? 0 : -EINVAL;
}

/* drivers/base/driver.c, driver_set_override: an empty line takes it away, and what there is none of reads "(null)". */
MODEL_WRITE(model_driver_override)
{
	if (strlen(value) >= 4096 || strchr(value, '\n'))
		return -EINVAL;
	return asprintf(ret, "%s\n", *value ? value : "(null)") < 0 ? -ENOMEM : 0;
}

/* From one folder to another, as sysfs writes links. */
static int relative(const char *from, const char *to, char **ret)
{
	char *text = NULL;
	size_t len, same = 0;

	for (size_t i = 0; from[i] && from[i] == to[i]; i++)
		if (from[i] == '/')
			same = i;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		return -ENOMEM;
	for (const char *p = from + same; *p; p++)
		if (*p == '/' && p[1])
			fputs("../", f);
	fputs(to + same + 1, f);
	if (fclose(f) != 0)
		return -ENOMEM;
	*ret = text;
	return 0;
}

static int put_link(struct sys *s, const char *folder, const char *name, const char *to)
{
	_cleanup_free_ char *path = NULL, *text = NULL;
	int r = relative(folder, to, &text);

	if (!r && asprintf(&path, "%s/%s", folder, name) < 0)
		r = -ENOMEM;
	return r < 0 ? r : tree_link(s, text, path);
}

static int remove_at(struct sys *s, const char *folder, const char *name)
{
	_cleanup_free_ char *path = NULL;

	return asprintf(&path, "%s/%s", folder, name) < 0 ? -ENOMEM : tree_remove(s, path);
}

struct binding {
	char bus[NAME_ROOM], key[2 * NAME_ROOM + 32]; /* key: of the capture's hints */
	const char *device;
	char *folder; /* of the device, real */
	char *driver; /* that it has, NULL none */
};

static void free_binding(struct binding *b)
{
	free(b->folder);
	free(b->driver);
}

static int find_device(struct sys *s, const char *path, const char *value, struct binding *b)
{
	int r = take_bus(path, b->bus);

	if (r < 0)
		return r;
	if (!is_name(value))
		return -ENODEV;
	b->device = value;
	snprintf(b->key, sizeof(b->key), "/sys/bus/%s/devices/%s", b->bus, value);
	r = sys_realpath(s, &b->folder, "/sys/bus/%s/devices/%s", b->bus, value);
	if (r < 0)
		return -ENODEV;
	r = sys_link_name(s, &b->driver, "%s/driver", b->folder);
	return r == -ENOENT ? 0 : r;
}

/* A tree does not hold which driver takes which device: the one that it had is kept in the capture until it has it again. */
static int remember(struct sys *s, const char *key, const char *driver)
{
	struct json_object *model = NULL, *hints = NULL;

	if (!s->capture || capture_hint(s, key, "bound_before"))
		return 0;
	if (!json_object_object_get_ex(s->capture, "model", &model)) {
		model = json_object_new_object();
		json_object_object_add(s->capture, "model", model);
	}
	if (!json_object_object_get_ex(model, key, &hints)) {
		hints = json_object_new_object();
		json_object_object_add(model, key, hints);
	}
	json_object_object_add(hints, "bound_before", json_object_new_string(driver));
	return net_capture_store(s);
}

static int forget(struct sys *s, const char *key, const char *driver)
{
	struct json_object *hint = capture_hint(s, key, "bound_before"), *model, *hints;

	if (!hint || strcmp(json_object_get_string(hint), driver))
		return 0;
	model = json_object_object_get(s->capture, "model");
	hints = json_object_object_get(model, key);
	json_object_object_del(hints, "bound_before");
	if (!json_object_object_length(hints))
		json_object_object_del(model, key);
	if (!json_object_object_length(model))
		json_object_object_del(s->capture, "model");
	return net_capture_store(s);
}

static int attach(struct sys *s, const struct binding *b, const char *driver)
{
	_cleanup_free_ char *folder = NULL;
	int r = sys_realpath(s, &folder, "/sys/bus/%s/drivers/%s", b->bus, driver);

	if (r < 0)
		return -ENODEV;
	r = put_link(s, folder, b->device, b->folder);
	if (!r)
		r = put_link(s, b->folder, "driver", folder);
	return r < 0 ? r : forget(s, b->key, driver);
}

static int override_of(struct sys *s, const struct binding *b, char **ret)
{
	_cleanup_free_ char *text = NULL;
	int r = sys_read_line(s, &text, "%s/driver_override", b->folder);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (*text && strcmp(text, "(null)"))
		*ret = take_ptr(text);
	return 0;
}

static int driver_of_path(const char *path, char driver[static NAME_ROOM])
{
	return sscanf(path, "/sys/bus/%*[^/]/drivers/%127[^/]/", driver) == 1 ? 0 : -EINVAL;
}

MODEL_WRITE(model_unbind)
{
	_cleanup_(free_binding) struct binding b = {0};
	_cleanup_free_ char *folder = NULL;
	char driver[NAME_ROOM];
	int r = find_device(s, path, value, &b);

	if (!r)
		r = driver_of_path(path, driver);
	if (r < 0)
		return r;
	if (!b.driver || strcmp(b.driver, driver))
		return -ENODEV;
	/* Another driver than the first is one that somebody put there, with driver_override. */
	_cleanup_free_ char *override = NULL;

	r = override_of(s, &b, &override);
	if (!r && (!override || strcmp(override, driver)))
		r = remember(s, b.key, driver);
	if (!r)
		r = sys_realpath(s, &folder, "/sys/bus/%s/drivers/%s", b.bus, driver);
	if (!r)
		r = remove_at(s, folder, b.device);
	return r < 0 ? r : remove_at(s, b.folder, "driver");
}

MODEL_WRITE(model_bind)
{
	_cleanup_(free_binding) struct binding b = {0};
	_cleanup_free_ char *override = NULL;
	char driver[NAME_ROOM];
	int r = find_device(s, path, value, &b);

	if (!r)
		r = driver_of_path(path, driver);
	if (!r)
		r = override_of(s, &b, &override);
	if (r < 0)
		return r;
	if (b.driver)
		return -EBUSY;
	if (override && strcmp(override, driver))
		return -ENODEV;
	return attach(s, &b, driver);
}

/* The write succeeds also where no driver takes the device. */
MODEL_WRITE(model_probe)
{
	_cleanup_(free_binding) struct binding b = {0};
	_cleanup_free_ char *driver = NULL;
	int r = find_device(s, path, value, &b);

	if (!r)
		r = override_of(s, &b, &driver);
	if (r < 0 || b.driver)
		return r;
	struct json_object *hint = driver ? NULL : capture_hint(s, b.key, "driver");

	if (!driver && !hint)
		hint = capture_hint(s, b.key, "bound_before");
	if (hint && !(driver = strdup(json_object_get_string(hint))))
		return -ENOMEM;
	if (!driver)
		return 0;
	r = attach(s, &b, driver);
	return r == -ENODEV ? 0 : r;
}
