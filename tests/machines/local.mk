EXTRA_DIST += tests/machines/make tests/machines/machines.py tests/machines/tree.py
