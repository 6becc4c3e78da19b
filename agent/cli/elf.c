#include "agent/cli/elf.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

#define SEGMENTS_MAX 256
#define NEEDED_MAX 512
#define SECTIONS_MAX 4096

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define NATIVE_DATA ELFDATA2LSB
#else
#define NATIVE_DATA ELFDATA2MSB
#endif
#if __SIZEOF_POINTER__ == 8
#define NATIVE_CLASS ELFCLASS64
#else
#define NATIVE_CLASS ELFCLASS32
#endif

struct image {
	int fd;
	ElfW(Ehdr) header;
	unsigned n_segments;
	ElfW(Phdr) segments[SEGMENTS_MAX];
};

/* Exactly size bytes, else false. */
static bool read_at(int fd, void *buf, size_t size, uint64_t offset)
{
	while (size) {
		if (offset > INT64_MAX)
			return false;
		ssize_t n = pread(fd, buf, size, (off_t)offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		buf = (char *)buf + n;
		size -= (size_t)n;
		offset += (uint64_t)n;
	}
	return true;
}

/* A string that may end at the end of the file. */
static void read_string(int fd, uint64_t offset, char *buf, size_t size)
{
	ssize_t n = offset > INT64_MAX ? -1 : pread(fd, buf, size - 1, (off_t)offset);

	buf[n > 0 ? n : 0] = 0;
}

static bool native_machine(uint16_t machine)
{
#if defined(__x86_64__)
	return machine == EM_X86_64;
#elif defined(__aarch64__)
	return machine == EM_AARCH64;
#elif defined(__riscv)
	return machine == EM_RISCV;
#elif defined(__powerpc64__)
	return machine == EM_PPC64;
#elif defined(__s390x__)
	return machine == EM_S390;
#elif defined(__i386__)
	return machine == EM_386;
#elif defined(__arm__)
	return machine == EM_ARM;
#else
#error "name the ELF machine of this architecture"
#endif
}

static bool file_offset(const struct image *image, uint64_t address, uint64_t *ret)
{
	for (unsigned i = 0; i < image->n_segments; i++) {
		const ElfW(Phdr) *s = &image->segments[i];
		if (s->p_type == PT_LOAD && address >= s->p_vaddr && address - s->p_vaddr < s->p_filesz) {
			*ret = address - s->p_vaddr + s->p_offset;
			return true;
		}
	}
	return false;
}

static void take_needed(struct elf_facts *f, const char *name)
{
	static const char *const first[] = {"libasan.so.", "libtsan.so.", "libhwasan.so.", "libclang_rt.asan",
					    "libclang_rt.tsan"};

	if (!strncmp(name, "liburing.so.", 12))
		f->uring = true;
	for (unsigned i = 0; i < sizeof(first) / sizeof(first[0]); i++)
		if (!strncmp(name, first[i], strlen(first[i])) && strlen(name) < sizeof(f->sanitizer))
			strcpy(f->sanitizer, name);
}

static void read_dynamic(const struct image *image, const ElfW(Phdr) * segment, struct elf_facts *f)
{
	uint64_t strings = 0, needed[64];
	unsigned n_needed = 0;
	bool have_strings = false;
	char name[64];

	for (unsigned i = 0; i < NEEDED_MAX; i++) {
		ElfW(Dyn) d;
		if ((i + 1) * sizeof(d) > segment->p_filesz)
			break;
		if (!read_at(image->fd, &d, sizeof(d), segment->p_offset + i * sizeof(d)) || d.d_tag == DT_NULL)
			break;
		if (d.d_tag == DT_STRTAB)
			have_strings = file_offset(image, d.d_un.d_ptr, &strings);
		else if (d.d_tag == DT_NEEDED && n_needed < sizeof(needed) / sizeof(needed[0]))
			needed[n_needed++] = d.d_un.d_val;
	}
	for (unsigned i = 0; have_strings && i < n_needed; i++) {
		if (needed[i] > UINT32_MAX)
			continue;
		read_string(image->fd, strings + needed[i], name, sizeof(name));
		take_needed(f, name);
	}
}

/* Go's linker marks a program with a note of name "Go" and type 4. */
static bool has_go_note(const struct image *image, const ElfW(Phdr) * segment)
{
	uint64_t at = 0;

	for (unsigned i = 0; i < 64; i++) {
		ElfW(Nhdr) note;
		char name[4];
		if (at > segment->p_filesz || segment->p_filesz - at < sizeof(note))
			return false;
		if (!read_at(image->fd, &note, sizeof(note), segment->p_offset + at))
			return false;
		if (note.n_namesz == 4 && note.n_type == 4 &&
		    read_at(image->fd, name, 4, segment->p_offset + at + sizeof(note)) && !memcmp(name, "Go\0\0", 4))
			return true;
		at += sizeof(note) + ((uint64_t)note.n_namesz + 3) / 4 * 4 + ((uint64_t)note.n_descsz + 3) / 4 * 4;
	}
	return false;
}

/* Programs linked with -buildid= have no note; this section stays. */
static bool has_go_section(const struct image *image)
{
	const ElfW(Ehdr) *h = &image->header;
	ElfW(Shdr) names, section;
	char name[16];

	if (h->e_shentsize != sizeof(section) || h->e_shnum > SECTIONS_MAX || h->e_shstrndx >= h->e_shnum)
		return false;
	if (!read_at(image->fd, &names, sizeof(names), h->e_shoff + (uint64_t)h->e_shstrndx * sizeof(section)))
		return false;
	for (unsigned i = 0; i < h->e_shnum; i++) {
		if (!read_at(image->fd, &section, sizeof(section), h->e_shoff + (uint64_t)i * sizeof(section)))
			return false;
		if (section.sh_name >= names.sh_size)
			continue;
		read_string(image->fd, names.sh_offset + section.sh_name, name, sizeof(name));
		if (!strcmp(name, ".go.buildinfo"))
			return true;
	}
	return false;
}

static void read_native(struct image *image, struct elf_facts *f)
{
	const ElfW(Ehdr) *h = &image->header;

	if (h->e_phentsize != sizeof(image->segments[0]))
		return;
	image->n_segments = h->e_phnum < SEGMENTS_MAX ? h->e_phnum : SEGMENTS_MAX;
	if (!read_at(image->fd, image->segments, image->n_segments * sizeof(image->segments[0]), h->e_phoff))
		return;
	for (unsigned i = 0; i < image->n_segments; i++) {
		const ElfW(Phdr) *s = &image->segments[i];
		if (s->p_type == PT_INTERP) {
			size_t n = s->p_filesz < sizeof(f->interpreter) ? s->p_filesz : sizeof(f->interpreter);
			f->dynamic = true;
			if (n)
				read_string(image->fd, s->p_offset, f->interpreter, n);
		} else if (s->p_type == PT_DYNAMIC) {
			read_dynamic(image, s, f);
		} else if (s->p_type == PT_NOTE) {
			f->go = f->go || has_go_note(image, s);
		}
	}
	f->go = f->go || has_go_section(image);
}

int elf_read(int fd, struct elf_facts *ret)
{
	struct image image = {.fd = fd};
	struct elf_facts f = {0};
	ssize_t n = pread(fd, &image.header, sizeof(image.header), 0);

	if (n < 0)
		return -errno;
	f.elf = n >= EI_NIDENT + 4 && !memcmp(image.header.e_ident, ELFMAG, SELFMAG);
	if (f.elf) {
		uint16_t machine = image.header.e_machine;
		f.class = image.header.e_ident[EI_CLASS];
		f.data = image.header.e_ident[EI_DATA];
		f.machine = f.data == NATIVE_DATA ? machine : __builtin_bswap16(machine);
		f.native = f.class == NATIVE_CLASS && f.data == NATIVE_DATA && native_machine(f.machine);
		if (f.native && n == sizeof(image.header))
			read_native(&image, &f);
	}
	*ret = f;
	return 0;
}
