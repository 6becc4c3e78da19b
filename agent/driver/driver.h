/* Driver packages: in-tree module, else the distribution's package, else a vendor's DKMS package that a signed manifest describes.
 *
 * Trust: a manifest is believed for its Ed25519 signature by a key that the package or the admin put into a keys folder, never for where it
 * came from; the payload is believed for the hash in the manifest. Nothing of a payload runs before both hold. Only
 * dkms add, build and install run, and of the payload's own scripts those that the manifest names.
 *
 * Folders: manifests in /usr/lib/hasten/drivers and /etc/hasten/drivers (NAME.yaml beside NAME.yaml.sig; the admin's wins), keys
 * in /usr/lib/hasten/keys and /etc/hasten/keys (PEM), state in /var/lib/hasten/drivers (NAME.json: serial, version, how). */
#ifndef HASTEN_DRIVER_DRIVER_H
#define HASTEN_DRIVER_DRIVER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sys;
struct facts;
struct error;

enum driver_source { DRIVER_NONE, DRIVER_IN_TREE, DRIVER_DISTRIBUTION, DRIVER_VENDOR };
const char *driver_source_name(enum driver_source s); /* "none", "in-tree", "distribution", "vendor" */

/* ---- manifest.c, signature.c ---- */
#define MANIFEST_SIZE_MAX (64 * 1024)
#define PAYLOAD_SIZE_MAX (256u << 20) /* bytes of an archive; unpacked at most four times as much */

struct manifest {
	char *file;
	char *name, *title, *version, *module;
	uint64_t serial;        /* rises; a lower one than was installed before is refused (roll-back attack) */
	char *url, *sha256;     /* https; 64 lower-case hexadecimal digits */
	uint64_t size;          /* bytes, exact; the download stops beyond it */
	char **distributions;   /* "debian-12": ID and VERSION_ID of os-release; "debian": every version; NULL ended */
	char **architectures;   /* uname -m */
	char *kernel_min, *kernel_max; /* version prefix, inclusive: max "6.8" admits 6.8.12; NULL no limit */
	char *firmware;         /* prefix of what the device must show, NULL any */
	char **hooks;           /* scripts of dkms.conf that may run: PRE_BUILD, POST_INSTALL ..; others are refused */
};
/* The text alone, for fuzzing and for hasten driver check: says nothing of its signature. */
int manifest_parse(const char *file, const char *text, size_t len, struct manifest *ret, struct error *e);
/* Reads and checks the signature first, and parses only what is signed. Keys of the folders above count.
 * -ENOKEY: no key, -EKEYREJECTED: none fits, -ENOENT: no manifest or no signature, -EINVAL: a fault of the text. */
int manifest_load(struct sys *s, const char *path, struct manifest *ret, struct error *e);
void manifest_free(struct manifest *m);
/* The manifest of that driver in the folders; -ENOENT none. Caller frees. */
int manifest_find(struct sys *s, const char *name, char **ret_path);
/* Does it fit this machine and kernel? -EOPNOTSUPP with the reason. firmware NULL: not known. */
int manifest_fits(const struct manifest *m, const struct facts *f, const char *kernel, const char *firmware, struct error *e);

/* Verifies a detached Ed25519 signature (64 bytes) by any key of the folders; *ret_key its file. Errors as above. */
int signature_verify(struct sys *s, const void *data, size_t len, const void *signature, size_t signature_len, char **ret_key, struct error *e);
int sha256_file(const char *path, char ret_hex[65]);

/* ---- fetch.c ---- https only (http where the hash is signed and the admin named the mirror), bounded in bytes and time, resumed after a cut,
 * proxies as curl(1) takes them from the environment. The file at path is complete and of this hash, or there is none; what came so far
 * stays in PATH.part for a later try. */
struct fetch {
	const char *url, *mirror, *path, *sha256;
	const char *ca_file; /* NULL: the system's */
	const char *user;    /* root fetches as this user, in a child; NULL, or no such user: as it is */
	uint64_t size;
	unsigned timeout_s, stall_s, tries; /* 0: 600, 30, 4 */
	void (*progress)(void *arg, uint64_t done, uint64_t all);
	void *arg;
};
int fetch_file(const struct fetch *f, struct error *e);

/* ---- unpack.c ---- an archive (tar, compressed as libarchive knows) of regular files and folders into a private folder that exists and is
 * empty: no links, devices, absolute names, "..", set-uid bits; bounded in bytes and entries. A common first folder is stripped. */
int unpack_archive(const char *archive, const char *folder, uint64_t size_max, struct error *e);

/* ---- dkms.c ---- */
/* Refuses a dkms.conf that does more than assign words to variables, or names a hook that is not allowed. */
int dkms_conf_check(const char *text, const char *file, const char *const hooks[], const char *name, const char *version, struct error *e);

/* ---- packages.c: the row of a distribution ---- */
struct driver_package {
	const char *distribution; /* ID of os-release, or of ID_LIKE */
	const char *package;      /* %s is the kernel */
	const char *why;
};

/* ---- status.c ---- */
struct driver_status {
	char *name, *module, *kernel;
	char *version;           /* of the loaded module, else of the file; NULL: it says none */
	char **devices;          /* names or paths of those it serves or would serve, NULL ended */
	enum driver_source source; /* of what is installed; else of what could be installed */
	bool installed, loaded, bound; /* bound: every device of it */
	char *manifest;          /* file, NULL none */
	char *why_not;           /* what stands in the way of installing it; NULL: nothing, or it is installed */
};
/* One for each family with a device here; name NULL all, else also a family without a device. kernel NULL: the running one. */
int driver_status(struct sys *s, const struct facts *f, const char *name, const char *kernel, struct driver_status **ret, size_t *ret_n,
	struct error *e);
void driver_status_free(struct driver_status *d, size_t n);

/* ---- install.c ---- */
/* Headers, dkms, a key where Secure Boot is on, space. */
int driver_preflight(struct sys *s, const struct facts *f, const char *kernel, struct error *e);
struct driver_options {
	const char *manifest, *mirror, *ca_file, *kernel; /* NULL: the usual */
	unsigned stall_s; /* no byte for so long: given up; 0: 30 */
	bool dry_run;
	void (*say)(void *arg, const char *line); /* each step, before it is done */
	void (*progress)(void *arg, uint64_t done, uint64_t all);
	void *arg;
};
/* 0 installed, or was there already; what fails is undone. With another kernel than the running one it is built and not loaded. */
int driver_install(struct sys *s, const struct facts *f, const char *name, const struct driver_options *o, struct error *e);
/* Removes what driver_install installed; -ENOENT: it installed nothing of that name. */
int driver_remove(struct sys *s, const struct facts *f, const char *name, const struct driver_options *o, struct error *e);
#endif
