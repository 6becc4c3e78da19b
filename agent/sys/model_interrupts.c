/* The write model of /proc/interrupts: interrupts that come and go. Read once and written once for all of a NIC's: a file of a machine with a
 * thousand CPUs has megabytes. */
#include "agent/sys/cleanup.h"
#include "agent/sys/model_rules.h"

#include <errno.h>
#include <string.h>

struct line {
	bool numbered;
	unsigned irq;
	char *text;
};
struct interrupts {
	struct line *line;
	size_t n, room;
	bool missing; /* the tree has no such file */
};

void interrupts_free(struct interrupts *l)
{
	if (!l)
		return;
	for (size_t i = 0; i < l->n; i++)
		free(l->line[i].text);
	free(l->line);
	free(l);
}

/* Takes text, also where it fails. */
static int insert(struct interrupts *l, size_t at, char *text)
{
	char colon;

	if (!text)
		return -ENOMEM;
	if (l->n == l->room) {
		size_t room = l->room ? l->room * 2 : 64;
		struct line *more = realloc(l->line, room * sizeof(*more));

		if (!more) {
			free(text);
			return -ENOMEM;
		}
		l->line = more;
		l->room = room;
	}
	memmove(l->line + at + 1, l->line + at, (l->n - at) * sizeof(*l->line));
	l->line[at] = (struct line){.text = text};
	l->line[at].numbered = sscanf(text, " %u%c", &l->line[at].irq, &colon) == 2 && colon == ':';
	l->n++;
	return 0;
}

int interrupts_load(struct sys *s, struct interrupts **ret)
{
	_cleanup_free_ char *text = NULL;
	struct interrupts *l = calloc(1, sizeof(*l));
	int r = sys_read(s, "/proc/interrupts", &text, NULL);

	if (!l)
		return -ENOMEM;
	l->missing = r == -ENOENT;
	for (char *p = r < 0 ? NULL : text; !r && *p;) {
		size_t len = strcspn(p, "\n");

		r = insert(l, l->n, strndup(p, len));
		p += len + (p[len] == '\n');
	}
	if (r < 0 && !l->missing) {
		interrupts_free(l);
		return r;
	}
	*ret = l;
	return 0;
}

int interrupts_store(struct sys *s, const struct interrupts *l)
{
	_cleanup_free_ char *text = NULL;
	size_t len;
	FILE *f = l->missing ? NULL : open_memstream(&text, &len);

	if (!f)
		return l->missing ? 0 : -ENOMEM;
	for (size_t i = 0; i < l->n; i++)
		fprintf(f, "%s\n", l->line[i].text);
	return fclose(f) != 0 ? -ENOMEM : tree_put(s, "/proc/interrupts", text);
}

/* Where the counts of a line end: they are columns of blanks and digits. */
static char *after_counts(char *line)
{
	char *p = strchr(line, ':') + 1;

	for (;;) {
		char *begin = p + strspn(p, " ");
		size_t digits = strspn(begin, "0123456789");

		if (!digits || (begin[digits] && begin[digits] != ' '))
			return p;
		p = begin + digits;
	}
}

static bool has_counted(char *line)
{
	char *end = after_counts(line);

	for (char *p = strchr(line, ':'); p < end; p++)
		if (*p >= '1' && *p <= '9')
			return true;
	return false;
}

/* l->n: none. */
static size_t find(const struct interrupts *l, unsigned irq)
{
	size_t i = 0;

	while (i < l->n && (!l->line[i].numbered || l->line[i].irq != irq))
		i++;
	return i;
}

static bool ends_in(const char *text, const char *end)
{
	size_t len = strlen(text), n = strlen(end);

	return len >= n && !strcmp(text + len - n, end);
}

int interrupts_add(struct interrupts *l, unsigned irq, const char *action, unsigned like, const char *like_action)
{
	size_t old = find(l, irq), from = find(l, like), at = 1;
	char *text = NULL;

	if (old < l->n) {
		if (asprintf(&text, "%s%s", l->line[old].text, action) < 0)
			return -ENOMEM;
		free(l->line[old].text);
		l->line[old].text = text;
		return 0;
	}
	if (from == l->n || !ends_in(l->line[from].text, like_action))
		return 0;
	char *model = l->line[from].text, *colon = strchr(model, ':');

	if (asprintf(&text, "%*u%.*s%s", (int)(colon - model), irq, (int)(strlen(colon) - strlen(like_action)), colon, action) < 0)
		return -ENOMEM;
	for (char *p = strchr(text, ':') + 1, *end = after_counts(text); p < end;) {
		char *begin = p + strspn(p, " ");
		size_t digits = strspn(begin, "0123456789");

		memset(begin, ' ', digits - 1);
		begin[digits - 1] = '0';
		p = begin + digits;
	}
	/* The first line is the head; those without a number come last. */
	while (at < l->n && l->line[at].numbered && l->line[at].irq < irq)
		at++;
	return insert(l, at < l->n ? at : l->n, text);
}

bool interrupts_remove(struct interrupts *l, unsigned irq, const char *action)
{
	size_t at = find(l, irq);

	if (at == l->n)
		return false;
	char *text = l->line[at].text;

	if (has_counted(text) && ends_in(text, action)) {
		text[strlen(text) - strlen(action)] = 0;
		return true;
	}
	free(text);
	memmove(l->line + at, l->line + at + 1, (--l->n - at) * sizeof(*l->line));
	return false;
}
