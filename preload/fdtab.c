#include "preload/fdtab.h"
#include "preload/proc/limits.h"
#include "preload/quiet.h"
#include "preload/real.h"
#include "preload/stats/stats.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

_Atomic(uintptr_t) *_Atomic fdtab_top[FDTAB_TOP];
_Atomic int fdtab_highest = -1;

uintptr_t fdtab_set(int fd, uintptr_t entry)
{
	if ((unsigned)fd >= 1u << 30)
		return 0;
	_Atomic(uintptr_t) *_Atomic *place = &fdtab_top[(unsigned)fd >> FDTAB_LEAF_BITS];
	_Atomic(uintptr_t) *leaf = atomic_load_explicit(place, memory_order_acquire);
	if (!leaf) {
		if (!entry)
			return 0;
		void *made = mmap(NULL, FDTAB_LEAF * sizeof(*leaf), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (made == MAP_FAILED)
			return 0;
		if (atomic_compare_exchange_strong(place, &leaf, made))
			leaf = made;
		else
			munmap(made, FDTAB_LEAF * sizeof(*leaf));
	}
	int highest = atomic_load_explicit(&fdtab_highest, memory_order_relaxed);
	while (entry && fd > highest && !atomic_compare_exchange_weak(&fdtab_highest, &highest, fd))
		;
	return atomic_exchange_explicit(&leaf[(unsigned)fd & (FDTAB_LEAF - 1)], entry, memory_order_acq_rel);
}

int fdtab_own(int fd)
{
	if (fd < 0 || fdtab_get(fd) == FD_OWN)
		return fd;
	int high = limits_away(fd);
	if (high >= 0) {
		quiet_close(fd);
		fd = high;
	}
	fdtab_set(fd, FD_OWN);
	USE(own_fds, 1);
	return fd;
}

bool file_size_allowed(uint64_t size)
{
	struct rlimit limit;
	return getrlimit(RLIMIT_FSIZE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY || size <= limit.rlim_cur;
}

void fdtab_disown(int fd)
{
	if (fd < 0)
		return;
	fdtab_set(fd, 0);
	USE(own_fds, -1);
	quiet_close(fd);
}
