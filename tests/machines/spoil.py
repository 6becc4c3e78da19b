#!/usr/bin/env python3
"""Copies trees and spoils some of each: junk, huge numbers and files, loops, pipes, folders in place of files and the other way
round. hasten detect must answer, or say in one line why not, within ten seconds.

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


def check(to):
    """What is wrong with the answers, or None."""
    for form in (["--json"], []):
        try:
            out = subprocess.run([hasten, "detect", "--root", to] + form, capture_output=True, timeout=10)
        except subprocess.TimeoutExpired:
            return "no answer in ten seconds"
        if out.returncode in (1, 64):
            if out.stderr.count(b"\n") != 1 or out.stdout:
                return "status %d and not one line: %r" % (out.returncode, out.stderr)
        elif out.returncode:
            return "status %d: %r" % (out.returncode, out.stderr[:500])
        elif form:
            json.loads(out.stdout)
        elif any(b < 32 and b != 10 for b in out.stdout):
            return "control characters: %r" % out.stdout
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
