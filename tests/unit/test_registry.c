/* The registry: its tables, and files that are not what they should be. */
#include "preload/discover/registry.h"
#include "preload/real.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[48], file[PATH_MAX];
static int sock;

static int begin(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/hasten-registry.XXXXXX");
	if (!mkdtemp(dir) || setenv("HASTEN_RUN_DIR", dir, 1) < 0)
		return -1;
	registry_close();
	return 0;
}

static int end(void **state)
{
	(void)state;
	registry_close();
	DIR *d = opendir(dir);
	for (struct dirent *e; d && (e = readdir(d));)
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
			unlinkat(dirfd(d), e->d_name, e->d_type == DT_DIR ? AT_REMOVEDIR : 0);
	if (d)
		closedir(d);
	return rmdir(dir);
}

static struct state_addr addr(uint32_t ip, uint16_t port)
{
	struct state_addr a = {.port = port, .v4 = 1};
	a.ip[10] = a.ip[11] = 0xff;
	for (int i = 0; i < 4; i++)
		a.ip[12 + i] = ip >> (24 - 8 * i);
	return a;
}

#define LOOP 0x7f000001u

/* The name that a user's file has here; this user's is made. */
static void find_name(unsigned uid)
{
	char part[16];
	snprintf(part, sizeof(part), "-%u-", uid);
	assert_int_equal(registry_open(sock), 0);
	DIR *d = opendir(dir);
	assert_non_null(d);
	file[0] = 0;
	for (struct dirent *e; (e = readdir(d));)
		if (!strncmp(e->d_name, "reg", 3) && strstr(e->d_name, part))
			snprintf(file, sizeof(file), "%s/%s", dir, e->d_name);
	closedir(d);
	assert_true(file[0]);
	registry_close();
}

static void test_connections(void **state)
{
	(void)state;
	struct state_addr c = addr(LOOP, 40000), a = addr(LOOP, 80), other = addr(LOOP, 81);
	struct registry_hit hit;
	assert_false(registry_find(&c, &a, &hit)); /* closed */
	assert_int_equal(registry_publish(&c, &a, 7), -1);
	assert_int_equal(registry_open(sock), 0);
	assert_false(registry_find(&c, &a, &hit));
	int entry = registry_publish(&c, &a, 7);
	assert_true(entry >= 0);
	assert_true(registry_find(&c, &a, &hit));
	assert_int_equal(hit.token, 7);
	assert_int_equal(hit.entry, entry);
	assert_int_equal(hit.process, identity());
	assert_int_equal(hit.pid, getpid());
	assert_int_equal(hit.uid, geteuid());
	assert_false(registry_find(&a, &c, &hit)); /* the ends are not interchangeable */
	assert_false(registry_find(&c, &other, &hit));
	assert_false(registry_knocked(entry));
	assert_true(registry_find(&c, &a, &hit));
	hit.token++;
	registry_knock(&hit); /* of a connection that stood there before */
	assert_false(registry_knocked(entry));
	hit.token--;
	registry_knock(&hit);
	assert_true(registry_knocked(entry));
	registry_withdraw(entry);
	assert_false(registry_find(&c, &a, &hit));
	registry_withdraw(-1);
	int again = registry_publish(&c, &a, 8);
	assert_true(again >= 0);
	assert_false(registry_knocked(again));
	registry_withdraw(again);
}

static void test_not_ours_to_withdraw(void **state)
{
	(void)state;
	struct state_addr c = addr(LOOP, 40000), a = addr(LOOP, 80);
	struct registry_hit hit;
	assert_int_equal(registry_open(sock), 0);
	int entry = registry_publish(&c, &a, 7);
	identity_renew(); /* as the child of a fork does */
	registry_withdraw(entry);
	assert_true(registry_find(&c, &a, &hit));
}

static void test_listeners(void **state)
{
	(void)state;
	struct state_addr at = addr(LOOP, 80), any = addr(0, 81), any6 = {.port = 82}, to = addr(LOOP, 82), far = addr(0x0a000001, 81);
	assert_int_equal(registry_open(sock), 0);
	assert_false(registry_listed(&at));
	registry_listen(&at);
	registry_listen(&at);
	assert_true(registry_listed(&at));
	registry_unlisten(&at);
	assert_true(registry_listed(&at)); /* counted */
	registry_unlisten(&at);
	assert_false(registry_listed(&at));
	registry_unlisten(&at);
	registry_listen(&any);
	assert_true(registry_listed(&far));
	registry_listen(&any6);
	assert_true(registry_listed(&to));
	registry_unlisten(&any);
	registry_unlisten(&any6);
	assert_false(registry_listed(&to));
}

static void test_full_window(void **state)
{
	(void)state;
	struct state_addr c = addr(LOOP, 40000), a = addr(LOOP, 80);
	int entry[64], n = 0;
	assert_int_equal(registry_open(sock), 0);
	while (n < 64 && (entry[n] = registry_publish(&c, &a, n + 1)) >= 0)
		n++;
	assert_in_range(n, 8, 63); /* one key has a window, not the table */
	c.port++;
	int other = registry_publish(&c, &a, 99);
	assert_true(other >= 0); /* another key has another one */
	registry_withdraw(other);
	c.port--;
	registry_withdraw(entry[n / 2]);
	assert_int_equal(registry_publish(&c, &a, 100), entry[n / 2]);
	while (n)
		registry_withdraw(entry[--n]);
}

static void test_entries_of_the_dead(void **state)
{
	(void)state;
	struct state_addr c = addr(LOOP, 40000), a = addr(LOOP, 80);
	assert_int_equal(registry_open(sock), 0);
	pid_t pid = fork();
	if (pid == 0) {
		identity_renew();
		int n = 0;
		while (registry_publish(&c, &a, 1) >= 0)
			n++;
		registry_listen(&a);
		real._exit(n >= 8 ? 0 : 1);
	}
	int status;
	/* not reaped: a process that may still be there keeps its entries */
	siginfo_t info;
	assert_int_equal(waitid(P_PID, pid, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(registry_publish(&c, &a, 2), -1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	int entry = registry_publish(&c, &a, 3);
	assert_true(entry >= 0);
	registry_withdraw(entry);
}

static void test_damaged_file(void **state)
{
	(void)state;
	find_name(geteuid());
	int fd = open(file, O_WRONLY);
	assert_int_equal(pwrite(fd, "nonsense", 8, 0), 8);
	assert_int_equal(registry_open(sock), -EPROTO);
	assert_int_equal(registry_open(sock), -EPROTO); /* remembered */
	registry_close();
	uint32_t version = 999;
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(registry_open(sock), 0); /* one that is cut off begins anew */
	registry_close();
	assert_int_equal(pwrite(fd, &version, 4, 8), 4);
	assert_int_equal(registry_open(sock), -EPROTO);
	close(fd);
}

static void test_squatted_names(void **state)
{
	(void)state;
	char elsewhere[80];
	find_name(geteuid());
	snprintf(elsewhere, sizeof(elsewhere), "%s/elsewhere", dir);
	assert_int_equal(rename(file, elsewhere), 0);
	assert_int_equal(symlink(elsewhere, file), 0);
	assert_int_equal(registry_open(sock), -ELOOP);
	registry_close();
	unlink(file);
	assert_int_equal(link(elsewhere, file), 0);
	assert_int_equal(registry_open(sock), -EPERM);
	registry_close();
	unlink(elsewhere);
	assert_int_equal(chmod(file, 0666), 0);
	assert_int_equal(registry_open(sock), -EPERM);
	registry_close();
	unlink(file);
	assert_int_equal(mkfifo(file, 0600), 0);
	assert_int_equal(registry_open(sock), -EPERM);
	registry_close();
	unlink(file);
	assert_int_equal(mkdir(file, 0700), 0);
	assert_int_equal(registry_open(sock), -EISDIR);
	registry_close();
}

static void test_wrong_owner(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	find_name(geteuid());
	assert_int_equal(chown(file, 12345, 12345), 0);
	assert_int_equal(registry_open(sock), -EPERM);
}

static void test_folders(void **state)
{
	(void)state;
	assert_int_equal(chmod(dir, 0777), 0);
	assert_int_equal(registry_open(sock), -ENOENT);
	registry_close();
	assert_int_equal(chmod(dir, geteuid() == 0 ? 01777 : 0755), 0); /* sticky is good enough for root's */
	assert_int_equal(registry_open(sock), 0);
	registry_close();
	if (geteuid() == 0) {
		assert_int_equal(chmod(dir, 0755), 0);
		assert_int_equal(chown(dir, 12345, 12345), 0);
		assert_int_equal(registry_open(sock), -ENOENT);
		assert_int_equal(chown(dir, 0, 0), 0);
	}
}

/* Files of another user, as root sees them: read, never believed beyond their length. */
static void test_other_users(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	struct state_addr c = addr(LOOP, 40000), a = addr(LOOP, 80), s = addr(LOOP, 90);
	struct registry_hit hit;
	assert_int_equal(chmod(dir, 01777), 0);
	pid_t pid = fork();
	if (pid == 0) {
		if (setresuid(12345, 12345, 12345) < 0 || registry_open(sock) < 0 || registry_publish(&c, &a, 5) < 0)
			real._exit(1);
		registry_listen(&s);
		real._exit(0);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	find_name(12345);
	assert_int_equal(registry_open(sock), 0);
	assert_true(registry_listed(&s));
	assert_true(registry_find(&c, &a, &hit));
	assert_int_equal(hit.uid, 12345);
	registry_knock(&hit); /* not ours to write */
	assert_int_equal(truncate(file, 5000), 0); /* under us */
	assert_false(registry_find(&c, &a, &hit));
	assert_int_equal(truncate(file, 0), 0);
	assert_false(registry_listed(&s));
	assert_false(registry_find(&c, &a, &hit));
}

/* One user with many names for the same user keeps nobody else out. */
static void test_names_that_mean_the_same(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	struct state_addr s = addr(LOOP, 90);
	char other[PATH_MAX];
	assert_int_equal(chmod(dir, 01777), 0);
	find_name(0);
	const char *version = strrchr(file, '/') + 1, *netns = strrchr(file, '-') + 1;
	int digits = strcspn(version, "-");
	static const char *const forms[] = {"%0*d", "+%0*d", " %0*d"};
	for (int i = 0; i < 60; i++) {
		char user[40];
		snprintf(user, sizeof(user), forms[i % 3], 6 + i / 3, 12346);
		snprintf(other, sizeof(other), "%s/%.*s-%s-%s", dir, digits, version, user, netns);
		int fd = open(other, O_WRONLY | O_CREAT, 0644);
		assert_true(fd >= 0);
		assert_int_equal(fchown(fd, 12346, 12346), 0);
		close(fd);
	}
	pid_t pid = fork();
	if (pid == 0) {
		if (setresuid(12345, 12345, 12345) < 0 || registry_open(sock) < 0)
			real._exit(1);
		registry_listen(&s);
		real._exit(0);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(registry_open(sock), 0);
	assert_true(registry_listed(&s));
}

static void test_identity(void **state)
{
	(void)state;
	uint64_t mine = identity();
	assert_int_equal(identity(), mine);
	identity_renew();
	assert_int_not_equal(identity(), mine);
	assert_int_not_equal(random64(), random64());
}

int main(void)
{
	real_bind();
	sock = real.socket(AF_INET, SOCK_STREAM, 0);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_connections, begin, end),
		cmocka_unit_test_setup_teardown(test_not_ours_to_withdraw, begin, end),
		cmocka_unit_test_setup_teardown(test_listeners, begin, end),
		cmocka_unit_test_setup_teardown(test_full_window, begin, end),
		cmocka_unit_test_setup_teardown(test_entries_of_the_dead, begin, end),
		cmocka_unit_test_setup_teardown(test_damaged_file, begin, end),
		cmocka_unit_test_setup_teardown(test_squatted_names, begin, end),
		cmocka_unit_test_setup_teardown(test_wrong_owner, begin, end),
		cmocka_unit_test_setup_teardown(test_folders, begin, end),
		cmocka_unit_test_setup_teardown(test_other_users, begin, end),
		cmocka_unit_test_setup_teardown(test_names_that_mean_the_same, begin, end),
		cmocka_unit_test_setup_teardown(test_identity, begin, end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
