/* The control socket of hastend, as the command sees it: a request is one line {"command": NAME}, the answer one JSON document; then it is
 * closed. Commands: status (for everybody), reload and reapply (root). The daemon's half is control.c. */
#ifndef HASTEN_DAEMON_ASK_H
#define HASTEN_DAEMON_ASK_H
struct error;
struct sockaddr_un;

#define HASTEND_RUNTIME "/run/hastend"
#define HASTEND_CONTROL HASTEND_RUNTIME "/control"

int control_address(const char *path, struct sockaddr_un *ret); /* -ENAMETOOLONG */
/* Caller frees the document. -ENOENT, -ECONNREFUSED: none runs; -ETIMEDOUT: no answer in time (a re-application of a large machine takes some
 * seconds). */
int control_ask(const char *path, const char *command, unsigned patience_s, char **ret_document, struct error *e);
#endif
