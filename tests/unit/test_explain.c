/* What the launcher says of a program, against ELF files made here byte by byte. */
#include "agent/cli/elf.h"
#include "agent/cli/explain.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[128], path[256];
static struct explanation what;

/* A program with everything that the launcher looks at, at places that tests can spoil. */
struct program {
	ElfW(Ehdr) header;
	ElfW(Phdr) load, interp, dynamic, note;
	ElfW(Dyn) dyn[4];
	struct {
		ElfW(Nhdr) header;
		char name[4];
		char text[4];
	} note_bytes;
	char interpreter[64];
	char strings[64];
};

static const char *own_loader(void)
{
	static struct elf_facts facts;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	assert_int_equal(elf_read(fd, &facts), 0);
	close(fd);
	assert_true(facts.elf && facts.native && facts.dynamic);
	return facts.interpreter;
}

static struct program make_program(void)
{
	struct program p = {0};
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	assert_int_equal(pread(fd, &p.header, sizeof(p.header), 0), sizeof(p.header));
	close(fd);
	p.header.e_phoff = offsetof(struct program, load);
	p.header.e_phnum = 4;
	p.header.e_shoff = 0;
	p.header.e_shnum = p.header.e_shstrndx = 0;
	p.load = (ElfW(Phdr)){.p_type = PT_LOAD, .p_vaddr = 0x1000, .p_filesz = sizeof(p)};
	p.interp = (ElfW(Phdr)){.p_type = PT_INTERP,
				.p_offset = offsetof(struct program, interpreter),
				.p_filesz = strlen(own_loader()) + 1};
	p.dynamic =
	    (ElfW(Phdr)){.p_type = PT_DYNAMIC, .p_offset = offsetof(struct program, dyn), .p_filesz = sizeof(p.dyn)};
	p.note = (ElfW(Phdr)){
	    .p_type = PT_NOTE, .p_offset = offsetof(struct program, note_bytes), .p_filesz = sizeof(p.note_bytes)};
	p.dyn[0] = (ElfW(Dyn)){.d_tag = DT_NEEDED, .d_un.d_val = 1};
	p.dyn[1] = (ElfW(Dyn)){.d_tag = DT_STRTAB, .d_un.d_ptr = 0x1000 + offsetof(struct program, strings)};
	p.note_bytes.header = (ElfW(Nhdr)){.n_namesz = 4, .n_descsz = 4, .n_type = 1};
	strcpy(p.note_bytes.name, "GNU");
	strcpy(p.interpreter, own_loader());
	strcpy(p.strings + 1, "libc.so.6");
	return p;
}

static void put(const char *name, const void *bytes, size_t size)
{
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	unlink(path);
	int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0755);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, size), size);
	close(fd);
}

static enum obstacle judge(const struct program *p, size_t size)
{
	put("program", p, size);
	assert_int_equal(explain_program(path, &what), 0);
	return what.obstacle;
}

static int begin(void **state)
{
	const char *tmp = getenv("TMPDIR");

	(void)state;
	snprintf(dir, sizeof(dir), "%.90s/hasten-explain-XXXXXX", tmp ? tmp : "/tmp");
	return mkdtemp(dir) ? 0 : -1;
}

static int end(void **state)
{
	char command[256];

	(void)state;
	snprintf(command, sizeof(command), "PATH=/bin:/usr/bin; rm -rf '%s'", dir);
	return system(command);
}

static void a_plain_program_can_be_accelerated(void **state)
{
	(void)state;
	struct program p = make_program();
	assert_int_equal(judge(&p, sizeof(p)), OBSTACLE_NONE);
	assert_string_equal(what.path, path);
	assert_false(what.uring);
}

static void a_program_without_interpreter_is_static(void **state)
{
	(void)state;
	struct program p = make_program();
	p.interp.p_type = PT_NULL;
	assert_int_equal(judge(&p, sizeof(p)), OBSTACLE_STATIC);
}

static void go_is_known_by_its_note(void **state)
{
	(void)state;
	struct program p = make_program();
	p.note_bytes.header.n_type = 4;
	memcpy(p.note_bytes.name, "Go\0", 4);
	assert_int_equal(judge(&p, sizeof(p)), OBSTACLE_GO);
}

static void go_is_known_by_its_section(void **state)
{
	struct {
		struct program p;
		ElfW(Shdr) sections[2];
		char names[32];
	} file = {.p = make_program()};

	(void)state;
	file.p.header.e_shoff = offsetof(__typeof__(file), sections);
	file.p.header.e_shentsize = sizeof(file.sections[0]);
	file.p.header.e_shnum = 2;
	file.p.header.e_shstrndx = 1;
	file.sections[0].sh_name = 11;
	file.sections[1].sh_offset = offsetof(__typeof__(file), names);
	file.sections[1].sh_size = sizeof(file.names);
	memcpy(file.names, "\0.shstrtab\0.go.buildinfo", 25);
	put("program", &file, sizeof(file));
	assert_int_equal(explain_program(path, &what), 0);
	assert_int_equal(what.obstacle, OBSTACLE_GO);
}

static void other_machines_are_named(void **state)
{
	(void)state;
	struct program p = make_program();
	p.header.e_machine = EM_SPARCV9;
	assert_int_equal(judge(&p, sizeof(p)), OBSTACLE_ARCHITECTURE);
	assert_non_null(strstr(what.detail, "machine 43"));
	p = make_program();
	p.header.e_ident[EI_CLASS] ^= ELFCLASS32 ^ ELFCLASS64;
	assert_int_equal(judge(&p, sizeof(p)), OBSTACLE_ARCHITECTURE);
	p = make_program();
	p.header.e_ident[EI_DATA] ^= ELFDATA2LSB ^ ELFDATA2MSB;
	assert_int_equal(judge(&p, sizeof(p)), OBSTACLE_ARCHITECTURE);
}

static void another_libc_is_known_by_its_loader(void **state)
{
	(void)state;
	struct program p = make_program();
	strcpy(p.interpreter, "/lib/ld-other-x.so.1");
	p.interp.p_filesz = strlen(p.interpreter) + 1;
	assert_int_equal(judge(&p, sizeof(p)), OBSTACLE_LIBC);
	assert_non_null(strstr(what.detail, "/lib/ld-other-x.so.1"));
}

static void needed_libraries_are_looked_at(void **state)
{
	(void)state;
	struct program p = make_program();
	strcpy(p.strings + 1, "libasan.so.8");
	assert_int_equal(judge(&p, sizeof(p)), OBSTACLE_ASAN);
	assert_string_equal(what.detail, "libasan.so.8");
	strcpy(p.strings + 1, "liburing.so.2");
	assert_int_equal(judge(&p, sizeof(p)), OBSTACLE_NONE);
	assert_true(what.uring);
}

static void set_id_bits_count_where_the_kernel_heeds_them(void **state)
{
	struct program p = make_program();

	(void)state;
	judge(&p, sizeof(p));
	assert_int_equal(chmod(path, 04755), 0);
	assert_int_equal(explain_program(path, &what), 0);
	assert_int_equal(what.obstacle, OBSTACLE_SETID);
	assert_int_equal(chmod(path, 02755), 0);
	assert_int_equal(explain_program(path, &what), 0);
	assert_int_equal(what.obstacle, OBSTACLE_SETID);
	/* Set-group-id without execution by the group meant locking. */
	assert_int_equal(chmod(path, 02745), 0);
	assert_int_equal(explain_program(path, &what), 0);
	assert_int_equal(what.obstacle, OBSTACLE_NONE);
}

static void file_capabilities(void **state)
{
	/* struct vfs_cap_data, revision 2: effective, permitted CAP_NET_RAW. */
	static const uint32_t capability[5] = {0x02000001, 1u << 13, 0, 0, 0};
	struct program p = make_program();

	(void)state;
	judge(&p, sizeof(p));
	if (setxattr(path, "security.capability", capability, sizeof(capability), 0)) {
		print_message("setting file capabilities: %s\n", strerror(errno));
		skip();
	}
	assert_int_equal(explain_program(path, &what), 0);
	assert_int_equal(what.obstacle, OBSTACLE_CAPABILITIES);
}

static void script(const char *name, const char *text)
{
	put(name, text, strlen(text));
}

static void scripts_are_followed_to_their_interpreter(void **state)
{
	struct program p = make_program();
	char text[400], interpreter[256], old_path[4096];

	(void)state;
	p.interp.p_type = PT_NULL;
	put("interpreter", &p, sizeof(p));
	strcpy(interpreter, path);
	snprintf(text, sizeof(text), "#! %s -x y\nrest\n", interpreter);
	script("first", text);
	assert_int_equal(explain_program(path, &what), 0);
	assert_int_equal(what.obstacle, OBSTACLE_STATIC);
	assert_string_equal(what.path, interpreter);

	snprintf(text, sizeof(text), "#!%s\n", path);
	script("second", text);
	assert_int_equal(explain_program(path, &what), 0);
	assert_string_equal(what.path, interpreter);

	snprintf(old_path, sizeof(old_path), "%s", getenv("PATH"));
	setenv("PATH", dir, 1);
	script("third", "#!/usr/bin/env interpreter\n");
	assert_int_equal(explain_program(path, &what), 0);
	assert_int_equal(what.obstacle, OBSTACLE_STATIC);
	script("fourth", "#!/usr/bin/env -S A=b interpreter -x\n");
	assert_int_equal(explain_program(path, &what), 0);
	assert_int_equal(what.obstacle, OBSTACLE_STATIC);
	setenv("PATH", old_path, 1);

	script("plain", "echo no first line\n");
	assert_int_equal(explain_program(path, &what), 0);
	assert_string_equal(what.path, "/bin/sh");
}

static void scripts_that_lead_nowhere(void **state)
{
	char text[400];

	(void)state;
	script("program", "#!/nonexistent/interpreter\n");
	assert_int_equal(explain_program(path, &what), 0);
	assert_int_equal(what.obstacle, OBSTACLE_INTERPRETER);
	script("program", "#!\n");
	assert_int_equal(explain_program(path, &what), 0);
	assert_int_equal(what.obstacle, OBSTACLE_INTERPRETER);
	snprintf(text, sizeof(text), "#!%s/program\n", dir);
	script("program", text);
	assert_int_equal(explain_program(path, &what), 0);
	assert_int_equal(what.obstacle, OBSTACLE_SCRIPT_LOOP);
	put("program", "\0\1\2\3", 4);
	assert_int_equal(explain_program(path, &what), 0);
	assert_int_equal(what.obstacle, OBSTACLE_NOT_PROGRAM);
}

static void commands_are_found_as_execvp_finds_them(void **state)
{
	struct program p = make_program();
	char found[PATH_MAX], search[512], expected[256];

	(void)state;
	judge(&p, sizeof(p));
	strcpy(expected, path);
	put("locked", &p, sizeof(p));
	chmod(path, 0644);
	snprintf(search, sizeof(search), "/nonexistent::%s", dir);
	setenv("PATH", search, 1);
	assert_int_equal(explain_find("program", found, sizeof(found)), 0);
	assert_string_equal(found, expected);
	assert_int_equal(explain_find("locked", found, sizeof(found)), -EACCES);
	assert_int_equal(explain_find("missing", found, sizeof(found)), -ENOENT);
	assert_int_equal(explain_find("", found, sizeof(found)), -ENOENT);
	assert_int_equal(explain_find(expected, found, sizeof(found)), 0);
	assert_int_equal(explain_find(dir, found, sizeof(found)), -EACCES);
	assert_int_equal(explain_find("/nonexistent/x", found, sizeof(found)), -ENOENT);
}

/* Whatever one damaged byte says, the answer comes and nothing outside is touched. */
static void damaged_files_get_an_answer(void **state)
{
	static const unsigned char values[] = {0, 1, 0x7f, 0x80, 0xff};
	struct program good = make_program();

	(void)state;
	put("program", &good, sizeof(good));
	int fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	for (size_t at = 0; at < offsetof(struct program, strings); at++)
		for (unsigned i = 0; i < sizeof(values); i++) {
			struct elf_facts facts;
			assert_int_equal(pwrite(fd, &values[i], 1, (off_t)at), 1);
			assert_int_equal(elf_read(fd, &facts), 0);
			assert_true(strlen(facts.interpreter) < sizeof(facts.interpreter));
			assert_int_equal(pwrite(fd, (char *)&good + at, 1, (off_t)at), 1);
		}
	for (size_t size = sizeof(good); size-- > 0;) {
		struct elf_facts facts;
		assert_int_equal(ftruncate(fd, (off_t)size), 0);
		assert_int_equal(elf_read(fd, &facts), 0);
	}
	close(fd);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = {
	    TEST(a_plain_program_can_be_accelerated),
	    TEST(a_program_without_interpreter_is_static),
	    TEST(go_is_known_by_its_note),
	    TEST(go_is_known_by_its_section),
	    TEST(other_machines_are_named),
	    TEST(another_libc_is_known_by_its_loader),
	    TEST(needed_libraries_are_looked_at),
	    TEST(set_id_bits_count_where_the_kernel_heeds_them),
	    TEST(file_capabilities),
	    TEST(scripts_are_followed_to_their_interpreter),
	    TEST(scripts_that_lead_nowhere),
	    TEST(commands_are_found_as_execvp_finds_them),
	    TEST(damaged_files_get_an_answer),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
