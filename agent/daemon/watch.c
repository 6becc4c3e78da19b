#include "agent/daemon/daemon.h"

#include "agent/sys/cleanup.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

struct watch {
	sd_event *event;
	sd_event_source *uevents, *links, *timer;
	void (*changed)(void *arg, unsigned what);
	void *arg;
	unsigned pending;
	uint64_t first_us; /* of the pending ones */
};

unsigned watch_uevent(const char *buf, size_t len)
{
	const char *subsystem = NULL, *action = NULL;
	unsigned what = 0;

	/* The first string is ACTION@PATH; libudev's own messages begin with "libudev" and come on another group. */
	if (!len || buf[len - 1] || !memchr(buf, '@', strlen(buf)))
		return 0;
	for (const char *p = buf, *end = buf + len; p < end; p += strlen(p) + 1) {
		if (!strncmp(p, "SUBSYSTEM=", 10))
			subsystem = p + 10;
		else if (!strncmp(p, "ACTION=", 7))
			action = p + 7;
	}
	if (!subsystem || !action)
		return 0;
	if (!strcmp(subsystem, "net"))
		what = WATCH_NET;
	else if (!strcmp(subsystem, "cpu"))
		what = WATCH_CPU;
	else if (!strcmp(subsystem, "infiniband"))
		what = WATCH_RDMA;
	/* "change" of a device says nothing that we key on. */
	return strcmp(action, "change") ? what : 0;
}

static int settled(sd_event_source *source, uint64_t now, void *arg)
{
	struct watch *w = arg;
	unsigned what = w->pending;

	w->pending = 0;
	w->changed(w->arg, what);
	return 0;
}

static int note(struct watch *w, unsigned what)
{
	uint64_t now;
	int r = sd_event_now(w->event, CLOCK_MONOTONIC, &now);

	if (r < 0 || !what)
		return r;
	if (!w->pending)
		w->first_us = now;
	w->pending |= what;
	/* A storm of events must not put the look off for ever. */
	uint64_t due = now + WATCH_SETTLE_MS * 1000u, latest = w->first_us + WATCH_SETTLE_MAX_MS * 1000u;
	if (due > latest)
		due = latest;
	if (!w->timer)
		return sd_event_add_time(w->event, &w->timer, CLOCK_MONOTONIC, due, 50000, settled, w);
	r = sd_event_source_set_time(w->timer, due);
	return r < 0 ? r : sd_event_source_set_enabled(w->timer, SD_EVENT_ONESHOT);
}

/* Only what the kernel itself sent counts: anybody may send to a netlink socket in his name space. */
static ssize_t from_kernel(int fd, char *buf, size_t size)
{
	struct sockaddr_nl from = {0};
	struct iovec iov = {buf, size};
	struct msghdr m = {.msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &iov, .msg_iovlen = 1};
	ssize_t n = recvmsg(fd, &m, MSG_DONTWAIT);

	if (n < 0)
		return -errno;
	return from.nl_pid ? 0 : n;
}

static int on_uevent(sd_event_source *source, int fd, uint32_t events, void *arg)
{
	struct watch *w = arg;
	char buf[8192];

	for (unsigned i = 0; i < 64; i++) {
		ssize_t n = from_kernel(fd, buf, sizeof(buf) - 1);
		/* Events were lost: look at everything. */
		if (n == -ENOBUFS)
			return note(w, WATCH_NET | WATCH_CPU | WATCH_RDMA);
		if (n < 0)
			return 0;
		buf[n] = 0;
		note(w, n ? watch_uevent(buf, (size_t)n + (buf[n - 1] != 0)) : 0);
	}
	return 0;
}

static int on_link(sd_event_source *source, int fd, uint32_t events, void *arg)
{
	struct watch *w = arg;
	char buf[16384];

	for (unsigned i = 0; i < 64; i++) {
		ssize_t n = from_kernel(fd, buf, sizeof(buf));
		if (n == -ENOBUFS)
			return note(w, WATCH_NET);
		if (n < 0)
			return 0;
		unsigned left = (unsigned)n;
		for (struct nlmsghdr *h = (struct nlmsghdr *)buf; NLMSG_OK(h, left); h = NLMSG_NEXT(h, left))
			if (h->nlmsg_type == RTM_NEWLINK || h->nlmsg_type == RTM_DELLINK)
				note(w, WATCH_NET);
	}
	return 0;
}

static int open_netlink(sd_event *event, int protocol, unsigned groups, sd_event_io_handler_t handler, void *arg, sd_event_source **ret)
{
	struct sockaddr_nl local = {.nl_family = AF_NETLINK, .nl_groups = groups};
	_cleanup_close_ int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);
	int size = 1 << 20;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	if (bind(fd, (struct sockaddr *)&local, sizeof(local)) < 0)
		return -errno;
	int r = sd_event_add_io(event, ret, fd, EPOLLIN, handler, arg);
	if (r < 0)
		return r;
	sd_event_source_set_io_fd_own(*ret, 1);
	fd = -1;
	return 0;
}

int watch_new(sd_event *event, void (*changed)(void *arg, unsigned what), void *arg, struct watch **ret)
{
	struct watch *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return -ENOMEM;
	*w = (struct watch){.event = event, .changed = changed, .arg = arg};
	r = open_netlink(event, NETLINK_KOBJECT_UEVENT, 1 /* the kernel's; 2 is udev's */, on_uevent, w, &w->uevents);
	if (r >= 0)
		r = open_netlink(event, NETLINK_ROUTE, RTMGRP_LINK, on_link, w, &w->links);
	if (r < 0) {
		watch_free(w);
		return r;
	}
	*ret = w;
	return 0;
}

struct watch *watch_free(struct watch *w)
{
	if (w) {
		sd_event_source_disable_unref(w->uevents);
		sd_event_source_disable_unref(w->links);
		sd_event_source_disable_unref(w->timer);
		free(w);
	}
	return NULL;
}
