/* What happens before main: a list, in order. Nothing else happens before the first TCP connection. */
#include "preload/init.h"
#include "preload/proc/handover.h"
#include "preload/real.h"
#include "preload/state.h"

#include <errno.h>
#include <string.h>

__attribute__((constructor(101))) static void construct(void)
{
	real_bind();                        /* a symbol bound later could be bound in a forked child, under a lock */
	process_remember_environment();     /* a program that clears it (nginx) gets it back at exec */
	const char *name = program_invocation_short_name;
	strncpy(program_name, name ? name : "?", sizeof(program_name) - 1);
	handover_adopt();                   /* connections that came over an exec */
}
