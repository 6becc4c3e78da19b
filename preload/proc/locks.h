/* The library's own locks at fork: a child must not inherit a table that another thread was just changing. */
#ifndef HASTEN_LOCKS_H
#define HASTEN_LOCKS_H
#include <stdint.h>

/* Takes all of them that can be had within a moment (no order is safe against every path, so none is waited for for
 * long); returns which. The child makes every lock anew; the parent gives them back. */
uint32_t locks_hold(void);
void locks_release(uint32_t held);
#endif
