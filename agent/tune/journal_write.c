#include "agent/tune/journal_inner.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "agent/sys/cleanup.h"
#include "agent/sys/error.h"
#include "agent/sys/sys.h"
#include "agent/tune/record.h"

/* Lines of one text, each with the sum over itself and all before. */
struct lines {
	FILE *to;
	char *text;
	size_t len, line_at;
	uint32_t sum;
};

static int lines_begin(struct lines *l, uint32_t sum)
{
	*l = (struct lines){.sum = sum};
	l->to = open_memstream(&l->text, &l->len);
	return l->to ? 0 : -ENOMEM;
}

static void lines_free(struct lines *l)
{
	if (l->to)
		fclose(l->to);
	free(l->text);
	*l = (struct lines){0};
}

static void field(struct lines *l, const char *key, const char *value)
{
	fprintf(l->to, ",\"%s\":", key);
	record_write(l->to, value);
}

static void line_type(struct lines *l, const char *type)
{
	fprintf(l->to, "{\"type\":\"%s\"", type);
}

static int line_end(struct lines *l)
{
	if (fflush(l->to))
		return -ENOMEM;
	l->sum = record_crc(l->sum, l->text + l->line_at, l->len - l->line_at);
	fprintf(l->to, ",\"sum\":\"%08x\"}\n", l->sum);
	if (fflush(l->to))
		return -ENOMEM;
	l->line_at = l->len;
	return 0;
}

static int put_header(struct lines *l, const char *made)
{
	line_type(l, "journal");
	fprintf(l->to, ",\"version\":1");
	field(l, "made", made);
	return line_end(l);
}

static int put_begin(struct lines *l, const struct journal_transaction *t)
{
	line_type(l, "begin");
	field(l, "transaction", t->id);
	field(l, "kind", t->kind == TRANSACTION_REVERT ? "revert" : "apply");
	field(l, "boot_id", t->boot_id);
	field(l, "machine_id", t->machine_id);
	fputs(",\"profiles\":[", l->to);
	for (size_t i = 0; t->profiles && t->profiles[i]; i++) {
		if (i)
			putc(',', l->to);
		record_write(l->to, t->profiles[i]);
	}
	fprintf(l->to, "],\"consent\":%s", t->consent ? "true" : "false");
	fprintf(l->to, ",\"pid\":%d,\"started\":%" PRIu64, t->pid, t->started);
	return line_end(l);
}

static int put_original(struct lines *l, const struct journal_record *r)
{
	line_type(l, "original");
	field(l, "id", r->id);
	field(l, "step", r->step);
	field(l, "target", r->target);
	field(l, "device", r->device);
	field(l, "ifname", r->ifname);
	field(l, "key", r->key);
	field(l, "life", r->life == LIFE_FILE ? "file" : "boot");
	field(l, "value", r->original);
	field(l, "group", r->group);
	field(l, "collateral_of", r->collateral_of);
	field(l, "profile", r->profile);
	return line_end(l);
}

static int put_open(struct lines *l, const char *id, const char *requested, bool removal)
{
	line_type(l, "open");
	field(l, "id", id);
	field(l, "requested", requested);
	fprintf(l->to, ",\"removal\":%s", removal ? "true" : "false");
	return line_end(l);
}

static int put_close(struct lines *l, const char *id, const char *value, const char *refused)
{
	line_type(l, "close");
	field(l, "id", id);
	field(l, "value", value);
	if (refused)
		field(l, "refused", refused);
	return line_end(l);
}

static int put_restored(struct lines *l, const char *id, bool to_before, const char *refused)
{
	line_type(l, "restored");
	field(l, "id", id);
	field(l, "to", to_before ? "before" : "original");
	if (refused)
		field(l, "refused", refused);
	return line_end(l);
}

/* What was written is what will be read: the state follows from the lines by the reader's own code. */
static int take(struct journal *j, const struct lines *l)
{
	for (size_t at = 0; at < l->len;) {
		const char *end = memchr(l->text + at, '\n', l->len - at), *why;
		struct record line = {0};
		int r = record_parse(l->text + at, (size_t)(end - l->text) - at, &line, &why, NULL);

		if (!r)
			r = journal_take_line(j, &line, &why);
		record_free(&line);
		if (r)
			return r;
		j->lines++;
		at = (size_t)(end - l->text) + 1;
	}
	return 0;
}

static int open_new(struct journal *j)
{
	int fd = sys_openat(j->s, JOURNAL_PATH, O_RDWR | O_CREAT | O_APPEND | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);

	if (fd < 0)
		return fd;
	j->fd = fd;
	j->exists = true;
	/* The name must be on disk before the first write that needs it for its undoing. */
	_cleanup_close_ int folder = sys_openat(j->s, STATE_FOLDER, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	return folder < 0 ? folder : fsync(folder) ? -errno : 0;
}

/* Writes what l holds, after the first line where there is none yet. Takes l. */
static int append(struct journal *j, struct lines *l, bool sync, struct error *e)
{
	int r = 0;

	if (!l->to)
		return -ENOMEM;
	if (!j->exists)
		r = open_new(j);
	if (!r)
		r = sys_append(j->s, j->fd, l->text, l->len);
	if (!r && sync && fdatasync(j->fd))
		r = -errno;
	if (r) {
		/* A full disk may hold half of the line. */
		if (j->exists && ftruncate(j->fd, j->size))
			r = -errno;
		r = error_set(e, r, "%s: %s", j->path, strerror(-r));
	} else {
		j->size += (off_t)l->len;
		j->sum = l->sum;
		r = take(j, l);
		if (r)
			r = error_set(e, r, "%s: what was written cannot be read back", j->path);
	}
	lines_free(l);
	return r;
}

static int begin_lines(struct journal *j, struct lines *l)
{
	int r;

	if (j->lock < 0)
		return -EBADF;
	r = lines_begin(l, j->sum);
	return !r && !j->lines ? put_header(l, j->made) : r;
}

int journal_keep(struct journal *j, struct error *e)
{
	struct lines l;
	int r;

	if (j->lines)
		return 0;
	r = begin_lines(j, &l);
	return r ? r : append(j, &l, true, e);
}

int journal_begin(struct journal *j, enum transaction_kind kind, const char *const profiles[], bool consent, struct error *e)
{
	struct journal_transaction t = {
		.boot_id = j->boot_id,
		.machine_id = j->machine_id,
		.profiles = (char **)profiles,
		.kind = kind,
		.consent = consent,
		.pid = getpid(),
		.started = process_started(getpid()),
	};
	struct lines l;
	uint32_t number;
	char id[9];
	int r;

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return -errno;
	snprintf(id, sizeof(id), "%08x", number);
	t.id = id;
	r = begin_lines(j, &l);
	if (!r)
		r = put_begin(&l, &t);
	return r ? r : append(j, &l, false, e);
}

int journal_original(struct journal *j, const struct op *op, const char *original, const char *collateral_of, struct error *e)
{
	const struct journal_record *there = journal_find(j, op->id);
	struct journal_record r = {
		.id = op->id,
		.step = (char *)op->step->name,
		.target = op->target,
		.device = op->device,
		.ifname = op->ifname,
		.key = op->key,
		.group = op->group,
		.collateral_of = (char *)collateral_of,
		.profile = op->profile,
		.original = (char *)original,
		.life = op->life,
	};
	struct lines l;
	int err;

	if (there && there->is_live)
		return 0;
	err = begin_lines(j, &l);
	if (!err)
		err = put_original(&l, &r);
	return err ? err : append(j, &l, false, e);
}

/* What a transaction still writes, and its undoing, and a later revert: two lines a setting each, none longer than the original's. */
static int reserve(const struct journal *j)
{
	return sys_reserve(j->fd, j->size, 6 * j->size + 4096);
}

int journal_reserve(struct journal *j, struct error *e)
{
	int r = reserve(j);

	return r ? error_set(e, r, "%s: no room for what undoes the change, so nothing was changed: %s", j->path, strerror(-r)) : 0;
}

int journal_sync(struct journal *j, struct error *e)
{
	return fsync(j->fd) ? error_set(e, -errno, "%s: %s", j->path, strerror(errno)) : 0;
}

int journal_opened(struct journal *j, const char *id, const char *requested, bool removal, struct error *e)
{
	const struct journal_record *r = journal_find(j, id);
	struct lines l;
	int err = begin_lines(j, &l);

	if (!err)
		err = put_open(&l, id, requested, removal);
	return err ? err : append(j, &l, r && r->life == LIFE_FILE, e);
}

int journal_closed(struct journal *j, const char *id, const char *value, struct error *e)
{
	struct lines l;
	int r = begin_lines(j, &l);

	if (!r)
		r = put_close(&l, id, value, NULL);
	return r ? r : append(j, &l, false, e);
}

int journal_refused(struct journal *j, const char *id, bool written, const char *value, const char *refused, struct error *e)
{
	struct lines l;
	int r = begin_lines(j, &l);

	if (!r)
		r = written ? put_close(&l, id, value, refused) : put_restored(&l, id, true, refused);
	return r ? r : append(j, &l, false, e);
}

int journal_restored(struct journal *j, const char *id, bool to_before, struct error *e)
{
	struct lines l;
	int r = begin_lines(j, &l);

	if (!r)
		r = put_restored(&l, id, to_before, NULL);
	return r ? r : append(j, &l, false, e);
}

static bool same_text(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

/* Is it needed to put something back? What only stands by for another setting is, as long as that one is ours. */
static bool still_needed(const struct journal *j, const struct journal_record *r)
{
	const struct journal_record *of;

	if (!r->is_live)
		return false;
	if (r->refused)
		return true; /* so that verify and the next plan know */
	if (r->is_written && !(r->is_removal && !r->is_open && same_text(r->applied, r->original)))
		return true;
	of = r->collateral_of ? journal_find(j, r->collateral_of) : NULL;
	return of && of != r && of->is_live && of->is_written && !of->is_removal;
}

static int put_record(struct lines *l, const struct journal_record *r)
{
	int err = put_original(l, r);

	if (!err && r->is_written)
		err = put_open(l, r->id, r->requested, r->is_removal);
	if (!err && r->is_written && !r->is_open)
		err = put_close(l, r->id, r->applied, r->refused);
	if (!err && !r->is_written && r->refused)
		err = put_restored(l, r->id, false, r->refused);
	return err;
}

/* One transaction a run of records of one boot: what a later reader needs of it. */
static int put_needed(struct journal *j, struct lines *l)
{
	const struct journal_record *run = NULL;
	int r = 0;

	for (size_t i = 0; i < j->n_record && !r; i++) {
		const struct journal_record *rec = j->record[i];

		if (!still_needed(j, rec))
			continue;
		if (!run || !same_text(run->boot_id, rec->boot_id) || !same_text(run->machine_id, rec->machine_id)) {
			struct journal_transaction t = {.id = (char *)"0", .boot_id = rec->boot_id, .machine_id = rec->machine_id};

			if (run) {
				line_type(l, "commit");
				fputs(",\"deadline_s\":null", l->to);
				r = line_end(l);
			}
			if (!r)
				r = put_begin(l, &t);
			run = rec;
		}
		if (!r)
			r = put_record(l, rec);
	}
	if (!r && run) {
		line_type(l, "commit");
		fputs(",\"deadline_s\":null", l->to);
		r = line_end(l);
	}
	return r;
}

static void forget(struct journal *j)
{
	for (size_t i = 0; i < j->n_record; i++)
		journal_record_free(j->record[i]);
	j->n_record = 0;
	free(j->record);
	j->record = NULL;
	journal_transaction_free(j->transaction);
	j->transaction = NULL;
	j->lines = 0;
	j->sum = 0;
}

static bool is_named(const struct journal *j)
{
	struct stat named, own;

	return !sys_stat(j->s, JOURNAL_PATH, &named) && !fstat(j->fd, &own) && named.st_ino == own.st_ino && named.st_dev == own.st_dev;
}

/* The file is replaced whole, so a reader sees the old or the new one; the lock is another file and stays. Where there is no room for a new one the
 * old says the same in more lines. */
static int rewrite(struct journal *j, struct error *e)
{
	struct lines l;
	int fd, r = lines_begin(&l, 0);

	if (!r)
		r = put_header(&l, j->made);
	if (!r)
		r = put_needed(j, &l);
	if (!r)
		r = sys_write_file(j->s, JOURNAL_PATH, l.text, l.len, 0644);
	if (r && is_named(j)) {
		lines_free(&l);
		return 0;
	}
	fd = r ? -1 : sys_openat(j->s, JOURNAL_PATH, O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0);
	if (!r && fd < 0)
		r = fd;
	if (!r) {
		close(j->fd);
		j->fd = fd;
		j->size = (off_t)l.len;
		forget(j);
		r = journal_reindex(j);
		if (!r)
			r = take(j, &l);
		j->sum = l.sum;
		/* For revert on a disk that is full by then; where there is no room now, that is no reason to fail. */
		if (j->n_record)
			reserve(j);
	}
	if (r)
		r = error_set(e, r, "%s: %s", j->path, strerror(-r));
	lines_free(&l);
	return r;
}

static int over(struct journal *j, const char *type, struct error *e)
{
	struct lines l;
	int r = begin_lines(j, &l);

	if (r)
		return r;
	line_type(&l, type);
	if (!strcmp(type, "commit"))
		fputs(",\"deadline_s\":null", l.to);
	r = line_end(&l);
	if (!r)
		r = append(j, &l, true, e);
	return r ? r : rewrite(j, e);
}

int journal_committed(struct journal *j, uint64_t deadline_s, struct error *e)
{
	struct lines l;
	int r;

	if (!deadline_s)
		return over(j, "commit", e);
	r = begin_lines(j, &l);
	if (r)
		return r;
	line_type(&l, "commit");
	fprintf(l.to, ",\"deadline_s\":%" PRIu64, deadline_s);
	r = line_end(&l);
	return r ? r : append(j, &l, true, e);
}

int journal_confirmed(struct journal *j, struct error *e)
{
	return over(j, "confirm", e);
}

int journal_ended(struct journal *j, struct error *e)
{
	return over(j, "end", e);
}
