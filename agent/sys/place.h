/* Where this program was installed to. */
#ifndef AGENT_SYS_PLACE_H
#define AGENT_SYS_PLACE_H

/* The folder of what hasten brings along, libhasten.so, and the folder of the vendor's profiles in it: lib/hasten beside the bin or sbin that the running program lies in, else in PKGLIBDIR
 * (a program in a build folder). The release archive is one build that is unpacked anywhere. Never fail; valid as long as the process. Any thread. */
const char *place_folder(void);
const char *place_library(void);
const char *place_profiles(void);

#endif
