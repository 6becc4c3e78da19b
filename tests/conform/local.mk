# Plain socket programs that run native and preloaded, and the driver that compares (tests/conform/run).
conform_programs = \
	tests/conform/calls \
	tests/conform/close-while \
	tests/conform/dups \
	tests/conform/epoll-modes \
	tests/conform/epoll-sets \
	tests/conform/epoll-workers \
	tests/conform/exec \
	tests/conform/files \
	tests/conform/flags \
	tests/conform/forks \
	tests/conform/nonblocking \
	tests/conform/passing \
	tests/conform/queues \
	tests/conform/threads \
	tests/conform/urgent \
	tests/conform/volume \
	tests/conform/waits

check_PROGRAMS += $(conform_programs)
noinst_HEADERS += tests/conform/conform.h
EXTRA_DIST += tests/conform/run tests/conform/below-half.list

# Names and warnings of AM_CFLAGS, without the library: these programs must not know that there is one.
conform-programs: $(conform_programs)
.PHONY: conform-programs
