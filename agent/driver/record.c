#include "agent/driver/record.h"

#include "agent/sys/cleanup.h"
#include "agent/sys/error.h"
#include "agent/sys/sys.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

static void put_object(struct json_object **o)
{
	json_object_put(*o);
}

void record_clear(struct driver_record *r)
{
	free(r->name);
	free(r->module);
	free(r->how);
	free(r->package);
	free(r->version);
	*r = (struct driver_record){0};
}

static int take(struct json_object *o, const char *key, char **place)
{
	struct json_object *v;

	if (!json_object_object_get_ex(o, key, &v) || !json_object_is_type(v, json_type_string))
		return 0;
	*place = strdup(json_object_get_string(v));
	return *place ? 0 : -ENOMEM;
}

static int path_of(const char *name, char **ret)
{
	return asprintf(ret, RECORD_FOLDER "/%s.json", name) < 0 ? -ENOMEM : 0;
}

int record_load(struct sys *s, const char *name, struct driver_record *ret, struct error *e)
{
	_cleanup_free_ char *path = NULL, *text = NULL;
	_cleanup_(put_object) struct json_object *o = NULL;
	struct driver_record d = {0};
	struct json_object *serial;
	size_t len;
	int r = path_of(name, &path);

	if (r < 0 || (r = sys_read(s, path, &text, &len)) < 0)
		return r;
	o = json_tokener_parse(text);
	if (!json_object_is_type(o, json_type_object))
		return error_set_at(e, -EBADMSG, path, 0, "damaged; remove it to forget what hasten installed");
	if ((r = take(o, "name", &d.name)) < 0 || (r = take(o, "module", &d.module)) < 0 || (r = take(o, "how", &d.how)) < 0 ||
		(r = take(o, "package", &d.package)) < 0 || (r = take(o, "version", &d.version)) < 0) {
		record_clear(&d);
		return r;
	}
	if (json_object_object_get_ex(o, "serial", &serial))
		d.serial = (uint64_t)json_object_get_int64(serial);
	bool whole = !d.how || (d.package && (strcmp(d.how, "vendor") || d.version));
	if (!whole) {
		record_clear(&d);
		return error_set_at(e, -EBADMSG, path, 0, "damaged; remove it to forget what hasten installed");
	}
	*ret = d;
	return d.how ? 0 : -ENOENT;
}

static void add(struct json_object *o, const char *key, const char *value)
{
	if (value)
		json_object_object_add(o, key, json_object_new_string(value));
}

int record_store(struct sys *s, const struct driver_record *d, struct error *e)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_(put_object) struct json_object *o = json_object_new_object();
	int r = path_of(d->name, &path);

	if (r < 0 || !o)
		return -ENOMEM;
	add(o, "name", d->name);
	add(o, "module", d->module);
	add(o, "how", d->how);
	add(o, "package", d->package);
	add(o, "version", d->version);
	json_object_object_add(o, "serial", json_object_new_int64((int64_t)d->serial));
	const char *text = json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN);
	r = text ? sys_write_file(s, path, text, strlen(text), 0600) : -ENOMEM;
	return r < 0 ? error_set_at(e, r, path, 0, "%s", strerror(-r)) : 0;
}

int record_remove(struct sys *s, const char *name)
{
	_cleanup_free_ char *path = NULL;
	int r = path_of(name, &path);

	return r < 0 ? r : sys_unlink(s, path);
}

int record_removed(struct sys *s, const struct driver_record *d, struct error *e)
{
	const struct driver_record left = {.name = d->name, .module = d->module, .serial = d->serial};

	return d->serial ? record_store(s, &left, e) : record_remove(s, d->name);
}
