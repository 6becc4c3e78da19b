/* Roots and what stands below them: what is read, what is written, and trees that somebody made to do harm. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

#include "agent/sys/cleanup.h"
#include "agent/sys/error.h"
#include "agent/sys/net.h"
#include "agent/sys/sys.h"
#include "tests/unit/tree.h"

static struct sys *open_root(enum sys_kind kind)
{
	struct error e = {0};
	struct sys *s = NULL;

	assert_int_equal(sys_open(tree_root, &s, &e), 0);
	assert_int_equal(sys_kind(s), kind);
	assert_string_equal(sys_root(s), tree_root);
	error_clear(&e);
	return s;
}

static void refused(int err, const char *in_message)
{
	struct error e = {0};
	struct sys *s = NULL;

	assert_int_equal(sys_open(tree_root, &s, &e), err);
	_cleanup_free_ char *text = error_text(&e, err);

	if (!strstr(text, in_message))
		fail_msg("\"%s\" is not in \"%s\"", in_message, text);
	assert_null(s);
	error_clear(&e);
}

static void test_kinds(void **state)
{
	struct sys *s = open_root(SYS_TREE);

	assert_int_equal(net_eth_get(sys_net(s), "eth0", ETH_CHANNELS, &(struct eth_settings){0}), -EOPNOTSUPP);
	sys_close(s);
	tree_file("/etc/os-release", "ID=debian\n");
	s = open_root(SYS_IMAGE);
	tree_file("/sys/x", "1\n");
	assert_int_equal(sys_write_attr(s, "/sys/x", "2"), -ENOTCONN);
	assert_int_equal(sys_write_file(s, "/etc/sysctl.d/x", "a\n", 2, 0), 0);
	tree_is("/etc/sysctl.d/x", "a\n");
	assert_int_equal(sys_run(s, (const char *const[]){"true", NULL}, 0, NULL, &(int){0}), -ENOTCONN);
	sys_close(s);
	tree_file("/hasten-capture.json", "{\"hasten_capture\": 1, \"links\": []}\n");
	sys_close(open_root(SYS_CAPTURE));
}

static void test_captures_that_are_none(void **state)
{
	tree_file("/hasten-capture.json", "{\n  \"hasten_capture\": 1,\n  \"links\": [\n");
	refused(-EINVAL, "/hasten-capture.json:4: not JSON");
	tree_file("/hasten-capture.json", "");
	refused(-EINVAL, "/hasten-capture.json:1: not JSON");
	tree_file("/hasten-capture.json", "{\"hasten_capture\": 2, \"links\": []}");
	refused(-EINVAL, "hasten_capture 2; this hasten reads 1");
	tree_file("/hasten-capture.json", "[]");
	refused(-EINVAL, "must be an object");
	tree_file("/hasten-capture.json", "{\"hasten_capture\": 1}");
	refused(-EINVAL, "links: is missing");
	tree_file("/hasten-capture.json", "{\"hasten_capture\": 1, \"links\": [{\"ifindex\": \"2\", \"name\": \"a\"}]}");
	refused(-EINVAL, "links[0].ifindex: must be a number");
	tree_file("/hasten-capture.json", "{\"hasten_capture\": 1, \"links\": [], \"ethtool\": {\"eth0\": {\"ring\": {}}}}");
	refused(-EINVAL, "ethtool.eth0.ring: no such key");
	tree_file("/hasten-capture.json", "{\"hasten_capture\": 1, \"links\": [null]}");
	refused(-EINVAL, "links[0]: must be an object");
	tree_file("/hasten-capture.json", "{\"hasten_capture\": 1, \"links\": [], \"ethtool\": {\"e\": {\"rings\": {\"rx\": {\"value\": 4294967296}}}}}");
	refused(-EINVAL, "ethtool.e.rings.rx.value: must be a number of 32 bits");
	/* Deeper than any capture. */
	char deep[4096] = "";

	memset(deep, '[', 2000);
	tree_file("/hasten-capture.json", deep);
	refused(-EINVAL, "not JSON");
	char path[PATH_MAX];

	tree_path(path, "/hasten-capture.json");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	refused(-EINVAL, "is not a file");
}

static void test_roots_that_are_none(void **state)
{
	struct error e = {0};
	struct sys *s = NULL;
	char path[PATH_MAX];

	assert_int_equal(sys_open("", &s, &e), -EINVAL);
	error_clear(&e);
	tree_path(path, "/none");
	assert_int_equal(sys_open(path, &s, &e), -ENOENT);
	assert_non_null(strstr(e.message, "--root"));
	error_clear(&e);
	tree_file("/file", "x");
	tree_path(path, "/file");
	assert_int_equal(sys_open(path, &s, NULL), -ENOTDIR);
}

static void test_reading(void **state)
{
	struct sys *s = open_root(SYS_TREE);
	uint64_t u;
	int64_t i;
	char *text, **names;
	size_t len;

	tree_file("/sys/a", "  0x1ded \n");
	assert_int_equal(sys_read_u64(s, &u, "/sys/%s", "a"), 0);
	assert_int_equal(u, 0x1ded);
	assert_int_equal(sys_read_s64(s, &i, "/sys/a"), -EINVAL);
	tree_file("/sys/b", "-1\n");
	assert_int_equal(sys_read_s64(s, &i, "/sys/b"), 0);
	assert_int_equal(i, -1);
	assert_int_equal(sys_read_u64(s, &u, "/sys/b"), -EINVAL);
	tree_file("/sys/c", "99999999999999999999\n");
	assert_int_equal(sys_read_u64(s, &u, "/sys/c"), -ERANGE);
	tree_file("/sys/d", "12 13\n");
	assert_int_equal(sys_read_u64(s, &u, "/sys/d"), -EINVAL);
	assert_int_equal(sys_read_line(s, &text, "/sys/d"), 0);
	assert_string_equal(text, "12 13");
	free(text);
	tree_file("/sys/empty", "");
	assert_int_equal(sys_read(s, "/sys/empty", &text, &len), 0);
	assert_int_equal(len, 0);
	free(text);
	assert_int_equal(sys_read_u64(s, &u, "/sys/empty"), -EINVAL);
	char path[PATH_MAX];

	tree_path(path, "/sys/zero");
	FILE *f = fopen(path, "w");

	assert_int_equal(fwrite("a\0b", 1, 3, f), 3);
	fclose(f);
	assert_int_equal(sys_read_line(s, &text, "/sys/zero"), -EINVAL);
	assert_int_equal(sys_read(s, "/sys/zero", &text, &len), 0);
	assert_int_equal(len, 3);
	free(text);
	assert_int_equal(sys_read(s, "/sys/none", &text, &len), -ENOENT);
	assert_int_equal(sys_read(s, "/sys", &text, &len), -EISDIR);
	assert_int_equal(sys_read(s, "sys/a", &text, &len), -EINVAL);
	static const char *const folders[] = {"/n/eth10", "/n/eth2", "/n/eth1", "/n/odd name\n", "/n/.hidden"};

	for (size_t k = 0; k < 5; k++)
		tree_folder(folders[k]);
	assert_int_equal(sys_list(s, &names, "/n"), 0);
	static const char *const want[] = {".hidden", "eth1", "eth2", "eth10", "odd name\n"};

	for (size_t k = 0; k < 5; k++)
		assert_string_equal(names[k], want[k]);
	assert_null(names[5]);
	sys_list_free(names);
	assert_int_equal(sys_list(s, &names, "/sys/a"), -ENOTDIR);
	assert_true(sys_exists(s, "/sys/a") && !sys_exists(s, "/sys/zz") && sys_is_dir(s, "/n") && !sys_is_dir(s, "/sys/a"));
	char long_path[PATH_MAX + 10] = "/";

	memset(long_path + 1, 'x', sizeof(long_path) - 2);
	long_path[sizeof(long_path) - 1] = 0;
	assert_int_equal(sys_read_line(s, &text, "%s", long_path), -ENAMETOOLONG);
	assert_false(sys_exists(s, "%s", long_path));
	assert_int_equal(sys_boot_id(s, &text), 0);
	assert_string_equal(text, "none");
	free(text);
	tree_file("/etc/machine-id", "abc\n");
	assert_int_equal(sys_machine_id(s, &text), 0);
	assert_string_equal(text, "abc");
	free(text);
	sys_close(s);
}

static void test_links_stay_inside(void **state)
{
	struct sys *s = open_root(SYS_TREE);
	char *text;

	tree_file("/etc/hostname", "inside\n");
	tree_symlink("/a/absolute", "/etc/hostname");
	tree_symlink("/a/up", "../../../../../../../../etc/hostname");
	tree_symlink("/a/chain", "absolute");
	tree_symlink("/a/folder", "/etc");
	static const char *const ways[] = {"/a/absolute", "/a/up", "/a/chain", "/a/folder/hostname", "/../../etc/hostname", "/a/../etc/hostname"};

	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		assert_int_equal(sys_read_line(s, &text, "%s", ways[i]), 0);
		assert_string_equal(text, "inside");
		free(text);
		assert_int_equal(sys_realpath(s, &text, "%s", ways[i]), 0);
		assert_string_equal(text, "/etc/hostname");
		free(text);
	}
	assert_int_equal(sys_realpath(s, &text, "/"), 0);
	assert_string_equal(text, "/");
	free(text);
	assert_int_equal(sys_readlink(s, &text, "/a/absolute"), 0);
	assert_string_equal(text, "/etc/hostname");
	free(text);
	assert_int_equal(sys_link_name(s, &text, "/a/up"), 0);
	assert_string_equal(text, "hostname");
	free(text);
	assert_int_equal(sys_readlink(s, &text, "/etc/hostname"), -EINVAL);
	tree_symlink("/loop", "loop");
	tree_symlink("/l1", "l2");
	tree_symlink("/l2", "l1");
	tree_symlink("/dir/self", "../dir");
	assert_int_equal(sys_read(s, "/loop", &text, NULL), -ELOOP);
	assert_int_equal(sys_read(s, "/l1", &text, NULL), -ELOOP);
	assert_int_equal(sys_read(s, "/dir/self/self/self/none", &text, NULL), -ENOENT);
	tree_symlink("/dangling", "nowhere");
	assert_int_equal(sys_read(s, "/dangling", &text, NULL), -ENOENT);
	tree_symlink("/magic", "/proc/self/root/etc/hostname");
	assert_int_equal(sys_read(s, "/magic", &text, NULL), -ENOENT);
	sys_close(s);
}

/* The folder that was looked into last is kept open: what others do to the tree meanwhile must still be seen. */
static void test_folders_that_are_replaced(void **state)
{
	struct sys *s = open_root(SYS_TREE);
	char old[PATH_MAX], new[PATH_MAX], *text;

	tree_file("/sys/d/a", "1\n");
	assert_int_equal(sys_read_line(s, &text, "/sys/d/a"), 0);
	free(text);
	tree_file("/sys/d/b", "2\n");
	assert_true(sys_exists(s, "/sys/d/b"));
	/* Gone and made anew. */
	tree_path(old, "/sys/d/a");
	assert_int_equal(unlink(old), 0);
	tree_path(old, "/sys/d/b");
	assert_int_equal(unlink(old), 0);
	tree_path(old, "/sys/d");
	assert_int_equal(rmdir(old), 0);
	assert_false(sys_exists(s, "/sys/d/a"));
	tree_file("/sys/d/a", "3\n");
	assert_int_equal(sys_read_line(s, &text, "/sys/d/a"), 0);
	assert_string_equal(text, "3");
	free(text);
	/* Moved away, another in its place: seen from the next listing on. */
	tree_path(new, "/sys/e");
	assert_int_equal(rename(old, new), 0);
	tree_file("/sys/d/a", "4\n");
	char **names;

	assert_int_equal(sys_list(s, &names, "/sys"), 0);
	sys_list_free(names);
	assert_int_equal(sys_read_line(s, &text, "/sys/d/a"), 0);
	assert_string_equal(text, "4");
	free(text);
	/* Our own changes forget it at once. */
	assert_int_equal(sys_unlink(s, "/sys/d/a"), 0);
	assert_int_equal(sys_rmdir_empty(s, "/sys/d"), 0);
	assert_false(sys_is_dir(s, "/sys/d"));
	assert_int_equal(sys_write_file(s, "/sys/d/a", "5", 1, 0), 0);
	assert_int_equal(sys_read_line(s, &text, "/sys/d/a"), 0);
	assert_string_equal(text, "5");
	free(text);
	sys_close(s);
}

static void make_socket(const char *path)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	assert_true(snprintf(sa.sun_path, sizeof(sa.sun_path), "%s%s", tree_root, path) < (int)sizeof(sa.sun_path));
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	close(fd);
}

static void test_hostile_files(void **state)
{
	struct sys *s = open_root(SYS_TREE);
	char path[PATH_MAX], *text, **names;

	alarm(20); /* what waits for ever fails */
	tree_path(path, "/pipe");
	assert_int_equal(mkfifo(path, 0666), 0);
	assert_int_equal(sys_read(s, "/pipe", &text, NULL), -ENXIO);
	assert_int_equal(sys_write_attr(s, "/pipe", "1"), -ENXIO);
	assert_int_equal(sys_openat(s, "/pipe", O_WRONLY, 0), -ENXIO);
	assert_int_equal(sys_list(s, &names, "/pipe"), -ENOTDIR);
	assert_int_equal(sys_write_file(s, "/pipe", "x", 1, 0), -ENXIO);
	make_socket("/socket");
	assert_int_equal(sys_read(s, "/socket", &text, NULL), -ENXIO);
	tree_path(path, "/device");
	if (!mknod(path, S_IFCHR | 0666, 0x0101)) { /* 1:1, memory */
		assert_int_equal(sys_read(s, "/device", &text, NULL), -ENXIO);
		assert_int_equal(sys_write_attr(s, "/device", "1"), -ENXIO);
		assert_int_equal(sys_openat(s, "/device", O_RDWR, 0), -ENXIO);
	}
	tree_symlink("/to-pipe", "pipe");
	assert_int_equal(sys_read(s, "/to-pipe", &text, NULL), -ENXIO);
	/* A file of 8 GiB that has no blocks, and one just at the limit. */
	tree_file("/huge", "");
	tree_path(path, "/huge");
	assert_int_equal(truncate(path, 8ll << 30), 0);
	assert_int_equal(sys_read(s, "/huge", &text, NULL), -EFBIG);
	assert_int_equal(truncate(path, SYS_READ_MAX), 0);
	size_t len;

	assert_int_equal(sys_read(s, "/huge", &text, &len), 0);
	assert_int_equal(len, SYS_READ_MAX);
	free(text);
	assert_int_equal(truncate(path, SYS_READ_MAX + 1), 0);
	assert_int_equal(sys_read(s, "/huge", &text, NULL), -EFBIG);
	tree_folder("/attr");
	assert_int_equal(sys_write_attr(s, "/attr", "1"), -EISDIR);
	assert_int_equal(sys_write_attr(s, "/absent", "1"), -ENOENT);
	assert_false(sys_exists(s, "/absent"));
	tree_file("/shown-only", "1\n");
	tree_path(path, "/shown-only");
	assert_int_equal(chmod(path, 0444), 0);
	assert_int_equal(sys_write_attr(s, "/shown-only", "2"), -EACCES);
	assert_false(sys_writable(s, "/shown-only"));
	assert_true(sys_writable(s, "/huge"));
	alarm(0);
	sys_close(s);
}

static void test_a_full_folder(void **state)
{
	struct sys *s = open_root(SYS_TREE);
	char path[PATH_MAX], **names;
	size_t n = 0;

	tree_folder("/many");
	for (int i = 0; i < 3000; i++) {
		char name[32];

		snprintf(name, sizeof(name), "/many/%d", i);
		tree_path(path, name);
		close(open(path, O_CREAT | O_WRONLY, 0600));
	}
	assert_int_equal(sys_list(s, &names, "/many"), 0);
	for (; names[n]; n++)
		assert_int_equal(atoi(names[n]), n);
	assert_int_equal(n, 3000);
	sys_list_free(names);
	sys_close(s);
}

static void test_files(void **state)
{
	struct sys *s = open_root(SYS_TREE);
	char path[PATH_MAX];
	struct stat st;

	mode_t old = umask(077);

	assert_int_equal(sys_write_file(s, "/etc/new/folder/file", "one\n", 4, 0), 0);
	tree_is("/etc/new/folder/file", "one\n");
	assert_int_equal(sys_stat(s, "/etc/new/folder/file", &st), 0);
	assert_int_equal(st.st_mode & 07777, 0644);
	umask(old);
	tree_path(path, "/etc/new/folder/file");
	assert_int_equal(chmod(path, 0640), 0);
	assert_int_equal(sys_write_file(s, "/etc/new/folder/file", "two\n", 4, 0), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	assert_int_equal(sys_write_file(s, "/etc/new/folder/file", "", 0, 0600), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(st.st_size, 0);
	/* A link keeps pointing; one that leads out of the root ends inside. */
	tree_symlink("/etc/link", "new/folder/file");
	assert_int_equal(sys_write_file(s, "/etc/link", "three\n", 6, 0), 0);
	tree_is("/etc/new/folder/file", "three\n");
	tree_symlink("/etc/out", "../../../../../../../../etc/new/folder/file");
	assert_int_equal(sys_write_file(s, "/etc/out", "four\n", 5, 0), 0);
	tree_is("/etc/new/folder/file", "four\n");
	assert_int_equal(sys_write_file(s, "/etc/new", "x", 1, 0), -EISDIR);
	assert_int_equal(sys_write_file(s, "/etc/..", "x", 1, 0), -EISDIR);
	assert_int_equal(sys_write_file(s, "/etc/link/below", "x", 1, 0), -ENOTDIR);
	char **names;

	assert_int_equal(sys_list(s, &names, "/etc/new/folder"), 0);
	assert_string_equal(names[0], "file");
	assert_null(names[1]);
	sys_list_free(names);
	assert_int_equal(sys_rmdir_empty(s, "/etc/new"), 0);
	assert_true(sys_is_dir(s, "/etc/new"));
	assert_int_equal(sys_unlink(s, "/etc/new/folder/file"), 0);
	assert_int_equal(sys_rmdir_empty(s, "/etc/new/folder"), 0);
	assert_int_equal(sys_rmdir_empty(s, "/etc/new"), 0);
	assert_false(sys_is_dir(s, "/etc/new"));
	assert_int_equal(sys_rmdir_empty(s, "/etc/new"), -ENOENT);
	unsigned before = sys_changes(s);

	assert_int_equal(sys_mkdir(s, "/var/lib/hasten", 0700), 0);
	assert_int_equal(sys_mkdir(s, "/var/lib/hasten", 0700), 0);
	assert_int_equal(sys_changes(s), before + 1);
	assert_int_equal(sys_stat(s, "/var/lib/hasten", &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(sys_symlink(s, "x", "/var/lib/hasten/link"), 0);
	assert_int_equal(sys_symlink(s, "x", "/var/lib/hasten/link"), -EEXIST);
	assert_int_equal(sys_unlink(s, "/var/lib/hasten/link"), 0);
	int fd = sys_openat(s, "/var/lib/hasten/journal", O_RDWR | O_CREAT | O_APPEND, 0600);

	assert_true(fd >= 0);
	assert_int_equal(sys_append(s, fd, "abc", 3), 0);
	close(fd);
	tree_is("/var/lib/hasten/journal", "abc");
	assert_int_equal(sys_openat(s, "/var/lib/hasten/journal", O_RDWR | O_CREAT | O_EXCL, 0600), -EEXIST);
	sys_close(s);
}

/* Three changes: an attribute, a file, an attribute. */
static int three(struct sys *s, int results[static 3])
{
	results[0] = sys_write_attr(s, "/sys/a", "1");
	results[1] = sys_write_file(s, "/etc/f", "x", 1, 0);
	results[2] = sys_write_attr(s, "/sys/b", "1");
	return 0;
}

static void faulty(const char *text, int a, int b, int c)
{
	int results[3];

	tree_file("/sys/a", "0\n");
	tree_file("/sys/b", "0\n");
	assert_int_equal(setenv("HASTEN_SYS_FAULT", text, 1), 0);
	struct sys *s = open_root(SYS_TREE);

	unsetenv("HASTEN_SYS_FAULT");
	three(s, results);
	assert_int_equal(results[0], a);
	assert_int_equal(results[1], b);
	assert_int_equal(results[2], c);
	assert_int_equal(sys_changes(s), 3);
	sys_close(s);
}

static void test_faults(void **state)
{
	static const struct {
		const char *name;
		int err;
	} errors[] = {{"EIO", EIO}, {"EPERM", EPERM}, {"EINVAL", EINVAL}, {"ENOSPC", ENOSPC}, {"EOVERFLOW", EOVERFLOW}, {"ERANGE", ERANGE},
		      {"EBUSY", EBUSY}, {"EAGAIN", EAGAIN}, {"ENODEV", ENODEV}, {"EROFS", EROFS}};
	char text[64];

	faulty("", 0, 0, 0);
	for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++)
		for (int n = 1; n <= 3; n++) {
			snprintf(text, sizeof(text), "%d=%s", n, errors[i].name);
			faulty(text, n == 1 ? -errors[i].err : 0, n == 2 ? -errors[i].err : 0, n == 3 ? -errors[i].err : 0);
			/* What failed changed nothing, what came after was done. */
			tree_is("/sys/a", n == 1 ? "0\n" : "1\n");
			tree_is("/sys/b", n == 3 ? "0\n" : "1\n");
		}
	faulty("*=EROFS", -EROFS, -EROFS, -EROFS);
	faulty("1=EIO,3=EPERM", -EIO, 0, -EPERM);
	faulty("3=short", 0, 0, 0);
	tree_is("/sys/b", "0\n");
	tree_is("/sys/a", "1\n");
	static const char *const wrong[] = {"1", "0=EIO", "1=", "1=EWHAT", "x=EIO", "=EIO", "1=kill2", "**=EIO", "1=EIO;2=EIO", "-1=EIO"};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		setenv("HASTEN_SYS_FAULT", wrong[i], 1);
		refused(-EINVAL, "HASTEN_SYS_FAULT");
	}
	unsetenv("HASTEN_SYS_FAULT");
}

static void test_killed(void **state)
{
	for (int n = 1; n <= 3; n++) {
		char text[32];
		int status, results[3];

		tree_file("/sys/a", "0\n");
		tree_file("/sys/b", "0\n");
		snprintf(text, sizeof(text), "%d=kill", n);
		setenv("HASTEN_SYS_FAULT", text, 1);
		pid_t pid = fork();

		if (!pid) {
			struct sys *s;

			if (!sys_open(tree_root, &s, NULL))
				three(s, results);
			_exit(0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		tree_is("/sys/a", "1\n");
		tree_is("/sys/b", n == 3 ? "1\n" : "0\n");
		if (n > 1)
			tree_is("/etc/f", "x");
	}
	unsetenv("HASTEN_SYS_FAULT");
}

static void test_half_a_record(void **state)
{
	setenv("HASTEN_SYS_FAULT", "1=short", 1);
	struct sys *s = open_root(SYS_TREE);

	unsetenv("HASTEN_SYS_FAULT");
	int fd = sys_openat(s, "/journal", O_WRONLY | O_CREAT | O_APPEND, 0600);

	assert_int_equal(sys_append(s, fd, "abcdef", 6), -ENOSPC);
	close(fd);
	tree_is("/journal", "abc");
	sys_close(s);
}

static void test_programs(void **state)
{
	struct sys *s = NULL;
	char *output;
	int status;

	assert_int_equal(sys_open(NULL, &s, NULL), 0);
	assert_int_equal(sys_kind(s), SYS_LIVE);
	assert_string_equal(sys_root(s), "");
	const char *const both[] = {"sh", "-c", "echo out; echo err >&2; exit 3", NULL};

	assert_int_equal(sys_run(s, both, 0, &output, &status), 0);
	assert_string_equal(output, "out\nerr\n");
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 3);
	free(output);
	assert_int_equal(sys_run(s, (const char *const[]){"hasten-no-such-program", NULL}, 0, NULL, &status), -ENOENT);
	assert_int_equal(sys_run(s, (const char *const[]){"/etc/passwd", NULL}, 0, NULL, &status), -EACCES);
	/* The caller's PATH and library path are not the program's. */
	setenv("LD_LIBRARY_PATH", "/evil", 1);
	setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
	assert_int_equal(sys_run(s, (const char *const[]){"env", NULL}, 0, &output, &status), 0);
	assert_null(strstr(output, "evil"));
	assert_non_null(strstr(output, "XDG_RUNTIME_DIR=/run/user/7\n"));
	assert_non_null(strstr(output, "LC_ALL=C.UTF-8\n"));
	free(output);
	unsetenv("LD_LIBRARY_PATH");
	const char *const flood[] = {"sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x", NULL};

	assert_int_equal(sys_run(s, flood, 0, &output, &status), 0);
	assert_int_equal(strlen(output), 64 << 10);
	assert_int_equal(status, 0);
	free(output);
	const char *const reads[] = {"cat", NULL};

	assert_int_equal(sys_run(s, reads, 5000, &output, &status), 0);
	assert_string_equal(output, "");
	free(output);
	const char *const hangs[] = {"sh", "-c", "sleep 60 & sleep 60", NULL};

	assert_int_equal(sys_run(s, hangs, 200, &output, &status), -ETIMEDOUT);
	/* What it leaves behind with our pipe open is not waited for. */
	const char *const leaves[] = {"sh", "-c", "sleep 3 & echo done", NULL};
	time_t from = time(NULL);

	assert_int_equal(sys_run(s, leaves, 10000, &output, &status), 0);
	assert_string_equal(output, "done\n");
	assert_true(time(NULL) - from < 3);
	free(output);
	sys_close(s);
}

#define TREE_TEST(f) cmocka_unit_test_setup_teardown(f, tree_begin, tree_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TREE_TEST(test_kinds),         TREE_TEST(test_captures_that_are_none), TREE_TEST(test_roots_that_are_none),
		TREE_TEST(test_reading),       TREE_TEST(test_links_stay_inside),      TREE_TEST(test_hostile_files),
		TREE_TEST(test_folders_that_are_replaced),
		TREE_TEST(test_a_full_folder), TREE_TEST(test_files),                  TREE_TEST(test_faults),
		TREE_TEST(test_killed),        TREE_TEST(test_half_a_record),          cmocka_unit_test(test_programs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
