/* A root in a temporary folder, for tests of agent/sys. */
#ifndef HASTEN_TESTS_TREE_H
#define HASTEN_TESTS_TREE_H
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char tree_root[PATH_MAX];

static inline void tree_path(char to[static PATH_MAX], const char *path)
{
	assert_true(snprintf(to, PATH_MAX, "%s%s", tree_root, path) < PATH_MAX);
}

static inline void tree_folder(const char *path)
{
	char full[PATH_MAX];

	tree_path(full, path);
	for (char *p = full + strlen(tree_root) + 1; (p = strchr(p, '/')); p++) {
		*p = 0;
		mkdir(full, 0755);
		*p = '/';
	}
	mkdir(full, 0755);
}

static inline void tree_file(const char *path, const char *content)
{
	char full[PATH_MAX], parent[PATH_MAX];

	strcpy(parent, path);
	*strrchr(parent, '/') = 0;
	if (*parent)
		tree_folder(parent);
	tree_path(full, path);
	FILE *f = fopen(full, "w");

	assert_non_null(f);
	fputs(content, f);
	assert_int_equal(fclose(f), 0);
}

static inline void tree_symlink(const char *path, const char *to)
{
	char full[PATH_MAX], parent[PATH_MAX];

	strcpy(parent, path);
	*strrchr(parent, '/') = 0;
	if (*parent)
		tree_folder(parent);
	tree_path(full, path);
	assert_int_equal(symlink(to, full), 0);
}

static inline void tree_is(const char *path, const char *want)
{
	char full[PATH_MAX], got[65536];

	tree_path(full, path);
	FILE *f = fopen(full, "r");

	if (!f)
		fail_msg("%s is not there", path);
	size_t n = fread(got, 1, sizeof(got) - 1, f);

	got[n] = 0;
	fclose(f);
	if (strcmp(got, want))
		fail_msg("%s holds \"%s\", not \"%s\"", path, got, want);
}

static inline int tree_begin(void **state)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(tree_root, sizeof(tree_root), "%s/hasten-tree.XXXXXX", tmp ? tmp : "/tmp");
	return mkdtemp(tree_root) ? 0 : -1;
}

static inline int tree_remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static inline int tree_end(void **state)
{
	return nftw(tree_root, tree_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
#endif
