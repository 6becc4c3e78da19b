/* Kernel modules: what is loaded, and what lies on disk for a kernel (libkmod reads compressed ones and signatures). */
#ifndef HASTEN_DETECT_MODULE_H
#define HASTEN_DETECT_MODULE_H
#include <stdbool.h>

struct sys;

struct module_fact {
	char *name;
	bool loaded, built_in, on_disk;
	char *version, *source_version;             /* of what is loaded; NULL: it says none */
	char *disk_version, *disk_source_version;   /* of the file that the next modprobe would take */
	char *path;                                 /* of that file, below the root */
	bool out_of_tree, unsigned_taint;           /* /sys/module/NAME/taint: O, E */
	bool signed_file;
	char *signer;
};
/* kernel NULL: the running one. -ENOENT: neither loaded nor on disk; -ENOMEM. */
int module_look(struct sys *s, const char *name, const char *kernel, struct module_fact *ret);
void module_free(struct module_fact *m);
/* The newest kernel with modules installed, by version order. -ENOENT none. */
int module_newest_kernel(struct sys *s, char **ret);
#endif
