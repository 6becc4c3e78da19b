EXTRA_DIST += tests/machines/make tests/machines/machines.py tests/machines/tree.py tests/machines/oracle.py \
	tests/machines/expect.py tests/machines/expected.json tests/machines/operations.json tests/machines/roundtrip.py tests/machines/spoil.py tests/machines/count.py
