/* fd number -> what this process knows of it. Two levels, never sized by RLIMIT_NOFILE, looked up without locks;
 * an unknown number costs two loads. Leaves are made on need and never freed. */
#ifndef HASTEN_FDTAB_H
#define HASTEN_FDTAB_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sock;
struct waitset;

#define FDTAB_LEAF_BITS 14
#define FDTAB_LEAF (1u << FDTAB_LEAF_BITS)
#define FDTAB_TOP  (1u << (30 - FDTAB_LEAF_BITS))

enum fd_kind { FD_NONE = 0, FD_SOCK = 1, FD_EPOLL = 2, FD_OWN = 3 };

extern _Atomic(uintptr_t) *_Atomic fdtab_top[FDTAB_TOP];
extern _Atomic int fdtab_highest; /* no entry above it: bounds the walks of fork and exit */

static inline uintptr_t fdtab_get(int fd)
{
	if ((unsigned)fd >= 1u << 30)
		return 0;
	/* acquire: what an entry points to was made before the entry */
	_Atomic(uintptr_t) *leaf = atomic_load_explicit(&fdtab_top[(unsigned)fd >> FDTAB_LEAF_BITS], memory_order_acquire);
	return leaf ? atomic_load_explicit(&leaf[(unsigned)fd & (FDTAB_LEAF - 1)], memory_order_acquire) : 0;
}

static inline enum fd_kind fd_kind(uintptr_t entry)
{
	return entry & 3;
}

static inline struct sock *fdtab_sock(int fd)
{
	uintptr_t e = fdtab_get(fd);
	return (e & 3) == FD_SOCK ? (struct sock *)(e - FD_SOCK) : NULL;
}

static inline struct waitset *fdtab_waitset(int fd)
{
	uintptr_t e = fdtab_get(fd);
	return (e & 3) == FD_EPOLL ? (struct waitset *)(e - FD_EPOLL) : NULL;
}

/* Replaces the entry; returns the old one. -1 (no memory) comes back as 0 with nothing stored. */
uintptr_t fdtab_set(int fd, uintptr_t entry);

/* Moves a descriptor of our own out of the program's way (CLOEXEC, high number) and marks it. The low number is
 * closed. Returns the new number, or the old one where there is no room above. */
int fdtab_own(int fd);
/* May this process make a file (or memfd) of that size? Beyond RLIMIT_FSIZE the attempt would raise SIGXFSZ. */
bool file_size_allowed(uint64_t size);
/* Closes a descriptor of our own. */
void fdtab_disown(int fd);
#endif
