/* Inside agent/sys only: what a struct sys is, and the steps below its public functions. */
#ifndef HASTEN_SYS_ROOT_H
#define HASTEN_SYS_ROOT_H
#include "agent/sys/net.h"
#include "agent/sys/sys.h"

struct fault;
struct json_object;

struct sys {
	enum sys_kind kind;
	char *root; /* "" on the live machine */
	int root_fd;
	/* A tree's folder that was looked into last: facts are read folder by folder. Forgotten where names in the tree change. */
	char *near_path;
	int near_fd; /* -1 none */
	struct net net;
	struct json_object *capture; /* SYS_CAPTURE: all of hasten-capture.json; other kinds NULL */
	struct capture_seen {
		uint64_t device, file, seconds, nanoseconds;
	} capture_seen; /* the file as it was read or written last */
	unsigned changes;
	struct fault *faults;
	size_t n_faults;
};

#define CAPTURE_PATH "/hasten-capture.json"

/* As openat, below the root. On a tree only regular files and folders are opened: opening a device or a pipe of a tree that somebody
 * else made has effects. */
int root_open(struct sys *s, const char *path, int flags, mode_t mode);
/* An O_PATH descriptor of whatever stands there; O_NOFOLLOW as given. */
int root_open_path(struct sys *s, const char *path, int flags);
/* The folder that holds path, open for reading; made where create is set. *ret_name points into path. */
int root_open_parent(struct sys *s, const char *path, bool create, const char **ret_name);

void root_forget(struct sys *s); /* the folder near by */
void root_keep(struct sys *s, const char *path, int fd); /* it is this one now; takes fd */

/* Content of a file of a tree, as the kernel's attribute of the write model: neither counted nor failed by fault injection.
 * tree_put writes to a file that exists; tree_make and tree_remove add and remove files and folders that the kernel would. */
int tree_put(struct sys *s, const char *path, const char *content);
int tree_make(struct sys *s, const char *path, const char *content, mode_t mode);
int tree_make_folder(struct sys *s, const char *path);
int tree_remove(struct sys *s, const char *path); /* whole; what is not there is fine */
int tree_link(struct sys *s, const char *to, const char *path); /* replaces a link */
int file_replace(struct sys *s, const char *path, const void *data, size_t len, mode_t mode, bool sync);

/* ---- fault.c: every change goes between these two ---- */
struct change {
	bool short_write, kill;
};
int faults_load(struct sys *s, const char *text, struct error *e);
/* Counts a change; the error that is to be injected, or 0. */
int change_begin(struct sys *s, struct change *ret);
/* After the change was made; may not return. Gives r back. */
int change_end(const struct change *c, int r);

/* ---- backends of struct net ---- */
int net_live_open(struct net *ret);
int net_capture_open(struct sys *s, struct net *ret, struct error *e);
int capture_load(struct sys *s, struct error *e); /* reads hasten-capture.json into s->capture */
void net_none_open(struct net *ret);
/* Again where another process changed it since: a kernel shows each reader what the last writer set. Objects of s->capture are gone then. */
int capture_refresh(struct sys *s);
int net_capture_store(struct sys *s); /* hasten-capture.json as s->capture is now, atomically */
/* The hints that hasten-capture.json has for a path ("model"), or NULL. */
struct json_object *capture_hint(struct sys *s, const char *path, const char *name);
#endif
