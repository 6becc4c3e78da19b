#include "common/options.h"
#include "common/text.h"

#include <errno.h>
#include <string.h>

#define VALUE_INT(d) .value = (d)
#define VALUE_BOOL(d) .value = (d)
#define VALUE_ENUM_PROMOTE(d) .value = (d)
#define VALUE_PATH(d) .text = (d)
#define VALUE_CPUS(d) .text = (d)

const struct option_row option_rows[OPTION_COUNT] = {
#define OPT(field, TYPE, KEY, NACC, FLAG, def, low, high, SCOPE, HELP) \
	[OPTION_##field] = {                                           \
	    .key = KEY,                                                \
	    .nacc = NACC,                                              \
	    .help = HELP,                                              \
	    VALUE_##TYPE(def),                                         \
	    .min = low,                                                \
	    .max = high,                                               \
	    .offset = offsetof(struct hasten_options, field),          \
	    .size = sizeof(((struct hasten_options *)0)->field),       \
	    .type = OPTION_##TYPE,                                     \
	    .scope = OPTION_##SCOPE,                                   \
	    .flag = FLAG,                                              \
	},
#include "common/options.def"
#undef OPT
};

static const char *const promote_names[] = {[PROMOTE_AUTO] = "auto", [PROMOTE_EAGER] = "eager", [PROMOTE_OFF] = "off"};
#define N_PROMOTE (sizeof(promote_names) / sizeof(promote_names[0]))

static bool is_text(const struct option_row *row)
{
	return row->type == OPTION_PATH || row->type == OPTION_CPUS;
}

static int64_t *number_of(struct hasten_options *o, enum option_id id)
{
	return (int64_t *)((char *)o + option_rows[id].offset);
}

static char *text_of(struct hasten_options *o, enum option_id id)
{
	return (char *)o + option_rows[id].offset;
}

static void set_default(struct hasten_options *o, enum option_id id)
{
	const struct option_row *row = &option_rows[id];

	if (is_text(row))
		strcpy(text_of(o, id), row->text);
	else
		*number_of(o, id) = row->value;
	o->source[id] = SOURCE_BUILTIN;
	o->place[id] = (struct options_place){0};
}

void options_default(struct hasten_options *ret)
{
	memset(ret, 0, sizeof(*ret));
	for (unsigned id = 0; id < OPTION_COUNT; id++)
		set_default(ret, id);
}

static bool parse_number(const char *s, int64_t *ret)
{
	bool minus = *s == '-';
	uint64_t v = 0;

	s += minus;
	if (!*s)
		return false;
	for (; *s; s++) {
		if (*s < '0' || *s > '9' || v > (uint64_t)INT64_MAX / 10 - 1)
			return false;
		v = v * 10 + (*s - '0');
	}
	*ret = minus ? -(int64_t)v : (int64_t)v;
	return true;
}

static bool parse_bool(const char *s, int64_t *ret)
{
	static const char *const names[][2] = {{"0", "1"}, {"no", "yes"}, {"off", "on"}, {"false", "true"}};

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		for (int v = 0; v < 2; v++)
			if (!strcmp(s, names[i][v])) {
				*ret = v;
				return true;
			}
	return false;
}

static bool parse_promote(const char *s, int64_t *ret)
{
	for (unsigned i = 0; i < N_PROMOTE; i++)
		if (!strcmp(s, promote_names[i])) {
			*ret = i;
			return true;
		}
	return false;
}

static bool is_power_of_two(int64_t v)
{
	return v > 0 && !(v & (v - 1));
}

static const char *scan_cpu(const char *s, unsigned *ret)
{
	unsigned v = 0, digits = 0;

	for (; *s >= '0' && *s <= '9' && digits < 5; s++, digits++)
		v = v * 10 + (*s - '0');
	if (!digits || v >= 1024) /* CPU_SETSIZE */
		return NULL;
	*ret = v;
	return s;
}

static bool valid_cpus(const char *s)
{
	unsigned low, high;

	if (!*s)
		return true;
	for (;; s++) {
		s = scan_cpu(s, &low);
		if (!s)
			return false;
		if (*s == '-') {
			s = scan_cpu(s + 1, &high);
			if (!s || high < low)
				return false;
		}
		if (!*s)
			return true;
		if (*s != ',')
			return false;
	}
}

static bool valid_path(const char *s)
{
	if (*s && *s != '/')
		return false;
	for (; *s; s++)
		if ((unsigned char)*s < ' ' || *s == 127)
			return false;
	return true;
}

void options_allowed(enum option_id id, char *buf, size_t size)
{
	const struct option_row *row = &option_rows[id];
	struct text t = text_begin(buf, size);

	switch (row->type) {
	case OPTION_BOOL:
		text_add(&t, "0 or 1");
		break;
	case OPTION_ENUM_PROMOTE:
		text_add(&t, "auto, eager or off");
		break;
	case OPTION_PATH:
		text_add(&t, "an absolute path of at most ");
		text_uint(&t, row->size - 1);
		text_add(&t, " bytes, or nothing");
		break;
	case OPTION_CPUS:
		text_add(&t, "CPU numbers below 1024 and ranges of them, as 0 or 1-3 or 1,3,4");
		break;
	default:
		text_int(&t, row->min);
		text_add(&t, " to ");
		text_int(&t, row->max);
		if (id == OPTION_msg_size)
			text_add(&t, ", a power of two");
	}
}

void options_value(const struct hasten_options *o, enum option_id id, char *buf, size_t size)
{
	const struct option_row *row = &option_rows[id];
	struct text t = text_begin(buf, size);
	const char *field = (const char *)o + row->offset;

	if (is_text(row)) {
		text_add(&t, field);
		return;
	}
	int64_t v = *(const int64_t *)field;
	if (row->type == OPTION_ENUM_PROMOTE && v >= 0 && v < (int64_t)N_PROMOTE)
		text_add(&t, promote_names[v]);
	else
		text_int(&t, v);
}

static void complain_value(struct hasten_options *o, enum option_id id, const char *key, const char *value,
			   const char *place, options_report report, void *arg)
{
	char buf[448], part[OPTIONS_PATH_MAX];
	struct text t = text_begin(buf, sizeof(buf));

	if (!report)
		return;
	text_add(&t, key);
	text_add(&t, " = ");
	text_foreign(&t, value);
	text_add(&t, ": not allowed; allowed is ");
	options_allowed(id, part, sizeof(part));
	text_add(&t, part);
	text_add(&t, "; using ");
	options_value(o, id, part, sizeof(part));
	text_foreign(&t, *part ? part : "nothing");
	report(arg, place, buf);
}

static bool parse_value(struct hasten_options *o, enum option_id id, const char *value)
{
	const struct option_row *row = &option_rows[id];
	int64_t v = 0;
	bool ok;

	switch (row->type) {
	case OPTION_BOOL:
		ok = parse_bool(value, &v);
		break;
	case OPTION_ENUM_PROMOTE:
		ok = parse_promote(value, &v);
		break;
	case OPTION_PATH:
	case OPTION_CPUS:
		if (strlen(value) >= row->size || !(row->type == OPTION_PATH ? valid_path(value) : valid_cpus(value)))
			return false;
		strcpy(text_of(o, id), value);
		return true;
	default:
		ok = parse_number(value, &v) && v >= row->min && v <= row->max;
		if (id == OPTION_msg_size)
			ok = ok && is_power_of_two(v);
	}
	if (ok)
		*number_of(o, id) = v;
	return ok;
}

int options_set(struct hasten_options *o, const char *key, const char *value, enum option_source source,
		const char *place, options_report report, void *arg)
{
	for (unsigned id = 0; id < OPTION_COUNT; id++) {
		const struct option_row *row = &option_rows[id];
		bool nacc = row->nacc && !strcmp(key, row->nacc);

		if (!nacc && strcmp(key, row->key))
			continue;
		if (!parse_value(o, id, value)) {
			complain_value(o, id, key, value, place, report, arg);
			return -EINVAL;
		}
		o->source[id] = source;
		o->place[id] = (struct options_place){.line = nacc && source == SOURCE_ENVIRONMENT};
		return 0;
	}
	return -ENOENT;
}

static bool is_power_of_two_multiple(int64_t v, int64_t of)
{
	return v % of == 0 && is_power_of_two(v / of);
}

static int check_multiple(struct hasten_options *o, enum option_id id, enum option_id of, options_report report,
			  void *arg)
{
	int64_t *v = number_of(o, id), base = *number_of(o, of);
	bool set = o->source[id] != SOURCE_BUILTIN;
	int64_t was = *v;

	if (is_power_of_two_multiple(was, base))
		return 0;
	char buf[320], place[OPTIONS_PLACE_MAX];
	options_place(o, id, place, sizeof(place));
	set_default(o, id);
	/* msg_size is a power of two, so every default above the base is a multiple already. */
	if (*v < base)
		*v = base;
	if (!set)
		return 0;
	if (report) {
		struct text t = text_begin(buf, sizeof(buf));
		text_add(&t, option_rows[id].key);
		text_add(&t, " = ");
		text_int(&t, was);
		text_add(&t, ": not allowed; allowed is ");
		text_add(&t, option_rows[of].key);
		text_add(&t, " (");
		text_int(&t, base);
		text_add(&t, ") times a power of two, up to ");
		text_int(&t, option_rows[id].max);
		text_add(&t, "; using ");
		text_int(&t, *v);
		report(arg, place, buf);
	}
	return 1;
}

int options_check(struct hasten_options *o, options_report report, void *arg)
{
	int n = check_multiple(o, OPTION_mr_min_inc, OPTION_msg_size, report, arg) +
		check_multiple(o, OPTION_mr_max_inc, OPTION_mr_min_inc, report, arg);

	if (o->debug && o->log_level < 4) {
		o->log_level = 4;
		o->source[OPTION_log_level] = o->source[OPTION_debug];
		o->place[OPTION_log_level] = o->place[OPTION_debug];
	}
	return n;
}

size_t options_format(const struct hasten_options *o, char *buf, size_t size)
{
	static const char *const sources[] = {
	    [SOURCE_BUILTIN] = "builtin",
	    [SOURCE_FILE] = "file",
	    [SOURCE_ENVIRONMENT] = "environment",
	    [SOURCE_LAUNCHER] = "launcher",
	};
	struct text t = text_begin(buf, size);
	char value[OPTIONS_PATH_MAX];

	for (unsigned id = 0; id < OPTION_COUNT; id++) {
		options_value(o, id, value, sizeof(value));
		text_add(&t, option_rows[id].key);
		text_char(&t, '=');
		text_add(&t, value);
		text_char(&t, '=');
		text_add(&t, sources[o->source[id]]);
		text_char(&t, '\n');
	}
	return t.len;
}
