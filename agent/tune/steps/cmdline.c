#include "agent/tune/steps/cmdline.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/sys/cleanup.h"

static const char *const keys[] = {"isolcpus",   "nohz_full", "rcu_nocbs", "irqaffinity",
				   "hugepagesz", "hugepages", NULL};
#define BLANKS " \t\n\r"

char *cmdline_mark(unsigned cpus, uint64_t memory_kib)
{
	char *text;
	return asprintf(&text, CMDLINE_MARK "%ucpu,%llumib", cpus, (unsigned long long)(memory_kib / 1024)) < 0 ? NULL
														: text;
}

/* The length of the argument at text; blanks inside quotes belong to it. */
static size_t argument(const char *text)
{
	bool quoted = false;
	size_t n = 0;
	while (text[n] && (quoted || !strchr(BLANKS, text[n]))) {
		quoted ^= text[n] == '"';
		n++;
	}
	return n;
}

static const char *next(const char *at)
{
	at += argument(at);
	return at + strspn(at, BLANKS);
}

static const char *find_mark(const char *line)
{
	for (const char *at = line + strspn(line, BLANKS); *at; at = next(at))
		if (strncmp(at, CMDLINE_MARK, strlen(CMDLINE_MARK)) == 0)
			return at;
	return NULL;
}

bool cmdline_mark_parse(const char *text, unsigned *ret_cpus, uint64_t *ret_mib)
{
	const char *at = strstr(text, CMDLINE_MARK);
	unsigned long long mib;
	unsigned cpus;
	if (!at || sscanf(at + strlen(CMDLINE_MARK), "%ucpu,%llumib", &cpus, &mib) != 2)
		return false;
	*ret_cpus = cpus;
	*ret_mib = mib;
	return true;
}

bool cmdline_is_ours(const char *name, unsigned long len)
{
	for (size_t i = 0; keys[i]; i++)
		if (strlen(keys[i]) == len && strncmp(keys[i], name, len) == 0)
			return true;
	return false;
}

bool cmdline_has(const char *line, const char *key)
{
	size_t n = strlen(key);
	for (const char *at = line + strspn(line, BLANKS); *at; at = next(at)) {
		size_t quote = *at == '"';
		if (strncmp(at + quote, key, n) == 0 &&
		    (at[quote + n] == '=' || !at[quote + n] || strchr(BLANKS, at[quote + n])))
			return true;
	}
	return false;
}

bool cmdline_has_all(const char *line, const char *wanted)
{
	for (const char *one = wanted + strspn(wanted, BLANKS); *one; one = next(one)) {
		size_t n = argument(one);
		bool found = false;
		for (const char *at = line + strspn(line, BLANKS); *at && !found; at = next(at))
			found = argument(at) == n && strncmp(at, one, n) == 0;
		if (!found)
			return false;
	}
	return true;
}

int cmdline_split(const char *line, char **ret_ours, char **ret_rest)
{
	const char *mark = find_mark(line);
	char *ours = NULL, *rest = NULL;
	if (!mark) {
		rest = strdup(line);
		if (!rest)
			return -ENOMEM;
	} else {
		const char *end = mark + argument(mark);
		for (;;) {
			const char *at = end + strspn(end, " \t");
			if (at == end || !cmdline_is_ours(at, strcspn(at, "=" BLANKS)))
				break;
			end = at + argument(at);
		}
		/* The one blank that stands before ours came with them. */
		const char *start = mark > line && mark[-1] == ' ' ? mark - 1 : mark;
		const char *after = start == mark && mark == line && *end == ' ' ? end + 1 : end;
		ours = strndup(mark, end - mark);
		if (!ours || asprintf(&rest, "%.*s%s", (int)(start - line), line, after) < 0) {
			free(ours);
			return -ENOMEM;
		}
	}
	if (ret_ours)
		*ret_ours = ours;
	else
		free(ours);
	if (ret_rest)
		*ret_rest = rest;
	else
		free(rest);
	return 0;
}

char *cmdline_join(const char *line, const char *ours)
{
	size_t end = strlen(line);
	while (end && strchr("\n\r", line[end - 1]))
		end--;
	char *text;
	return asprintf(&text, "%.*s%s%s%s", (int)end, line, end ? " " : "", ours, line + end) < 0 ? NULL : text;
}
