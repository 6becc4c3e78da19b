#include "agent/sys/place.h"
#include "config.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char folder[PATH_MAX], library[PATH_MAX + 16], profiles[PATH_MAX + 16];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void look(void)
{
	char exe[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	if (n > 0) {
		exe[n] = '\0';
		for (int up = 0; up < 2; up++) {
			char *slash = strrchr(exe, '/');

			if (!slash)
				break;
			*slash = '\0';
			if (!up && strcmp(strrchr(exe, '/') ?: "", "/bin") != 0 && strcmp(strrchr(exe, '/') ?: "", "/sbin") != 0)
				break;
			if (up && snprintf(folder, sizeof(folder), "%s/lib/hasten", exe) < (int)sizeof(folder) && !access(folder, X_OK))
				return;
		}
	}
	snprintf(folder, sizeof(folder), "%s", PKGLIBDIR);
}

static void look_and_join(void)
{
	look();
	snprintf(library, sizeof(library), "%s/libhasten.so", folder);
	snprintf(profiles, sizeof(profiles), "%s/profiles", folder);
}

const char *place_folder(void)
{
	pthread_once(&once, look_and_join);
	return folder;
}

const char *place_library(void)
{
	pthread_once(&once, look_and_join);
	return library;
}

const char *place_profiles(void)
{
	pthread_once(&once, look_and_join);
	return profiles;
}
