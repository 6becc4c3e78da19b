/* hasten-capture.json as a whole: read, checked against what schema/capture.schema.json says, written back in one layout. */
#include "agent/sys/cleanup.h"
#include "agent/sys/error.h"
#include "agent/sys/root.h"

#include <errno.h>
#include <json-c/json.h>
#include <string.h>
#include <sys/stat.h>

#define DEPTH_MAX 16

/* ---- reading ---- */

static unsigned line_of(const char *text, size_t offset)
{
	unsigned line = 1;

	for (size_t i = 0; i < offset; i++)
		line += text[i] == '\n';
	return line;
}

/* What a member may be. A list stands for its items, a map for each of its values. */
enum shape { S_END, S_INT, S_BOOL, S_TEXT, S_LIST, S_MAP, S_OBJECT };
struct member {
	const char *name;
	enum shape shape;
	bool required;
	const struct member *inner; /* of an object, and of the items of a list or map of objects */
	enum shape of;              /* items of a list or map that are no objects */
};

static const struct member value_members[] = {{"value", S_INT, true}, {"max", S_INT}, {"fixed", S_BOOL}, {NULL}};
static const struct member rss_members[] = {
	{"indirection", S_LIST, false, NULL, S_INT}, {"rings", S_INT}, {"default", S_BOOL}, {NULL}};
static const struct member eth_members[] = {{"channels", S_MAP, false, value_members},
					    {"rings", S_MAP, false, value_members},
					    {"coalesce", S_MAP, false, value_members},
					    {"features", S_MAP, false, value_members},
					    {"rss", S_OBJECT, false, rss_members},
					    {NULL}};
static const struct member link_members[] = {{"ifindex", S_INT, true}, {"name", S_TEXT, true}, {"kind", S_TEXT},
					     {"link", S_INT},          {"link_netns", S_BOOL}, {"master", S_INT},
					     {"flags", S_INT},         {"operstate", S_INT},   {"mtu", S_INT},
					     {"address", S_TEXT},      {"permanent", S_TEXT},  {"address_assigned", S_INT},
					     {"rx_queues", S_INT},     {"tx_queues", S_INT},   {NULL}};
static const struct member address_members[] = {
	{"ifindex", S_INT, true}, {"address", S_TEXT, true}, {"prefix", S_INT, true}, {"scope", S_INT}, {NULL}};
static const struct member route_members[] = {{"ifindex", S_INT, true}, {"destination", S_TEXT, true}, {"prefix", S_INT, true},
					      {"table", S_INT},         {"gateway", S_TEXT},           {"type", S_INT}, {NULL}};
static const struct member socket_members[] = {{"local", S_TEXT, true}, {"port", S_INT}, {NULL}};
static const struct member rdma_members[] = {{"name", S_TEXT, true}, {"port", S_INT, true},     {"ifindex", S_INT},
					     {"state", S_INT},       {"physical_state", S_INT}, {NULL}};
static const struct member hint_members[] = {{"managed", S_BOOL},
					     {"read_only", S_BOOL},
					     {"max", S_INT},
					     {"error", S_TEXT},
					     {"driver", S_TEXT},
					     {"bound_before", S_TEXT},
					     {"rings_power_of_two", S_BOOL},
					     {"rings_min", S_INT},
					     {"channels_keep_irqs", S_BOOL},
					     {NULL}};
static const struct member top_members[] = {{"hasten_capture", S_INT, true},
					    {"synthetic", S_BOOL},
					    {"note", S_TEXT},
					    {"links", S_LIST, true, link_members},
					    {"addresses", S_LIST, false, address_members},
					    {"routes", S_LIST, false, route_members},
					    {"sockets", S_LIST, false, socket_members},
					    {"rdma_links", S_LIST, false, rdma_members},
					    {"ethtool", S_MAP, false, eth_members},
					    {"model", S_MAP, false, hint_members},
					    {NULL}};

struct check {
	const char *file;
	struct error *e;
};

static int check_shape(const struct check *c, struct json_object *o, enum shape shape, const struct member *inner, enum shape of,
		       const char *where);

static int fault(const struct check *c, const char *where, const char *what)
{
	return error_set_at(c->e, -EINVAL, c->file, 0, "%s: %s", *where ? where : "the top", what);
}

static int check_object(const struct check *c, struct json_object *o, const struct member *members, const char *where)
{
	char inside[256];

	if (!json_object_is_type(o, json_type_object))
		return fault(c, where, "must be an object");
	json_object_object_foreach(o, key, value)
	{
		const struct member *m = members;

		while (m->name && strcmp(m->name, key))
			m++;
		snprintf(inside, sizeof(inside), "%s%s%s", where, *where ? "." : "", key);
		if (!m->name)
			return fault(c, inside, "no such key");
		int r = check_shape(c, value, m->shape, m->inner, m->of, inside);

		if (r < 0)
			return r;
	}
	for (const struct member *m = members; m->name; m++)
		if (m->required && !json_object_object_get_ex(o, m->name, NULL)) {
			snprintf(inside, sizeof(inside), "%s%s%s", where, *where ? "." : "", m->name);
			return fault(c, inside, "is missing");
		}
	return 0;
}

static int check_inner(const struct check *c, struct json_object *o, const struct member *inner, enum shape of, const char *where)
{
	return inner ? check_object(c, o, inner, where) : check_shape(c, o, of, NULL, S_END, where);
}

/* Numbers are those of the kernel's structures: 32 bits, "max" of a path's hint up to 63. */
static bool is_number(struct json_object *o, bool large)
{
	int64_t value = json_object_get_int64(o);

	return json_object_is_type(o, json_type_int) && value >= 0 && (large || value <= UINT32_MAX);
}

static int check_shape(const struct check *c, struct json_object *o, enum shape shape, const struct member *inner, enum shape of,
		       const char *where)
{
	char inside[256];
	size_t len = strlen(where);
	int r = 0;

	switch (shape) {
	case S_INT:
		return is_number(o, len > 4 && !strcmp(where + len - 4, ".max")) ? 0 : fault(c, where, "must be a number of 32 bits");
	case S_BOOL:
		return json_object_is_type(o, json_type_boolean) ? 0 : fault(c, where, "must be true or false");
	case S_TEXT:
		return json_object_is_type(o, json_type_string) ? 0 : fault(c, where, "must be a text");
	case S_OBJECT:
		return check_object(c, o, inner, where);
	case S_LIST:
		if (!json_object_is_type(o, json_type_array))
			return fault(c, where, "must be a list");
		for (size_t i = 0; !r && i < json_object_array_length(o); i++) {
			snprintf(inside, sizeof(inside), "%s[%zu]", where, i);
			r = check_inner(c, json_object_array_get_idx(o, i), inner, of, inside);
		}
		return r;
	case S_MAP:
		if (!json_object_is_type(o, json_type_object))
			return fault(c, where, "must be an object");
		json_object_object_foreach(o, key, value)
		{
			snprintf(inside, sizeof(inside), "%s.%s", where, key);
			r = check_inner(c, value, inner, of, inside);
			if (r < 0)
				return r;
		}
		return 0;
	case S_END:
		break;
	}
	return -EINVAL;
}

static int check_capture(struct sys *s, struct json_object *o, const char *file, struct error *e)
{
	struct check c = {.file = file, .e = e};
	struct json_object *version;

	if (json_object_is_type(o, json_type_object) && json_object_object_get_ex(o, "hasten_capture", &version) &&
	    json_object_get_int64(version) != 1)
		return error_set_at(e, -EINVAL, file, 0, "hasten_capture %s; this hasten reads 1",
				    json_object_to_json_string(version));
	return check_object(&c, o, top_members, "");
}

static struct capture_seen look(struct sys *s)
{
	struct stat st;

	return sys_stat(s, CAPTURE_PATH, &st) ? (struct capture_seen){0} :
						(struct capture_seen){st.st_dev, st.st_ino, (uint64_t)st.st_mtim.tv_sec, (uint64_t)st.st_mtim.tv_nsec};
}

int capture_refresh(struct sys *s)
{
	struct capture_seen now = look(s);
	struct json_object *old = s->capture;
	int r;

	if (!now.file || !memcmp(&now, &s->capture_seen, sizeof(now)))
		return 0;
	r = capture_load(s, NULL);
	if (!r)
		json_object_put(old);
	return r;
}

int capture_load(struct sys *s, struct error *e)
{
	_cleanup_free_ char *text = NULL, *file = NULL;
	size_t len;

	if (asprintf(&file, "%s%s", s->root, CAPTURE_PATH) < 0)
		return -ENOMEM;
	struct capture_seen seen = look(s); /* before it is read: a change in between is seen at the next look */
	int r = sys_read(s, CAPTURE_PATH, &text, &len);

	if (r < 0)
		return error_set_at(e, r, file, 0, "%s", strerror(-r));
	struct json_tokener *tokener = json_tokener_new_ex(DEPTH_MAX);

	if (!tokener)
		return -ENOMEM;
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT);
	struct json_object *o = json_tokener_parse_ex(tokener, text, (int)len + 1);
	enum json_tokener_error err = json_tokener_get_error(tokener);
	size_t offset = json_tokener_get_parse_end(tokener);

	json_tokener_free(tokener);
	if (err != json_tokener_success || !o || strlen(text) != len) {
		json_object_put(o);
		return error_set_at(e, -EINVAL, file, line_of(text, offset < len ? offset : len), "not JSON: %s",
				    strlen(text) != len		   ? "a zero byte"
				    : err == json_tokener_continue ? "it ends too early"
								   : json_tokener_error_desc(err));
	}
	r = check_capture(s, o, file, e);
	if (r < 0) {
		json_object_put(o);
		return r;
	}
	s->capture = o;
	s->capture_seen = seen;
	return 0;
}

/* ---- writing ---- */

static void indent(FILE *f, unsigned depth)
{
	fprintf(f, "\n%*s", (int)depth * 2, "");
}

/* json-c's own pretty form is another than that of jq and of scripts: a file that they made must come back the same, byte for byte. */
static void print(FILE *f, struct json_object *o, unsigned depth)
{
	bool first = true;

	if (json_object_is_type(o, json_type_array) && json_object_array_length(o)) {
		fputc('[', f);
		for (size_t i = 0; i < json_object_array_length(o); i++) {
			if (i)
				fputc(',', f);
			indent(f, depth + 1);
			print(f, json_object_array_get_idx(o, i), depth + 1);
		}
		indent(f, depth);
		fputc(']', f);
	} else if (json_object_is_type(o, json_type_object) && json_object_object_length(o)) {
		fputc('{', f);
		json_object_object_foreach(o, key, value)
		{
			struct json_object *name = json_object_new_string(key);

			if (!first)
				fputc(',', f);
			first = false;
			indent(f, depth + 1);
			fprintf(f, "%s: ", json_object_to_json_string_ext(name, JSON_C_TO_STRING_NOSLASHESCAPE));
			json_object_put(name);
			print(f, value, depth + 1);
		}
		indent(f, depth);
		fputc('}', f);
	} else {
		fputs(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE), f);
	}
}

int net_capture_store(struct sys *s)
{
	_cleanup_free_ char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		return -ENOMEM;
	print(f, s->capture, 0);
	fputc('\n', f);
	if (fclose(f) != 0)
		return -ENOMEM;
	int r = file_replace(s, CAPTURE_PATH, text, len, 0, false);

	if (!r)
		s->capture_seen = look(s);
	return r;
}

struct json_object *capture_hint(struct sys *s, const char *path, const char *name)
{
	struct json_object *model, *hints, *hint;

	if (!s->capture || !json_object_object_get_ex(s->capture, "model", &model) ||
	    !json_object_object_get_ex(model, path, &hints) || !json_object_object_get_ex(hints, name, &hint))
		return NULL;
	return hint;
}
