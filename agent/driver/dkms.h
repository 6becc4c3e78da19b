/* dkms(8), of which hasten runs add, build, install and remove only. */
#ifndef HASTEN_DRIVER_DKMS_H
#define HASTEN_DRIVER_DKMS_H
struct sys;
struct error;

struct dkms_module {
	const char *name, *version, *kernel;
};
int dkms_add(struct sys *s, const char *folder, struct error *e);
int dkms_build(struct sys *s, const struct dkms_module *m, struct error *e);
int dkms_install(struct sys *s, const struct dkms_module *m, struct error *e);
int dkms_remove(struct sys *s, const struct dkms_module *m, struct error *e);

/* Runs a program to its end; where it fails, e says its name, status and last line. -EREMOTEIO: it failed itself. */
int run_told(struct sys *s, const char *const argv[], unsigned timeout_ms, struct error *e);
#endif
