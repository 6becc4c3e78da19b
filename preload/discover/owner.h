/* Whose is the other end of a connection? */
#ifndef HASTEN_OWNER_H
#define HASTEN_OWNER_H
#include "common/state.h"
#include <stdbool.h>
#include <stdint.h>

/* Does the kernel's socket table say that the socket of this host with these names belongs to that user? False also
 * where the kernel cannot be asked. The descriptor that it takes is closed before it returns. */
bool owner_is(const struct state_addr *local, const struct state_addr *peer, uint32_t uid);
#endif
