#include "preload/state.h"
#include "common/reasons.h"
#include "preload/discover/registry.h"
#include "preload/family.h"
#include "preload/lane/lane.h"
#include "preload/link/link.h"
#include "preload/proc/process.h"
#include "preload/real.h"
#include "preload/stats/stats.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

__thread struct thread_state self_thread __attribute__((tls_model("initial-exec")));
struct hasten_options options;
char program_name[64];
_Atomic bool active;
_Atomic uint8_t inactive_reason = REASON_OFF;
unsigned usable_cpus = 1;

pthread_mutex_t state_start_lock = PTHREAD_MUTEX_INITIALIZER;
static bool started, usable;
static int log_fd = -1;

static int log_target(void)
{
	if (log_fd < 0 && options.log_path[0] && self_thread.vfork_child)
		return -1; /* the number would be the child's, its note the parent's */
	if (log_fd >= 0 || !options.log_path[0])
		return log_fd >= 0 ? log_fd : STDERR_FILENO;
	char path[OPTIONS_PATH_MAX + 96];
	struct stat st;
	snprintf(path, sizeof(path), "%s", options.log_path);
	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		snprintf(path, sizeof(path), "%s/%s.%d.log", options.log_path, program_name, getpid());
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
	if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid())) {
		real.close(fd); /* somebody else's file */
		fd = -1;
	}
	if (fd < 0)
		return STDERR_FILENO;
	return log_fd = fdtab_own(fd);
}

void log_message(int level, const char *format, ...)
{
	if (level > options.log_level && !(options.debug && level <= LOG_DEBUG))
		return;
	int saved = errno;
	char line[512];
	int n = snprintf(line, sizeof(line), "hasten[%d] %s: ", getpid(), program_name);
	va_list ap;
	va_start(ap, format);
	n += vsnprintf(line + n, sizeof(line) - n - 1, format, ap);
	va_end(ap);
	if (n > (int)sizeof(line) - 2)
		n = sizeof(line) - 2;
	line[n++] = '\n';
	if (real.write(log_target(), line, n) < 0)
		n = 0;
	errno = saved;
}

static void complain(void *arg, const char *place, const char *text)
{
	(void)arg;
	log_message(LOG_ERROR, "%s: %s; the default stays", place, text);
}

_Atomic uint8_t state_stopped;

bool state_start(int fd)
{
	if (started)
		return usable;
	own_lock(&state_start_lock);
	if (!started) {
		int saved = errno;
		options_load(&options, complain, NULL);
		cpu_set_t set;
		if (sched_getaffinity(0, sizeof(set), &set) == 0)
			usable_cpus = CPU_COUNT(&set);
		if (options.fault_seed)
			lane_active = &lane_fault;
		/* what a parent drew for its epoll sets before it had a family is its other children's too */
		if (!family)
			identity_renew();
		inactive_reason = !options.enable || options.promote == PROMOTE_OFF ? REASON_OFF :
				  registry_open(fd) < 0                             ? REASON_NO_REGISTRY :
				  !family && family_start() < 0                     ? REASON_NO_MEMORY :
										      REASON_NONE;
		active = inactive_reason == REASON_NONE;
		if (active)
			process_watch_forks();
		else
			log_message(LOG_INFO, "nothing is accelerated: %s", reason_text(inactive_reason));
		if (registry_dir()[0])
			stats_start(); /* also where nothing is accelerated: the monitor says why */
		usable = true;
		started = true;
		errno = saved;
	}
	own_unlock(&state_start_lock);
	return usable;
}

/* The child of a fork: its own identity, state file and rendezvous, made when it next opens a connection. */
void state_fork_child(void)
{
	pthread_mutex_init(&state_start_lock, NULL);
	if (started) {
		started = state_stopped;
		log_fd = -1;
	}
}

void state_anew(void)
{
	own_lock(&state_start_lock);
	registry_close(); /* also one that a forked child has from its parent, before it starts with a connection of its own */
	if (started && !state_stopped) {
		stats_stop();
		started = false;
		active = false;
	}
	own_unlock(&state_start_lock);
}

void state_stop(enum reason why)
{
	own_lock(&state_start_lock);
	stats_stop();
	state_stopped = inactive_reason = why;
	active = false;
	started = true;
	own_unlock(&state_start_lock);
}
