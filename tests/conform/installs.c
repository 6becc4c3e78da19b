/* Threads that install handlers of one signal while it comes: a handler runs by its own flags, and what was there before
 * comes back whole. */
#include "conform.h"

static _Atomic int stop;
static _Atomic unsigned with, without;

static void with_info(int sig, siginfo_t *info, void *context)
{
	if (sig != SIGUSR1 || !context || info->si_signo != SIGUSR1 || info->si_value.sival_int != 4242)
		_exit(7);
	with++;
}

static void without_info(int sig)
{
	if (sig != SIGUSR1)
		_exit(8);
	without++;
}

static void *install(void *arg)
{
	struct sigaction a[2] = {{.sa_sigaction = with_info, .sa_flags = SA_SIGINFO}, {.sa_handler = without_info, .sa_flags = SA_RESTART}};
	for (unsigned i = arg != NULL; !stop; i++) {
		struct sigaction old;
		CHECK(!sigaction(SIGUSR1, &a[i % 2], i % 4 ? &old : NULL), "sigaction");
		if (i % 4)
			CHECK(old.sa_sigaction == with_info ? old.sa_flags & SA_SIGINFO : !(old.sa_flags & SA_SIGINFO) && old.sa_handler == without_info,
			      "handler and flags are of two calls: flags %x", old.sa_flags);
	}
	return NULL;
}

static void test(void)
{
	pthread_t t[2];
	struct sigaction a = {.sa_handler = without_info};
	union sigval v = {.sival_int = 4242};
	CHECK(!sigaction(SIGUSR1, &a, NULL), "sigaction");
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_create(&t[i], NULL, install, i ? &stop : NULL), "thread");
	for (double end = now() + 0.6; now() < end;)
		CHECK(!pthread_sigqueue(pthread_self(), SIGUSR1, v), "sigqueue");
	stop = 1;
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	CHECK(with && without, "both ran");
	int c, s;
	pair(&c, &s);
	warm(c, s);
	still_works(c, s);
	close(c);
	close(s);
}

int main(void)
{
	return once(test);
}
