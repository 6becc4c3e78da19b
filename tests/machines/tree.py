"""A machine as files: what Linux shows in /sys, /proc, /etc and answers by netlink, from a few facts.

Layouts are those of the kernel's Documentation/ABI (sysfs-class-net, sysfs-class-net-queues, sysfs-bus-pci, sysfs-class-infiniband,
sysfs-devices-system-cpu, procfs-irq) and of drivers/base, 6.1. Numbers of cards come with their source where a machine is described
(machines.py). Everything here is SYNTHETIC: no such machine was ever looked at.
"""
import json
import os

KERNEL = "6.1.0-18-amd64"

# Defaults of Linux 6.1 with 4 KiB pages (net/core/sock.c, net/ipv4/tcp.c, net/core/sysctl_net_core.c, kernel/sysctl.c, mm/).
SYSCTLS = {
    "net/core/somaxconn": "4096", "net/core/netdev_max_backlog": "1000", "net/core/netdev_budget": "300",
    "net/core/netdev_budget_usecs": "8000", "net/core/dev_weight": "64", "net/core/rmem_default": "212992",
    "net/core/wmem_default": "212992", "net/core/rmem_max": "212992", "net/core/wmem_max": "212992",
    "net/core/optmem_max": "20480", "net/core/rps_sock_flow_entries": "0", "net/core/busy_read": "0",
    "net/core/busy_poll": "0", "net/core/default_qdisc": "fq_codel",
    "net/ipv4/tcp_rmem": "4096\t131072\t6291456", "net/ipv4/tcp_wmem": "4096\t16384\t4194304",
    "net/ipv4/udp_rmem_min": "4096", "net/ipv4/udp_wmem_min": "4096",
    "net/ipv4/tcp_max_syn_backlog": "1024", "net/ipv4/tcp_fin_timeout": "60", "net/ipv4/tcp_tw_reuse": "2",
    "net/ipv4/tcp_max_tw_buckets": "65536",
    "net/ipv4/ip_local_port_range": "32768\t60999", "net/ipv4/ip_local_reserved_ports": "",
    "net/ipv4/tcp_slow_start_after_idle": "1", "net/ipv4/tcp_notsent_lowat": "4294967295", "net/ipv4/tcp_fastopen": "1",
    "net/ipv4/tcp_congestion_control": "cubic", "net/ipv4/tcp_available_congestion_control": "reno cubic",
    "net/ipv4/tcp_mtu_probing": "0", "net/ipv4/tcp_timestamps": "1", "net/ipv4/tcp_sack": "1",
    "net/ipv4/tcp_autocorking": "1", "net/ipv4/tcp_keepalive_time": "7200", "net/ipv4/tcp_keepalive_intvl": "75",
    "net/ipv4/tcp_keepalive_probes": "9", "net/ipv4/tcp_syncookies": "1", "net/ipv4/tcp_no_metrics_save": "0",
    "net/ipv4/tcp_moderate_rcvbuf": "1", "net/ipv4/tcp_abort_on_overflow": "0",
    "vm/swappiness": "60", "vm/overcommit_memory": "0", "vm/overcommit_ratio": "50", "vm/dirty_bytes": "0",
    "vm/dirty_ratio": "20", "vm/dirty_background_bytes": "0", "vm/dirty_background_ratio": "10", "vm/stat_interval": "1",
    "vm/zone_reclaim_mode": "0", "vm/min_free_kbytes": "67584", "vm/max_map_count": "65530", "vm/nr_hugepages": "0",
    "vm/compaction_proactiveness": "20", "vm/vfs_cache_pressure": "100", "vm/drop_caches": "0",
    "kernel/numa_balancing": "0", "kernel/timer_migration": "1", "kernel/nmi_watchdog": "0", "kernel/watchdog": "1",
    "kernel/sched_autogroup_enabled": "1", "kernel/pid_max": "4194304", "kernel/hung_task_timeout_secs": "120",
    "kernel/sched_rt_runtime_us": "950000", "kernel/threads-max": "127000", "kernel/ostype": "Linux",
    "fs/file-max": "9223372036854775807", "fs/nr_open": "1048576", "fs/aio-max-nr": "65536",
}


def cpulist(cpus):
    out, cpus = [], sorted(cpus)
    while cpus:
        n = 1
        while n < len(cpus) and cpus[n] == cpus[0] + n:
            n += 1
        out.append(str(cpus[0]) if n == 1 else "%d-%d" % (cpus[0], cpus[n - 1]))
        cpus = cpus[n:]
    return ",".join(out)


def cpumask(cpus, width):
    """lib/bitmap.c, %*pb: groups of 32 bits, highest first, as many as nr_cpu_ids needs; the first only as wide as needed."""
    value, groups = sum(1 << c for c in cpus), (width + 31) // 32
    out = []
    for g in reversed(range(groups)):
        digits = 8 if g < groups - 1 or width % 32 == 0 else (width % 32 + 3) // 4
        out.append("%0*x" % (digits, value >> (32 * g) & 0xffffffff))
    return ",".join(out)


class Tree:
    """Files and links below a root; parents are made as needed."""

    def __init__(self):
        self.files, self.links, self.dirs = {}, {}, set()

    def put(self, path, text, raw=False):
        assert path.startswith("/") and path not in self.files, path
        self.files[path] = text if raw else str(text) + "\n"

    def link(self, path, to):
        """to: absolute in the tree; written relative, as sysfs does."""
        self.links[path] = os.path.relpath(to, os.path.dirname(path))

    def dir(self, path):
        self.dirs.add(path)

    def write(self, root):
        made = set()

        def parents(path):
            d = os.path.dirname(root + path)
            if d not in made:
                os.makedirs(d, exist_ok=True)
                made.add(d)

        for path in self.dirs:
            os.makedirs(root + path, exist_ok=True)
        for path, text in self.files.items():
            parents(path)
            with open(root + path, "wb") as f:
                f.write(text if isinstance(text, bytes) else text.encode())
        for path, to in self.links.items():
            parents(path)
            os.symlink(to, root + path)


class Machine(Tree):
    def __init__(self, note, cpus, threads=1, packages=1, nodes=1, memory_gib=8, offline=(), possible=None, kernel=KERNEL,
                 dmi=("QEMU", "Standard PC (i440FX + PIIX, 1996)"), hypervisor=True, os_release=("debian", "12", "Debian GNU/Linux 12 (bookworm)"),
                 command_line="", boot="grub", isolated=(), arch="x86_64", secure_boot=None, iommu=False, thp="always", hugepages_2m=0):
        super().__init__()
        self.note, self.n, self.offline, self.nodes = note, cpus, set(offline), nodes
        self.online = [c for c in range(cpus) if c not in self.offline]
        self.width = possible or cpus
        self.threads, self.packages, self.kernel, self.arch = threads, packages, kernel, arch
        self.irq_next, self.irq_rows, self.ifindex = 24, [], 1
        self.net = {"hasten_capture": 1, "synthetic": True, "note": "tests/machines/make: " + note, "links": [], "addresses": [], "routes": [],
                    "sockets": [], "rdma_links": [], "ethtool": {}}
        self.model = {}
        self.cpus(isolated, hypervisor)
        self.memory(memory_gib, hugepages_2m, thp)
        self.platform(dmi, hypervisor, os_release, command_line, boot, secure_boot, iommu, isolated)
        self.loopback()

    # ---- CPUs, memory ----
    def node_of(self, cpu):
        return cpu % (self.n // self.threads) * self.nodes // (self.n // self.threads)

    def node_cpus(self, node):
        return [c for c in self.online if self.node_of(c) == node]

    def cpus(self, isolated, hypervisor):
        base, cores = "/sys/devices/system/cpu", self.n // self.threads
        for name, cpus in (("possible", range(self.width)), ("present", range(self.n)), ("online", self.online),
                           ("offline", [c for c in range(self.width) if c not in self.online]), ("isolated", isolated)):
            self.put(base + "/" + name, cpulist(cpus))
        self.put(base + "/nohz_full", "(null)")  # drivers/base/cpu.c: %*pbl of an unset mask
        self.put(base + "/kernel_max", max(self.width, 8192) - 1)
        per_package = cores // self.packages
        info = []
        for c in range(self.n):
            d = "%s/cpu%d" % (base, c)
            core = c % cores
            self.put(d + "/power/pm_qos_resume_latency_us", 0)
            if c or self.offline:
                self.put(d + "/online", int(c in self.online))
            if c not in self.online:
                continue  # the topology folder goes with the CPU
            siblings = [t * cores + core for t in range(self.threads) if t * cores + core in self.online]
            package = core // per_package
            mates = [o for o in self.online if o % cores // per_package == package]
            for name, value in (("physical_package_id", package), ("core_id", core % per_package)):
                self.put("%s/topology/%s" % (d, name), value)
            for name, cpus in (("thread_siblings", siblings), ("core_siblings", mates)):
                self.put("%s/topology/%s" % (d, name), cpumask(cpus, self.width))
                self.put("%s/topology/%s_list" % (d, name), cpulist(cpus))
            self.link("%s/node%d" % (d, self.node_of(c)), "/sys/devices/system/node/node%d" % self.node_of(c))
            if self.arch == "x86_64":
                info.append("processor\t: %d\nvendor_id\t: GenuineIntel\nmodel name\t: Synthetic CPU @ 2.50GHz\nphysical id\t: %d\n"
                            "core id\t\t: %d\nflags\t\t: fpu lm%s\n" % (c, package, core % per_package, " hypervisor" if hypervisor else ""))
            else:
                info.append("processor\t: %d\nBogoMIPS\t: 200.00\nFeatures\t: fp asimd\nCPU implementer\t: 0x48\n" % c)
        self.put("/proc/cpuinfo", "\n".join(info) + "\n", raw=True)
        self.put("/sys/devices/system/clocksource/clocksource0/current_clocksource", "kvm-clock" if hypervisor else "tsc")
        self.put("/sys/devices/system/clocksource/clocksource0/available_clocksource", "kvm-clock tsc acpi_pm" if hypervisor else "tsc hpet acpi_pm")

    def memory(self, gib, hugepages, thp):
        total = gib << 20
        self.put("/proc/meminfo", "MemTotal:       %8d kB\nMemFree:        %8d kB\nMemAvailable:   %8d kB\nHugePages_Total:   %5d\nHugePages_Free:    %5d\n"
                 "HugePages_Rsvd:        0\nHugePages_Surp:        0\nHugepagesize:       2048 kB\nHugetlb:        %8d kB\n"
                 % (total, total * 3 // 4, total * 7 // 8, hugepages, hugepages, hugepages * 2048), raw=True)
        sizes = {2048: hugepages, 1048576: 0}
        base = "/sys/devices/system/node"
        ids = cpulist(range(self.nodes))
        for name in ("possible", "online", "has_cpu", "has_memory", "has_normal_memory"):
            self.put(base + "/" + name, ids)
        for n in range(self.nodes):
            d = "%s/node%d" % (base, n)
            self.put(d + "/cpulist", cpulist(self.node_cpus(n)))
            self.put(d + "/cpumap", cpumask(self.node_cpus(n), self.width))
            self.put(d + "/distance", " ".join("10" if o == n else "21" for o in range(self.nodes)))
            self.put(d + "/meminfo", "Node %d MemTotal:       %d kB\nNode %d MemFree:        %d kB\n" % (n, total // self.nodes, n, total * 3 // 4 // self.nodes), raw=True)
            for c in self.node_cpus(n):
                self.link("%s/cpu%d" % (d, c), "/sys/devices/system/cpu/cpu%d" % c)
            for size, pages in sizes.items():
                h = "%s/hugepages/hugepages-%dkB" % (d, size)
                here = pages // self.nodes
                for name, value in (("nr_hugepages", here), ("free_hugepages", here), ("surplus_hugepages", 0)):
                    self.put(h + "/" + name, value)
        for size, pages in sizes.items():
            h = "/sys/kernel/mm/hugepages/hugepages-%dkB" % size
            for name, value in (("nr_hugepages", pages), ("free_hugepages", pages), ("surplus_hugepages", 0), ("resv_hugepages", 0),
                                ("nr_overcommit_hugepages", 0)):
                self.put(h + "/" + name, value)
        words = ["always", "madvise", "never"]
        self.put("/sys/kernel/mm/transparent_hugepage/enabled", " ".join("[%s]" % w if w == thp else w for w in words))
        self.put("/sys/kernel/mm/transparent_hugepage/defrag", "always defer defer+madvise [madvise] never")

    # ---- what it runs ----
    def platform(self, dmi, hypervisor, os_release, command_line, boot, secure_boot, iommu, isolated):
        for name, value in (("sys_vendor", dmi[0]), ("product_name", dmi[1]), ("bios_vendor", dmi[2] if len(dmi) > 2 else dmi[0]),
                            ("chassis_asset_tag", dmi[3] if len(dmi) > 3 else ""), ("board_vendor", dmi[0]),
                            ("product_serial", "SYNTH-0001"), ("product_uuid", "11111111-2222-3333-4444-555555555555")):
            self.put("/sys/devices/virtual/dmi/id/" + name, value)
        self.link("/sys/class/dmi/id", "/sys/devices/virtual/dmi/id")
        root = "root=UUID=66666666-7777-8888-9999-aaaaaaaaaaaa"
        line = ("BOOT_IMAGE=/boot/vmlinuz-%s %s ro console=ttyS0 %s" % (self.kernel, root, command_line)).strip()
        self.put("/proc/cmdline", line)
        self.put("/proc/version", "Linux version %s (synthetic)" % self.kernel)
        for key, value in SYSCTLS.items():
            self.put("/proc/sys/" + key, value)
        self.put("/proc/sys/kernel/osrelease", self.kernel)
        self.put("/proc/sys/kernel/arch", self.arch)  # 6.1 on
        self.put("/proc/sys/kernel/hostname", "synthetic")
        self.put("/proc/sys/kernel/random/boot_id", "bbbbbbbb-cccc-dddd-eeee-ffffffffffff")
        self.put("/proc/self/cgroup", "0::/")
        self.put("/proc/1/comm", "systemd")
        self.put("/proc/mounts", "/dev/vda1 / ext4 rw,relatime 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n", raw=True)
        self.put("/proc/self/mounts", "/dev/vda1 / ext4 rw,relatime 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n", raw=True)
        self.put("/proc/net/softnet_stat", "".join("%08x 00000000 00000000 %s\n" % (1000 + c, " ".join(["00000000"] * 10)) for c in self.online), raw=True)
        self.put("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory hugetlb pids rdma misc")
        self.dir("/run/systemd/system")
        ident, version, pretty = os_release
        self.put("/etc/os-release", 'PRETTY_NAME="%s"\nID=%s\nVERSION_ID="%s"\n' % (pretty, ident, version), raw=True)
        self.put("/etc/machine-id", "0123456789abcdef0123456789abcdef")
        self.put("/etc/hostname", "synthetic")
        self.dir("/etc/sysctl.d")
        self.dir("/etc/systemd/system")
        self.dir("/etc/modprobe.d")
        self.dir("/etc/modules-load.d")
        self.dir("/etc/security/limits.d")
        self.dir("/var/lib")
        self.dir("/run")
        self.put("/boot/vmlinuz-" + self.kernel, "synthetic")
        self.put("/boot/initrd.img-" + self.kernel, "synthetic")
        self.dir("/usr/lib/modules/" + self.kernel)
        self.put("/usr/lib/modules/%s/modules.alias" % self.kernel, MODULES_ALIAS, raw=True)
        if boot == "grub":
            self.put("/etc/default/grub", 'GRUB_DEFAULT=0\nGRUB_TIMEOUT=5\nGRUB_CMDLINE_LINUX_DEFAULT=""\nGRUB_CMDLINE_LINUX="console=ttyS0"\n', raw=True)
            self.dir("/etc/default/grub.d")
            self.put("/boot/grub/grub.cfg", "menuentry 'Linux' {\n\tlinux /boot/vmlinuz-%s %s ro console=ttyS0\n}\n" % (self.kernel, root), raw=True)
            self.put("/usr/sbin/update-grub", "#!/bin/sh\n", raw=True)
        elif boot == "grubby":
            self.put("/etc/default/grub", 'GRUB_TIMEOUT=5\nGRUB_CMDLINE_LINUX="console=ttyS0"\nGRUB_ENABLE_BLSCFG=true\n', raw=True)
            self.put("/boot/loader/entries/0123456789abcdef0123456789abcdef-%s.conf" % self.kernel,
                     "title Linux\nlinux /boot/vmlinuz-%s\noptions %s ro console=ttyS0\n" % (self.kernel, root), raw=True)
            self.put("/usr/sbin/grubby", "#!/bin/sh\n", raw=True)
        elif boot == "systemd-boot":
            self.put("/etc/kernel/cmdline", root + " ro console=ttyS0")
            self.put("/boot/loader/loader.conf", "timeout 3\n", raw=True)
            self.put("/usr/bin/kernel-install", "#!/bin/sh\n", raw=True)
        self.dir("/sys/firmware/acpi")
        if secure_boot is not None:
            # efivarfs: four bytes of attributes, then the value
            self.put("/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c", b"\x06\0\0\0" + bytes([secure_boot]), raw=True)
        self.put("/sys/kernel/security/lockdown", "none [integrity] confidentiality" if secure_boot else "[none] integrity confidentiality")
        if iommu:
            self.iommu = True
            self.dir("/sys/kernel/iommu_groups/0/devices")

    # ---- interrupts ----
    def irq(self, action, cpus, pci=None, managed=False, hint=(), node=-1, count=0):
        n, self.irq_next = self.irq_next, self.irq_next + 1
        d = "/proc/irq/%d" % n
        cpus = list(cpus)
        self.put(d + "/smp_affinity", cpumask(cpus, self.width))
        self.put(d + "/smp_affinity_list", cpulist(cpus))
        self.put(d + "/effective_affinity", cpumask(cpus[:1], self.width))
        self.put(d + "/effective_affinity_list", cpulist(cpus[:1]))
        self.put(d + "/affinity_hint", cpumask(hint, self.width))
        self.put(d + "/node", max(node, 0))
        self.put(d + "/spurious", "count %d\nunhandled 0\nlast_unhandled 0 ms" % count)
        self.dir("%s/%s" % (d, action))
        if pci:
            self.put("%s/msi_irqs/%d" % (pci, n), "msix")
        if managed:
            self.model[d] = {"managed": True}
        self.irq_rows.append((n, cpus[0], count, action))
        return n

    def interrupts(self):
        head = "           " + " ".join("%-10s" % ("CPU%d" % c) for c in self.online) + "\n"
        rows = []
        for n, cpu, count, action in self.irq_rows:
            rows.append("%4d: " % n + " ".join("%10d" % (count if c == cpu else 0) for c in self.online) + "  PCI-MSI %d-edge      %s\n" % (n * 512, action))
        self.put("/proc/interrupts", head + "".join(rows), raw=True)
        counts = dict((n, count) for n, _, count, _ in self.irq_rows)
        self.put("/proc/stat", "cpu  1 0 1 100 0 0 0 0 0 0\nintr %d %s\nctxt 1\n" % (sum(counts.values()), " ".join(str(counts.get(n, 0)) for n in range(self.irq_next))), raw=True)
        self.put("/proc/irq/default_smp_affinity", cpumask(self.online, self.width))

    # ---- devices ----
    def pci(self, address, vendor, device, driver, node=-1, subsystem=(0, 0), klass=0x020000, module=None, sriov_parent=None):
        domain, bus = address.split(":")[0], address.split(":")[1]
        d = "/sys/devices/pci%s:%s/%s" % (domain, bus, address)
        for name, value in (("vendor", "0x%04x" % vendor), ("device", "0x%04x" % device), ("subsystem_vendor", "0x%04x" % subsystem[0]),
                            ("subsystem_device", "0x%04x" % subsystem[1]), ("class", "0x%06x" % klass), ("revision", "0x00"),
                            ("numa_node", node), ("irq", 0), ("enable", int(bool(driver))), ("driver_override", "(null)"),
                            ("modalias", "pci:v%08Xd%08Xsv%08Xsd%08Xbc%02Xsc%02Xi%02X" % (vendor, device, subsystem[0], subsystem[1], klass >> 16, klass >> 8 & 255, klass & 255)),
                            ("local_cpulist", cpulist(self.node_cpus(node) if node >= 0 else self.online)),
                            ("local_cpus", cpumask(self.node_cpus(node) if node >= 0 else self.online, self.width))):
            self.put(d + "/" + name, value)
        self.link(d + "/subsystem", "/sys/bus/pci")
        self.link("/sys/bus/pci/devices/" + address, d)
        if driver:
            self.driver("pci", driver, d, address, module)
        if getattr(self, "iommu", False):
            group = "/sys/kernel/iommu_groups/%d" % (1 + len([l for l in self.links if l.endswith("/iommu_group")]))
            self.link(d + "/iommu_group", group)
            self.link(group + "/devices/" + address, d)
        return d

    def driver(self, bus, driver, device, name, module=None):
        base = "/sys/bus/%s/drivers/%s" % (bus, driver)
        self.link(device + "/driver", base)
        self.link("%s/%s" % (base, name), device)
        for f in ("bind", "unbind"):
            self.files.setdefault("%s/%s" % (base, f), "")
        self.files.setdefault("/sys/bus/%s/drivers_probe" % bus, "")
        if module:
            self.links.setdefault(base + "/module", os.path.relpath("/sys/module/" + module, base))
            self.dir("/sys/module/" + module)

    def module(self, name, version=None, taint="", parameters=()):
        self.put("/sys/module/%s/taint" % name, taint)
        self.put("/sys/module/%s/initstate" % name, "live")
        self.put("/sys/module/%s/srcversion" % name, "0123456789ABCDEF0123456")
        if version:
            self.put("/sys/module/%s/version" % name, version)
        for key, value in parameters:
            self.put("/sys/module/%s/parameters/%s" % (name, key), value)

    def loopback(self):
        self.netdev("lo", None, "00:00:00:00:00:00", type_=772, flags=0x49, mtu=65536, permanent=None)
        self.address("lo", "127.0.0.1", 8, 254)
        self.address("lo", "::1", 128, 254)

    def netdev(self, name, parent, mac, rx=1, tx=1, up=True, mtu=1500, kind="", link=None, master=None, type_=1, flags=None, permanent="same",
               assigned=0, speed=-1, xps=None, rx_total=None, tx_total=None):
        d = (parent or "/sys/devices/virtual") + "/net/" + name
        index, self.ifindex = self.ifindex, self.ifindex + 1
        if flags is None:
            flags = 0x1003 if up else 0x1002
        self.link("/sys/class/net/" + name, d)
        for key, value in (("ifindex", index), ("iflink", link or index), ("address", mac), ("addr_assign_type", assigned), ("addr_len", 6),
                           ("type", type_), ("flags", "0x%x" % flags), ("mtu", mtu), ("operstate", ("up" if up else "down") if name != "lo" else "unknown"),
                           ("tx_queue_len", 1000), ("dev_id", "0x0"), ("dev_port", 0)):
            self.put(d + "/" + key, value)
        if up:
            self.put(d + "/carrier", 1)
            self.put(d + "/speed", speed)
        if parent:
            self.link(d + "/device", parent)
        self.link(d + "/subsystem", "/sys/class/net")
        for q in range(rx):
            self.put("%s/queues/rx-%d/rps_cpus" % (d, q), cpumask([], self.width))
            self.put("%s/queues/rx-%d/rps_flow_cnt" % (d, q), 0)
        for q in range(tx):
            self.put("%s/queues/tx-%d/xps_cpus" % (d, q), cpumask([self.online[q]] if xps == "spread" and q < len(self.online) else [], self.width))
            self.put("%s/queues/tx-%d/xps_rxqs" % (d, q), "")
            self.put("%s/queues/tx-%d/tx_timeout" % (d, q), 0)
        for stat in ("rx_bytes", "tx_bytes", "rx_packets", "tx_packets", "rx_dropped", "tx_dropped", "rx_errors", "tx_errors", "rx_missed_errors"):
            self.put("%s/statistics/%s" % (d, stat), 0)
        entry = {"ifindex": index, "name": name, "kind": kind, "link": link or 0, "master": master or 0, "flags": flags,
                 "operstate": 6 if up else 2, "mtu": mtu, "address": mac, "address_assigned": assigned,
                 "rx_queues": rx_total or rx, "tx_queues": tx_total or tx}
        if permanent == "same":
            permanent = mac
        if permanent:
            entry["permanent"] = permanent
        self.net["links"].append(entry)
        return index

    def index(self, name):
        return next(l["ifindex"] for l in self.net["links"] if l["name"] == name)

    def path(self, name):
        return os.path.normpath(os.path.join("/sys/class/net", self.links["/sys/class/net/" + name]))

    def below(self, lower, upper, as_master=False):
        """upper stands on lower: the links that netdev_upper_dev_link makes."""
        self.link("%s/upper_%s" % (self.path(lower), upper), self.path(upper))
        self.link("%s/lower_%s" % (self.path(upper), lower), self.path(lower))
        if as_master:
            self.link(self.path(lower) + "/master", self.path(upper))
            next(l for l in self.net["links"] if l["name"] == lower)["master"] = self.index(upper)

    def address(self, name, address, prefix, scope=0):
        self.net["addresses"].append({"ifindex": self.index(name), "address": address, "prefix": prefix, "scope": scope})

    def route(self, name, destination, prefix, gateway=None, table=254):
        r = {"ifindex": self.index(name), "destination": destination, "prefix": prefix, "table": table}
        if gateway:
            r["gateway"] = gateway
        self.net["routes"].append(r)

    def uplink(self, name, n=0, session=True):
        """An ordinary v4 configuration: address, subnet route, default route, ssh."""
        self.address(name, "192.0.2.%d" % (10 + n), 24)
        self.route(name, "192.0.2.0", 24)
        self.route(name, "0.0.0.0", 0, "192.0.2.1")
        if session:
            self.net["sockets"].append({"local": "192.0.2.%d" % (10 + n), "port": 22})

    def ethtool(self, name, channels=None, rings=None, coalesce=None, features=None, rss=None):
        """channels, rings: name -> (now, max); coalesce: name -> value; features: name -> value or (value, fixed); rss: (entries, rings)."""
        e = {}
        for kind, values in (("channels", channels), ("rings", rings)):
            if values:
                e[kind] = {k: {"value": v[0], "max": v[1]} for k, v in values.items()}
        if coalesce:
            e["coalesce"] = {k: {"value": v} for k, v in coalesce.items()}
        f = dict(FEATURES)
        f.update(features or {})
        e["features"] = {k: ({"value": int(v[0]), "fixed": True} if isinstance(v, tuple) else {"value": int(v)}) for k, v in f.items()}
        if rss:
            # ethtool_rxfh_indir_default: i % rings
            e["rss"] = {"indirection": [i % rss[1] for i in range(rss[0])], "default": True, "rings": rss[1]}
        self.net["ethtool"][name] = e

    def rdma(self, name, parent, netdev, guid, node_type="1: CA", state=4, firmware=None, driver=None, port=True, ndevs=True, uverbs=0, link_layer="Ethernet"):
        d = "%s/infiniband/%s" % (parent, name)
        self.link("/sys/class/infiniband/" + name, d)
        self.link(d + "/device", parent)
        self.put(d + "/node_type", node_type)
        self.put(d + "/node_guid", guid)
        self.put(d + "/sys_image_guid", guid)
        self.put(d + "/node_desc", "")
        if firmware:
            self.put(d + "/fw_ver", firmware)
        if port:
            states = {1: "1: DOWN", 2: "2: INIT", 3: "3: ARMED", 4: "4: ACTIVE"}
            self.put(d + "/ports/1/state", states[state])
            self.put(d + "/ports/1/phys_state", "5: LinkUp" if state == 4 else "3: Disabled")
            self.put(d + "/ports/1/link_layer", link_layer)
            self.put(d + "/ports/1/rate", "25 Gb/sec (1X EDR)")
            if ndevs and netdev:
                self.put(d + "/ports/1/gid_attrs/ndevs/0", netdev)
            self.net["rdma_links"].append({"name": name, "port": 1, "ifindex": self.index(netdev) if netdev else 0, "state": state,
                                           "physical_state": 5 if state == 4 else 3})
        if uverbs is not None:
            v = "%s/infiniband_verbs/uverbs%d" % (parent, uverbs)
            self.link("/sys/class/infiniband_verbs/uverbs%d" % uverbs, v)
            self.put(v + "/ibdev", name)
            self.put(v + "/dev", "231:%d" % (192 + uverbs))
            self.put("/dev/infiniband/uverbs%d" % uverbs, "")
            self.files.setdefault("/dev/infiniband/rdma_cm", "")

    def finish(self):
        self.interrupts()
        if self.model:
            self.net["model"] = self.model
        self.put("/hasten-capture.json", json.dumps(self.net, indent=2, ensure_ascii=False))


# Names of net/ethtool/common.c (netdev_features_strings); what a guest usually shows.
FEATURES = {
    "tx-scatter-gather": 1, "tx-checksum-ip-generic": 1, "tx-generic-segmentation": 1, "tx-tcp-segmentation": 1, "tx-tcp6-segmentation": 1,
    "rx-checksum": 1, "rx-gro": 1, "rx-lro": (0, True), "rx-hashing": (0, True), "rx-ntuple-filter": (0, True), "rx-gro-list": 0,
    "rx-udp-gro-forwarding": 0, "tx-nocache-copy": 0, "highdma": (1, True), "tx-vlan-hw-insert": (0, True), "hw-tc-offload": (0, True),
}

MODULES_ALIAS = """alias pci:v00001DEDd0000107Fsv*sd*bc*sc*i* erdma
alias virtio:d00000001v* virtio_net
alias pci:v00001D0Fd0000EC20sv*sd*bc*sc*i* ena
alias pci:v00001AE0d00000042sv*sd*bc*sc*i* gve
alias pci:v000015B3d00001016sv*sd*bc*sc*i* mlx5_core
"""
