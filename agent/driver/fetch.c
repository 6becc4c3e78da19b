#include "agent/driver/driver.h"

#include "agent/sys/cleanup.h"
#include "agent/sys/error.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct transfer {
	const struct fetch *f;
	int fd;
	uint64_t have; /* bytes in the file, those of earlier tries in */
	uint64_t resumed_from;
	CURL *curl;
	bool too_long, not_partial;
	int write_error;
	struct curl_blob ca; /* read before privileges are dropped */
};

static void free_curl(CURL **c)
{
	curl_easy_cleanup(*c);
}

static size_t take(char *data, size_t size, size_t n, void *arg)
{
	struct transfer *t = arg;
	size_t len = size * n;
	long status = 0;

	/* A server that ignores the range begins anew with 200. */
	if (t->resumed_from) {
		curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &status);
		if (status != 206) {
			t->not_partial = true;
			if (ftruncate(t->fd, 0) < 0) {
				t->write_error = errno;
				return 0;
			}
			t->have = 0;
		}
		t->resumed_from = 0;
	}
	if (len > t->f->size - t->have) {
		t->too_long = true;
		return 0;
	}
	for (size_t done = 0; done < len;) {
		ssize_t w = pwrite(t->fd, data + done, len - done, (off_t)(t->have + done));
		if (w < 0) {
			t->write_error = errno;
			return 0;
		}
		done += (size_t)w;
	}
	t->have += len;
	if (t->f->progress)
		t->f->progress(t->f->arg, t->have, t->f->size);
	return len;
}

/* The file's name under the mirror: MIRROR/last part of the URL. */
static char *mirrored(const char *mirror, const char *url)
{
	const char *name = strrchr(url, '/');
	char *all;

	if (asprintf(&all, "%s%s%s", mirror, mirror[strlen(mirror) - 1] == '/' ? "" : "/", name ? name + 1 : url) < 0)
		return NULL;
	return all;
}

static CURLcode one_try(struct transfer *t, const char *url, bool plain, long *ret_status, char message[CURL_ERROR_SIZE])
{
	_cleanup_(free_curl) CURL *c = curl_easy_init();
	long schemes = plain ? CURLPROTO_HTTPS | CURLPROTO_HTTP : CURLPROTO_HTTPS;
	CURLcode r;

	*ret_status = 0;
	*message = 0;
	if (!c)
		return CURLE_OUT_OF_MEMORY;
	t->curl = c;
	t->resumed_from = t->have;
	curl_easy_setopt(c, CURLOPT_URL, url);
	curl_easy_setopt(c, CURLOPT_ERRORBUFFER, message);
#if CURL_AT_LEAST_VERSION(7, 85, 0)
	curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, plain ? "http,https" : "https");
	curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, plain ? "http,https" : "https");
	(void)schemes;
#else
	curl_easy_setopt(c, CURLOPT_PROTOCOLS, schemes);
	curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS, schemes);
#endif
	curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 1L);
	curl_easy_setopt(c, CURLOPT_MAXREDIRS, 5L);
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c, CURLOPT_FAILONERROR, 1L);
	curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, 20L);
	curl_easy_setopt(c, CURLOPT_TIMEOUT, (long)t->f->timeout_s);
	curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
	curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)t->f->stall_s);
	curl_easy_setopt(c, CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)t->f->size);
	curl_easy_setopt(c, CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2);
	curl_easy_setopt(c, CURLOPT_USERAGENT, "hasten");
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, t);
	if (t->ca.data)
		curl_easy_setopt(c, CURLOPT_CAINFO_BLOB, &t->ca);
	if (t->have)
		curl_easy_setopt(c, CURLOPT_RESUME_FROM_LARGE, (curl_off_t)t->have);
	r = curl_easy_perform(c);
	curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, ret_status);
	return r;
}

#define CA_SIZE_MAX (4u << 20)

static int read_whole(const char *path, char **ret, size_t *ret_len)
{
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	_cleanup_free_ char *text = f ? malloc(CA_SIZE_MAX) : NULL;

	if (!f)
		return -errno;
	if (!text)
		return -ENOMEM;
	size_t n = fread(text, 1, CA_SIZE_MAX, f);
	if (ferror(f))
		return -EIO;
	if (n == CA_SIZE_MAX)
		return -EFBIG;
	*ret = take_ptr(text);
	*ret_len = n;
	return 0;
}

/* Will the same again, later, come to anything? */
static bool worth_another(CURLcode r, long status)
{
	switch (r) {
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_RESOLVE_PROXY:
	case CURLE_COULDNT_CONNECT:
	case CURLE_PARTIAL_FILE:
	case CURLE_GOT_NOTHING:
	case CURLE_SEND_ERROR:
	case CURLE_RECV_ERROR:
	case CURLE_HTTP2:
	case CURLE_HTTP2_STREAM:
		return true;
	case CURLE_HTTP_RETURNED_ERROR:
		return status == 408 || status == 429 || status >= 500;
	default:
		return false;
	}
}

static int failed(const struct transfer *t, const char *url, CURLcode r, long status, const char *message, struct error *e)
{
	if (t->write_error)
		return error_set(e, -t->write_error, "%s: %s", t->f->path, strerror(t->write_error));
	if (t->too_long || r == CURLE_FILESIZE_EXCEEDED)
		return error_set(e, -EMSGSIZE, "%s: sends more than the %llu bytes that the manifest states", url, (unsigned long long)t->f->size);
	if (r == CURLE_UNSUPPORTED_PROTOCOL)
		return error_set(e, -EPROTONOSUPPORT, "%s: leads to something else than https, which is refused", url);
	if (r == CURLE_OPERATION_TIMEDOUT)
		return error_set(e, -ETIMEDOUT, "%s: no bytes for %u s, or not finished in %u s", url, t->f->stall_s, t->f->timeout_s);
	if (r == CURLE_HTTP_RETURNED_ERROR)
		return error_set(e, status == 404 ? -ENOENT : -EREMOTEIO, "%s: the server answers %ld", url, status);
	if (r == CURLE_SSL_CACERT_BADFILE)
		return error_set(e, -EKEYREJECTED,
				 "%s: the server's certificate is not trusted: this machine has no list of authorities; install the package ca-certificates, or name one by --ca-file", url);
	if (r == CURLE_PEER_FAILED_VERIFICATION)
		return error_set(e, -EKEYREJECTED, "%s: the server's certificate is not trusted: %s", url, *message ? message : curl_easy_strerror(r));
	return error_set(e, -EREMOTEIO, "%s: %s", url, *message ? message : curl_easy_strerror(r));
}

static int transfer_all(struct transfer *t, const char *url, bool plain, struct error *e)
{
	unsigned tries = t->f->tries;
	char message[CURL_ERROR_SIZE];
	long status;
	CURLcode r;

	for (unsigned i = 0;; i++) {
		uint64_t before = t->have;

		r = t->have < t->f->size ? one_try(t, url, plain, &status, message) : CURLE_OK;
		if (r == CURLE_OK && t->have == t->f->size)
			return 0;
		/* The server knows no ranges, or (416) what lies in PART is longer than its file: begin anew. */
		if (((r == CURLE_HTTP_RETURNED_ERROR && status == 416) || r == CURLE_RANGE_ERROR) && t->have) {
			t->have = 0;
			if (ftruncate(t->fd, 0) < 0)
				return -errno;
			r = CURLE_PARTIAL_FILE;
		}
		if (r == CURLE_OK)
			return error_set(e, -EMSGSIZE, "%s: sends %llu bytes, the manifest states %llu", url, (unsigned long long)t->have,
				(unsigned long long)t->f->size);
		if (t->too_long || t->write_error || !worth_another(r, status) || i + 1 >= tries)
			return failed(t, url, r, status, message, e);
		/* Progress starts the patience anew, so that a line that breaks each 10 MB still ends. */
		if (t->have > before && before && i)
			i--;
		usleep(200000u << (i < 4 ? i : 4));
	}
}

/* ---- the transfer in a child without privileges: what a server sends is parsed by nobody who could do harm ---- */

enum said { SAID_PROGRESS, SAID_END };
struct saying { /* the child's, by a pipe */
	enum said what;
	uint64_t have;
	int result;
	char message[1024];
};

struct speaker {
	int fd;
	int64_t last_ms;
};

static void say(const struct speaker *to, const struct saying *saying)
{
	/* Below PIPE_BUF, so whole or not at all; where the parent is gone there is nobody to tell. */
	if (write(to->fd, saying, sizeof(*saying)) < 0)
		_exit(1);
}

static void speak_progress(void *arg, uint64_t done, uint64_t all)
{
	struct speaker *to = arg;
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	int64_t now = (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
	if (done < all && now - to->last_ms < 100)
		return;
	to->last_ms = now;
	say(to, &(struct saying){.what = SAID_PROGRESS, .have = done});
}

static void child(struct transfer *t, const char *url, bool plain, const struct passwd *user, int report)
{
	struct speaker to = {.fd = report};
	struct fetch f = *t->f;
	struct error e = {0};
	struct saying end = {.what = SAID_END};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (setgroups(0, NULL) < 0 || setresgid(user->pw_gid, user->pw_gid, user->pw_gid) < 0 ||
		setresuid(user->pw_uid, user->pw_uid, user->pw_uid) < 0)
		_exit(1);
	f.progress = f.progress ? speak_progress : NULL;
	f.arg = &to;
	t->f = &f;
	end.result = transfer_all(t, url, plain, &e);
	end.have = t->have;
	if (e.message)
		snprintf(end.message, sizeof(end.message), "%s", e.message);
	say(&to, &end);
	_exit(0);
}

static int transfer_as(struct transfer *t, const char *url, bool plain, const struct passwd *user, struct error *e)
{
	int fds[2], status, result = -EREMOTEIO;
	bool told = false;
	struct saying saying;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	pid_t pid = fork();
	if (pid < 0) {
		int err = errno;
		close(fds[0]);
		close(fds[1]);
		return -err;
	}
	if (!pid)
		child(t, url, plain, user, fds[1]);
	close(fds[1]);
	while (read(fds[0], &saying, sizeof(saying)) == (ssize_t)sizeof(saying)) {
		if (saying.what == SAID_END) {
			told = true;
			result = saying.result;
			t->have = saying.have;
			saying.message[sizeof(saying.message) - 1] = 0;
			if (result < 0 && *saying.message)
				error_set(e, result, "%s", saying.message);
		} else if (t->f->progress) {
			t->f->progress(t->f->arg, saying.have, t->f->size);
		}
	}
	close(fds[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		continue;
	if (!told)
		return error_set(e, -EREMOTEIO, "%s: the process that fetched it ended without a word", url);
	/* The child is not believed: the file is looked at. */
	return result > 0 ? -EREMOTEIO : result;
}

int fetch_file(const struct fetch *wanted, struct error *e)
{
	struct fetch f = *wanted;
	_cleanup_free_ char *part = NULL, *from_mirror = NULL, *ca_text = NULL;
	_cleanup_close_ int fd = -1;
	char hash[65];
	struct stat st;
	int r;

	f.timeout_s = f.timeout_s ? f.timeout_s : 600;
	f.stall_s = f.stall_s ? f.stall_s : 30;
	f.tries = f.tries ? f.tries : 4;
	if (f.mirror && !*f.mirror)
		f.mirror = NULL;
	if (f.mirror && !(from_mirror = mirrored(f.mirror, f.url)))
		return -ENOMEM;
	const char *url = from_mirror ? from_mirror : f.url;
	bool plain = from_mirror && !strncmp(from_mirror, "http://", 7);
	if (!plain && strncmp(url, "https://", 8))
		return error_set(e, -EPROTONOSUPPORT, "%s: https:// is wanted (http:// for a mirror named on the command line only)", url);
	if (asprintf(&part, "%s.part", f.path) < 0)
		return -ENOMEM;
	fd = open(part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 || fstat(fd, &st) < 0)
		return error_set(e, -errno, "%s: %s", part, strerror(errno));
	if (curl_global_init(CURL_GLOBAL_DEFAULT))
		return -ENOMEM;
	struct transfer t = {.f = &f, .fd = fd, .have = (uint64_t)st.st_size};
	if (t.have > f.size && !ftruncate(fd, 0))
		t.have = 0;
	if (f.ca_file) {
		r = read_whole(f.ca_file, &ca_text, &t.ca.len);
		if (r < 0)
			return error_set_at(e, r, f.ca_file, 0, "%s", strerror(-r));
		t.ca.data = ca_text;
	}
	const struct passwd *user = f.user && !geteuid() ? getpwnam(f.user) : NULL;
	r = user ? transfer_as(&t, url, plain, user, e) : transfer_all(&t, url, plain, e);
	curl_global_cleanup();
	if (r < 0) {
		/* What is too long, or came where it must not, is of no use for a later try. */
		if (r == -EMSGSIZE)
			unlink(part);
		return r;
	}
	if (fstat(fd, &st) < 0 || (uint64_t)st.st_size != f.size)
		return error_set(e, -EMSGSIZE, "%s: %llu bytes came, the manifest states %llu", url, (unsigned long long)st.st_size, (unsigned long long)f.size);
	if (fsync(fd) < 0 || (r = sha256_file(part, hash)) < 0)
		return error_set(e, r < 0 ? r : -errno, "%s: cannot be read back", part);
	if (strcmp(hash, f.sha256)) {
		unlink(part);
		return error_set(e, -EBADMSG, "%s: has sha256 %s, the manifest states %s: altered on the way or at its origin; removed", url, hash, f.sha256);
	}
	if (rename(part, f.path) < 0)
		return error_set(e, -errno, "%s: %s", f.path, strerror(errno));
	return 0;
}
