#include "agent/cli/capture.h"
#include "config.h"

#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/sys/cleanup.h"
#include "agent/sys/error.h"

#define BUCKETS 4096

struct written {
	struct written *next;
	char path[];
};
struct capture_out {
	char *name;   /* as the user gave it */
	char *prefix; /* before each path inside: the folder, or the archive's name without its ending */
	bool is_archive;
	struct archive *archive;
	struct written *bucket[BUCKETS];
	size_t n;
	int err;
	char *why;
};

static const struct {
	const char *ending;
	int (*filter)(struct archive *);
} forms[] = {
    {".tar", archive_write_add_filter_none},  {".tar.gz", archive_write_add_filter_gzip},
    {".tgz", archive_write_add_filter_gzip},  {".tar.bz2", archive_write_add_filter_bzip2},
    {".tar.xz", archive_write_add_filter_xz},
};

static const char *base_of(const char *name)
{
	const char *slash = strrchr(name, '/');

	return slash && slash[1] ? slash + 1 : name;
}

static int open_archive(struct capture_out *o, int (*filter)(struct archive *), const char *ending)
{
	o->is_archive = true;
	o->prefix = strdup(base_of(o->name));
	if (!o->prefix)
		return -ENOMEM;
	o->prefix[strlen(o->prefix) - strlen(ending)] = '\0';
	o->archive = archive_write_new();
	if (!o->archive)
		return -ENOMEM;
	if (filter(o->archive) < ARCHIVE_WARN || archive_write_set_format_pax_restricted(o->archive))
		return -EINVAL;
	/* Not over a file that is there. */
	int fd = open(o->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	if (fd < 0)
		return -errno;
	close(fd);
	return archive_write_open_filename(o->archive, o->name) ? -EIO : 0;
}

static int open_folder(struct capture_out *o)
{
	_cleanup_closedir_ DIR *dir = NULL;
	struct dirent *d;

	o->prefix = realpath(o->name, NULL);
	if (!o->prefix) {
		if (errno != ENOENT)
			return -errno;
		if (mkdir(o->name, 0755))
			return -errno;
		if (!(o->prefix = realpath(o->name, NULL)))
			return -errno;
	}
	dir = opendir(o->prefix);
	if (!dir)
		return -errno;
	while ((d = readdir(dir)))
		if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
			return -ENOTEMPTY;
	o->archive = archive_write_disk_new();
	if (!o->archive)
		return -ENOMEM;
	archive_write_disk_set_options(o->archive, ARCHIVE_EXTRACT_SECURE_SYMLINKS | ARCHIVE_EXTRACT_NO_OVERWRITE);
	return 0;
}

int capture_out_open(const char *name, struct capture_out **ret, struct error *e)
{
	struct capture_out *o = calloc(1, sizeof(*o));
	int r = o && (o->name = strdup(name)) ? 1 : -ENOMEM;

	for (size_t i = 0; r > 0 && i < sizeof(forms) / sizeof(forms[0]); i++) {
		size_t len = strlen(base_of(name)), ending = strlen(forms[i].ending);

		if (len > ending && !strcmp(base_of(name) + len - ending, forms[i].ending))
			r = open_archive(o, forms[i].filter, forms[i].ending);
	}
	if (r > 0)
		r = open_folder(o);
	if (!r) {
		*ret = o;
		return 0;
	}
	if (o && r != -EEXIST && o->is_archive)
		unlink(name);
	error_set(e, r,
		  r == -EEXIST || r == -ENOTEMPTY ? "%s is there already; name a new archive or an empty folder"
						  : "%s: %s",
		  name, strerror(-r));
	if (o)
		archive_write_free(o->archive);
	if (o)
		free(o->prefix), free(o->name);
	free(o);
	return r;
}

static struct written **place_of(const struct capture_out *o, const char *path)
{
	unsigned hash = 5381;

	for (const char *p = path; *p; p++)
		hash = hash * 33 + (unsigned char)*p;
	return (struct written **)&o->bucket[hash % BUCKETS];
}

bool capture_out_has(const struct capture_out *o, const char *path)
{
	for (const struct written *w = *place_of(o, path); w; w = w->next)
		if (!strcmp(w->path, path))
			return true;
	return false;
}

static bool remember(struct capture_out *o, const char *path)
{
	struct written *w, **place = place_of(o, path);

	if (o->err || capture_out_has(o, path))
		return false;
	w = malloc(sizeof(*w) + strlen(path) + 1);
	if (!w) {
		o->err = -ENOMEM;
		return false;
	}
	strcpy(w->path, path);
	w->next = *place;
	*place = w;
	o->n++;
	return true;
}

static void fail(struct capture_out *o)
{
	const char *why = archive_error_string(o->archive);

	o->err = archive_errno(o->archive) > 0 ? -archive_errno(o->archive) : -EIO;
	o->why = strdup(why ? why : strerror(-o->err));
}

static void put(struct capture_out *o, const char *path, unsigned type, unsigned mode, const char *to, const void *data,
		size_t len)
{
	_cleanup_free_ char *inside = NULL;
	struct archive_entry *entry = archive_entry_new();

	if (!entry || asprintf(&inside, "%s%s", o->prefix, path) < 0) {
		o->err = -ENOMEM;
		archive_entry_free(entry);
		return;
	}
	archive_entry_set_pathname(entry, inside);
	archive_entry_set_filetype(entry, type);
	archive_entry_set_perm(entry, mode);
	if (to)
		archive_entry_set_symlink(entry, to);
	archive_entry_set_size(entry, (la_int64_t)len);
	if (archive_write_header(o->archive, entry) < ARCHIVE_WARN ||
	    (len && archive_write_data(o->archive, data, len) < (la_ssize_t)len) ||
	    archive_write_finish_entry(o->archive) < ARCHIVE_WARN)
		fail(o);
	archive_entry_free(entry);
}

void capture_out_file(struct capture_out *o, const char *path, const void *data, size_t len, bool executable)
{
	if (remember(o, path))
		put(o, path, AE_IFREG, executable ? 0755 : 0644, NULL, data, len);
}

void capture_out_folder(struct capture_out *o, const char *path)
{
	if (remember(o, path))
		put(o, path, AE_IFDIR, 0755, NULL, NULL, 0);
}

void capture_out_link(struct capture_out *o, const char *path, const char *to)
{
	if (remember(o, path))
		put(o, path, AE_IFLNK, 0777, to, NULL, 0);
}

size_t capture_out_count(const struct capture_out *o)
{
	return o->n;
}

int capture_out_close(struct capture_out *o, struct error *e)
{
	int r;

	if (archive_write_close(o->archive) && !o->err)
		fail(o);
	r = o->err;
	if (r && o->is_archive)
		unlink(o->name);
	if (r)
		error_set(e, r, "%s: %s", o->name, o->why ? o->why : strerror(-r));
	archive_write_free(o->archive);
	for (size_t i = 0; i < BUCKETS; i++)
		while (o->bucket[i]) {
			struct written *w = o->bucket[i];

			o->bucket[i] = w->next;
			free(w);
		}
	free(o->name);
	free(o->prefix);
	free(o->why);
	free(o);
	return r;
}
