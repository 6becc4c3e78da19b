"""Writes what a run came to into a section of tests/RESULTS.md."""
import datetime
import os
import platform
import re
import subprocess

BEGIN, END = "<!-- suites: written by tests/suites/run --results -->", "<!-- suites: end -->"


def first_line(*command):
    try:
        text = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False).stdout
    except FileNotFoundError:
        return "not installed"
    return text.strip().splitlines()[0] if text.strip() else "?"


def versions():
    package = ["dpkg-query", "-W", "-f", "${Package} ${Version}"]
    yield "library", first_line("git", "-c", "safe.directory=*", "-C", os.path.dirname(os.path.abspath(__file__)), "log", "-1", "--format=%h %cs")
    yield "kernel", f"{platform.system()} {platform.release()}, {os.cpu_count()} CPUs"
    for suite, name in (("cpython", "libpython3.11-testsuite"), ("perl", "perl"), ("ruby", "ruby3.1"), ("tcl", "tcl8.6"), ("java", None), ("node", None)):
        yield suite, first_line(*package, name) if name else first_line(suite, "--version")


def section(options, reports, missing):
    yield "## Other people's test suites"
    yield ""
    yield "`sudo tests/suites/run -B BUILD --results tests/RESULTS.md`; `tests/suites/run --help` says how it compares."
    yield ("Each part runs natively, preloaded, and preloaded with `HASTEN_PROMOTE=eager`, in processes, network, /run and /dev/shm "
           "of its own. Every test's outcome (for a skipped one its reason, for a failed one the kind of exception) must be the native one. "
           f"A part with a difference is run {options.again} times more, both ways. \"Fail natively\" are tests that fail without the library "
           "too: mostly those that want the Internet. Bytes are those that both ends moved through TCP, by HASTEN_COUNTERS.")
    yield ""
    yield f"Date: {datetime.date.today()}. " + "; ".join(f"{what}: {version}" for what, version in versions()) + "."
    yield ""
    yield "| part | results | fail natively | " + " | ".join(f"{mode}: differ | {mode}: bytes by lane" for mode in options.modes) + " |"
    yield "|---|--:|--:|" + "--:|--:|" * len(options.modes)
    for report in sorted(reports, key=lambda report: report.part.full):
        if report.skipped:
            yield f"| {report.part.full} | not run: {report.skipped} |" + " |" * (1 + 2 * len(options.modes))
            continue
        cells = []
        for mode in options.modes:
            moved = report.lane.get(mode, [0] * 6)
            differ = sum(text.startswith(f"{mode}: ") for text in report.differ)
            share = f"{sum(moved[0:2]):,} of {sum(moved[0:4]):,}" if sum(moved[0:4]) else "no TCP"
            cells += [str(differ), share]
        yield f"| {report.part.full} | {report.tests:,} | {report.failures} | " + " | ".join(cells) + " |"
    total = sum(report.tests for report in reports)
    yield f"| all | {total:,} | {sum(report.failures for report in reports)} |" + " |" * (2 * len(options.modes))
    yield ""
    for suite, reason in missing:
        yield f"Not run: {suite}: {reason}."
    for title, name in (("Differences", "differ"), ("Intended differences", "intended"), ("Unsteady without the library too", "unsteady")):
        rows = [f"- {report.part.full}: {text}" for report in reports for text in getattr(report, name)]
        yield f"{title}: {'none.' if not rows else ''}"
        yield ""
        if rows:
            yield from rows
            yield ""


def write(options, reports, missing):
    text = "\n".join([BEGIN, *section(options, reports, missing), END])
    old = "# Results of the tests that do not run on every change\n"
    if os.path.exists(options.results):
        with open(options.results, encoding="utf-8") as file:
            old = file.read()
    if BEGIN in old:
        new = re.sub(f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: text, old, flags=re.S)
    else:
        new = f"{old.rstrip()}\n\n{text}\n"
    with open(options.results, "w", encoding="utf-8") as file:
        file.write(new)
