#!/usr/bin/env python3
"""How many operations of each step the profiles latency, throughput, erdma and dpdk have on a tree, worked out of the tree's files.

    count.py synthetic|captured TREE...    prints them as JSON

Written from what profiles/*.yaml promise and what the kernel's documentation says of the files, not from hasten's code, which it never
runs. What only a person can say of a machine comes from the tables worked out by hand: expected.json (virtualization, families, what
may be taken, RDMA devices) and operations.json (queues, interrupts and their CPUs, which every profile has from balanced).
"""
import glob
import json
import os
import re
import sys

here = os.path.dirname(os.path.abspath(__file__))


def load(*parts):
    try:
        with open(os.path.join(*parts)) as f:
            return json.load(f)
    except OSError:
        return {}


EXPECTED, OPERATIONS = load(here, "expected.json"), load(here, "operations.json")


class Tree:
    def __init__(self, kind, root):
        self.root, self.name = os.path.abspath(root), os.path.basename(root.rstrip("/"))
        self.hand = EXPECTED.get(self.name, {}) if kind == "synthetic" else {}
        row = OPERATIONS[kind].get(self.name, {"steps": {}})
        # Every profile below stands on balanced: packet-rate's without the two steps of its own.
        self.base = {step: n for step, n in row["steps"].items() if step not in ("rps", "sysctl")}
        self.capture = load(root, "hasten-capture.json")
        # A function that says that it has an address of another's is left alone, and so is the other.
        self.cards = [n for n, e in self.capture.get("ethtool", {}).items() if n in self.hand.get("queues", {}) and n not in self.hand.get("ambiguous", [])]

    def read(self, path):
        try:
            with open(os.path.join(self.root, path), errors="replace") as f:
                return f.read().strip()
        except OSError:
            return None

    def glob(self, pattern):
        return sorted(glob.glob(os.path.join(glob.escape(self.root), pattern)))

    def numbers(self, path):
        """A sysctl, or None where this kernel has none."""
        text = self.read("proc/sys/" + path)
        return None if text is None else [int(n) for n in text.split()]

    def raises(self, path, *least):
        now = self.numbers(path)
        return int(now is not None and any(n < m for n, m in zip(now, least)))

    def sets(self, path, value):
        now = self.numbers(path)
        return int(now is not None and now != [value])

    def online(self):
        listed = self.read("sys/devices/system/cpu/online")
        if listed is None:
            folders = [int(re.search(r"(\d+)$", p)[1]) for p in self.glob("sys/devices/system/cpu/cpu[0-9]*")]
            return [c for c in folders if self.read("sys/devices/system/cpu/cpu%d/online" % c) != "0"]
        out = []
        for part in listed.split(","):
            first, _, last = part.partition("-")
            out += range(int(first), int(last or first) + 1)
        return out

    def nodes(self):
        """Memory in KiB of each node that has some."""
        out = {}
        for path in self.glob("sys/devices/system/node/node[0-9]*"):
            m = re.search(r"MemTotal:\s+(\d+)", self.read(path + "/meminfo") or "")
            if m and int(m[1]):
                out[path] = int(m[1])
        return out

    def guest(self):
        if self.hand:
            return self.hand["virtualization"] != "none"
        return bool(re.search(r"(?m)^(flags|features)\s*:.*\bhypervisor\b", self.read("proc/cpuinfo") or ""))

    def setting(self, card, kind, key, field="value"):
        return self.capture["ethtool"][card].get(kind, {}).get(key, {}).get(field)


def latency(t):
    steps = dict(t.base)
    cpus = t.online()
    busy = t.sets("net/core/busy_read", 50) + t.sets("net/core/busy_poll", 50) if len(cpus) > 2 else 0
    numa = t.sets("kernel/numa_balancing", 0) if len(t.nodes()) > 1 else 0
    steps["sysctl"] = busy + numa + t.raises("vm/stat_interval", 10) + t.raises("net/core/somaxconn", 4096)
    huge = t.read("sys/kernel/mm/transparent_hugepage/enabled")
    steps["thp"] = int(huge is not None and "madvise" in huge and "[madvise]" not in huge)
    if not t.guest():
        wake = [t.read("sys/devices/system/cpu/cpu%d/power/pm_qos_resume_latency_us" % c) for c in cpus]
        steps["latency"] = len([w for w in wake if w is not None and w != "10"])
        policies = [t.read(p + "/scaling_governor") for p in t.glob("sys/devices/system/cpu/cpufreq/policy*") or t.glob("sys/devices/system/cpu/cpu[0-9]*/cpufreq")]
        steps["cpufreq"] = len([p for p in policies if p is not None and p != "performance"])
    wanted = {"adaptive-rx": 0, "rx-usecs": 0, "tx-usecs": 0}
    steps["coalesce"] = sum(t.setting(c, "coalesce", key) not in (None, value) for c in t.cards for key, value in wanted.items()
                            if t.setting(c, "coalesce", key) is not None and family(t, c) == "ena")
    return steps


def family(t, card):
    """families is by PCI address; the link of sysfs says which card has it."""
    link = os.path.realpath(os.path.join(t.root, "sys/class/net", card))
    return next((f for address, f in t.hand["families"].items() if "/%s/" % address in link), None)


def throughput(t):
    steps = dict(t.base)
    steps["sysctl"] = (t.raises("net/ipv4/tcp_rmem", 4096, 131072, 16777216) + t.raises("net/ipv4/tcp_wmem", 4096, 16384, 16777216)
                       + t.sets("net/ipv4/tcp_slow_start_after_idle", 0) + t.raises("net/core/somaxconn", 4096))
    steps["rings"] = steps["coalesce"] = steps["features"] = 0
    for c in t.cards:
        now, most = t.setting(c, "rings", "rx"), t.setting(c, "rings", "rx", "max")
        steps["rings"] += int(bool(most) and now < min(2048, most))
        steps["coalesce"] += int(family(t, c) == "ena" and t.setting(c, "coalesce", "adaptive-rx") == 0)
        for feature in ("rx-gro", "tx-generic-segmentation"):
            steps["features"] += int(t.setting(c, "features", feature) == 0 and not t.setting(c, "features", feature, "fixed"))
    return steps


def lists_module(t, name):
    return any(re.search(r"(?m)^%s$" % name, t.read(p) or "") for p in t.glob("etc/modules-load.d/*.conf"))


def erdma(t):
    steps = dict(t.base)
    compat = (t.read("sys/module/erdma/parameters/compat_mode") or "").upper() in ("Y", "1")
    steps["sysctl"] = t.raises("net/core/somaxconn", 4096) + int(compat and "30608-30623" not in (t.read("proc/sys/net/ipv4/ip_local_reserved_ports") or ""))
    device = "erdma" in t.hand.get("families", {}).values()
    rdma = device or bool(t.glob("sys/class/infiniband/*"))
    wanted = (["erdma"] if device else []) + (["ib_uverbs", "rdma_ucm"] if rdma else [])
    steps["modules"] = len([m for m in wanted if not lists_module(t, m)])
    steps["memlock"] = int(rdma)
    return steps


def dpdk(t):
    if not t.hand.get("takeable") or not t.glob("sys/kernel/iommu_groups/*"):
        return {}
    steps = {"modules": int(not lists_module(t, "vfio-pci")), "bootargs": int(len(t.online()) >= 4), "hugepages": 0}
    for node, kib in t.nodes().items():
        pages = min(1024, kib // 1024 // 8, kib // 2 // 2048)
        steps["hugepages"] += int(int(t.read(node + "/hugepages/hugepages-2048kB/nr_hugepages") or 0) < pages)
    return steps


PROFILES = {"latency": latency, "throughput": throughput, "erdma": erdma, "dpdk": dpdk}


def count(kind, root):
    t = Tree(kind, root)
    return {name: {step: n for step, n in f(t).items() if n} for name, f in PROFILES.items()}


if __name__ == "__main__":
    if len(sys.argv) < 3:
        print(__doc__.strip(), file=sys.stderr)
        sys.exit(64)
    print(json.dumps({os.path.basename(root.rstrip("/")): count(sys.argv[1], root) for root in sys.argv[2:]}, indent=1))
