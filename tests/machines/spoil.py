#!/usr/bin/env python3
"""Copies trees and spoils some of each: junk, huge numbers and files, loops, pipes, folders in place of files and the other way
round. hasten detect and check must answer, or say in one line why not, within ten seconds; apply changes what it can or says why not,
and after revert the tree is as it was.

    tests/machines/spoil.py HASTEN WORK SEEDS ROOT...
"""
import json
import os
import random
import shutil
import subprocess
import sys

hasten, work, seeds = sys.argv[1], sys.argv[2], int(sys.argv[3])
TEXTS = [b"", b"\n", b"-1\n", b"99999999999999999999999999\n", b"0-4294967295\n", b"0-8191\n", b"18446744073709551615\n", b"0x\n", b"ff," * 5000, b"%s%n%n\n",
         b"\x1b[31m\x07red\n", b"\xff\xfe\xc3\x28\n", b"a" * 70000, b"\0\0\0\0", b"[always\n", b"]a[\n", b"1:\n", b": : :\n", b"x:" * 3000]


def remove(path):
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)


def spoil(r, source, to, path):
    kind = r.randrange(9)
    if kind < 4 and os.path.isfile(path):
        with open(path, "wb") as f:
            f.write(r.choice(TEXTS))
    elif kind == 4 and os.path.isfile(path):
        with open(path, "wb") as f:
            f.write(bytes(r.randrange(256) for _ in range(r.randrange(1, 300))))
    elif kind == 5 and os.path.isfile(path):
        os.truncate(path, 1 << 33)  # a hole of 8 GiB
    else:
        remove(path)
        if kind == 6:
            os.symlink(r.choice([os.path.basename(path), "..", "/", "/proc/self/root/etc/passwd", "../" * 40 + "etc/passwd", "/dev/zero"]), path)
        elif kind == 7:
            os.mkfifo(path)
        elif os.path.isfile(source + path[len(to):]):
            os.mkdir(path)
        else:
            with open(path, "wb") as f:
                f.write(r.choice(TEXTS))



def spoilt(source, to, seed):
    r = random.Random(seed)
    shutil.copytree(source, to, symlinks=True)
    places = [os.path.join(d, n) for d, folders, files in os.walk(to) for n in folders + files]
    for path in r.sample(sorted(places), min(len(places), r.choice([3, 20, 200]))):
        if os.path.lexists(path):
            spoil(r, source, to, path)
    net = os.path.join(to, "sys/class/net")
    if os.path.isdir(net) and not os.path.islink(net):
        for name in (b"\x1b[2J", b"%n%s", b"a" * 200, b"\xff\xfe", b"new\nline"):
            d = os.path.join(os.fsencode(net), name)
            if not os.path.lexists(d):
                os.mkdir(d)
                with open(os.path.join(d, b"mtu"), "wb") as f:
                    f.write(b"1500\n")


def run(to, *command):
    """The process that ended, or what is wrong with how it did."""
    try:
        out = subprocess.run([hasten, *command, "--root", to], capture_output=True, timeout=10)
    except subprocess.TimeoutExpired:
        return None, "no answer in ten seconds"
    fault = None
    if out.returncode not in (0, 1, 2, 3, 64):
        fault = "status %d: %r" % (out.returncode, out.stderr[:500])
    elif out.stderr.count(b"\n") > 1 or (out.stderr and not out.returncode):
        fault = "status %d and not one line: %r" % (out.returncode, out.stderr[:2000])
    elif any(b < 32 and b != 10 or b == 127 for b in out.stdout + out.stderr):
        fault = "control characters: %r %r" % (out.stdout[:2000], out.stderr)
    elif "--json" in command:
        document = json.loads(out.stdout)
        empty = b"nothing of a machine" in out.stderr
        if (document["id"] == "hasten.error") != bool(out.stderr) and not empty:
            fault = "status %d, said %r and printed %s" % (out.returncode, out.stderr, document["id"])
    elif out.returncode and not out.stdout and not out.stderr:
        fault = "status %d without a word" % out.returncode
    return out, fault and " ".join(command) + ": " + fault


# What the kernel works out of a setting (of all nodes together, too): junk in it does not outlive the setting's change and return.
WORKED_OUT = {b"effective_affinity", b"effective_affinity_list", b"smp_affinity", b"free_hugepages", b"surplus_hugepages", b"meminfo"}


def state(root):
    seen = {}
    for folder, folders, files in os.walk(os.fsencode(root)):
        for name in folders + [n for n in files if n not in WORKED_OUT and not (n == b"nr_hugepages" and b"/node/" not in folder)]:
            path = os.path.join(folder, name)
            s = os.lstat(path)
            what = os.readlink(path) if os.path.islink(path) else None
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as f:
                    what = (s.st_size, f.read(1 << 17))
            seen[path] = (s.st_mode, what)
    return seen


def check(to):
    """What is wrong with the answers, or None."""
    for command in (["detect", "--json"], ["detect"], ["check", "--json"], ["check"]):
        fault = run(to, *command)[1]
        if fault:
            return fault
    before = state(to)
    for command in (["plan", "packet-rate", "latency", "erdma", "dpdk", "-d"], ["apply", "packet-rate", "latency", "erdma", "dpdk", "-d"],
                    ["status"], ["verify"], ["revert", "-d", "--json"]):
        out, fault = run(to, *command)
        if fault:
            return fault
        if command[0] == "plan" and state(to) != before:
            return "plan changed something"
    if not out.returncode:
        after = state(to)
        changed = [p for p in sorted(set(before) | set(after)) if before.get(p) != after.get(p)]
        if changed:
            return "after revert %d files differ: %r" % (len(changed), [(p[len(to):], before.get(p), after.get(p)) for p in changed[:2]])
    elif not out.stderr and all(o["status"] not in ("drift", "failed", "denied", "pending-consent") for o in json.loads(out.stdout)["operations"]):
        return "revert: status %d for nothing" % out.returncode
    return None


bad = 0
for seed in range(seeds):
    source, to = sys.argv[4 + seed % len(sys.argv[4:])], os.path.join(work, "spoilt")
    spoilt(source, to, seed)
    fault = check(to)
    shutil.rmtree(to)
    if fault:
        bad += 1
        print("seed %d of %s: %s" % (seed, os.path.basename(source), fault))
sys.exit(bool(bad))
