#include "preload/proc/image.h"
#include "preload/quiet.h"
#include "preload/real.h"
#include "preload/symbols.h"

#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define PROGRAM_HEADERS_MAX 64
#define NOTES_MAX 4096
#define SCRIPTS_MAX 4 /* the kernel's own limit of interpreters of interpreters */

extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden"))); /* the linker's */

static size_t build_in(const uint8_t *notes, size_t size, uint8_t *ret)
{
	for (size_t at = 0; at + sizeof(ElfW(Nhdr)) <= size;) {
		ElfW(Nhdr) h;
		memcpy(&h, notes + at, sizeof(h));
		size_t name = at + sizeof(h), text = name + ((h.n_namesz + 3ul) & ~3ul);
		if (text > size || h.n_descsz > size - text)
			break;
		if (h.n_type == NT_GNU_BUILD_ID && h.n_namesz == 4 && !memcmp(notes + name, "GNU", 4) && h.n_descsz &&
		    h.n_descsz <= IMAGE_BUILD_MAX) {
			memcpy(ret, notes + text, h.n_descsz);
			return h.n_descsz;
		}
		at = text + ((h.n_descsz + 3ul) & ~3ul);
	}
	return 0;
}

size_t image_build(uint8_t *ret)
{
	const uint8_t *base = (const uint8_t *)&__ehdr_start;
	__asm__("" : "+r"(base)); /* more than the header is there: the compiler must not know better */
	const ElfW(Phdr) *p = (const ElfW(Phdr) *)(base + __ehdr_start.e_phoff);
	size_t n = 0;
	if (__ehdr_start.e_type != ET_DYN)
		return 0;
	for (int i = 0; i < __ehdr_start.e_phnum && !n; i++)
		if (p[i].p_type == PT_NOTE)
			n = build_in(base + p[i].p_vaddr, p[i].p_memsz, ret);
	return n;
}

static bool whole(int fd, void *buf, size_t n, uint64_t at)
{
	return pread(fd, buf, n, (off_t)at) == (ssize_t)n;
}

/* The program headers of a file of this process's own kind. Returns how many, 0: it is something else. */
static int headers(int fd, ElfW(Phdr) *ret)
{
	ElfW(Ehdr) h;
	if (!whole(fd, &h, sizeof(h), 0) || memcmp(h.e_ident, __ehdr_start.e_ident, EI_VERSION + 1) ||
	    h.e_machine != __ehdr_start.e_machine || (h.e_type != ET_EXEC && h.e_type != ET_DYN) ||
	    h.e_phentsize != sizeof(*ret) || h.e_phnum > PROGRAM_HEADERS_MAX || !whole(fd, ret, h.e_phnum * sizeof(*ret), h.e_phoff))
		return 0;
	return h.e_phnum;
}

static bool same_file(const char *a, const char *b)
{
	struct stat sa, sb;
	return stat(a, &sa) == 0 && stat(b, &sb) == 0 && sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
}

/* Started by the loader that started us? */
static bool our_loader(int fd)
{
	ElfW(Phdr) p[PROGRAM_HEADERS_MAX];
	char interpreter[PATH_MAX];
	int n = headers(fd, p);
	for (int i = 0; i < n; i++) {
		if (p[i].p_type != PT_INTERP)
			continue;
		if (p[i].p_filesz == 0 || p[i].p_filesz > sizeof(interpreter) || !whole(fd, interpreter, p[i].p_filesz, p[i].p_offset) ||
		    interpreter[p[i].p_filesz - 1])
			return false;
		for (const struct link_map *m = _r_debug.r_map; m; m = m->l_next)
			if (m->l_addr == _r_debug.r_ldbase && m->l_name[0] == '/')
				return same_file(m->l_name, interpreter);
	}
	return false;
}

static bool our_build(const char *path)
{
	uint8_t ours[IMAGE_BUILD_MAX], theirs[IMAGE_BUILD_MAX], notes[NOTES_MAX];
	size_t have = image_build(ours), found = 0;
	int fd = have ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
	if (fd < 0)
		return false;
	ElfW(Phdr) p[PROGRAM_HEADERS_MAX];
	int n = headers(fd, p);
	for (int i = 0; i < n && !found; i++)
		if (p[i].p_type == PT_NOTE && p[i].p_filesz <= sizeof(notes) && whole(fd, notes, p[i].p_filesz, p[i].p_offset))
			found = build_in(notes, p[i].p_filesz, theirs);
	quiet_close(fd);
	return found == have && !memcmp(ours, theirs, have);
}

static bool preloads_us(char *const *envp)
{
	for (; envp && *envp; envp++) {
		if (strncmp(*envp, "LD_PRELOAD=", 11))
			continue;
		for (const char *at = *envp + 11; *at;) {
			size_t n = strcspn(at, " :");
			char path[PATH_MAX];
			/* a bare name is looked for in folders that are the next program's, $ORIGIN is one of them */
			if (n && n < sizeof(path) && memchr(at, '/', n) && !memchr(at, '$', n)) {
				memcpy(path, at, n);
				path[n] = 0;
				if (our_build(path))
					return true;
			}
			at += n + strspn(at + n, " :");
		}
		return false; /* the loader reads the first */
	}
	return false;
}

/* AppArmor and SELinux may clean the environment at exec; who is confined by none of their rules is left alone. */
static bool confined(void)
{
	char label[256];
	int fd = open("/proc/self/attr/current", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? quiet_read(fd, label, sizeof(label) - 1) : -1;
	if (fd >= 0)
		quiet_close(fd);
	if (n <= 0)
		return false;
	label[n] = 0;
	return strncmp(label, "unconfined", 10) && !strstr(label, ":unconfined_t");
}

/* The file behind fd, or what interprets it. */
static bool suits(int fd, int scripts)
{
	struct stat st;
	char line[256];
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_mode & (S_ISUID | S_ISGID) ||
	    fgetxattr(fd, "security.capability", NULL, 0) >= 0)
		return false;
	ssize_t n = pread(fd, line, sizeof(line) - 1, 0);
	if (n < 3 || line[0] != '#' || line[1] != '!')
		return our_loader(fd);
	line[n] = 0;
	char *path = line + 2 + strspn(line + 2, " \t");
	size_t length = strcspn(path, " \t\n");
	if (!path[length] || !length || scripts == SCRIPTS_MAX)
		return false; /* longer than what we read: the kernel has its own idea of that */
	path[length] = 0;
	int next = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	bool good = next >= 0 && suits(next, scripts + 1);
	if (next >= 0)
		quiet_close(next);
	return good;
}

/* As execvp looks: the first that may be executed. */
static int search(const char *name, char *ret_path)
{
	const char *path = getenv("PATH");
	size_t length = strlen(name);
	for (const char *at = path ? path : "/bin:/usr/bin"; length; at++) {
		size_t n = strcspn(at, ":");
		struct stat st;
		if (n + length + 2 > PATH_MAX)
			return -1;
		memcpy(ret_path, at, n);
		if (n)
			ret_path[n++] = '/';
		memcpy(ret_path + n, name, length + 1);
		if (faccessat(AT_FDCWD, ret_path, X_OK, AT_EACCESS) == 0 && stat(ret_path, &st) == 0 && S_ISREG(st.st_mode))
			return open(ret_path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
		at += strcspn(at, ":");
		if (!*at)
			break;
	}
	return -1;
}

static int open_target(const struct exec_target *t, char *ret_path)
{
	if (t->by == EXEC_FD || (t->by == EXEC_AT && t->flags & AT_EMPTY_PATH && t->path && !t->path[0]))
		return real.fcntl(t->fd, F_DUPFD_CLOEXEC, 3);
	if (!t->path)
		return -1;
	if (t->by == EXEC_SEARCH && !strchr(t->path, '/'))
		return search(t->path, ret_path);
	if (t->by == EXEC_SEARCH && strlen(t->path) < PATH_MAX)
		strcpy(ret_path, t->path);
	return openat(t->by == EXEC_AT ? t->fd : AT_FDCWD, t->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

bool image_preloaded(const struct exec_target *t, char *const *envp, char *ret_path)
{
	if (getuid() != geteuid() || getgid() != getegid())
		return false;
	int fd = open_target(t, ret_path);
	if (fd < 0)
		return false;
	/* the interpreter of a script opens it by /dev/fd, which FD_CLOEXEC of the program's own fd would forbid: no guess */
	bool good = suits(fd, t->by == EXEC_FD || t->by == EXEC_AT ? SCRIPTS_MAX : 0) && preloads_us(envp) && !confined();
	quiet_close(fd);
	return good;
}
