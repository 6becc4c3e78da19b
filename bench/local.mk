# Small programs that bench/run.sh runs plain and preloaded in turn; nothing of it is installed.
BENCH_SHARED = bench/ends.c bench/ends.h
noinst_PROGRAMS += bench/rr bench/crr bench/stream bench/idle bench/plainfd
bench_rr_SOURCES = bench/rr.c $(BENCH_SHARED)
bench_crr_SOURCES = bench/crr.c $(BENCH_SHARED)
bench_stream_SOURCES = bench/stream.c $(BENCH_SHARED)
bench_idle_SOURCES = bench/idle.c $(BENCH_SHARED)
bench_plainfd_SOURCES = bench/plainfd.c $(BENCH_SHARED)
EXTRA_DIST += bench/run.sh bench/RESULTS.md bench/redis.svg
