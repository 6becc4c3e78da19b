/* For tests of tuning steps without the engine: a machine made by tests/machines/make in a temporary folder, a resolved
 * set by hand, the tree as one text for comparison. Linux-only; one machine at a time. */
#ifndef HASTEN_TESTS_STEPS_MACHINE_H
#define HASTEN_TESTS_STEPS_MACHINE_H
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/sys/cleanup.h"
#include "agent/tune/steps/step.h"

struct box {
	char folder[64], root[128];
	struct sys *s;
	struct facts f;
	struct resolved_set set;
};

static inline void box_facts(struct box *b)
{
	struct error e = {};
	facts_free(&b->f);
	b->f = (struct facts){};
	assert_int_equal(facts_gather(b->s, &b->f, &e), 0);
}

static inline void box_open(struct box *b, const char *machine)
{
	char command[512];
	const char *top = getenv("top_srcdir");
	struct error e = {};
	*b = (struct box){.folder = "/dev/shm/hasten-steps-XXXXXX"};
	assert_non_null(top);
	assert_non_null(mkdtemp(b->folder));
	snprintf(b->root, sizeof(b->root), "%s/%s", b->folder, machine);
	snprintf(command, sizeof(command), "'%s/tests/machines/make' '%s' '%s'", top, b->folder, machine);
	assert_int_equal(system(command), 0);
	assert_int_equal(sys_open(b->root, &b->s, &e), 0);
	box_facts(b);
}

static inline int box_remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static inline void box_clear_set(struct box *b)
{
	for (size_t i = 0; i < b->set.n_value; i++) {
		free(b->set.value[i].key);
		free(b->set.value[i].value);
		free(b->set.value[i].target);
		free(b->set.value[i].profile);
	}
	free(b->set.value);
	b->set = (struct resolved_set){};
}

static inline void box_close(struct box *b)
{
	box_clear_set(b);
	facts_free(&b->f);
	sys_close(b->s);
	nftw(b->folder, box_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* A file of the machine, made with its folders. */
static inline void box_put(struct box *b, const char *path, const char *text)
{
	char full[PATH_MAX];
	snprintf(full, sizeof(full), "%s%s", b->root, path);
	for (char *c = full + strlen(b->root) + 1; (c = strchr(c, '/')); *c++ = '/') {
		*c = 0;
		mkdir(full, 0755);
	}
	FILE *f = fopen(full, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static inline char *box_get(struct box *b, const char *path)
{
	char *text = NULL;
	size_t len;
	return sys_read(b->s, path, &text, &len) ? NULL : text;
}

/* nic: an interface, NULL the machine, "*" all hardware ones. */
static inline void box_want(struct box *b, const char *nic, const char *key, enum setting_mode mode, const char *value)
{
	for (size_t i = 0; i < (nic ? b->f.n_nic : 1); i++) {
		const struct nic_facts *n = nic ? &b->f.nic[i] : NULL;
		if (n && (strcmp(nic, "*") == 0 ? n->id.bus == NIC_BUS_VIRTUAL : !n->name || strcmp(nic, n->name) != 0))
			continue;
		b->set.value = reallocarray(b->set.value, b->set.n_value + 1, sizeof(*b->set.value));
		struct resolved *v = &b->set.value[b->set.n_value++];
		*v = (struct resolved){.key = strdup(key),
				       .field = field_find(key),
				       .mode = mode,
				       .value = strdup(value),
				       .profile = strdup("test"),
				       .target = n ? nic_identity_text(&n->id) : NULL,
				       .why = (char *)"why",
				       .source = (char *)"source"};
		assert_non_null(v->field);
	}
}

/* One step's operations, or all steps' (NULL). */
static inline struct plan box_plan(struct box *b, const char *step)
{
	struct plan p = {};
	const struct step *const *all = tune_steps();
	for (size_t i = 0; all[i]; i++) {
		struct error e = {};
		if (step && strcmp(step, all[i]->name) != 0)
			continue;
		int r = all[i]->plan(b->s, &b->f, &b->set, &p, &e);
		if (r)
			print_error("%s: %s\n", all[i]->name, e.message ?: strerror(-r));
		assert_int_equal(r, 0);
	}
	return p;
}

static inline const struct op *box_op(const struct plan *p, const char *id)
{
	for (size_t i = 0; i < p->n_op; i++)
		if (strcmp(p->op[i].id, id) == 0)
			return &p->op[i];
	for (size_t i = 0; i < p->n_op; i++)
		print_message("%s = %s (%s)\n", p->op[i].id, p->op[i].desired ?: "-", op_status_name(p->op[i].status));
	fail_msg("no operation %s", id);
	return NULL;
}

static inline bool box_same(const struct op *op, const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 || (op->step->same && op->step->same(op, a, b)) : a == b;
}

static FILE *box_to;
static size_t box_skip;

static inline int box_note(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	char buffer[4096];
	ssize_t n;
	fprintf(box_to, "%s %o ", path + box_skip, st->st_mode);
	if (type == FTW_SL && (n = readlink(path, buffer, sizeof(buffer))) > 0)
		fwrite(buffer, 1, n, box_to);
	FILE *f = type == FTW_F ? fopen(path, "r") : NULL;
	while (f && (n = fread(buffer, 1, sizeof(buffer), f)) > 0)
		fwrite(buffer, 1, n, box_to);
	if (f)
		fclose(f);
	fputc('\n', box_to);
	return 0;
}

static inline int box_by_line(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Every file, mode and link below the root, sorted; caller frees. */
static inline char *box_tree(struct box *b)
{
	char *text = NULL;
	size_t len;
	box_to = open_memstream(&text, &len);
	box_skip = strlen(b->root);
	assert_int_equal(nftw(b->root, box_note, 32, FTW_PHYS), 0);
	fclose(box_to);
	size_t n = 0, room = 1;
	for (const char *c = text; *c; c++)
		room += *c == '\n';
	char **line = calloc(room, sizeof(*line));
	for (char *rest = text, *one; (one = strsep(&rest, "\n"));)
		line[n++] = one;
	qsort(line, n, sizeof(*line), box_by_line);
	char *sorted = NULL;
	FILE *to = open_memstream(&sorted, &len);
	for (size_t i = 0; i < n; i++)
		fprintf(to, "%s\n", line[i]);
	fclose(to);
	free(line);
	free(text);
	return sorted;
}

static inline void box_expect_tree(struct box *b, const char *before)
{
	_cleanup_free_ char *now = box_tree(b);
	if (strcmp(before, now) == 0)
		return;
	size_t at = 0;
	while (before[at] == now[at])
		at++;
	while (at && before[at - 1] != '\n')
		at--;
	fail_msg("%s: was \"%.200s\", is \"%.200s\"", b->root, before + at, now + at);
}
#endif
