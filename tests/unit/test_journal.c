/* The journal: what it remembers, and that no damage to it goes unseen. */
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

#include "agent/sys/error.h"
#include "agent/sys/sys.h"
#include "agent/tune/journal.h"
#include "agent/tune/record.h"

static char root[64];
static struct sys *s;

static void put(const char *path, const char *text)
{
	char full[256];

	snprintf(full, sizeof(full), "%s%s", root, path);
	for (char *c = full + strlen(root) + 1; *c; c++)
		if (*c == '/') {
			*c = 0;
			mkdir(full, 0755);
			*c = '/';
		}
	FILE *f = fopen(full, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static int setup(void **state)
{
	struct error e = {0};

	/* fsync costs nothing there */
	strcpy(root, access("/dev/shm", W_OK) ? "/tmp/hasten-journal-XXXXXX" : "/dev/shm/hasten-journal-XXXXXX");
	assert_non_null(mkdtemp(root));
	put("/proc/sys/kernel/random/boot_id", "boot-1\n");
	put("/etc/machine-id", "machine-1\n");
	assert_int_equal(sys_open(root, &s, &e), 0);
	return 0;
}

static int teardown(void **state)
{
	char command[128];

	sys_close(s);
	snprintf(command, sizeof(command), "rm -rf '%s'", root);
	return system(command);
}

static const struct step step = {.name = "sysctl"};

static struct op op_of(const char *id, enum op_life life)
{
	return (struct op){.id = (char *)id, .step = &step, .target = (char *)id, .key = (char *)id, .life = life};
}

static char *journal_text(size_t *ret_len)
{
	char *text;

	assert_int_equal(sys_read(s, JOURNAL_PATH, &text, ret_len), 0);
	return text;
}

static struct journal *open_journal(bool write)
{
	struct journal *j = NULL;
	struct error e = {0};
	int r = journal_open(s, write, &j, &e);

	if (r)
		fail_msg("journal_open: %d %s", r, e.message);
	return j;
}

/* Two settings and a collateral one, applied; the journal before the transaction is over. */
static void write_some(struct journal *j)
{
	struct error e = {0};
	struct op a = op_of("sysctl/a", LIFE_BOOT), b = op_of("file/b", LIFE_FILE), c = op_of("xps/c", LIFE_BOOT);
	const char *names[] = {"redis", NULL};

	assert_int_equal(journal_begin(j, TRANSACTION_APPLY, names, false, &e), 0);
	assert_int_equal(journal_original(j, &a, "1", NULL, &e), 0);
	assert_int_equal(journal_original(j, &b, NULL, NULL, &e), 0);
	assert_int_equal(journal_original(j, &c, "bytes \xff\xfe and \"quotes\" and\nlines", "sysctl/a", &e), 0);
	assert_int_equal(journal_sync(j, &e), 0);
	assert_int_equal(journal_opened(j, "sysctl/a", "2", false, &e), 0);
	assert_int_equal(journal_closed(j, "sysctl/a", "2", &e), 0);
	assert_int_equal(journal_opened(j, "file/b", "text\n", false, &e), 0);
	assert_int_equal(journal_closed(j, "file/b", "text\n", &e), 0);
}

static void test_remembers(void **state)
{
	struct error e = {0};
	struct journal *j = open_journal(true);
	const struct journal_record *r;

	write_some(j);
	assert_non_null(journal_transaction(j));
	assert_int_equal(journal_committed(j, 0, &e), 0);
	assert_null(journal_transaction(j));
	journal_close(j);

	j = open_journal(false);
	assert_null(journal_transaction(j));
	assert_int_equal(journal_count(j), 3);
	r = journal_find(j, "sysctl/a");
	assert_string_equal(r->original, "1");
	assert_string_equal(r->applied, "2");
	assert_true(r->is_written && r->is_live && !r->is_open);
	r = journal_find(j, "file/b");
	assert_null(r->original);
	assert_string_equal(r->applied, "text\n");
	r = journal_find(j, "xps/c");
	assert_string_equal(r->original, "bytes \xff\xfe and \"quotes\" and\nlines");
	assert_string_equal(r->collateral_of, "sysctl/a");
	assert_false(r->is_written);
	journal_close(j);
}

static void test_first_original_counts(void **state)
{
	struct error e = {0};
	struct op a = op_of("sysctl/a", LIFE_BOOT);
	struct journal *j = open_journal(true);
	const struct journal_record *r;
	const char *names[] = {"nginx", NULL};

	write_some(j);
	assert_int_equal(journal_committed(j, 0, &e), 0);
	assert_int_equal(journal_begin(j, TRANSACTION_APPLY, names, false, &e), 0);
	assert_int_equal(journal_original(j, &a, "2", NULL, &e), 0);
	assert_int_equal(journal_opened(j, "sysctl/a", "3", false, &e), 0);
	assert_int_equal(journal_closed(j, "sysctl/a", "3", &e), 0);
	r = journal_find(j, "sysctl/a");
	assert_string_equal(r->original, "1");
	assert_string_equal(r->before, "2");
	assert_true(r->before_written);
	assert_int_equal(journal_restored(j, "sysctl/a", true, &e), 0);
	r = journal_find(j, "sysctl/a");
	assert_string_equal(r->applied, "2");
	assert_int_equal(journal_ended(j, &e), 0);
	assert_string_equal(journal_find(j, "sysctl/a")->applied, "2");
	journal_close(j);
}

static void test_other_boot_and_machine(void **state)
{
	struct error e = {0};
	struct journal *j = open_journal(true);
	struct op a = op_of("sysctl/a", LIFE_BOOT);

	write_some(j);
	assert_int_equal(journal_committed(j, 0, &e), 0);
	journal_close(j);
	put("/proc/sys/kernel/random/boot_id", "boot-2\n");
	j = open_journal(true);
	assert_false(journal_find(j, "sysctl/a")->is_live);
	assert_true(journal_find(j, "file/b")->is_live);
	assert_int_equal(journal_begin(j, TRANSACTION_APPLY, NULL, false, &e), 0);
	assert_int_equal(journal_original(j, &a, "7", NULL, &e), 0);
	assert_string_equal(journal_find(j, "sysctl/a")->original, "7");
	assert_int_equal(journal_opened(j, "sysctl/a", "2", false, &e), 0);
	assert_int_equal(journal_closed(j, "sysctl/a", "2", &e), 0);
	assert_int_equal(journal_committed(j, 0, &e), 0);
	assert_int_equal(journal_count(j), 2);
	journal_close(j);
	put("/etc/machine-id", "machine-2\n");
	j = open_journal(false);
	assert_false(journal_find(j, "sysctl/a")->is_live);
	assert_true(journal_find(j, "file/b")->is_live);
	journal_close(j);
}

static void test_nothing_left(void **state)
{
	struct error e = {0};
	struct journal *j = open_journal(true);

	write_some(j);
	assert_int_equal(journal_committed(j, 0, &e), 0);
	assert_true(sys_exists(s, JOURNAL_PATH));
	assert_int_equal(journal_begin(j, TRANSACTION_REVERT, NULL, false, &e), 0);
	assert_int_equal(journal_opened(j, "sysctl/a", "1", true, &e), 0);
	assert_int_equal(journal_restored(j, "sysctl/a", false, &e), 0);
	assert_int_equal(journal_restored(j, "file/b", false, &e), 0);
	assert_int_equal(journal_ended(j, &e), 0);
	assert_int_equal(journal_count(j), 0);
	journal_close(j);
	assert_false(sys_exists(s, "/var"));
}

static void write_journal(const char *text, size_t len)
{
	char path[256];

	snprintf(path, sizeof(path), "%s" JOURNAL_PATH, root);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, len, f), len);
	fclose(f);
}

/* Cut anywhere: what is left is the state as it was after some line, or (cut to nothing) an empty journal; never an error. */
static void test_cut(void **state)
{
	struct error e = {0};
	struct journal *j = open_journal(true);
	size_t len, count = 0;

	write_some(j);
	assert_int_equal(journal_committed(j, 0, &e), 0);
	write_some(j);
	char *text = journal_text(&len);
	journal_close(j);
	for (size_t cut = 0; cut <= len; cut++) {
		write_journal(text, cut);
		j = open_journal(false);
		assert_true(journal_count(j) >= count);
		if (journal_count(j)) /* once it is there, an original never goes again */
			count = journal_count(j) < 3 ? journal_count(j) : count;
		if (journal_find(j, "sysctl/a"))
			assert_string_equal(journal_find(j, "sysctl/a")->original, "1");
		journal_close(j);
	}
	/* A writer goes on after the last whole line. */
	write_journal(text, len - 5);
	j = open_journal(true);
	assert_int_equal(journal_closed(j, "file/b", "other", &e), 0);
	journal_close(j);
	j = open_journal(false);
	assert_string_equal(journal_find(j, "file/b")->applied, "other");
	journal_close(j);
	free(text);
}

/* Every flipped bit is seen, except in the end of the last line, which then counts as not written. */
static void test_flip(void **state)
{
	struct error e = {0};
	struct journal *j = open_journal(true);
	size_t len;
	unsigned seen = 0, torn = 0;

	write_some(j);
	char *text = journal_text(&len);
	assert_int_equal(journal_committed(j, 0, &e), 0);
	journal_close(j);
	for (size_t at = 0; at < len; at++)
		for (int bit = 0; bit < 8; bit++) {
			text[at] ^= (char)(1 << bit);
			write_journal(text, len);
			text[at] ^= (char)(1 << bit);
			struct error fault = {0};
			int r = journal_open(s, false, &j, &fault);

			if (r) {
				assert_int_equal(r, -EBADMSG);
				assert_non_null(fault.file);
				assert_true(fault.line >= 1);
				assert_null(strchr(fault.message, '\n'));
				error_clear(&fault);
				seen++;
				continue;
			}
			assert_int_equal(at, len - 1);
			assert_null(journal_find(j, "file/b")->applied);
			journal_close(j);
			torn++;
		}
	assert_int_equal(torn, 8);
	assert_int_equal(seen, (len - 1) * 8);
	free(text);
}

static void test_lines_taken_out(void **state)
{
	struct error e = {0};
	struct journal *j = open_journal(true);
	size_t len;

	write_some(j);
	assert_int_equal(journal_committed(j, 0, &e), 0);
	char *text = journal_text(&len);
	journal_close(j);
	for (char *at = text; *at;) {
		char *end = strchr(at, '\n') + 1;
		size_t before = (size_t)(at - text), after = strlen(end);

		if (after) {
			char *shorter = malloc(len + 1);

			memcpy(shorter, text, before);
			memcpy(shorter + before, end, after + 1);
			write_journal(shorter, before + after);
			free(shorter);
			struct error fault = {0};
			assert_int_equal(journal_open(s, false, &j, &fault), -EBADMSG);
			error_clear(&fault);
		}
		at = end;
	}
	free(text);
}

static void test_hostile(void **state)
{
	static const char *const texts[] = {
		"\n", "{}\n", "[]\n", "null\n", "{\"type\":\"journal\"}\n", "\"\n", "{\"type\":[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]}\n",
		"{\"type\":\"journal\",\"version\":1,\"made\":null,\"sum\":\"00000000\"}\n",
	};

	put("/var/lib/hasten/keep", "");
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct error e = {0};
		struct journal *j;

		write_journal(texts[i], strlen(texts[i]));
		assert_int_equal(journal_open(s, false, &j, &e), -EBADMSG);
		assert_int_equal(e.line, 1);
		error_clear(&e);
		assert_int_equal(journal_open(s, true, &j, &e), -EBADMSG);
		error_clear(&e);
		size_t len;
		char *text = journal_text(&len);
		assert_string_equal(text, texts[i]); /* nothing is lost */
		free(text);
	}
	sys_unlink(s, JOURNAL_PATH);
	assert_int_equal(sys_mkdir(s, JOURNAL_PATH, 0755), 0);
	struct error e = {0};
	struct journal *j;
	assert_int_not_equal(journal_open(s, true, &j, &e), 0);
	error_clear(&e);
}

static void test_one_writer(void **state)
{
	struct error e = {0};
	struct lock_holder holder;
	int fd, go[2];

	assert_int_equal(pipe(go), 0);
	/* Forked before the lock is taken: a child of the holder would have the open file of the lock too. */
	pid_t child = fork();
	if (!child) {
		/* It waits for the lock, then finds the journal of the one before. */
		struct journal *own = NULL;
		struct error fault = {0};
		char byte;

		if (read(go[0], &byte, 1) != 1 || journal_open(s, true, &own, &fault))
			_exit(1);
		_exit(journal_find(own, "sysctl/a") && !journal_transaction(own) ? 0 : 2);
	}
	struct journal *j = open_journal(true);
	assert_int_equal(lock_take(s, 200, &fd, &holder), -EBUSY);
	assert_int_equal(holder.pid, getpid());
	assert_non_null(strstr(holder.command, "test_journal"));
	assert_int_equal(write(go[1], "", 1), 1);
	write_some(j);
	usleep(200000);
	assert_int_equal(journal_committed(j, 0, &e), 0);
	journal_close(j);
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
}

static void test_disk_full(void **state)
{
	struct error e = {0};
	struct journal *j = open_journal(true);
	struct op a = op_of("sysctl/z", LIFE_BOOT);
	char fault[32];

	write_some(j);
	journal_close(j);
	snprintf(fault, sizeof(fault), "1=short");
	setenv("HASTEN_SYS_FAULT", fault, 1);
	sys_close(s);
	assert_int_equal(sys_open(root, &s, &e), 0);
	unsetenv("HASTEN_SYS_FAULT");
	j = open_journal(true);
	assert_int_equal(journal_original(j, &a, "1", NULL, &e), -ENOSPC);
	error_clear(&e);
	assert_null(journal_find(j, "sysctl/z"));
	assert_int_equal(journal_original(j, &a, "1", NULL, &e), 0);
	journal_close(j);
	j = open_journal(false);
	assert_non_null(journal_find(j, "sysctl/z"));
	journal_close(j);
}

static void test_record_text(void **state)
{
	static const char *const good[] = {"", "plain", "\xff", "\xc3\x28", "\xed\xa0\x80", "ünïcode \xf0\x9f\x98\x80", "\t\n\r\"\\\x01\x7f", "\xf4\x90\x80\x80"};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		char *text = NULL;
		size_t len;
		FILE *to = open_memstream(&text, &len);
		struct record r;

		fputs("{\"a\":", to);
		record_write(to, good[i]);
		fputs("}", to);
		fclose(to);
		assert_int_equal(record_parse(text, len, &r, NULL, NULL), 0);
		assert_string_equal(record_text(&r, "a"), good[i]);
		record_free(&r);
		free(text);
	}
	static const char *const bad[] = {"", "{", "{\"a\"}", "{\"a\":}", "[1,]", "\"\\ud800\"", "\"\\u0000\"", "\"\\x\"", "nul", "{} {}", "\"a", "{\"a\":1,}"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct record r;
		const char *why = NULL;

		assert_int_equal(record_parse(bad[i], strlen(bad[i]), &r, &why, NULL), -EBADMSG);
		assert_non_null(why);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_remembers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_first_original_counts, setup, teardown),
		cmocka_unit_test_setup_teardown(test_other_boot_and_machine, setup, teardown),
		cmocka_unit_test_setup_teardown(test_nothing_left, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cut, setup, teardown),
		cmocka_unit_test_setup_teardown(test_flip, setup, teardown),
		cmocka_unit_test_setup_teardown(test_lines_taken_out, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hostile, setup, teardown),
		cmocka_unit_test_setup_teardown(test_one_writer, setup, teardown),
		cmocka_unit_test_setup_teardown(test_disk_full, setup, teardown),
		cmocka_unit_test(test_record_text),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
