#!/usr/bin/env python3
"""plan writes nothing and says the same twice; apply does as many operations as operations.json and count.py have; verify agrees; a second
apply changes nothing; revert leaves every byte and mode as it was.

    roundtrip.py HASTEN synthetic|captured TREE...
    roundtrip.py HASTEN kill|ERRNO TREE PROFILE...    each write in turn fails so, or is the last before SIGKILL
"""
import hashlib
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
from count import count  # noqa: E402

MORE = {"balanced": 0, "memcached": 1, "nginx": 2, "postgresql": 2, "redis": 3}
faults = 0


def snapshot(root):
    seen = {}
    for folder, folders, files in os.walk(root):
        for name in folders + files + ["."]:
            path = os.path.normpath(os.path.join(folder, name))
            state = os.lstat(path)
            if os.path.islink(path):
                what = os.readlink(path)
            elif os.path.isfile(path):
                with open(path, "rb") as f:
                    what = hashlib.sha256(f.read()).hexdigest()
            else:
                what = ""
            seen[os.path.relpath(path, root)] = (state.st_mode, what)
    return seen


def differs(a, b):
    return [k for k in sorted(set(a) | set(b)) if a.get(k) != b.get(k)]


class Tree:
    def __init__(self, hasten, root):
        self.hasten, self.root, self.before = hasten, root, snapshot(root)

    def fault(self, *what):
        global faults
        faults += 1
        print("%s:" % os.path.basename(self.root), *what, file=sys.stderr)

    def run(self, *arguments, want=(0,), env=None):
        p = subprocess.run([self.hasten, *arguments, "--root", self.root], capture_output=True, text=True, timeout=120,
                           env=dict(os.environ, **(env or {})))
        if want is not None and p.returncode not in want:
            self.fault(*arguments, "status", p.returncode, p.stderr.strip())
        return p

    def document(self, *arguments, want=(0,)):
        p = self.run(*arguments, "--json", want=want)
        try:
            return json.loads(p.stdout)
        except ValueError:
            self.fault(*arguments, "printed no document")
            return {"operations": [], "changes": -1}

    def same(self, before, what):
        d = differs(before, snapshot(self.root))
        if d:
            self.fault(what, "changed", len(d), "files:", *d[:4])
        return not d

    def counted(self, profile, want, plan):
        """want: a number, or of each step."""
        count = {}
        for o in plan["operations"]:
            if o["status"] == "planned":
                count[o["step"]] = count.get(o["step"], 0) + 1
        if plan["changes"] != sum(count.values()) or want not in (count, plan["changes"]):
            self.fault("plan", profile, "has", plan["changes"], "operations:", count, "not", want)

    def round(self, profile, want):
        plans = [self.document("plan", profile, "-d") for _ in range(2)]
        self.same(self.before, "plan " + profile)
        if plans[0] != plans[1]:
            self.fault("plan", profile, "said two different things")
        self.counted(profile, want, plans[0])
        self.document("apply", profile, "-d")
        pending = {"pending-reboot", "at-boot"}
        verified = self.document("verify", want=(0, 1))
        bad = [o["id"] for o in verified["operations"] if o["status"] not in pending | {"ok", "skipped", "unsupported", "admin", "immutable"}]
        if bad:
            self.fault("verify", profile, "finds", *bad[:4])
        applied = snapshot(self.root)
        self.document("apply", profile, "-d")
        self.same(applied, "a second apply " + profile)
        self.run("plan", profile, "-d", "--detailed-exitcode")
        self.document("revert", "-d")
        return self.same(self.before, "revert " + profile)


def matrix(hasten, kind, roots):
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "operations.json")) as f:
        table = json.load(f)[kind]
    for root in roots:
        tree, row = Tree(hasten, root), table.get(os.path.basename(root))
        if row is None and kind == "synthetic":
            tree.fault("operations.json has no row for it")
            continue
        steps = (row or {"steps": {}})["steps"]
        base = sum(n for step, n in steps.items() if step not in ("rps", "sysctl"))
        more = MORE if kind == "synthetic" else {"balanced": 0}
        wants = {"packet-rate": steps, **{p: base + n for p, n in more.items()}, **count(kind, root)}
        # Every profile's numbers; the whole way for those that have steps here which the ones before them did not have.
        for profile, want in wants.items():
            own = set(want) - {"channels", "irq", "xps"} if isinstance(want, dict) else set()
            if not (profile == "packet-rate" or (row and profile in ("latency", "redis")) or own - {"sysctl"}):
                tree.counted(profile, want, tree.document("plan", profile, "-d"))
            elif not tree.round(profile, want):
                break
    return len(roots)


def failing(hasten, how, root, profiles):
    tree, n = Tree(hasten, root), 0
    while n < 400:
        n += 1
        p = tree.run("apply", *profiles, "-d", want=(0, 1, -9), env={"HASTEN_SYS_FAULT": "%d=%s" % (n, how)})
        tree.run("revert", "-d")
        if not tree.same(tree.before, "%s at write %d, then revert" % (how, n)):
            break
        if how == "kill" and p.returncode != -9:
            break
        if how != "kill" and p.returncode == 0 and not p.stderr and n > 60:
            break
    return n


if len(sys.argv) < 4:
    print(__doc__.strip(), file=sys.stderr)
    sys.exit(64)
if sys.argv[2] in ("synthetic", "captured"):
    done = matrix(sys.argv[1], sys.argv[2], sys.argv[3:])
else:
    done = failing(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
print(done)
sys.exit(1 if faults else 0)
