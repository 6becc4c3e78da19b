/* What names a machine or its owner, replaced: addresses, GUIDs, UUIDs, the host's name. The same text always becomes the same other text, so
 * that what belonged together still does: an RDMA device's GUID made of a card's address becomes the GUID of the address that it
 * became. */
#ifndef HASTEN_CLI_SCRUB_H
#define HASTEN_CLI_SCRUB_H
#include <stdbool.h>

struct scrub;

struct scrub *scrub_new(const char *hostname); /* NULL: no memory. hostname may be NULL */
void scrub_free(struct scrub *s);
/* A copy with every MAC address, GUID, UUID, 32 hexadecimal digits, name made of a MAC address (enx..) and the host's name replaced. with_ip: IP
 * addresses too; not for texts with version numbers, which may look the same. Caller frees; NULL: no memory. */
char *scrub_text(struct scrub *s, const char *text, bool with_ip);
/* An IP address; prefix cuts the host's part off again (a route's destination). */
char *scrub_ip(struct scrub *s, const char *text, unsigned prefix);
/* A command line of the kernel: values of parameters that are not known to say nothing private become "scrubbed". */
char *scrub_command_line(struct scrub *s, const char *text);
/* Comments of a configuration file go; its lines stay where they are, since messages name them. */
char *scrub_settings(struct scrub *s, const char *text);
/* Mounts of the machine's own: what else is mounted, and from where, is left out. */
char *scrub_mounts(const char *text);
#endif
