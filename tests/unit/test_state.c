/* The reader of state files against files that the struct describes: whole ones and every kind of broken one. */
#include "agent/cli/state_file.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
	char dir[64], name[64];
	int dirfd;
	struct state_header header;
	struct state_row rows[70];
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	bool zombie;

	snprintf(f->dir, sizeof(f->dir), "/tmp/test_state.XXXXXX");
	if (!mkdtemp(f->dir))
		return -1;
	f->dirfd = open(f->dir, O_RDONLY | O_DIRECTORY);
	snprintf(f->name, sizeof(f->name), "proc-%u-%d", (unsigned)geteuid(), (int)getpid());
	f->header.magic = STATE_MAGIC;
	f->header.version = STATE_VERSION;
	f->header.pid = getpid();
	f->header.uid = geteuid();
	if (process_start_time(getpid(), &f->header.start_time, &zombie))
		return -1;
	f->header.rows_used = 70;
	f->rows[0].seq = 2;
	f->rows[0].state = CONN_ESTABLISHED;
	f->rows[0].tx.lane_bytes = 11;
	f->rows[0].tx.transport = TRANSPORT_SHM;
	f->rows[69].seq = 4;
	f->rows[69].state = CONN_ESTABLISHED;
	f->rows[69].rx.lane_bytes = 31;
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	unlinkat(f->dirfd, f->name, 0);
	close(f->dirfd);
	rmdir(f->dir);
	free(f);
	return 0;
}

static void write_file(struct fixture *f, size_t cut)
{
	int fd = openat(f->dirfd, f->name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, &f->header, sizeof(f->header), 0), sizeof(f->header));
	assert_int_equal(pwrite(fd, f->rows, sizeof(f->rows), STATE_ROWS_OFFSET), sizeof(f->rows));
	if (cut)
		assert_int_equal(ftruncate(fd, (off_t)cut), 0);
	close(fd);
}

static int open_file(struct fixture *f, struct state_file *ret)
{
	return state_file_open(f->dirfd, f->dir, f->name, ret);
}

static void test_names(void **state)
{
	uid_t uid;
	pid_t pid;

	assert_true(state_file_name("proc-12-345", &uid, &pid));
	assert_int_equal(uid, 12);
	assert_int_equal(pid, 345);
	assert_false(state_file_name("proc-12-", &uid, &pid));
	assert_false(state_file_name("proc--345", &uid, &pid));
	assert_false(state_file_name("proc-12-0", &uid, &pid));
	assert_false(state_file_name("proc-12-3x", &uid, &pid));
	assert_false(state_file_name("proc-12--3", &uid, &pid));
	assert_false(state_file_name("proc-99999999999999999999-3", &uid, &pid));
	assert_false(state_file_name("proc-1-99999999999", &uid, &pid));
	assert_false(state_file_name("reg-12-345", &uid, &pid));
}

static void test_whole(void **state)
{
	struct fixture *f = *state;
	struct state_file file;
	struct state_sum sum;

	f->header.counters.lane_tx_bytes = 100;
	write_file(f, 0);
	assert_int_equal(open_file(f, &file), 0);
	assert_int_equal(file.owner, OWNER_RUNS);
	assert_int_equal(state_file_sum(&file, &sum), 0);
	assert_int_equal(sum.tx_bytes, 111);
	assert_int_equal(sum.rx_bytes, 31);
	assert_int_equal(sum.connections, 2);
	assert_int_equal(sum.on_lane, 1);
	state_file_close(&file);
	assert_int_equal(state_file_find(f->dir, getpid(), &file), 0);
	state_file_close(&file);
	assert_int_equal(state_file_find(f->dir, 1, &file), -ENOENT);
}

static void count_row(void *arg, const struct state_row *row)
{
	++*(unsigned *)arg;
}

static void test_row_in_flux(void **state)
{
	struct fixture *f = *state;
	struct state_file file;
	unsigned n = 0, torn = 0;

	f->rows[0].seq = 3;
	write_file(f, 0);
	assert_int_equal(open_file(f, &file), 0);
	assert_int_equal(state_file_rows(&file, count_row, &n, &torn), 0);
	assert_int_equal(n, 1);
	assert_int_equal(torn, 1);
	state_file_close(&file);
}

/* A child rewrites a row whose fields must always agree; no copy that the reader hands out may disagree. */
static void check_row(void *arg, const struct state_row *row)
{
	if (row->cookie != row->tx.lane_bytes || row->cookie != row->rx.demotions || row->cookie != row->spare[1])
		++*(unsigned *)arg;
}

static void test_row_never_torn(void **state)
{
	struct fixture *f = *state;
	struct state_file file;
	unsigned wrong = 0;

	f->header.rows_used = 1;
	f->rows[0] = (struct state_row){.seq = 2};
	write_file(f, 0);
	assert_int_equal(open_file(f, &file), 0);
	pid_t child = fork();
	assert_true(child >= 0);
	if (!child) {
		int fd = openat(f->dirfd, f->name, O_WRONLY);
		struct state_row row = {.seq = 2};

		/* One field a system call, so that a reader meets every state in between. */
		for (uint64_t i = 1;; i++) {
			off_t at = STATE_ROWS_OFFSET;
			row.seq = (uint32_t)(2 * i + 1);
			row.cookie = row.tx.lane_bytes = row.rx.demotions = row.spare[1] = i;
			if (pwrite(fd, &row.seq, 4, at) != 4 || pwrite(fd, (char *)&row + 8, 70, at + 8) != 70 ||
			    pwrite(fd, (char *)&row + 78, sizeof(row) - 78, at + 78) != (ssize_t)sizeof(row) - 78)
				_exit(1);
			row.seq = (uint32_t)(2 * i + 2);
			if (pwrite(fd, &row.seq, 4, at) != 4)
				_exit(1);
		}
	}
	for (int i = 0; i < 2000; i++)
		assert_int_equal(state_file_rows(&file, check_row, &wrong, NULL), 0);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	assert_int_equal(wrong, 0);
	state_file_close(&file);
}

static void test_broken(void **state)
{
	struct fixture *f = *state;
	struct state_file file;

	f->header.magic++;
	write_file(f, 0);
	assert_int_equal(open_file(f, &file), -EBADMSG);
	f->header.magic--;
	f->header.version++;
	write_file(f, 0);
	assert_int_equal(open_file(f, &file), -EPROTO);
	f->header.version--;
	f->header.pid++;
	write_file(f, 0);
	assert_int_equal(open_file(f, &file), -EBADMSG);
	f->header.pid--;
	f->header.rows_used = STATE_ROWS + 1;
	write_file(f, 0);
	assert_int_equal(open_file(f, &file), -EBADMSG);
	f->header.rows_used = 71;
	write_file(f, 0);
	assert_int_equal(open_file(f, &file), -EBADMSG);
	f->header.rows_used = 70;
	write_file(f, 100);
	assert_int_equal(open_file(f, &file), -EBADMSG);
	write_file(f, 0);
	assert_int_equal(open_file(f, &file), 0);
	state_file_close(&file);
}

static void test_not_ours(void **state)
{
	struct fixture *f = *state;
	struct state_file file;

	write_file(f, 0);
	assert_int_equal(fchmodat(f->dirfd, f->name, 0644, 0), 0);
	assert_int_equal(open_file(f, &file), -EPERM);
	unlinkat(f->dirfd, f->name, 0);
	assert_int_equal(symlinkat("/etc/passwd", f->dirfd, f->name), 0);
	assert_int_equal(open_file(f, &file), -ELOOP);
	unlinkat(f->dirfd, f->name, 0);
	assert_int_equal(mkfifoat(f->dirfd, f->name, 0600), 0);
	assert_int_equal(open_file(f, &file), -EPERM);
	unlinkat(f->dirfd, f->name, 0);
	if (geteuid() == 0) {
		write_file(f, 0);
		assert_int_equal(fchownat(f->dirfd, f->name, 12345, (gid_t)-1, 0), 0);
		assert_int_equal(open_file(f, &file), -EPERM);
	}
}

static void test_owner(void **state)
{
	struct fixture *f = *state;
	struct state_file file;

	f->header.start_time--;
	write_file(f, 0);
	assert_int_equal(open_file(f, &file), 0);
	assert_int_equal(file.owner, OWNER_OTHER);
	state_file_close(&file);
	unlinkat(f->dirfd, f->name, 0);

	pid_t child = fork();
	assert_true(child >= 0);
	if (!child)
		_exit(0);
	siginfo_t info;
	assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
	snprintf(f->name, sizeof(f->name), "proc-%u-%d", (unsigned)geteuid(), (int)child);
	f->header.pid = child;
	write_file(f, 0);
	assert_int_equal(open_file(f, &file), 0);
	assert_int_equal(file.owner, OWNER_GONE);
	state_file_close(&file);
	waitpid(child, NULL, 0);
	assert_int_equal(open_file(f, &file), 0);
	assert_int_equal(file.owner, OWNER_GONE);
	state_file_close(&file);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
	    TEST(test_names),  TEST(test_whole),    TEST(test_row_in_flux), TEST(test_row_never_torn),
	    TEST(test_broken), TEST(test_not_ours), TEST(test_owner),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
