#ifndef HASTEN_INIT_H
#define HASTEN_INIT_H

/* Keeps LD_PRELOAD as the program got it. */
void process_remember_environment(void);
#endif
