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
#include <linux/seccomp.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <unistd.h>

/* What another process of the family holds too goes back to the kernel while we may still move its bytes: a child that gives
 * up its rights on the way to confine itself (sshd's) can do so no more later. */
static void leave_shared(struct sock *s, void *arg)
{
	(void)arg;
	if (s->slot && !slot_sole(s->slot) && !s->slot->never)
		switch_leave(s, s->fd, REASON_CREDENTIALS);
}

void credentials_changed(void)
{
	if (!family)
		return;
	int saved = errno;
	sock_each(leave_shared, NULL);
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

/* Before a filter stands: from then on a call of ours that the program itself does not make may end it. The filter is
 * its children's too; the next image begins anew with whatever it finds forbidden. */
void credentials_confined(unsigned long mode, const void *filter)
{
	if (mode == SECCOMP_MODE_FILTER && !filter)
		return; /* asks whether the kernel has it */
	switch_leave_all(REASON_SECCOMP);
	state_stop(REASON_SECCOMP);
}

EXPORT int prctl(int option, ...)
{
	ENSURE_REAL();
	va_list ap;
	unsigned long a[4];
	va_start(ap, option);
	for (int i = 0; i < 4; i++)
		a[i] = va_arg(ap, unsigned long);
	va_end(ap);
	if (option == PR_SET_SECCOMP)
		credentials_confined(a[0], (const void *)a[1]);
	return real.prctl(option, a[0], a[1], a[2], a[3]);
}
