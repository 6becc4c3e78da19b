/* Numbers for our own descriptors; limits.c has the rule. */
#ifndef HASTEN_LIMITS_H
#define HASTEN_LIMITS_H
#include <stdbool.h>

/* A copy of fd (CLOEXEC) under a number that the program is not given; -1: none. */
int limits_away(int fd);
/* Could the program use this number? */
bool limits_within(int fd);
/* Around whatever makes a child: it must not inherit a limit that is raised for a moment. */
void limits_hold(void);
void limits_release(void);
void limits_fork_child(void);
#endif
