/* Descriptors 0 to 2 of a program of ours: open from its first line on, and what was printed has arrived when it ends. */
#ifndef HASTEN_SYS_STREAMS_H
#define HASTEN_SYS_STREAMS_H

/* First of all: where one of the three was closed ("hasten apply redis >&-") the next file opened would get its number, and what is printed
 * would go into it: a journal, a lock, a setting of the kernel. None of them passes exec, so a program that is run finds them as they were. */
void streams_open(void);
/* Last of all: status, or 1 with one line on standard error where what was printed did not arrive (a full disk). */
int streams_close(const char *program, int status);
#endif
