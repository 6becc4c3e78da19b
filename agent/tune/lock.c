#include "agent/tune/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "agent/sys/cleanup.h"
#include "agent/sys/sys.h"

#define POLL_MS 50

/* F_OFD_GETLK knows no process id (the lock is the open file's), so the holder writes its own into the file. */
static int sign(int fd)
{
	_cleanup_close_ int own = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	char command[128] = "", text[160];
	ssize_t n = own < 0 ? 0 : read(own, command, sizeof(command) - 1);
	int len;

	for (ssize_t i = 0; i + 1 < n; i++)
		if ((unsigned char)command[i] < 0x20)
			command[i] = ' ';
	len = snprintf(text, sizeof(text), "%d %s\n", getpid(), command);
	if (len >= (int)sizeof(text))
		len = (int)sizeof(text) - 1;
	/* Over the last holder's, whose room it takes: on a full disk the lock holds without a name, and revert is possible. */
	if (pwrite(fd, text, (size_t)len, 0) == len)
		return ftruncate(fd, len) ? -errno : 0;
	return (errno == ENOSPC || errno == EDQUOT) && !ftruncate(fd, 0) ? 0 : -errno;
}

void lock_holder(struct sys *s, struct lock_holder *ret)
{
	_cleanup_free_ char *text = NULL;
	char *end;
	long pid;

	*ret = (struct lock_holder){0};
	if (sys_read_line(s, &text, LOCK_PATH))
		return;
	pid = strtol(text, &end, 10);
	if (end == text || pid <= 0)
		return;
	ret->pid = (pid_t)pid;
	snprintf(ret->command, sizeof(ret->command), "%.*s", (int)sizeof(ret->command) - 1, end + strspn(end, " "));
}

uint64_t process_started(pid_t pid)
{
	char path[40], text[1024], *at;
	unsigned long long ticks = 0;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return 0;
	text[n] = 0;
	/* The second field is the name in brackets, which may hold blanks and brackets itself. */
	at = strrchr(text, ')');
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	return at && sscanf(at, "%llu", &ticks) == 1 ? ticks : 0;
}

int lock_take(struct sys *s, unsigned wait_ms, int *ret_fd, struct lock_holder *ret_holder)
{
	for (unsigned waited = 0;;) {
		struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
		_cleanup_close_ int fd = sys_openat(s, LOCK_PATH, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
		struct stat open_now, named;

		if (fd < 0)
			return fd;
		if (!fcntl(fd, F_OFD_SETLK, &all)) {
			/* The holder before may have removed the file as its last act: then this is a lock on nothing. */
			if (fstat(fd, &open_now))
				return -errno;
			if (!S_ISREG(open_now.st_mode))
				return -EINVAL;
			if (sys_stat(s, LOCK_PATH, &named) || named.st_ino != open_now.st_ino || named.st_dev != open_now.st_dev)
				continue;
			int r = sign(fd);
			if (r)
				return r;
			*ret_fd = fd;
			fd = -1;
			return 0;
		}
		if (errno != EAGAIN && errno != EACCES)
			return -errno;
		if (waited >= wait_ms) {
			lock_holder(s, ret_holder);
			return -EBUSY;
		}
		nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000L}, NULL);
		waited += POLL_MS;
	}
}
