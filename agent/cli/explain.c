#include "agent/cli/explain.h"
#include "agent/cli/elf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define INTERPRETERS_MAX 5  /* the kernel's own limit (fs/exec.c, since 5.1) */
#define SCRIPT_LINE_MAX 256 /* BINPRM_BUF_SIZE */

static const struct {
	const char *word, *text;
} obstacles[] = {
    [OBSTACLE_NONE] = {"none", "can be accelerated"},
#define OBSTACLE(NAME, word, text) [OBSTACLE_##NAME] = {word, text},
#include "agent/cli/obstacles.def"
#undef OBSTACLE
};

const char *obstacle_word(enum obstacle obstacle)
{
	return obstacles[obstacle].word;
}

const char *obstacle_text(enum obstacle obstacle)
{
	return obstacles[obstacle].text;
}

static int may_run(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return errno == EACCES ? -EACCES : -ENOENT;
	return S_ISREG(st.st_mode) && !faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) ? 0 : -EACCES;
}

int explain_find(const char *name, char *ret_path, size_t size)
{
	const char *path = getenv("PATH"), *end;
	int r = -ENOENT;

	if (!*name)
		return -ENOENT;
	if (strchr(name, '/')) {
		r = may_run(name);
		if (!r && (size_t)snprintf(ret_path, size, "%s", name) >= size)
			return -ENOENT;
		return r;
	}
	for (path = path ? path : "/bin:/usr/bin"; path; path = *end ? end + 1 : NULL) {
		char candidate[PATH_MAX];
		end = strchrnul(path, ':');
		int n = snprintf(candidate, sizeof(candidate), "%.*s%s%s", (int)(end - path), path,
				 end > path ? "/" : "", name);
		if (n >= (int)sizeof(candidate) || (size_t)n >= size)
			continue;
		int one = may_run(candidate);
		if (!one) {
			strcpy(ret_path, candidate);
			return 0;
		}
		if (one == -EACCES)
			r = -EACCES;
	}
	return r;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static const char *own_loader(void)
{
	static struct elf_facts own;
	int fd;

	if (!own.elf) {
		fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
		if (fd < 0 || elf_read(fd, &own) || !own.dynamic)
			strcpy(own.interpreter, "");
		if (fd >= 0)
			close(fd);
	}
	return base_name(own.interpreter);
}

static void judge_elf(const struct elf_facts *f, int fd, struct explanation *e)
{
	struct stat st;

	if (!f->native) {
		e->obstacle = OBSTACLE_ARCHITECTURE;
		snprintf(e->detail, sizeof(e->detail), "%s-bit %s-endian, ELF machine %u", f->class == 1 ? "32" : "64",
			 f->data == 1 ? "little" : "big", f->machine);
		return;
	}
	e->uring = f->uring;
	if (!fstat(fd, &st) && (st.st_mode & S_ISUID || (st.st_mode & S_ISGID && st.st_mode & S_IXGRP))) {
		e->obstacle = OBSTACLE_SETID;
		snprintf(e->detail, sizeof(e->detail), "mode %04o", st.st_mode & 07777u);
	} else if (fgetxattr(fd, "security.capability", NULL, 0) > 0) {
		e->obstacle = OBSTACLE_CAPABILITIES;
	} else if (f->go) {
		e->obstacle = OBSTACLE_GO;
	} else if (!f->dynamic) {
		e->obstacle = OBSTACLE_STATIC;
	} else if (*own_loader() && strcmp(base_name(f->interpreter), own_loader())) {
		e->obstacle = OBSTACLE_LIBC;
		snprintf(e->detail, sizeof(e->detail), "loader %s, hasten has %s", f->interpreter, own_loader());
	} else if (*f->sanitizer) {
		e->obstacle = OBSTACLE_ASAN;
		snprintf(e->detail, sizeof(e->detail), "%s", f->sanitizer);
	}
}

/* The words after "#!" or NULL: at most one argument, as the kernel takes it. */
static char *script_interpreter(char *line, char **ret_argument)
{
	char *p = line + 2, *end;

	line[strcspn(line, "\n")] = 0;
	p += strspn(p, " \t");
	end = p + strcspn(p, " \t");
	*ret_argument = end;
	if (*end) {
		*end++ = 0;
		*ret_argument = end + strspn(end, " \t");
	}
	return *p ? p : NULL;
}

/* "#!/usr/bin/env NAME" and "#!/usr/bin/env -S NAME ARGUMENT": the program that env will run. */
static bool env_target(char *argument, char *ret_path, size_t size)
{
	char *save, *word = strtok_r(argument, " \t", &save);

	while (word && (*word == '-' || strchr(word, '='))) {
		if (!strncmp(word, "-S", 2) && word[2]) {
			word += 2;
			break;
		}
		word = strtok_r(NULL, " \t", &save);
	}
	return word && !explain_find(word, ret_path, size);
}

/* Judges one file. Returns 1 where the answer lies with the interpreter left in path, else 0. */
static int judge_file(int fd, char *path, size_t size, struct explanation *e)
{
	char line[SCRIPT_LINE_MAX], *interpreter, *argument;
	struct elf_facts f;
	ssize_t n;

	if (elf_read(fd, &f)) {
		e->obstacle = OBSTACLE_NOT_PROGRAM;
		return 0;
	}
	if (f.elf) {
		judge_elf(&f, fd, e);
		return 0;
	}
	n = pread(fd, line, sizeof(line) - 1, 0);
	line[n > 0 ? n : 0] = 0;
	if (strncmp(line, "#!", 2)) {
		/* execvp gives such a file to the shell where the kernel refuses it, unless it looks binary. */
		if (memchr(line, 0, n > 0 ? (size_t)n : 0)) {
			e->obstacle = OBSTACLE_NOT_PROGRAM;
			return 0;
		}
		snprintf(path, size, "/bin/sh");
		return 1;
	}
	interpreter = script_interpreter(line, &argument);
	if (!interpreter || may_run(interpreter)) {
		e->obstacle = OBSTACLE_INTERPRETER;
		snprintf(e->detail, sizeof(e->detail), "%s", interpreter ? interpreter : "none named");
		return 0;
	}
	if (strcmp(base_name(interpreter), "env") || !env_target(argument, path, size))
		snprintf(path, size, "%s", interpreter);
	return 1;
}

int explain_program(const char *path, struct explanation *ret)
{
	struct explanation e = {0};
	int r = may_run(path);

	if (r)
		return r;
	snprintf(e.path, sizeof(e.path), "%s", path);
	for (int depth = 0;; depth++) {
		char next[PATH_MAX];
		int fd = open(e.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
		if (fd < 0) {
			e.unread = true;
			break;
		}
		int more = judge_file(fd, next, sizeof(next), &e);
		close(fd);
		if (!more)
			break;
		if (depth == INTERPRETERS_MAX) {
			e.obstacle = OBSTACLE_SCRIPT_LOOP;
			break;
		}
		strcpy(e.path, next);
	}
	*ret = e;
	return 0;
}

int explain_library(const char *path, char *ret_sanitizer, size_t size)
{
	struct elf_facts f;
	int fd = open(path, O_RDONLY | O_CLOEXEC), r;

	if (fd < 0)
		return -errno;
	r = elf_read(fd, &f);
	close(fd);
	if (r)
		return r;
	if (!f.elf || !f.native)
		return -ENOEXEC;
	snprintf(ret_sanitizer, size, "%s", f.sanitizer);
	return 0;
}
