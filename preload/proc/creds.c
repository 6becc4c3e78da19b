/* A process that changes who or where it is starts anew: a compromised worker must not speak for the root it was. */
#include "preload/discover/registry.h"
#include "preload/interpose.h"
#include "preload/link/link.h"
#include "preload/proc/process.h"
#include "preload/real.h"
#include "preload/sock.h"
#include "preload/state.h"
#include "preload/switch.h"

#include <errno.h>
#include <grp.h>
#include <unistd.h>

void credentials_changed(void)
{
	if (!family)
		return;
	int saved = errno;
	link_forget();
	state_anew();
	errno = saved;
}

#define CHANGED(call) ({ \
	ENSURE_REAL(); \
	int r_ = call; \
	if (r_ == 0) \
		credentials_changed(); \
	r_; })

EXPORT int setuid(uid_t uid) { return CHANGED(real.setuid(uid)); }
EXPORT int setgid(gid_t gid) { return CHANGED(real.setgid(gid)); }
EXPORT int seteuid(uid_t uid) { return CHANGED(real.seteuid(uid)); }
EXPORT int setegid(gid_t gid) { return CHANGED(real.setegid(gid)); }
EXPORT int setreuid(uid_t r, uid_t e) { return CHANGED(real.setreuid(r, e)); }
EXPORT int setregid(gid_t r, gid_t e) { return CHANGED(real.setregid(r, e)); }
EXPORT int setresuid(uid_t r, uid_t e, uid_t s) { return CHANGED(real.setresuid(r, e, s)); }
EXPORT int setresgid(gid_t r, gid_t e, gid_t s) { return CHANGED(real.setresgid(r, e, s)); }
EXPORT int initgroups(const char *user, gid_t group) { return CHANGED(real.initgroups(user, group)); }
EXPORT int capset(void *header, const void *data) { return CHANGED(real.capset(header, data)); }
EXPORT int setgroups(size_t n, const gid_t *list) { return CHANGED(real.setgroups(n, list)); }
EXPORT int chroot(const char *path) { return CHANGED(real.chroot(path)); }
EXPORT int unshare(int flags) { return CHANGED(real.unshare(flags)); }
EXPORT int setns(int fd, int type) { return CHANGED(real.setns(fd, type)); }
