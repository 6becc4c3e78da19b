/* Driver packages: in-tree module, else the distribution's package, else a vendor's DKMS package that a signed manifest describes. */
#ifndef HASTEN_DRIVER_DRIVER_H
#define HASTEN_DRIVER_DRIVER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sys;
struct facts;
struct error;

enum driver_source { DRIVER_NONE, DRIVER_IN_TREE, DRIVER_DISTRIBUTION, DRIVER_VENDOR };

/* manifest.c: YAML (profile's parser rules), Ed25519 signature beside it (NAME.yaml.sig), keys in /usr/lib/hasten/keys and /etc/hasten/keys. */
struct manifest {
	char *name, *version, *module;
	uint64_t serial;        /* rises; a lower one than was installed before is refused (roll-back attack) */
	char *url, *sha256;
	uint64_t size;          /* bytes; the download stops beyond it */
	char **distributions;   /* "debian-12", NULL ended */
	char **architectures;
	char *kernel_min, *kernel_max; /* inclusive, NULL no limit */
	char *firmware;         /* that the device must show, NULL any */
	char **hooks;           /* scripts of dkms.conf that may run (PRE_BUILD ..); others are refused */
	struct module_parameter { char *name, *value; } *parameter;
	size_t n_parameter;
};
int manifest_load(struct sys *s, const char *path, struct manifest *ret, struct error *e);
void manifest_free(struct manifest *m);

/* fetch.c: https only (http where the hash is signed and the admin named the mirror), bounded in bytes and time, resumed after a cut, proxies by the
 * environment and /etc/hasten/hasten.conf. The file at path is complete and of this hash, or there is none. */
struct fetch {
	const char *url, *mirror, *path, *sha256, *ca_file;
	uint64_t size;
	unsigned timeout_s, stall_s;
	void (*progress)(void *arg, uint64_t done, uint64_t all);
	void *arg;
};
int fetch_file(const struct fetch *f, struct error *e);

/* unpack.c: a tar of regular files and folders into a private folder: no links, devices, absolute names, "..", set-uid; bounded. */
int unpack_tar(const char *archive, const char *folder, uint64_t size_max, struct error *e);

struct driver_status {
	char *name, *module, *version, *installed_version;
	enum driver_source source; /* of what is installed, else of what could be */
	bool needed, installed, loaded, bound, signed_module;
	char *why_not; /* what stands in the way of installing it; NULL nothing */
};
int driver_status_all(struct sys *s, const struct facts *f, struct driver_status **ret, size_t *ret_n, struct error *e);
void driver_status_free(struct driver_status *d, size_t n);
struct driver_options {
	const char *manifest, *mirror, *ca_file; /* NULL: the usual */
	bool dry_run;
	void (*say)(void *arg, const char *line);
	void *arg;
};
int driver_install(struct sys *s, const struct facts *f, const char *name, const struct driver_options *o, struct error *e);
int driver_remove(struct sys *s, const char *name, const struct driver_options *o, struct error *e);
#endif
