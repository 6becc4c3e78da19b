# Other people's test suites, native and preloaded (tests/suites/run).
EXTRA_DIST += tests/suites/run tests/suites/parts.py tests/suites/results.py tests/suites/unit.py tests/suites/intended.list \
	tests/suites/Loops.java tests/suites/node.js
