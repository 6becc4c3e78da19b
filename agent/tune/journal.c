#include "agent/tune/journal_inner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/sys/cleanup.h"
#include "agent/sys/error.h"
#include "agent/sys/sys.h"
#include "agent/tune/record.h"

#define VERSION 1
#define SIZE_MAX_BYTES (64 << 20)
#define SUM_TAIL (sizeof(",\"sum\":\"01234567\"}") - 1)

void journal_record_free(struct journal_record *r)
{
	if (!r)
		return;
	free(r->id);
	free(r->step);
	free(r->target);
	free(r->device);
	free(r->ifname);
	free(r->key);
	free(r->group);
	free(r->collateral_of);
	free(r->profile);
	free(r->original);
	free(r->boot_id);
	free(r->machine_id);
	free(r->requested);
	free(r->applied);
	free(r->refused);
	free(r->before_refused);
	free(r->before);
	free(r->before_requested);
	free(r);
}

void journal_transaction_free(struct journal_transaction *t)
{
	if (!t)
		return;
	free(t->id);
	free(t->boot_id);
	free(t->machine_id);
	free(t->command);
	texts_free(t->profiles);
	free(t);
}

static size_t bucket_of(const struct journal *j, const char *id)
{
	size_t at = record_crc(0, id, strlen(id)) & (j->n_bucket - 1);

	while (j->bucket[at] && strcmp(j->record[j->bucket[at] - 1]->id, id))
		at = (at + 1) & (j->n_bucket - 1);
	return at;
}

int journal_reindex(struct journal *j)
{
	size_t room = 64;

	while (room < j->n_record * 2 + 2)
		room *= 2;
	if (room > j->n_bucket) {
		uint32_t *bucket = calloc(room, sizeof(*bucket));

		if (!bucket)
			return -ENOMEM;
		free(j->bucket);
		j->bucket = bucket;
		j->n_bucket = room;
	} else {
		memset(j->bucket, 0, j->n_bucket * sizeof(*j->bucket));
	}
	for (size_t i = 0; i < j->n_record; i++)
		j->bucket[bucket_of(j, j->record[i]->id)] = (uint32_t)i + 1;
	return 0;
}

struct journal_record *journal_record_mutable(const struct journal *j, const char *id)
{
	uint32_t found = j->n_bucket ? j->bucket[bucket_of(j, id)] : 0;

	return found ? j->record[found - 1] : NULL;
}

static int set_text(char **to, const char *text)
{
	char *copy = text ? strdup(text) : NULL;

	if (text && !copy)
		return -ENOMEM;
	free(*to);
	*to = copy;
	return 0;
}

/* What the record was worth before the transaction that is not over, kept at its first change in it. */
static int touch(struct journal_record *r)
{
	int err;

	if (r->is_touched)
		return 0;
	r->is_touched = true;
	r->before_written = r->is_written;
	if ((err = set_text(&r->before, r->is_written ? r->applied : r->original)) || (err = set_text(&r->before_requested, r->requested)))
		return err;
	return 0;
}

/* Like touch, for what the kernel refused: a transaction that is undone takes with it what was learnt for it. */
static int set_refused(struct journal_record *r, const char *refused)
{
	char *copy = refused ? strdup(refused) : NULL;

	if (refused && !copy)
		return -ENOMEM;
	if (r->is_refused_anew) {
		free(r->refused);
	} else {
		r->is_refused_anew = true;
		r->before_refused = r->refused;
	}
	r->refused = copy;
	return 0;
}

static bool same_text(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

static void set_live(struct journal *j, struct journal_record *r)
{
	r->is_live = r->life == LIFE_FILE || (same_text(r->boot_id, j->boot_id) && same_text(r->machine_id, j->machine_id));
}

static void drop_record(struct journal *j, struct journal_record *r)
{
	size_t i = 0;

	while (j->record[i] != r)
		i++;
	memmove(j->record + i, j->record + i + 1, (j->n_record - i - 1) * sizeof(*j->record));
	j->n_record--;
	journal_record_free(r);
}

static int take_begin(struct journal *j, const struct record *line, const char **why)
{
	const char *kind = record_text(line, "kind"), *id = record_text(line, "transaction"), *boot = record_text(line, "boot_id"),
		*machine = record_text(line, "machine_id"), *command = record_text(line, "command");
	struct journal_transaction *t;
	uint64_t pid = 0;

	*why = "a transaction begins inside of another";
	if (j->transaction)
		return -EBADMSG;
	*why = "a begin without transaction, kind, boot_id or machine_id";
	if (!id || !boot || !machine || !kind || (strcmp(kind, "apply") && strcmp(kind, "revert")) || !*id || strlen(id) > 64 ||
	    strspn(id, "0123456789abcdef") != strlen(id))
		return -EBADMSG;
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->kind = strcmp(kind, "revert") ? TRANSACTION_APPLY : TRANSACTION_REVERT;
	t->consent = record_true(line, "consent");
	if (!record_u64(line, "pid", &pid) && pid < INT32_MAX)
		t->pid = (pid_t)pid;
	record_u64(line, "started", &t->started);
	j->transaction = t;
	if (set_text(&t->id, id) || set_text(&t->boot_id, boot) || set_text(&t->machine_id, machine) || set_text(&t->command, command))
		return -ENOMEM;
	*why = "profiles is no list of names";
	return record_texts(line, "profiles", &t->profiles) ? -EBADMSG : 0;
}

static int take_original(struct journal *j, const struct record *line, const char **why)
{
	const char *id = record_text(line, "id"), *life = record_text(line, "life"), *step = record_text(line, "step"), *key = record_text(line, "key");
	struct journal_record *r, **grown;
	int err;

	*why = "an original outside of a transaction";
	if (!j->transaction)
		return -EBADMSG;
	*why = "an original without id, step, key, life or value";
	if (!id || !step || !key || !life || (strcmp(life, "boot") && strcmp(life, "file")) || !record_get(line, "value"))
		return -EBADMSG;
	r = journal_record_mutable(j, id);
	*why = "a second original of one setting";
	if (r && r->is_live)
		return -EBADMSG;
	if (r) { /* of another boot: anew, in the order of this transaction */
		drop_record(j, r);
		if ((err = journal_reindex(j)))
			return err;
	}
	if (!(j->n_record & (j->n_record - 1))) {
		grown = reallocarray(j->record, j->n_record ? j->n_record * 2 : 1, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		j->record = grown;
	}
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->life = strcmp(life, "file") ? LIFE_BOOT : LIFE_FILE;
	r->line = j->lines + 1;
	if (set_text(&r->id, id) || set_text(&r->step, step) || set_text(&r->key, key) || set_text(&r->target, record_text(line, "target")) ||
	    set_text(&r->device, record_text(line, "device")) || set_text(&r->ifname, record_text(line, "ifname")) ||
	    set_text(&r->group, record_text(line, "group")) || set_text(&r->collateral_of, record_text(line, "collateral_of")) ||
	    set_text(&r->profile, record_text(line, "profile")) || set_text(&r->original, record_text(line, "value")) ||
	    set_text(&r->boot_id, j->transaction->boot_id) || set_text(&r->machine_id, j->transaction->machine_id) ||
	    (!r->target && set_text(&r->target, id))) {
		journal_record_free(r);
		return -ENOMEM;
	}
	set_live(j, r);
	j->record[j->n_record++] = r;
	if (j->n_record * 2 + 2 > j->n_bucket)
		return journal_reindex(j);
	j->bucket[bucket_of(j, id)] = (uint32_t)j->n_record;
	return 0;
}

static int take_change(struct journal *j, const char *type, const struct record *line, const char **why)
{
	const char *id = record_text(line, "id");
	struct journal_record *r = id ? journal_record_mutable(j, id) : NULL;
	int err;

	*why = "a setting that has no original";
	if (!r)
		return -EBADMSG;
	*why = "a change outside of a transaction";
	if (!j->transaction)
		return -EBADMSG;
	if (!strcmp(type, "open")) {
		*why = "an open without what was requested";
		if (!record_get(line, "requested"))
			return -EBADMSG;
		if ((err = touch(r)) || (err = set_text(&r->requested, record_text(line, "requested"))))
			return err;
		r->is_open = r->is_written = true;
		r->is_removal = record_true(line, "removal");
		return set_refused(r, NULL);
	}
	if (!strcmp(type, "close")) {
		*why = "a close without the value";
		if (!record_get(line, "value"))
			return -EBADMSG;
		if ((err = touch(r)) || (err = set_text(&r->applied, record_text(line, "value"))))
			return err;
		if (!r->is_written && (err = set_text(&r->requested, r->applied)))
			return err;
		r->is_written = true;
		r->is_open = false;
		return record_text(line, "refused") ? set_refused(r, record_text(line, "refused")) : 0;
	}
	const char *to = record_text(line, "to");
	*why = "restored to what?";
	if (!to || (strcmp(to, "original") && strcmp(to, "before")))
		return -EBADMSG;
	if ((err = set_refused(r, record_text(line, "refused"))))
		return err;
	if (!strcmp(to, "before") && r->is_touched && r->before_written) {
		r->is_written = true;
		r->is_open = r->is_removal = r->is_touched = false;
		return set_text(&r->requested, r->before_requested) || set_text(&r->applied, r->before) ? -ENOMEM : 0;
	}
	r->is_written = r->is_open = r->is_removal = r->is_touched = false;
	return set_text(&r->requested, NULL) || set_text(&r->applied, NULL) ? -ENOMEM : 0;
}

static void transaction_over(struct journal *j, bool undone)
{
	for (size_t i = 0; i < j->n_record; i++) {
		struct journal_record *r = j->record[i];

		r->is_touched = false;
		if (r->is_refused_anew && undone) {
			free(r->refused);
			r->refused = r->before_refused;
		} else {
			free(r->before_refused);
		}
		r->before_refused = NULL;
		r->is_refused_anew = false;
	}
	journal_transaction_free(j->transaction);
	j->transaction = NULL;
}

int journal_take_line(struct journal *j, const struct record *line, const char **why)
{
	const char *type = record_text(line, "type");
	uint64_t number;

	*why = "a line without type";
	if (!type)
		return -EBADMSG;
	if (!strcmp(type, "journal")) {
		*why = "a first line in the middle";
		if (j->lines)
			return -EBADMSG;
		*why = "written by another version of hasten, which must revert it";
		if (record_u64(line, "version", &number) || number != VERSION)
			return -EBADMSG;
		return set_text(&j->made, record_text(line, "made"));
	}
	*why = "it does not begin with its version";
	if (!j->lines)
		return -EBADMSG;
	if (!strcmp(type, "begin"))
		return take_begin(j, line, why);
	if (!strcmp(type, "original"))
		return take_original(j, line, why);
	if (!strcmp(type, "open") || !strcmp(type, "close") || !strcmp(type, "restored"))
		return take_change(j, type, line, why);
	*why = "an unknown type of line";
	if (strcmp(type, "commit") && strcmp(type, "confirm") && strcmp(type, "end"))
		return -EBADMSG;
	*why = "the end of a transaction that did not begin";
	if (!j->transaction)
		return -EBADMSG;
	if (!strcmp(type, "commit") && !record_u64(line, "deadline_s", &number)) {
		j->transaction->waits = true;
		j->transaction->deadline_s = number;
		return 0;
	}
	transaction_over(j, !strcmp(type, "end") && j->transaction->kind == TRANSACTION_APPLY);
	return 0;
}

/* One line without its end: parsed, its sum checked. */
static int read_line(struct journal *j, const char *text, size_t len, const char **why)
{
	struct record line = {0};
	char tail[SUM_TAIL + 1];
	uint32_t sum;
	int r;

	*why = "damaged (its checksum is missing)";
	if (len <= SUM_TAIL)
		return -EBADMSG;
	sum = record_crc(j->sum, text, len - SUM_TAIL);
	snprintf(tail, sizeof(tail), ",\"sum\":\"%08x\"}", sum);
	*why = "damaged (its checksum does not fit)";
	if (memcmp(tail, text + len - SUM_TAIL, SUM_TAIL))
		return -EBADMSG;
	r = record_parse(text, len, &line, why, NULL);
	if (!r)
		r = journal_take_line(j, &line, why);
	record_free(&line);
	if (r)
		return r;
	j->sum = sum;
	j->lines++;
	return 0;
}

static int read_all(int fd, char **ret, size_t *ret_len)
{
	_cleanup_free_ char *text = NULL;
	struct stat st;
	size_t len = 0;

	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if (st.st_size > SIZE_MAX_BYTES)
		return -EFBIG;
	text = malloc((size_t)st.st_size + 1);
	if (!text)
		return -ENOMEM;
	while (len < (size_t)st.st_size) {
		ssize_t n = pread(fd, text + len, (size_t)st.st_size - len, (off_t)len);

		if (n < 0)
			return -errno;
		if (!n)
			break;
		len += (size_t)n;
	}
	text[len] = 0;
	*ret = take_ptr(text);
	*ret_len = len;
	return 0;
}

static int load(struct journal *j, struct error *e)
{
	_cleanup_free_ char *text = NULL;
	size_t len = 0, at = 0;
	int fd = sys_openat(j->s, JOURNAL_PATH, (j->lock >= 0 ? O_RDWR | O_APPEND : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0), r;

	if (fd == -ENOENT || fd == -ENOTDIR)
		return 0;
	if (fd < 0)
		return error_set(e, fd, "%s: %s", j->path, strerror(-fd));
	j->fd = fd;
	j->exists = true;
	r = read_all(fd, &text, &len);
	if (r)
		return error_set(e, r, "%s: %s; nothing was changed", j->path, r == -EINVAL ? "not an ordinary file" : strerror(-r));
	while (at < len) {
		const char *end = memchr(text + at, '\n', len - at), *why = NULL;

		if (!end)
			break;
		r = read_line(j, text + at, (size_t)(end - text) - at, &why);
		if (r == -ENOMEM)
			return r;
		if (r)
			return error_set_at(e, r, j->path, j->lines + 1, "%s; nothing was changed. Restore the file from a backup; removing it makes hasten forget the original settings", why);
		at = (size_t)(end - text) + 1;
	}
	j->size = (off_t)at;
	return 0;
}

/* The folder of the state, made where it is missing; *ret_made: the outermost folder that was not there. By descriptors: nothing that could
 * fail or be ended comes between the folders and the lock in them. */
static int make_folder(struct sys *s, char **ret_made)
{
	static const struct {
		const char *path, *name;
	} folders[] = {{"/", "var"}, {"/var", "lib"}, {"/var/lib", "hasten"}};
	_cleanup_free_ char *made = NULL;

	for (size_t i = 0; i < 3; i++) {
		if (sys_exists(s, "%s/%s", i ? folders[i].path : "", folders[i].name))
			continue;
		if (!made && asprintf(&made, "%s/%s", i ? folders[i].path : "", folders[i].name) < 0)
			return -ENOMEM;
		_cleanup_close_ int parent = sys_openat(s, folders[i].path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
		if (parent < 0)
			return parent;
		if (mkdirat(parent, folders[i].name, 0755)) {
			if (errno != EEXIST)
				return -errno;
			continue;
		}
		_cleanup_close_ int own = openat(parent, folders[i].name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (own < 0 || fchmod(own, 0755) || fsync(parent)) /* whatever the umask is */
			return -errno;
	}
	*ret_made = take_ptr(made);
	return 0;
}

static int lock(struct journal *j, struct error *e)
{
	struct lock_holder holder;
	int r = 0;

	/* The holder before may remove the folder as its last act. */
	for (int i = 0; i < 100; i++) {
		free(take_ptr(j->made));
		r = make_folder(j->s, &j->made);
		if (r)
			return error_set(e, r, "%s" STATE_FOLDER ": %s%s", sys_root(j->s), strerror(-r), r == -EACCES ? "; hasten must be run as root" : "");
		r = lock_take(j->s, LOCK_WAIT_MS, &j->lock, &holder);
		if (r != -ENOENT)
			break;
	}
	if (r == -EBUSY)
		return error_set(e, r, "another hasten changes settings now: process %d (%s); waited 10 s for it", holder.pid, holder.command[0] ? holder.command : "unknown");
	return r ? error_set(e, r, "%s" LOCK_PATH ": %s%s", sys_root(j->s), strerror(-r), r == -EACCES ? "; hasten must be run as root" : "") : 0;
}

int journal_open(struct sys *s, bool write, struct journal **ret, struct error *e)
{
	struct journal *j = calloc(1, sizeof(*j));
	int r;

	if (!j)
		return -ENOMEM;
	j->s = s;
	j->fd = j->lock = -1;
	if (asprintf(&j->path, "%s" JOURNAL_PATH, sys_root(s)) < 0) {
		free(j);
		return -ENOMEM;
	}
	r = sys_boot_id(s, &j->boot_id);
	if (!r)
		r = sys_machine_id(s, &j->machine_id);
	if (!r && write)
		r = lock(j, e);
	if (!r)
		r = load(j, e);
	/* The torn end of a line goes before another is put after it. */
	if (!r && write && j->fd >= 0 && ftruncate(j->fd, j->size))
		r = error_set(e, -errno, "%s: %s", j->path, strerror(errno));
	if (r) {
		/* Whoever died between making the folder and its first line left no more than empty folders; whoever damaged the journal is
		 * not to lose it. */
		bool damaged = j->exists;

		if (damaged && j->lock >= 0) {
			close(j->lock);
			j->lock = -1;
		}
		journal_close(j);
		return r;
	}
	*ret = j;
	return 0;
}

/* What a process left that died while it replaced a file: ".journal.hasten-123". */
static void remove_halves(struct sys *s)
{
	char **names = NULL;

	if (sys_list(s, &names, STATE_FOLDER))
		return;
	for (size_t i = 0; names[i]; i++) {
		_cleanup_free_ char *path = NULL;

		if (names[i][0] == '.' && strstr(names[i], ".hasten-") && asprintf(&path, STATE_FOLDER "/%s", names[i]) > 0)
			sys_unlink(s, path);
	}
	sys_list_free(names);
}

static void remove_state(struct journal *j)
{
	static const char *const folders[] = {STATE_FOLDER, "/var/lib", "/var"};
	bool known = j->lines > 0 || j->made;

	if (sys_exists(j->s, STATE_FOLDER "/set.json") || sys_exists(j->s, STATE_FOLDER "/set-pending.json"))
		return;
	if (j->exists && sys_unlink(j->s, JOURNAL_PATH))
		return;
	remove_halves(j->s);
	sys_unlink(j->s, LOCK_PATH);
	/* Not known: a writer died before the first line. A package may have made the folder on a live machine. */
	if (!known && sys_kind(j->s) == SYS_LIVE)
		return;
	for (size_t i = 0; i < (known ? 3 : 1); i++) {
		if (known && (!j->made || strlen(folders[i]) < strlen(j->made)))
			break;
		if (sys_rmdir_empty(j->s, folders[i]) || sys_exists(j->s, "%s", folders[i]))
			break;
	}
}

struct journal *journal_close(struct journal *j)
{
	if (!j)
		return NULL;
	if (j->lock >= 0) {
		if (!j->n_record && !j->transaction)
			remove_state(j);
		/* Empty while nobody holds it: what changed nothing leaves every byte as it was. */
		if (ftruncate(j->lock, 0))
			lseek(j->lock, 0, SEEK_SET);
		close(j->lock);
	}
	if (j->fd >= 0)
		close(j->fd);
	for (size_t i = 0; i < j->n_record; i++)
		journal_record_free(j->record[i]);
	journal_transaction_free(j->transaction);
	free(j->record);
	free(j->bucket);
	free(j->made);
	free(j->path);
	free(j->boot_id);
	free(j->machine_id);
	free(j);
	return NULL;
}

const char *journal_path(const struct journal *j)
{
	return j->path;
}

const char *journal_boot_id(const struct journal *j)
{
	return j->boot_id;
}

const char *journal_machine_id(const struct journal *j)
{
	return j->machine_id;
}

size_t journal_count(const struct journal *j)
{
	return j->n_record;
}

const struct journal_record *journal_get(const struct journal *j, size_t i)
{
	return j->record[i];
}

const struct journal_record *journal_find(const struct journal *j, const char *id)
{
	return journal_record_mutable(j, id);
}

const struct journal_transaction *journal_transaction(const struct journal *j)
{
	return j->transaction;
}
