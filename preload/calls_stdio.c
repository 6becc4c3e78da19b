/* Calls of libc that read, write or close a number inside libc, past every wrapper. */
#include "preload/interpose.h"
#include "preload/quiet.h"
#include "preload/real.h"
#include "preload/sock.h"
#include "preload/state.h"
#include "preload/switch.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>
#include <utmp.h>

EXPORT FILE *fdopen(int fd, const char *mode)
{
	ENSURE_REAL();
	struct sock *s = sock_of(fd);
	if (s) {
		if (s->slot)
			switch_leave(s, fd, REASON_STDIO);
		else
			sock_plain(s, REASON_STDIO);
		sock_unpin(s);
	}
	return real.fdopen(fd, mode);
}

/* The stream's number is about to be closed, or to become another file. */
static void stream_ends(FILE *f)
{
	int saved = errno, fd = f && fdtab_highest >= 0 && !self_thread.vfork_child ? fileno(f) : -1;
	uintptr_t e = fd >= 0 ? fdtab_get(fd) : 0;
	if (unlikely(fd_kind(e) == FD_SOCK || fd_kind(e) == FD_EPOLL)) {
		fflush(f); /* what it holds goes before the end */
		int quiet = quiet_begin();
		number_forget(fd, e);
		quiet_end(quiet);
	}
	errno = saved;
}

EXPORT int fclose(FILE *f)
{
	ENSURE_REAL();
	stream_ends(f);
	return real.fclose(f);
}

EXPORT int pclose(FILE *f)
{
	ENSURE_REAL();
	stream_ends(f);
	return real.pclose(f);
}

/* Also where it fails: the old file is closed then. */
EXPORT FILE *freopen(const char *path, const char *mode, FILE *f)
{
	ENSURE_REAL();
	stream_ends(f);
	return real.freopen(path, mode, f);
}

EXPORT FILE *freopen64(const char *path, const char *mode, FILE *f)
{
	ENSURE_REAL();
	stream_ends(f);
	return real.freopen64(path, mode, f);
}

/* The number's socket, where it is another one or none by now. */
static bool replaced(int fd)
{
	struct sock *s = fdtab_sock(fd);
	uint64_t cookie = 0;
	socklen_t len = sizeof(cookie);
	if (!s)
		return fdtab_get(fd) != 0;
	return real.getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &len) < 0 || (s->slot && cookie != s->slot->cookie);
}

/* Puts the terminal over 0, 1 and 2, which a server started by inetd has as its connection. */
EXPORT int login_tty(int fd)
{
	ENSURE_REAL();
	int r = real.login_tty(fd);
	for (int n = 0; r == 0 && n < 3 && !self_thread.vfork_child; n++)
		if (unlikely(replaced(n)))
			number_lost(n);
	return r;
}

static int put(int fd, char *text, int n)
{
	int done = 0;
	while (done < n) {
		ssize_t k = write(fd, text + done, n - done);
		if (k < 0)
			break;
		done += k;
	}
	int saved = errno;
	if (n >= 0)
		free(text);
	errno = saved;
	return done == n ? n : -1;
}

EXPORT int vdprintf(int fd, const char *format, va_list ap)
{
	ENSURE_REAL();
	char *text;
	if (likely(!fdtab_sock(fd)) || self_thread.vfork_child)
		return real.vdprintf(fd, format, ap);
	int n = vasprintf(&text, format, ap);
	return n < 0 ? n : put(fd, text, n);
}

EXPORT int dprintf(int fd, const char *format, ...)
{
	va_list ap;
	va_start(ap, format);
	int r = vdprintf(fd, format, ap);
	va_end(ap);
	return r;
}

/* libc declares these only inside its fortified headers. */
int __vasprintf_chk(char **ret, int flag, const char *format, va_list ap);
int __vdprintf_chk(int fd, int flag, const char *format, va_list ap);
int __dprintf_chk(int fd, int flag, const char *format, ...);

EXPORT int __vdprintf_chk(int fd, int flag, const char *format, va_list ap)
{
	ENSURE_REAL();
	char *text;
	if (likely(!fdtab_sock(fd)) || self_thread.vfork_child)
		return real.__vdprintf_chk(fd, flag, format, ap);
	int n = __vasprintf_chk(&text, flag, format, ap);
	return n < 0 ? n : put(fd, text, n);
}

EXPORT int __dprintf_chk(int fd, int flag, const char *format, ...)
{
	va_list ap;
	va_start(ap, format);
	int r = __vdprintf_chk(fd, flag, format, ap);
	va_end(ap);
	return r;
}
