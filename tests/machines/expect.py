#!/usr/bin/env python3
"""Compares what hasten detect --json said of a synthetic machine with expected.json, which was worked out by hand from machines.py.

    tests/machines/expect.py HASTEN FOLDER

FOLDER holds every synthetic machine.
"""
import collections
import json
import os
import subprocess
import sys

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "expected.json")) as f:
    EXPECTED = json.load(f)


def title(n):
    return n["name"] or n["path"]


def compare(name, e):
    out = subprocess.run([sys.argv[1], "detect", "--json", "--root", os.path.join(sys.argv[2], name)], stdout=subprocess.PIPE, check=True).stdout
    d = json.loads(out)
    hardware = [n for n in d["nics"] if n["bus"] != "virtual"]
    seen = {
        "vendor": d["platform"]["vendor"],
        "virtualization": d["platform"]["virtualization"],
        "boot_loader": d["platform"]["boot_loader"],
        "secure_boot": d["platform"]["secure_boot"],
        "families": {n["path"]: n["family"] for n in hardware},
        "queues": {n["name"]: [n["queues_now"], n["queues_max"]] for n in hardware if n["name"]},
        "roles": {title(n): dict(collections.Counter(i["role"] for i in n["interrupts"])) for n in hardware},
        "protected": sorted(title(n) for n in d["nics"] if n["protected_by"]),
        "takeable": sorted(title(n) for n in d["nics"] if n["dpdk"]["takeable"]),
        "ambiguous": sorted(title(n) for n in d["nics"] if n["ambiguous"]),
        "rdma": {r["name"]: [r["netdev"], r["paired_by"]] for r in d["rdma"]},
        "compat_mode": next((r["compat_mode"] for r in d["rdma"] if r["driver"] == "erdma"), None),
        "cloud_agents": d["owners"]["cloud_agents"],
        "advice": {title(n): n["advice"]["use"] for n in hardware},
    }
    wanted = dict({"secure_boot": False, "compat_mode": None}, **e)
    for key in ("protected", "takeable", "ambiguous"):
        wanted[key] = sorted(wanted[key])
    bad = [k for k in wanted if wanted[k] != seen[k]]
    for k in bad:
        print("%s: %s: hasten says %r, by hand %r" % (name, k, seen[k], wanted[k]))
    # Numbers of queues: each role counts from 0 without a gap (gve's blocks, too).
    for n in hardware:
        for role in ("queue", "rx", "tx"):
            numbers = sorted(i["queue"] for i in n["interrupts"] if i["role"] == role)
            if numbers != list(range(len(numbers))):
                print("%s: %s: %s queues %r" % (name, title(n), role, numbers))
                bad.append(role)
    return bad


there = sorted(os.listdir(sys.argv[2]))
if there != sorted(EXPECTED):
    sys.exit("expected.json has %r, the folder %r" % (sorted(EXPECTED), there))
sys.exit(any([compare(name, e) for name, e in EXPECTED.items()]))
