/* Asking a running hastend: the command's half of the control socket. */
#include "agent/daemon/ask.h"

#include "agent/sys/cleanup.h"
#include "agent/sys/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

int control_address(const char *path, struct sockaddr_un *ret)
{
	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof(ret->sun_path))
		return -ENAMETOOLONG;
	strcpy(ret->sun_path, path);
	return 0;
}

int control_ask(const char *path, const char *command, unsigned patience_s, char **ret_document, struct error *e)
{
	struct sockaddr_un a;
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	_cleanup_free_ char *document = NULL, *request = NULL;
	struct timeval patience = {patience_s, 0};
	size_t got = 0;
	int r = control_address(path, &a);

	if (fd < 0)
		return -errno;
	if (r < 0 || asprintf(&request, "{\"command\": \"%s\"}\n", command) < 0)
		return r < 0 ? r : -ENOMEM;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)); /* connect waits by it where nobody accepts */
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		return errno == EAGAIN || errno == EINPROGRESS ? error_set(e, -ETIMEDOUT, "hastend gives no answer within %u s (%s)", patience_s, path) :
								 error_set(e, -errno, "hastend does not run (%s: %s)", path, strerror(errno));
	if (send(fd, request, strlen(request), MSG_NOSIGNAL) < 0)
		return error_set(e, -errno, "%s: %s", path, strerror(errno));
	for (;;) {
		if (got > 16u << 20)
			return error_set(e, -EFBIG, "%s: an answer of more than 16 MiB", path);
		char *more = realloc(document, got + 65537);
		if (!more)
			return -ENOMEM;
		document = more;
		ssize_t n = recv(fd, document + got, 65536, 0);
		if (n < 0)
			return errno == EAGAIN ? error_set(e, -ETIMEDOUT, "hastend gives no answer within %u s (%s)", patience_s, path) :
						 error_set(e, -errno, "%s: %s", path, strerror(errno));
		if (!n)
			break;
		got += (size_t)n;
	}
	document[got] = 0;
	*ret_document = take_ptr(document);
	return 0;
}
