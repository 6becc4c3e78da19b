/* What hasten installed: one JSON file a driver below RECORD_FOLDER. After a removal the serial stays, so that an older manifest is
 * refused later too. */
#ifndef HASTEN_DRIVER_RECORD_H
#define HASTEN_DRIVER_RECORD_H
#include <stdint.h>

struct sys;
struct error;

#define RECORD_FOLDER "/var/lib/hasten/drivers"

struct driver_record {
	char *name, *module;
	char *how; /* "vendor", "distribution"; NULL: removed, only the serial counts */
	char *package, *version; /* of dkms, or of the package manager (no version) */
	uint64_t serial;
};
/* -ENOENT: nothing is installed; ret->serial is set all the same where one is known. */
int record_load(struct sys *s, const char *name, struct driver_record *ret, struct error *e);
int record_store(struct sys *s, const struct driver_record *r, struct error *e);
int record_remove(struct sys *s, const char *name);
int record_removed(struct sys *s, const struct driver_record *r, struct error *e);
void record_clear(struct driver_record *r);
#endif
