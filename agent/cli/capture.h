/* hasten capture: where the copy goes, and the answers of netlink in it. */
#ifndef HASTEN_CLI_CAPTURE_H
#define HASTEN_CLI_CAPTURE_H
#include <stdbool.h>
#include <stddef.h>

struct sys;
struct scrub;
struct error;
struct capture_out;

/* capture_out.c: an archive (name ends in .tar, .tar.gz, .tgz, .tar.bz2, .tar.xz) or a folder, which must be empty or not there. The first error
 * stays and everything after it does nothing. Paths are absolute as on the machine; each is written once. */
int capture_out_open(const char *name, struct capture_out **ret, struct error *e);
void capture_out_file(struct capture_out *o, const char *path, const void *data, size_t len, bool executable);
void capture_out_folder(struct capture_out *o, const char *path);
void capture_out_link(struct capture_out *o, const char *path, const char *to);
bool capture_out_has(const struct capture_out *o, const char *path);
size_t capture_out_count(const struct capture_out *o);
/* Ends it. An archive that failed is removed. */
int capture_out_close(struct capture_out *o, struct error *e);

/* capture_net.c: hasten-capture.json's text, scrubbed. Caller frees. */
int capture_net(struct sys *s, struct scrub *scrub, char **ret, size_t *ret_len);
#endif
