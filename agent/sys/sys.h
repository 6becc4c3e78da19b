/* The machine: the one seam between hasten and everything that it reads or changes.
 *
 * Every access of the agent to /sys, /proc, /etc, /boot, /usr, /var and the network configuration goes through a struct sys. Paths are
 * absolute, as on the machine; the root that the user gave (--root) stands before them and cannot be left by "..", nor by a
 * symbolic link of the tree (openat2, RESOLVE_IN_ROOT). What kind the root is decides what a write does:
 *
 *   SYS_LIVE     this machine.
 *   SYS_CAPTURE  a tree with hasten-capture.json (made by hasten capture or tests/machines): file writes go to the tree under the
 *                write model of model.h, network requests are answered from the JSON and update it.
 *   SYS_TREE     a tree of /sys and /proc without it: as SYS_CAPTURE, but network requests are -EOPNOTSUPP.
 *   SYS_IMAGE    a mounted image (has /etc/os-release, no capture): files, boot loader and chosen set are written; runtime
 *                settings are at-boot (attribute writes give -ENOTCONN).
 *
 * Errors are the kernel's, negative. Not thread safe: one thread uses a struct sys at a time. */
#ifndef HASTEN_SYS_SYS_H
#define HASTEN_SYS_SYS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct error;
struct net; /* agent/sys/net.h */

enum sys_kind { SYS_LIVE, SYS_CAPTURE, SYS_TREE, SYS_IMAGE };

#define SYS_READ_MAX (8u << 20) /* bytes of one file: a line of /proc/interrupts has 11 bytes a CPU, 512 interrupts on 1024 CPUs 6 MiB; more is -EFBIG */
#define SYS_LIST_MAX 65536      /* entries of one folder; more is -EOVERFLOW */

struct sys;

/* root NULL or "/": this machine. -ENOENT, -ENOTDIR, -EACCES, -EINVAL (hasten-capture.json is not one: e says where). */
int sys_open(const char *root, struct sys **ret, struct error *e);
struct sys *sys_close(struct sys *s); /* NULL is fine; returns NULL */
enum sys_kind sys_kind(const struct sys *s);
const char *sys_root(const struct sys *s); /* "" on the live machine: what messages put before a path */
struct net *sys_net(struct sys *s);

/* ---- reading ---- */
/* The whole file, a zero byte after it. */
int sys_read(struct sys *s, const char *path, char **ret, size_t *ret_len);
/* Without the line end and white space around; -EINVAL where it holds a zero byte. Paths by printf. */
int sys_read_line(struct sys *s, char **ret, const char *path, ...) __attribute__((format(printf, 3, 4)));
int sys_read_u64(struct sys *s, uint64_t *ret, const char *path, ...) __attribute__((format(printf, 3, 4))); /* 0x.. too */
int sys_read_s64(struct sys *s, int64_t *ret, const char *path, ...) __attribute__((format(printf, 3, 4)));
int sys_readlink(struct sys *s, char **ret, const char *path, ...) __attribute__((format(printf, 3, 4)));
/* The last part of where a link leads: sysfs says drivers, buses and parents so. */
int sys_link_name(struct sys *s, char **ret, const char *path, ...) __attribute__((format(printf, 3, 4)));
/* Follows every link: the canonical path inside the root. */
int sys_realpath(struct sys *s, char **ret, const char *path, ...) __attribute__((format(printf, 3, 4)));
bool sys_exists(struct sys *s, const char *path, ...) __attribute__((format(printf, 2, 3)));
bool sys_read_only(struct sys *s, const char *path); /* this machine has it mounted read-only, as containers have /proc/sys */
bool sys_is_dir(struct sys *s, const char *path, ...) __attribute__((format(printf, 2, 3)));
/* access(2), a read-only mount, and the mode: an attribute that the kernel only shows has no write bit, and root passes access(2). */
bool sys_writable(struct sys *s, const char *path, ...) __attribute__((format(printf, 2, 3)));
/* Names in a folder without "." and "..", in version order (eth2 before eth10). NULL ends it. Caller frees by sys_list_free. */
int sys_list(struct sys *s, char ***ret, const char *path, ...) __attribute__((format(printf, 3, 4)));
void sys_list_free(char **names);
struct stat;
int sys_stat(struct sys *s, const char *path, struct stat *ret);

/* ---- changing ---- */
/* A kernel attribute (sysfs, procfs): one write(2) of value and a line end into a file that exists; it is never created, and the
 * error of the write itself is returned (a buffered stream would lose it). */
int sys_write_attr(struct sys *s, const char *path, const char *value);
/* An ordinary file, whole: written beside it, fsynced, renamed over it, folder fsynced. Folders on the way are made 0755.
 * mode and owner of an existing file are kept where mode is 0. */
int sys_write_file(struct sys *s, const char *path, const void *data, size_t len, mode_t mode);
int sys_unlink(struct sys *s, const char *path);
/* Within one folder, over what is there, folder fsynced: needs no room on a full disk, as writing the file again would. */
int sys_rename(struct sys *s, const char *from, const char *to);
int sys_rmdir_empty(struct sys *s, const char *path); /* folders that sys_write_file made; -ENOTEMPTY is 0 */
int sys_mkdir(struct sys *s, const char *path, mode_t mode); /* with parents; existing is 0 */
int sys_symlink(struct sys *s, const char *to, const char *path);
/* A descriptor for what only a descriptor can do (locks, the journal's append and fsync). flags as openat. On a tree only regular files and
 * folders are opened (-ENXIO): opening a pipe waits, opening some devices acts. */
int sys_openat(struct sys *s, const char *path, int flags, mode_t mode);
/* All of data to such a descriptor, as one change for fault injection (short: half of it is written, then -ENOSPC). No fsync. */
int sys_append(struct sys *s, int fd, const void *data, size_t len);
/* Room for len bytes at offset, beyond the end too, so that later appends do not meet a full disk. 0 where the file system has no such promise. */
int sys_reserve(int fd, off_t offset, off_t len);
/* Programs of the machine (update-grub, dkms, modprobe, systemctl). Live only: elsewhere -ENOTCONN and nothing runs. Output of
 * both streams bounded to 64 KiB, deadline in ms (0: 120 s), no shell, environment PATH and LC_ALL=C.UTF-8 and what proxies need.
 * argv[0] without "/" is
 * looked up in the system's folders, never in the caller's PATH. Returns 0 with *ret_status the wait status; -ENOENT no such program;
 * -ETIMEDOUT: it and its process group were ended. ret_output may be NULL. */
int sys_run(struct sys *s, const char *const argv[], unsigned timeout_ms, char **ret_output, int *ret_status);

/* ---- what the machine says of itself, needed to key state ---- */
int sys_boot_id(struct sys *s, char **ret);    /* /proc/sys/kernel/random/boot_id; trees without one: "none" */
int sys_machine_id(struct sys *s, char **ret); /* /etc/machine-id; trees without one: "none" */

/* ---- tests ----
 * HASTEN_SYS_FAULT, honoured for roots other than the live machine only: comma list of N=ERRNO (the Nth change of this struct sys
 * fails so, from 1), N=short (a kernel attribute or ethtool setting takes the value and reads back the old one), N=kill (SIGKILL after
 * the Nth change was made), *=ERRNO (every). Changes are sys_write_attr, sys_write_file, sys_append, sys_unlink, sys_rename, sys_rmdir_empty,
 * sys_symlink, sys_mkdir where it makes something, net_eth_set. A text that is none of these fails sys_open with -EINVAL. */
unsigned sys_changes(const struct sys *s); /* changes asked for so far: what a test numbers */
#endif
