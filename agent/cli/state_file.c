#include "agent/cli/state_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROWS_AT_ONCE 64
#define ROW_TRIES 100

static ssize_t pread_all(int fd, void *buf, size_t size, off_t offset)
{
	size_t done = 0;

	while (done < size) {
		ssize_t n = pread(fd, (char *)buf + done, size - done, offset + (off_t)done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

int process_start_time(pid_t pid, uint64_t *ret_start, bool *ret_zombie)
{
	char path[64], text[1024];

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	ssize_t n = pread_all(fd, text, sizeof(text) - 1, 0);
	close(fd);
	if (n <= 0)
		return n == 0 ? -ESRCH : (int)n;
	text[n] = 0;

	/* The program's name is field 2 and may hold blanks and parentheses itself. */
	char *p = strrchr(text, ')');
	if (!p || p[1] != ' ')
		return -EBADMSG;
	p += 2;
	char kind = *p;
	for (int field = 3; field < 22; field++) {
		p = strchr(p, ' ');
		if (!p)
			return -EBADMSG;
		p++;
	}
	*ret_start = strtoull(p, NULL, 10);
	*ret_zombie = kind == 'Z' || kind == 'X';
	return 0;
}

static bool dir_trusted(int dirfd, uid_t expect, bool any_owner)
{
	struct stat st;

	if (fstat(dirfd, &st) < 0)
		return false;
	if (any_owner)
		return true;
	return st.st_uid == expect && !(st.st_mode & 022);
}

static int visit_dir(int at, const char *name, const char *shown, uid_t owner, bool any_owner, state_dir_visit visit,
		     void *arg)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return 0;
	int r = dir_trusted(fd, owner, any_owner) ? visit(arg, fd, shown) : 0;
	close(fd);
	return r;
}

static int visit_shm_all(state_dir_visit visit, void *arg)
{
	DIR *d = opendir("/dev/shm");
	struct dirent *e;
	int r = 0;

	if (!d)
		return 0;
	while (!r && (e = readdir(d))) {
		char *end, shown[300];

		if (strncmp(e->d_name, "hasten-", 7) || e->d_name[7] < '0' || e->d_name[7] > '9')
			continue;
		unsigned long uid = strtoul(e->d_name + 7, &end, 10);
		if (*end || uid >= UINT32_MAX)
			continue;
		snprintf(shown, sizeof(shown), "/dev/shm/%s", e->d_name);
		r = visit_dir(dirfd(d), e->d_name, shown, (uid_t)uid, false, visit, arg);
	}
	closedir(d);
	return r;
}

int state_dirs(const char *dir, state_dir_visit visit, void *arg)
{
	if (dir) {
		int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			return -errno;
		int r = visit(arg, fd, dir);
		close(fd);
		return r;
	}

	/* Shared by all users: the owner of each file is checked instead. */
	int r = visit_dir(AT_FDCWD, "/run/hasten", "/run/hasten", 0, true, visit, arg);
	if (r)
		return r;
	if (geteuid() == 0)
		return visit_shm_all(visit, arg);
	char own[64];
	snprintf(own, sizeof(own), "/dev/shm/hasten-%u", (unsigned)geteuid());
	return visit_dir(AT_FDCWD, own, own, geteuid(), false, visit, arg);
}

bool state_file_name(const char *name, uid_t *ret_uid, pid_t *ret_pid)
{
	char *end;

	if (strncmp(name, "proc-", 5) || name[5] < '0' || name[5] > '9')
		return false;
	errno = 0;
	unsigned long uid = strtoul(name + 5, &end, 10);
	if (errno || uid >= UINT32_MAX || *end != '-' || end[1] < '0' || end[1] > '9')
		return false;
	unsigned long pid = strtoul(end + 1, &end, 10);
	if (errno || *end || !pid || pid > INT32_MAX)
		return false;
	*ret_uid = (uid_t)uid;
	*ret_pid = (pid_t)pid;
	return true;
}

static enum state_owner owner_of(pid_t pid, const struct state_header *h)
{
	uint64_t start;
	bool zombie;

	int r = process_start_time(pid, &start, &zombie);
	if (r == -ESRCH || (!r && zombie))
		return OWNER_GONE;
	/* Without a start time to compare, a living process keeps its file. */
	return r || !h || start == h->start_time ? OWNER_RUNS : OWNER_OTHER;
}

int state_file_open(int dirfd, const char *dirname, const char *name, struct state_file *ret)
{
	struct state_file f = {.fd = -1};
	struct stat st;

	if (!state_file_name(name, &f.uid, &f.pid))
		return -ENOENT;
	if ((size_t)snprintf(f.path, sizeof(f.path), "%s/%s", dirname, name) >= sizeof(f.path))
		return -ENAMETOOLONG;
	/* O_NONBLOCK: a FIFO under this name must not hold us. */
	f.fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (f.fd < 0)
		return -errno;
	if (fstat(f.fd, &st) < 0) {
		int r = -errno;
		close(f.fd);
		return r;
	}
	if (!S_ISREG(st.st_mode) || st.st_uid != f.uid || (st.st_mode & 07777) != 0600) {
		close(f.fd);
		return -EPERM;
	}

	ssize_t n = pread_all(f.fd, &f.header, sizeof(f.header), 0);
	int r = 0;
	if (n < 0)
		r = (int)n;
	else if ((size_t)n < sizeof(f.header) || f.header.magic != STATE_MAGIC)
		r = -EBADMSG;
	else if (f.header.version != STATE_VERSION)
		r = -EPROTO;
	else if (f.header.pid != f.pid || f.header.uid != f.uid || f.header.rows_used > STATE_ROWS ||
		 st.st_size < (off_t)(STATE_ROWS_OFFSET + f.header.rows_used * sizeof(struct state_row)))
		r = -EBADMSG;
	f.owner = owner_of(f.pid, r == 0 || r == -EPROTO ? &f.header : NULL);
	f.header.program[sizeof(f.header.program) - 1] = 0;
	f.header.library[sizeof(f.header.library) - 1] = 0;
	f.header.options[sizeof(f.header.options) - 1] = 0;
	if (r) {
		close(f.fd);
		f.fd = -1;
	}
	if (!r || r == -EPROTO || r == -EBADMSG)
		*ret = f;
	return r;
}

void state_file_close(struct state_file *file)
{
	if (file->fd >= 0)
		close(file->fd);
	file->fd = -1;
}

struct find {
	pid_t pid;
	struct state_file *ret;
	int worst;
};

static int find_in(void *arg, int dirfd, const char *dirname)
{
	struct find *find = arg;
	int copy = dup(dirfd);
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *e;

	if (!d) {
		if (copy >= 0)
			close(copy);
		return 0;
	}
	rewinddir(d);
	while ((e = readdir(d))) {
		uid_t uid;
		pid_t pid;

		if (!state_file_name(e->d_name, &uid, &pid) || pid != find->pid)
			continue;
		struct state_file file;
		int r = state_file_open(dirfd, dirname, e->d_name, &file);
		if (!r && file.owner == OWNER_RUNS) {
			if (find->worst != 1)
				*find->ret = file;
			find->worst = 1;
			break;
		}
		if (!r) {
			state_file_close(&file);
			r = -ESRCH;
		}
		if (find->worst == -ENOENT)
			find->worst = r;
	}
	closedir(d);
	return find->worst == 1;
}

int state_file_find(const char *dir, pid_t pid, struct state_file *ret)
{
	struct find find = {.pid = pid, .ret = ret, .worst = -ENOENT};

	int r = state_dirs(dir, find_in, &find);
	if (r < 0)
		return r;
	return find.worst == 1 ? 0 : find.worst;
}

static int read_rows(int fd, struct state_row *rows, unsigned first, unsigned n)
{
	off_t at = STATE_ROWS_OFFSET + (off_t)first * (off_t)sizeof(*rows);
	ssize_t got = pread_all(fd, rows, n * sizeof(*rows), at);

	if (got < 0)
		return (int)got;
	return (size_t)got == n * sizeof(*rows) ? 0 : -EBADMSG;
}

static uint32_t row_seq(const struct state_row *row)
{
	return *(const uint32_t *)(const void *)&row->seq;
}

int state_file_rows(const struct state_file *file, state_row_each each, void *arg, unsigned *ret_torn)
{
	unsigned torn = 0;
	/* One pread does not promise in which order it copies: the seq counts only where a whole read before and a
	 * whole read after the one that is used saw the same. */
	struct state_row before[ROWS_AT_ONCE], row[ROWS_AT_ONCE], after[ROWS_AT_ONCE];

	for (unsigned first = 0; first < file->header.rows_used; first += ROWS_AT_ONCE) {
		unsigned n = file->header.rows_used - first;
		bool done[ROWS_AT_ONCE] = {false};
		unsigned left;

		if (n > ROWS_AT_ONCE)
			n = ROWS_AT_ONCE;
		left = n;
		for (int try = 0; left && try < ROW_TRIES; try++) {
			int r = read_rows(file->fd, before, first, n);
			if (!r)
				r = read_rows(file->fd, row, first, n);
			if (!r)
				r = read_rows(file->fd, after, first, n);
			if (r)
				return r;
			for (unsigned i = 0; i < n; i++) {
				uint32_t seq = row_seq(&row[i]);

				if (done[i] || (seq & 1) || seq != row_seq(&before[i]) || seq != row_seq(&after[i]))
					continue;
				done[i] = true;
				left--;
				if (seq)
					each(arg, &row[i]);
			}
		}
		torn += left;
	}
	if (ret_torn)
		*ret_torn = torn;
	return 0;
}

static void sum_row(void *arg, const struct state_row *row)
{
	struct state_sum *sum = arg;

	if (row->state == CONN_FREE)
		return;
	sum->tx_bytes += row->tx.lane_bytes;
	sum->rx_bytes += row->rx.lane_bytes;
	sum->tx_msgs += row->tx.lane_msgs;
	sum->rx_msgs += row->rx.lane_msgs;
	if (row->state == CONN_CLOSED)
		return;
	sum->connections++;
	sum->on_lane += row->tx.transport != TRANSPORT_KERNEL || row->rx.transport != TRANSPORT_KERNEL;
}

int state_file_sum(const struct state_file *file, struct state_sum *ret)
{
	const struct state_counters *c = &file->header.counters;
	struct state_sum sum = {.tx_bytes = c->lane_tx_bytes,
				.rx_bytes = c->lane_rx_bytes,
				.tx_msgs = c->lane_tx_msgs,
				.rx_msgs = c->lane_rx_msgs};
	int r = state_file_rows(file, sum_row, &sum, NULL);

	if (!r)
		*ret = sum;
	return r;
}
