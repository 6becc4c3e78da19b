/* Where options come from: the files, the environment and what "hasten run" handed on. */
#include "common/options.h"
#include "common/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_SIZE 512
#define FILE_SIZE_MAX 65536
#define DROP_INS "hasten.conf.d"

/* The options object with the one who wants to hear about it. */
struct loading {
	struct hasten_options *o;
	options_report report;
	void *arg;
	int complaints;
	unsigned file, line; /* file: 1 + index in files */
	const char *path;
	enum { STYLE_HASTEN, STYLE_NETACC, STYLE_UNKNOWN } section;
};

static void complain(struct loading *l, const char *place, const char *text)
{
	l->complaints++;
	if (l->report)
		l->report(l->arg, place, text);
}

static void place_here(const struct loading *l, char *buf, size_t size)
{
	struct text t = text_begin(buf, size);

	text_add(&t, l->path);
	text_char(&t, ':');
	text_uint(&t, l->line);
}

static void complain_line(struct loading *l, const char *what, const char *text, const char *wrong)
{
	char place[OPTIONS_PLACE_MAX], buf[448];
	struct text t = text_begin(buf, sizeof(buf));

	text_add(&t, what);
	text_foreign(&t, text);
	text_add(&t, ": ");
	text_add(&t, wrong);
	place_here(l, place, sizeof(place));
	complain(l, place, buf);
}

/* options_set and options_rule report by themselves: only count what they refuse. */
static void refused(struct loading *l)
{
	l->complaints++;
}

static void take_section(struct loading *l, char *line)
{
	size_t n = strlen(line);

	l->section = STYLE_UNKNOWN;
	if (!strcmp(line, "[netacc]"))
		l->section = STYLE_NETACC;
	else if (!strcmp(line, "[hasten]"))
		l->section = STYLE_HASTEN;
	else if (line[n - 1] != ']')
		complain_line(l, "", line, "the section's ']' is missing; what stands below it is left out");
	else
		complain_line(l, "", line,
			      "no such section; there are [hasten] and [netacc]; what stands below it is left out");
}

static enum option_id find_key(const char *key)
{
	for (unsigned id = 0; id < OPTION_COUNT; id++)
		if (!strcmp(key, option_rows[id].key) || (option_rows[id].nacc && !strcmp(key, option_rows[id].nacc)))
			return id;
	return OPTION_COUNT;
}

static void take_value(struct loading *l, const char *key, const char *value)
{
	struct options_place here = {.file = l->file, .line = l->line > UINT16_MAX ? UINT16_MAX : l->line};
	bool nacc = !strncmp(key, "NACC_", 5);
	char place[OPTIONS_PLACE_MAX];

	place_here(l, place, sizeof(place));
	if (l->section == STYLE_HASTEN && !strcmp(key, "rule")) {
		if (options_rule(l->o, value, place, l->report, l->arg))
			refused(l);
		else if (l->o->n_rules)
			l->o->rule_place[l->o->n_rules - 1] = here;
		return;
	}
	enum option_id id = find_key(key);
	if (id == OPTION_COUNT)
		complain_line(l, "", key,
			      l->section == STYLE_NETACC ? "no such key; hasten.conf(5) lists the NACC_ keys"
							 : "no such key; hasten.conf(5) lists them");
	else if (nacc && l->section == STYLE_HASTEN)
		complain_line(l, "", key, "NACC_ keys stand below a line \"[netacc]\"");
	else if (!nacc && l->section == STYLE_NETACC)
		complain_line(l, "", key, "only NACC_ keys stand below \"[netacc]\"; this one below \"[hasten]\"");
	else if (options_set(l->o, key, value, SOURCE_FILE, place, l->report, l->arg))
		refused(l);
	else
		l->o->place[id] = here;
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static char *trim(char *s)
{
	size_t n;

	while (is_space(*s))
		s++;
	for (n = strlen(s); n && is_space(s[n - 1]); n--)
		;
	s[n] = 0;
	return s;
}

static void take_line(struct loading *l, char *line)
{
	char *value;

	for (char *p = line; *p; p++)
		if ((*p == '#' || *p == ';') && (p == line || is_space(p[-1]))) {
			*p = 0;
			break;
		}
	line = trim(line);
	if (!*line)
		return;
	if (*line == '[') {
		take_section(l, line);
		return;
	}
	if (l->section == STYLE_UNKNOWN)
		return;
	value = strchr(line, '=');
	if (!value) {
		complain_line(l, "", line, "not \"key = value\"");
		return;
	}
	*value++ = 0;
	take_value(l, trim(line), trim(value));
}

/* Reads line by line through a small buffer: a thread of the program may have 16 KiB of stack. */
static int take_lines(struct loading *l, int fd)
{
	char line[LINE_SIZE];
	size_t have = 0, total = 0;
	enum { FITS, TOO_LONG, LONG_COMMENT } length = FITS;

	l->line = 0;
	for (;;) {
		ssize_t n = read(fd, line + have, sizeof(line) - 1 - have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if ((total += n) > FILE_SIZE_MAX)
			return -EFBIG;
		bool end = !n;
		have += n;
		for (char *nl; (nl = memchr(line, '\n', have)) || (end && have);) {
			size_t used = nl ? (size_t)(nl - line) + 1 : have;
			line[used - (nl ? 1 : 0)] = 0;
			l->line++;
			if (length == TOO_LONG)
				complain_line(l, "", "the line", "longer than 510 bytes; it is left out");
			else if (length == FITS && strlen(line) + (nl ? 1 : 0) != used)
				complain_line(l, "", "the line", "a NUL byte stands in it; it is left out");
			else if (length == FITS)
				take_line(l, line);
			length = FITS;
			have -= used;
			memmove(line, line + used, have);
		}
		if (end) {
			l->line++;
			if (length == TOO_LONG)
				complain_line(l, "", "the line", "longer than 510 bytes; it is left out");
			return 0;
		}
		if (have == sizeof(line) - 1) {
			line[have] = 0;
			const char *first = line + strspn(line, " \t");
			if (length == FITS)
				length = *first == '#' || *first == ';' ? LONG_COMMENT : TOO_LONG;
			have = 0;
		}
	}
}

static void complain_file(struct loading *l, int error)
{
	char buf[160];
	struct text t = text_begin(buf, sizeof(buf));

	switch (error) {
	case -EFBIG:
		text_add(&t, "longer than 65536 bytes; the rest is left out");
		break;
	case -EISDIR:
		text_add(&t, "not a regular file; it is left out");
		break;
	case -EACCES:
		text_add(&t, "no permission to read it; its settings are not used");
		break;
	default:
		text_add(&t, error == -ENOENT ? "no such file" : "cannot be read, error ");
		if (error != -ENOENT)
			text_int(&t, -error);
	}
	complain(l, l->path, buf);
}

/* O_NONBLOCK: a FIFO in place of a file must not hang the program. */
static int take_file(struct loading *l, const char *path, enum option_source needed, int section)
{
	struct stat st;
	int fd, r;

	l->path = path;
	l->section = section;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0) {
		r = -errno;
		if ((r == -ENOENT || r == -ENOTDIR) && needed != SOURCE_LAUNCHER)
			return r;
	} else {
		r = fstat(fd, &st) < 0 ? -errno : S_ISREG(st.st_mode) ? take_lines(l, fd) : -EISDIR;
		close(fd);
	}
	if (r)
		complain_file(l, r);
	return r;
}

static void path_of(const struct hasten_options *o, const char *name, char *buf, size_t size)
{
	struct text t = text_begin(buf, size);

	if (*o->root) {
		text_add(&t, o->root);
	} else {
		/* NetACC's file is where its users have it, whatever prefix hasten was built for. */
		text_add(&t, strcmp(name, "netacc.conf") ? SYSCONFDIR : "/etc");
	}
	text_char(&t, '/');
	text_add(&t, name);
}

static void take_standard_file(struct loading *l, unsigned index, int section)
{
	char path[OPTIONS_PLACE_MAX];

	l->file = index + 1;
	path_of(l->o, l->o->files[index], path, sizeof(path));
	take_file(l, path, SOURCE_FILE, section);
}

/* Puts the name into files[first..], sorted by bytes. */
static int insert_name(struct hasten_options *o, unsigned first, const char *name)
{
	static const char prefix[] = "hasten/" DROP_INS "/";
	char entry[OPTIONS_NAME_MAX];
	struct text t = text_begin(entry, sizeof(entry));
	unsigned at;

	text_add(&t, prefix);
	text_add(&t, name);
	if (t.len >= sizeof(entry))
		return -ENAMETOOLONG;
	if (o->n_files == OPTIONS_FILES_MAX)
		return -ENOSPC;
	for (at = o->n_files; at > first && strcmp(o->files[at - 1], entry) > 0; at--)
		strcpy(o->files[at], o->files[at - 1]);
	strcpy(o->files[at], entry);
	o->n_files++;
	return 0;
}

/* opendir allocates; getdents64 does not. Not inlined, so that its buffer is off the stack before files are read. */
__attribute__((noinline)) static void list_drop_ins(struct loading *l, const char *path)
{
	_Alignas(struct dirent64) char buf[1024];
	unsigned first = l->o->n_files;
	ssize_t n;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECTORY);

	l->path = path;
	if (fd < 0) {
		if (errno != ENOENT && errno != ENOTDIR)
			complain_file(l, -errno);
		return;
	}
	while ((n = getdents64(fd, buf, sizeof(buf))) > 0)
		for (ssize_t at = 0; at < n;) {
			const struct dirent64 *d = (const struct dirent64 *)(buf + at);
			size_t len = strlen(d->d_name);

			at += d->d_reclen;
			if (d->d_name[0] == '.' || len < 6 || strcmp(d->d_name + len - 5, ".conf"))
				continue;
			switch (insert_name(l->o, first, d->d_name)) {
			case -ENAMETOOLONG:
				complain(l, path, "a file's name is longer than 74 bytes; it is left out");
				break;
			case -ENOSPC:
				complain(l, path, "more than 32 files; the rest is left out");
				break;
			}
		}
	if (n < 0)
		complain_file(l, -errno);
	close(fd);
}

static void take_standard_files(struct loading *l)
{
	struct hasten_options *o = l->o;
	char path[OPTIONS_PLACE_MAX];

	strcpy(o->files[0], "netacc.conf");
	strcpy(o->files[1], "hasten/hasten.conf");
	o->n_files = 2;
	take_standard_file(l, 0, STYLE_HASTEN);
	take_standard_file(l, 1, STYLE_HASTEN);
	path_of(o, "hasten/" DROP_INS, path, sizeof(path));
	list_drop_ins(l, path);
	for (unsigned i = 2; i < o->n_files; i++)
		take_standard_file(l, i, STYLE_HASTEN);
}

static void variable_name(const char *prefix, const char *key, char *buf, size_t size)
{
	struct text t = text_begin(buf, size);

	text_add(&t, prefix);
	for (; *key; key++)
		text_char(&t, *key >= 'a' && *key <= 'z' ? *key - 'a' + 'A' : *key);
}

static void take_variable(struct loading *l, const char *name, enum option_id id, bool nacc, enum option_source source)
{
	const char *value = secure_getenv(name);
	char place[80];
	struct text t = text_begin(place, sizeof(place));

	if (!value)
		return;
	text_add(&t, source == SOURCE_LAUNCHER ? "hasten run" : "environment ");
	text_add(&t, source == SOURCE_LAUNCHER ? "" : name);
	if (options_set(l->o, nacc ? option_rows[id].nacc : option_rows[id].key, value, source, place, l->report,
			l->arg))
		refused(l);
}

static void take_environment(struct loading *l)
{
	char name[64];

	for (unsigned id = 0; id < OPTION_COUNT; id++) {
		if (option_rows[id].nacc)
			take_variable(l, option_rows[id].nacc, id, true, SOURCE_ENVIRONMENT);
		variable_name("HASTEN_", option_rows[id].key, name, sizeof(name));
		take_variable(l, name, id, false, SOURCE_ENVIRONMENT);
		variable_name("HASTEN_RUN_", option_rows[id].key, name, sizeof(name));
		take_variable(l, name, id, false, SOURCE_LAUNCHER);
	}
}

static void copy_path(struct loading *l, char *to, const char *variable)
{
	const char *value = secure_getenv(variable);

	if (!value || !*value)
		return;
	if (strlen(value) >= OPTIONS_PATH_MAX)
		complain(l, "environment",
			 "HASTEN_CONF_DIR or HASTEN_RUN_FILE is longer than 255 bytes; it is not used");
	else
		strcpy(to, value);
}

int options_load(struct hasten_options *ret, options_report report, void *arg)
{
	struct loading l = {.o = ret, .report = report, .arg = arg};
	int saved = errno;

	options_default(ret);
	copy_path(&l, ret->root, "HASTEN_CONF_DIR");
	copy_path(&l, ret->file, "HASTEN_RUN_FILE");
	if (*ret->file) {
		l.file = 1;
		take_file(&l, ret->file, SOURCE_LAUNCHER, STYLE_HASTEN);
	} else {
		take_standard_files(&l);
	}
	take_environment(&l);
	l.complaints += options_check(ret, report, arg);
	errno = saved;
	return l.complaints;
}

static void add_place(const struct hasten_options *o, struct options_place place, struct text *t)
{
	char path[OPTIONS_PLACE_MAX];

	if (*o->file)
		text_add(t, o->file);
	else if (place.file <= o->n_files) {
		path_of(o, o->files[place.file - 1], path, sizeof(path));
		text_add(t, path);
	}
	text_char(t, ':');
	text_uint(t, place.line);
}

void options_place(const struct hasten_options *o, enum option_id id, char *buf, size_t size)
{
	const struct option_row *row = &option_rows[id];
	struct text t = text_begin(buf, size);
	char name[64];

	switch (o->source[id]) {
	case SOURCE_BUILTIN:
		text_add(&t, "built-in");
		break;
	case SOURCE_LAUNCHER:
		text_add(&t, "hasten run");
		break;
	case SOURCE_ENVIRONMENT:
		text_add(&t, "environment ");
		variable_name("HASTEN_", row->key, name, sizeof(name));
		text_add(&t, o->place[id].line && row->nacc ? row->nacc : name);
		break;
	default:
		if (o->place[id].file)
			add_place(o, o->place[id], &t);
		else
			text_add(&t, "file");
	}
}

void options_rule_place(const struct hasten_options *o, unsigned rule, char *buf, size_t size)
{
	struct text t = text_begin(buf, size);

	if (rule < o->n_rules && o->rule_place[rule].file)
		add_place(o, o->rule_place[rule], &t);
}
