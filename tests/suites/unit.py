"""Runs modules of unittest's kind and writes what became of each test.

    python3 unit.py RESULTS LIMIT MODULE...

A line "outcome<TAB>test" a test goes to RESULTS at once, so that a hang or a crash loses only the test that it is in
(its line is then "begun"). LIMIT seconds later every thread's stack is written and the process ends.
"""
import atexit
import faulthandler
import fcntl
import os
import sys
import unittest


def line_of(text):
    return " ".join(str(text).split())[:200]


class Record(unittest.TestResult):
    def __init__(self, to):
        super().__init__()
        self.to = to
        self.failed = None

    def write(self, outcome, name):
        os.write(self.to, f"{outcome}\t{line_of(name)}\n".encode("utf-8", "backslashreplace"))

    def startTest(self, test):
        super().startTest(test)
        self.failed = None
        self.write("begun", test.id())

    def wrong(self, kind, test, error):
        if self.failed is None:
            self.failed = f"{kind} {error[0].__name__}"
        self.write(self.failed, test.id())
        print(f"{kind}: {test.id()}\n{self._exc_info_to_string(error, test)}", file=sys.stderr, flush=True)

    def addError(self, test, error):
        super().addError(test, error)
        self.wrong("error", test, error)

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.wrong("fail", test, error)

    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        if error is not None:
            kind = "fail" if issubclass(error[0], test.failureException) else "error"
            self.wrong(kind, test, error)

    def addSuccess(self, test):
        self.write("ok", test.id())

    # Why a test is skipped is part of what became of it: a probe that a library changes shows in it.
    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.write(f"skip: {line_of(reason)}", test.id())

    def addExpectedFailure(self, test, error):
        self.write("fails as expected", test.id())

    def addUnexpectedSuccess(self, test):
        self.write("succeeds unexpectedly", test.id())


def main():
    results, limit, modules = sys.argv[1], float(sys.argv[2]), sys.argv[3:]
    # Close on exec, and above what tests of descriptor numbers look at.
    to = os.open(results, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o666)
    high = fcntl.fcntl(to, fcntl.F_DUPFD_CLOEXEC, 1000)
    os.close(to)
    faulthandler.enable()
    faulthandler.dump_traceback_later(limit, exit=True)
    if modules[0].startswith("test."):
        prepare_cpython(modules)
    record = Record(high)
    loader = unittest.TestLoader()
    tests = loader.loadTestsFromNames(modules)
    if loader.errors:
        sys.exit("\n".join(loader.errors))
    tests.run(record)
    record.write("ok", "(the modules end)")
    faulthandler.cancel_dump_traceback_later()


def prepare_cpython(modules):
    """What its own runner sets up."""
    from test import support
    from test.libregrtest.utils import setup_threading_excepthook, setup_unraisable_hook
    # "network" lets modules open sockets at all; there is no other host here to be reached.
    support.use_resources = ["network", "subprocess"]
    setup_unraisable_hook()
    setup_threading_excepthook()
    atexit.register(support.reap_children)
    if "test.test_socket" in modules:
        # Waits for ever for a peer wherever the kernel has vsock and the machine has no device for it.
        import test.test_socket
        test.test_socket.ThreadedVSOCKSocketStreamTest = None


if __name__ == "__main__":
    main()
