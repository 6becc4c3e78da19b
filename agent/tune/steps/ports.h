#ifndef HASTEN_TUNE_STEPS_PORTS_H
#define HASTEN_TUNE_STEPS_PORTS_H
/* Lists of ports as the kernel has them ("22,30608-30623"): all of both, in its form. -EINVAL: not such a list. */
int ports_both(const char *a, const char *b, char **ret);
#endif
