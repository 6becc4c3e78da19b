#include "preload/proc/locks.h"
#include "preload/sock.h"

#include <pthread.h>
#include <sched.h>

#define TRIES 2000

extern pthread_mutex_t state_start_lock, waitset_lock, link_walk_lock, link_rendezvous_lock, links_lock, link_receive_lock,
	registry_others_lock, waker_epochs_lock, waker_lock, sock_pool_lock, stats_rows_lock,
	signal_actions_lock, system_callers_lock;

/* One row a lock that guards a table of this process. */
static pthread_mutex_t *const locks[] = {
	&state_start_lock, &waitset_lock,         &link_walk_lock,    &link_rendezvous_lock, &links_lock,     &link_receive_lock,
	&registry_others_lock, &waker_epochs_lock, &waker_lock,       &sock_pool_lock,       &stats_rows_lock,
	&signal_actions_lock, &system_callers_lock,
};
#define N_LOCKS (sizeof(locks) / sizeof(locks[0]))

uint32_t locks_hold(void)
{
	uint32_t held = 0;
	if (alone())
		return 0;
	for (int try = 0; try < TRIES; try++) {
		for (unsigned i = 0; i < N_LOCKS; i++)
			if (pthread_mutex_trylock(locks[i]) == 0)
				held |= 1u << i;
			else
				break;
		if (held == (1u << N_LOCKS) - 1)
			return held;
		if (try == TRIES - 1)
			break;
		locks_release(held);
		held = 0;
		sched_yield();
	}
	return held;
}

void locks_release(uint32_t held)
{
	for (unsigned i = 0; i < N_LOCKS; i++)
		if (held & 1u << i)
			pthread_mutex_unlock(locks[i]);
}
