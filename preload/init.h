#ifndef HASTEN_INIT_H
#define HASTEN_INIT_H

/* Keeps LD_PRELOAD and our settings as the program got them. */
void process_remember_environment(void);
#endif
