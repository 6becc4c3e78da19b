#include "agent/daemon/daemon.h"

#include "agent/sys/cleanup.h"
#include "agent/sys/error.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

struct client {
	struct control *control;
	sd_event_source *io, *timer;
	int fd;
	uid_t uid;
	char request[CONTROL_REQUEST_MAX];
	size_t got;
	char *document;
	size_t sent;
	bool draining; /* answered before the request's end: closing with bytes unread would take the answer away (ECONNRESET) */
};

struct control {
	sd_event *event;
	sd_event_source *listening;
	char *path;
	control_answer answer;
	void *arg;
	struct client *client[CONTROL_CLIENTS_MAX];
};

static void put_object(struct json_object **o)
{
	json_object_put(*o);
}

static void free_tokener(struct json_tokener **t)
{
	json_tokener_free(*t);
}

int control_parse(const char *line, size_t len, char ret_command[32], struct error *e)
{
	_cleanup_(free_tokener) struct json_tokener *t = json_tokener_new_ex(4);
	_cleanup_(put_object) struct json_object *o = NULL;
	struct json_object *command;

	if (!t)
		return -ENOMEM;
	json_tokener_set_flags(t, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	o = json_tokener_parse_ex(t, line, (int)len);
	if (json_tokener_get_error(t) != json_tokener_success || !json_object_is_type(o, json_type_object))
		return error_set(e, -EINVAL, "not a request: {\"command\": NAME} and a line end are wanted");
	if (json_object_object_length(o) != 1 || !json_object_object_get_ex(o, "command", &command) || !json_object_is_type(command, json_type_string))
		return error_set(e, -EINVAL, "a request has one member, \"command\", a string");
	const char *name = json_object_get_string(command);
	if (strlen(name) >= 32 || strlen(name) != (size_t)json_object_get_string_len(command))
		return error_set(e, -EINVAL, "no such command");
	strcpy(ret_command, name);
	return 0;
}

static void drop(struct client *c)
{
	for (unsigned i = 0; i < CONTROL_CLIENTS_MAX; i++)
		if (c->control->client[i] == c)
			c->control->client[i] = NULL;
	sd_event_source_disable_unref(c->io);
	sd_event_source_disable_unref(c->timer);
	close(c->fd);
	free(c->document);
	free(c);
}

static int impatient(sd_event_source *source, uint64_t now, void *arg)
{
	drop(arg);
	return 0;
}

static void answer(struct client *c, size_t len)
{
	_cleanup_(error_clear) struct error e = {0};
	_cleanup_(put_object) struct json_object *o = NULL;
	char command[32];
	int r = control_parse(c->request, len, command, &e);

	if (!r)
		r = c->control->answer(c->control->arg, c->uid, command, &c->document, &e);
	if (!r)
		return;
	_cleanup_free_ char *text = error_text(&e, r);
	o = json_object_new_object();
	json_object_object_add(o, "schema_version", json_object_new_int(1));
	json_object_object_add(o, "error", json_object_new_string(text ? text : strerror(-r)));
	json_object_object_add(o, "errno", json_object_new_int(-r));
	free(c->document);
	c->document = NULL;
	if (asprintf(&c->document, "%s\n", json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN)) < 0)
		c->document = NULL;
}

static int on_client(sd_event_source *source, int fd, uint32_t events, void *arg)
{
	struct client *c = arg;
	ssize_t n;

	if (c->draining) {
		n = recv(fd, c->request, sizeof(c->request), MSG_DONTWAIT);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			drop(c);
		return 0;
	}
	if (!c->document) {
		n = recv(fd, c->request + c->got, sizeof(c->request) - c->got, MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return 0;
		if (n <= 0) {
			drop(c);
			return 0;
		}
		c->got += (size_t)n;
		char *end = memchr(c->request, '\n', c->got);
		if (!end && c->got < sizeof(c->request))
			return 0;
		answer(c, end ? (size_t)(end - c->request) : c->got);
		if (!c->document || sd_event_source_set_io_events(c->io, EPOLLOUT) < 0) {
			drop(c);
			return 0;
		}
	}
	size_t left = strlen(c->document) - c->sent;
	n = send(fd, c->document + c->sent, left, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n > 0)
		c->sent += (size_t)n;
	if (n >= 0 && (size_t)n < left)
		return 0;
	if (n < 0 || c->got < sizeof(c->request) || shutdown(fd, SHUT_WR) < 0 || sd_event_source_set_io_events(c->io, EPOLLIN) < 0)
		drop(c);
	else
		c->draining = true;
	return 0;
}

static int on_connection(sd_event_source *source, int fd, uint32_t events, void *arg)
{
	struct control *control = arg;
	int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct ucred who;
	socklen_t len = sizeof(who);
	unsigned i = 0;

	if (peer < 0)
		return 0;
	while (i < CONTROL_CLIENTS_MAX && control->client[i])
		i++;
	struct client *c = i < CONTROL_CLIENTS_MAX && !getsockopt(peer, SOL_SOCKET, SO_PEERCRED, &who, &len) ? calloc(1, sizeof(*c)) : NULL;
	if (!c) {
		close(peer);
		return 0;
	}
	*c = (struct client){.control = control, .fd = peer, .uid = who.uid};
	control->client[i] = c;
	if (sd_event_add_io(control->event, &c->io, peer, EPOLLIN, on_client, c) < 0 ||
		sd_event_add_time_relative(control->event, &c->timer, CLOCK_MONOTONIC, CONTROL_PATIENCE_S * 1000000ull, 100000, impatient, c) < 0)
		drop(c);
	return 0;
}

int control_new(sd_event *event, const char *path, control_answer answer_it, void *arg, struct control **ret, struct error *e)
{
	struct control *c = calloc(1, sizeof(*c));
	struct sockaddr_un a;
	int fd = -1, r = c ? control_address(path, &a) : -ENOMEM;

	if (!r) {
		*c = (struct control){.event = event, .answer = answer_it, .arg = arg, .path = strdup(path)};
		fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		r = !c->path ? -ENOMEM : fd < 0 ? -errno : 0;
	}
	/* Nobody but root can have put one there; ours of before, after a crash. */
	if (!r)
		unlink(path);
	mode_t before = umask(0); /* status is for everybody; who asks is known by the kernel */
	if (!r && (bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 16) < 0))
		r = error_set(e, -errno, "%s: %s", path, strerror(errno));
	umask(before);
	if (!r)
		r = sd_event_add_io(event, &c->listening, fd, EPOLLIN, on_connection, c);
	if (r < 0) {
		if (fd >= 0)
			close(fd);
		control_free(c);
		return r;
	}
	sd_event_source_set_io_fd_own(c->listening, 1);
	*ret = c;
	return 0;
}

struct control *control_free(struct control *c)
{
	if (!c)
		return NULL;
	for (unsigned i = 0; i < CONTROL_CLIENTS_MAX; i++)
		if (c->client[i])
			drop(c->client[i]);
	if (c->listening && c->path)
		unlink(c->path);
	sd_event_source_disable_unref(c->listening);
	free(c->path);
	free(c);
	return NULL;
}
