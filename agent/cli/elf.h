/* What the launcher must know of an ELF file, read without running or mapping it.
 * Facts: System V ABI, "Object Files"; Go's note: cmd/internal/buildid of the Go sources. */
#ifndef HASTEN_ELF_H
#define HASTEN_ELF_H
#include <stdbool.h>
#include <stdint.h>

struct elf_facts {
	bool elf;               /* an ELF file at all; all the rest holds only then */
	bool native;            /* class, byte order and machine of this program; all below holds only then */
	uint8_t class, data;
	uint16_t machine;
	bool dynamic;           /* has an interpreter */
	bool go;
	bool uring;             /* needs liburing */
	char interpreter[256];  /* PT_INTERP, empty when static */
	char sanitizer[64];     /* the sanitizer runtime that it needs and that must come first, or empty */
};

/* Reads fd from its start. Damaged files give what could be read of them. Returns 0 or -errno of reading. */
int elf_read(int fd, struct elf_facts *ret);
#endif
