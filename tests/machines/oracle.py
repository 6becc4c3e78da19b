#!/usr/bin/env python3
"""Compares what hasten detect --json said of a tree with what this script works out of the tree by itself.

    tests/machines/oracle.py HASTEN ROOT...

Written against the kernel's documentation of the files and not against hasten's code: other order, other files where there are two
(masks where hasten reads lists, the links of a node where hasten reads its list). Prints each difference; exit status 1 with any.
"""
import json
import os
import re
import subprocess
import sys

if len(sys.argv) > 3:  # one pass a tree: each in a child
    children = []
    for tree in sys.argv[2:]:
        child = os.fork()
        if not child:
            sys.argv[2:] = [tree]
            break
        children.append(os.waitpid(child, 0)[1])
    else:
        sys.exit(any(children))
root = sys.argv[2].rstrip("/")
document = json.loads(subprocess.run([sys.argv[1], "detect", "--json", "--root", sys.argv[2]], stdout=subprocess.PIPE, check=True).stdout)
faults = []


def path(*parts):
    return root + "/" + "/".join(parts)


def read(*parts):
    try:
        with open(path(*parts), "rb") as f:
            return f.read().split(b"\0")[0].decode(errors="replace").strip()
    except OSError:
        return None


def entries(*parts):
    try:
        return os.listdir(path(*parts))
    except OSError:
        return []


def expand(text):
    out = set()
    for part in (text or "").split(","):
        m = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        if m:
            out |= set(range(int(m[1]), int(m[2] or m[1]) + 1))
    return out


def mask(text):
    try:
        value = int((text or "").replace(",", ""), 16)
    except ValueError:
        return set()
    return {i for i in range(value.bit_length()) if value >> i & 1}


def same(what, ours, theirs):
    if ours != theirs:
        faults.append("%s: hasten says %r, the tree %r" % (what, ours, theirs))


def tail(p):
    return os.path.basename(p.rstrip("/"))


def target(*parts):
    """The last part of a link's target, without following it."""
    try:
        return tail(os.readlink(path(*parts)))
    except OSError:
        return None


def resolve(p):
    """A canonical path inside the root: links of sysfs are relative."""
    real, top = os.path.realpath(root + p), os.path.realpath(root) if root else ""
    return real[len(top):] if real.startswith(top) else None


# ---- CPUs ----
cpu = "sys/devices/system/cpu"
folders = {int(n[3:]) for n in entries(cpu) if re.fullmatch(r"cpu\d+", n)}
online = expand(read(cpu, "online")) or {c for c in folders if read(cpu, "cpu%d" % c, "online") != "0"}
if not online:
    online = {int(x) for x in re.findall(r"(?m)^processor\s*:\s*(\d+)", read("proc", "cpuinfo") or "")}
same("online CPUs", expand(document["cpus"]["online"]), online)
same("online_count", document["cpus"]["online_count"], len(online))
if read(cpu, "possible"):
    same("possible CPUs", expand(document["cpus"]["possible"]), expand(read(cpu, "possible")))
    same("nr_cpu_ids", document["cpus"]["nr_cpu_ids"], max(expand(read(cpu, "possible"))) + 1)

packages, cores, node_of = set(), set(), {}
for n in entries("sys/devices/system/node"):
    if re.fullmatch(r"node\d+", n):
        # Broken firmware has links and masks that contradict each other: either will do.
        here = {int(c[3:]) for c in entries("sys/devices/system/node", n) if re.fullmatch(r"cpu\d+", c)} | mask(read("sys/devices/system/node", n, "cpumap"))
        for c in here:
            node_of.setdefault(c, set()).add(int(n[4:]))
for row in document["cpus"]["list"]:
    c = row["id"]
    if c not in online:
        same("CPU %d online" % c, row["online"], False)
        continue
    topology = cpu + "/cpu%d/topology" % c
    core, package = read(topology, "core_id"), read(topology, "physical_package_id")
    same("core of CPU %d" % c, row["core"], int(core) if core and int(core) >= 0 else None)
    same("package of CPU %d" % c, row["package"], int(package) if package and int(package) >= 0 else None)
    siblings = mask(read(topology, "thread_siblings")) or expand(read(topology, "thread_siblings_list")) or {c}
    same("siblings of CPU %d" % c, expand(row["siblings"]), siblings)
    cores.add(min(siblings & online))
    if row["package"] is not None:
        packages.add(row["package"])
    if row["node"] is None:
        same("node of CPU %d" % c, None, node_of.get(c))
    elif row["node"] not in node_of.get(c, set()):
        faults.append("CPU %d: node %d does not have it" % (c, row["node"]))
same("rows", [r["id"] for r in document["cpus"]["list"] if r["online"]], sorted(online))
same("packages", document["cpus"]["packages"], len(packages) or bool(online))
same("cores", document["cpus"]["cores"], len(cores))

# ---- memory ----
meminfo = dict(re.findall(r"(?m)^(\w+):\s+(\d+) kB", read("proc", "meminfo") or ""))
same("total_kib", document["memory"]["total_kib"], int(meminfo.get("MemTotal", 0)))
nodes = {int(n[4:]): dict(re.findall(r"Node \d+ (\w+):\s+(\d+) kB", read("sys/devices/system/node", n, "meminfo") or ""))
         for n in entries("sys/devices/system/node") if re.fullmatch(r"node\d+", n)}
same("memory of nodes", {n["id"]: n["total_kib"] for n in document["memory"]["nodes"]}, {n: int(v.get("MemTotal", 0)) for n, v in nodes.items()})
pages = {}
for n in nodes:
    for size in entries("sys/devices/system/node/node%d/hugepages" % n):
        pages[n, int(size[10:-2])] = int(read("sys/devices/system/node/node%d/hugepages" % n, size, "nr_hugepages") or 0)
if not pages:
    for size in entries("sys/kernel/mm/hugepages"):
        pages[None, int(size[10:-2])] = int(read("sys/kernel/mm/hugepages", size, "nr_hugepages") or 0)
same("huge pages", {(h["node"], h["size_kib"]): h["total"] for h in document["memory"]["hugepages"]}, pages)

# ---- network cards ----
nics = {n["name"]: n for n in document["nics"] if n["name"]}
names = {n for n in entries("sys/class/net") if n != "lo" and os.path.islink(path("sys/class/net", n))}
same("interfaces", set(nics), names)
used = set()
for name in names & set(nics):
    n, base = nics[name], "sys/class/net/" + name
    device = resolve("/" + base + "/device") if os.path.exists(path(base, "device")) else None
    if not device:
        same(name + " bus", n["bus"], "virtual")
        continue
    bus = target(base, "device", "subsystem") or tail(resolve("/" + base + "/device/subsystem") or "")
    if bus == "virtio":
        same(name + " driver", n["driver"], tail(resolve("/" + base + "/device/driver")))
        device = os.path.dirname(device)
    elif resolve("/" + base + "/device/driver"):
        same(name + " driver", n["driver"], target(base, "device", "driver"))
    same(name + " path", n["path"], tail(device))
    used.add(n["path"])
    if n["bus"] == "pci":
        for key in ("vendor", "device"):
            same("%s %s" % (name, key), n[key], read(device[1:], key))
        node = read(device[1:], "numa_node")
        same(name + " node", n["node"], int(node) if node and int(node) >= 0 else None)
        wanted = {int(i) for i in entries(device[1:], "msi_irqs")} or ({int(read(device[1:], "irq") or 0)} - {0})
        if entries("proc/irq"):
            wanted = {i for i in wanted if os.path.isdir(path("proc/irq/%d" % i))}
        same(name + " interrupts", {i["irq"] for i in n["interrupts"]}, wanted)
    for irq in n["interrupts"]:
        actions = [a for a in entries("proc/irq/%d" % irq["irq"]) if os.path.isdir(path("proc/irq/%d" % irq["irq"], a))]
        if actions and irq["action"] not in actions:
            faults.append("%s: interrupt %d is %r, the tree %r" % (name, irq["irq"], irq["action"], actions))
        if os.path.exists(path("proc/irq/%d/smp_affinity" % irq["irq"])):
            same("affinity of %d" % irq["irq"], expand(irq["affinity"]), mask(read("proc/irq/%d/smp_affinity" % irq["irq"])))
            same("effective of %d" % irq["irq"], expand(irq["effective"]), mask(read("proc/irq/%d/effective_affinity" % irq["irq"])))
            same("hint of %d" % irq["irq"], expand(irq["hint"]), mask(read("proc/irq/%d/affinity_hint" % irq["irq"])))
            line = re.search(r"(?m)^ *%d:((?: +\d+)+) " % irq["irq"], read("proc", "interrupts") or "")
            if line:
                same("count of %d" % irq["irq"], irq["count"], sum(map(int, line[1].split())))
    queues = entries(base, "queues")
    same(name + " queues", {"%s-%d" % (q["direction"], q["index"]) for q in n["queues"]}, set(queues))
    for q in n["queues"]:
        if q["direction"] == "rx":
            same("%s rx-%d" % (name, q["index"]), expand(q["rps_cpus"]), mask(read(base, "queues/rx-%d/rps_cpus" % q["index"])))
        else:
            same("%s tx-%d" % (name, q["index"]), expand(q["xps_cpus"]), mask(read(base, "queues/tx-%d/xps_cpus" % q["index"])))
    for kind in ("upper", "lower"):
        links = {e[6:] for e in entries(base) if e.startswith(kind + "_")}
        if not links <= set(n[kind]):
            faults.append("%s: %s %r, the tree %r" % (name, kind, n[kind], links))
for address in entries("sys/bus/pci/devices"):
    klass = int(read("sys/bus/pci/devices", address, "class") or "0", 16)
    if klass >> 8 in (0x200, 0x207) and address not in used and address not in {n["path"] for n in document["nics"]}:
        faults.append("%s: a network function that hasten does not list" % address)

# ---- RDMA ----
same("RDMA devices", {d["name"] for d in document["rdma"]}, set(entries("sys/class/infiniband")))
for d in document["rdma"]:
    base = "sys/class/infiniband/" + d["name"]
    same(d["name"] + " ports", [(p["number"], p["state"]) for p in d["ports"]],
         [(int(p), int((read(base, "ports", p, "state") or "-1:").split(":")[0])) for p in sorted(entries(base, "ports"), key=int)])
    verbs = [v for v in entries("sys/class/infiniband_verbs") if read("sys/class/infiniband_verbs", v, "ibdev") == d["name"]]
    same(d["name"] + " uverbs", d["uverbs"], bool(verbs))

# ---- capture's own answers ----
try:
    with open(path("hasten-capture.json")) as f:
        capture = json.load(f)
except OSError:
    capture = None
if capture:
    name_of = {l["ifindex"]: l["name"] for l in capture["links"]}
    for name, settings in capture["ethtool"].items():
        for kind, values in settings.items():
            if kind != "rss":
                same("%s %s" % (name, kind), {k: v["value"] for k, v in nics[name][kind].items()}, {k: v["value"] for k, v in values.items()})
            else:
                same("%s indirection" % name, nics[name]["rss"]["indirection"], values["indirection"])
    routed = {name_of[r["ifindex"]] for r in capture["routes"] if not r["destination"].startswith("fe80")} - {"lo"}
    same("routes", {n for n in nics if nics[n]["route"]}, routed)
    owned = {name_of[a["ifindex"]] for a in capture["addresses"] if a.get("scope", 0) == 0}
    same("addresses", {n for n in nics if nics[n]["address_global"]}, owned)
    local = {s["local"] for s in capture["sockets"]}
    same("sessions", {n for n in nics if nics[n]["session"]}, {name_of[a["ifindex"]] for a in capture["addresses"] if a["address"] in local} - {"lo"})

for fault in faults[:20]:
    print("%s: %s" % (tail(root), fault))
if len(faults) > 20:
    print("%s: and %d more" % (tail(root), len(faults) - 20))
sys.exit(bool(faults))
