"""The synthetic machines: one function each, with the source of every fact that is a number of the device or vendor.

Ids: pci.ids and each driver's table (see agent/nic). Names of interrupts: each driver's request_irq. DMI: cloud-init's ds-identify and
systemd's src/basic/virt.c, which match the same strings. What no source says (sizes, counts of a plausible instance) is a choice.
"""
from tree import Machine

MACHINES = {}
DEBIAN = ("debian", "12", "Debian GNU/Linux 12 (bookworm)")
UBUNTU = ("ubuntu", "22.04", "Ubuntu 22.04.4 LTS")
ALINUX = ("alinux", "3", "Alibaba Cloud Linux 3.2104 U9 (OpenAnolis Edition)")
RHEL = ("rhel", "9.3", "Red Hat Enterprise Linux 9.3 (Plow)")
OPENEULER = ("openEuler", "22.03", "openEuler 22.03 (LTS-SP3)")
ALIBABA = ("Alibaba Cloud", "Alibaba Cloud ECS", "SeaBIOS")
AWS = ("Amazon EC2", "c5n.9xlarge", "Amazon EC2")
GCP = ("Google", "Google Compute Engine", "Google")
# Every Azure machine has this chassis asset tag (cloud-init, DataSourceAzure).
AZURE = ("Microsoft Corporation", "Virtual Machine", "Microsoft Corporation", "7783-7084-3265-9085-8269-3286-77")
UCLOUD = ("UCloud", "KVM", "SeaBIOS")
VMWARE = ("VMware, Inc.", "VMware7,1", "VMware, Inc.")
HUAWEI = ("OpenStack Foundation", "OpenStack Nova", "SeaBIOS", "HUAWEICLOUD")  # asset tag: cloud-init, DataSourceOpenStack


def machine(f):
    MACHINES[f.__name__.replace("_", "-")] = f
    return f


def each(m, q):
    """A CPU for queue q: the kernel spreads managed and hinted vectors so."""
    return m.online[q % len(m.online)]


def virtio(m, name, address, mac, queues, now, number, modern=False, **kw):
    """virtio_net on virtio_pci. Vectors exist for all queues, in use or not (virtnet_find_vqs); names: vp_find_vqs_msix."""
    node = kw.pop("node", -1)
    d = m.pci(address, 0x1af4, 0x1041 if modern else 0x1000, "virtio-pci", node, subsystem=(0x1af4, 1), module="virtio_pci")
    v = "%s/virtio%d" % (d, number)
    m.put(v + "/vendor", "0x1af4")
    m.put(v + "/device", "0x0001")
    m.put(v + "/modalias", "virtio:d00000001v00001AF4")
    m.link(v + "/subsystem", "/sys/bus/virtio")
    m.link("/sys/bus/virtio/devices/virtio%d" % number, v)
    m.driver("virtio", "virtio_net", v, "virtio%d" % number, "virtio_net")
    m.irq("virtio%d-config" % number, m.online, d)
    for q in range(queues):
        # virtnet_set_affinity: one CPU a queue pair where there are as many, else none is set.
        cpus = [each(m, q)] if now == queues == len(m.online) else m.online
        m.irq("virtio%d-input.%d" % (number, q), cpus, d, count=1000 - q if q < now else 0)
        m.irq("virtio%d-output.%d" % (number, q), cpus, d, count=500 - q if q < now else 0)
    m.netdev(name, v, mac, rx=now, tx=now, rx_total=queues, tx_total=queues, **kw)
    # A ring of 256 with no VIRTIO_F_RING_RESET cannot change: then the driver shows the same maximum.
    m.ethtool(name, channels={"combined": (now, queues)}, rings={"rx": (256, 256), "tx": (256, 256)},
              coalesce={"rx-usecs": 0, "rx-frames": 1, "tx-usecs": 0, "tx-frames": 1})
    return d


def pci_nic(m, name, address, mac, ids, driver, irqs, queues, maximum=None, node=-1, rings=None, coalesce=None, rss=None, features=None,
            module=None, split=False, control=(), speed=25000, subsystem=(0, 0), rings_two=True, xps=None, no_channels=False, managed=False, **kw):
    """irqs: name of a queue's interrupt with %d, or a list of them. split: separate receive and send channels."""
    d = m.pci(address, ids[0], ids[1], driver, node, subsystem=subsystem, module=module or driver)
    local = m.node_cpus(node) if node >= 0 else m.online
    for action in control:
        m.irq(action, m.online, d, node=node)
    for pattern in [irqs] if isinstance(irqs, str) else irqs:
        for q in range(queues):
            m.irq(pattern % q, [local[q % len(local)]], d, hint=[local[q % len(local)]], node=node, count=100000 + q, managed=managed)
    m.netdev(name, d, mac, rx=queues, tx=queues, speed=speed, xps=xps, rx_total=maximum or queues, tx_total=maximum or queues, **kw)
    maximum = maximum or queues
    if no_channels:
        channels = None
    elif split:
        channels = {"rx": (queues, maximum), "tx": (queues, maximum)}
    else:
        channels = {"combined": (queues, maximum)}
    m.ethtool(name, channels=channels, rings=rings, coalesce=coalesce or {"adaptive-rx": 1, "adaptive-tx": 1, "rx-usecs": 50, "tx-usecs": 50},
              rss=rss, features=features)
    if rings_two:
        m.model["/sys/class/net/" + name] = {"rings_power_of_two": True, "rings_min": 64}
    return d


def eui64(mac):
    """ib_guid of an address: byte 0 ^ 2, ff:fe in the middle (drivers/infiniband/hw/erdma/erdma_main.c, addrconf_addr_eui48)."""
    b = [int(x, 16) for x in mac.split(":")]
    b = [b[0] ^ 2, b[1], b[2], 0xff, 0xfe, b[3], b[4], b[5]]
    return ":".join("%02x%02x" % (b[i], b[i + 1]) for i in range(0, 8, 2))


def erdma(m, address, device, netdev, mac, bound=True, node_type="4: RNIC", **kw):
    """netdev None: an old kernel, which does not say the interface; the address in the GUID does."""
    d = m.pci(address, 0x1ded, device, "erdma" if bound else None, klass=0x020000, subsystem=(0x1ded, 0x3000), module="erdma")
    if bound:
        m.irq("erdma-common@pci:" + address, m.online, d)
        for q in range(min(len(m.online), 31)):  # ERDMA_NUM_MSIX_VEC 32
            m.irq("erdma-ceq%d@pci:%s" % (q, address), [each(m, q)], d, hint=[each(m, q)])
        m.rdma("erdma_0", d, netdev, eui64(mac), node_type=node_type, firmware="0.2.0", ndevs=False, **kw)
    return d


@machine
def alibaba_erdma():
    m = Machine("Alibaba ECS g8i with the in-tree erdma driver", 8, threads=2, memory_gib=32, dmi=ALIBABA, os_release=ALINUX, boot="grubby",
                kernel="6.6.25-2.1.al8.x86_64")
    virtio(m, "eth0", "0000:00:05.0", "00:16:3e:00:00:01", 8, 8, 2)
    m.uplink("eth0")
    erdma(m, "0000:00:07.0", 0x107f, "eth0", "00:16:3e:00:00:01")
    m.module("erdma")
    m.put("/usr/share/aliyun-assist", "")
    return m


@machine
def alibaba_erdma_compat():
    m = Machine("Alibaba ECS with 1ded:5007 and the vendor's driver in compat mode", 8, threads=2, memory_gib=32, dmi=ALIBABA, os_release=UBUNTU,
                kernel="5.15.0-105-generic")
    virtio(m, "eth0", "0000:00:05.0", "00:16:3e:00:00:11", 8, 8, 2)
    m.uplink("eth0")
    erdma(m, "0000:00:07.0", 0x5007, None, "00:16:3e:00:00:11", node_type="1: CA")
    # Out of tree: taint O (out of tree), E (unsigned); compat_mode 0444; reserves 16 TCP ports from 0x7790.
    m.module("erdma", version="0.2.38", taint="OE", parameters=(("compat_mode", "Y"), ("reserve_ports_base", "30608")))
    return m


@machine
def alibaba_erdma_unbound():
    m = Machine("Alibaba ECS with an eRDMA function and no driver for it", 4, threads=2, memory_gib=16, dmi=ALIBABA, os_release=DEBIAN)
    virtio(m, "eth0", "0000:00:05.0", "00:16:3e:00:00:21", 4, 4, 2)
    m.uplink("eth0")
    erdma(m, "0000:00:07.0", 0x107f, "eth0", "00:16:3e:00:00:21", bound=False)
    return m


@machine
def gce_gvnic():
    m = Machine("GCE n2-standard-16 with gVNIC", 16, threads=2, memory_gib=64, dmi=GCP, os_release=DEBIAN, boot="grub", secure_boot=1)
    # Half of the CPUs in queues of each kind (gve_set_num_queues: num_ntfy_blks / 2); blocks of sending first.
    d = pci_nic(m, "ens4", "0000:00:04.0", "42:01:0a:80:00:02", (0x1ae0, 0x0042), "gve", [], 8, 8, split=True, control=("gve-mgmnt@pci:0000:00:04.0",),
                rings={"rx": (1024, 1024), "tx": (1024, 1024)}, coalesce={"rx-usecs": 20, "tx-usecs": 50}, features={"rx-lro": 0})
    for q in range(16):
        m.irq("gve-ntfy-blk%d@pci:0000:00:04.0" % q, [each(m, q)], d, hint=[each(m, q)], count=10 + q)
    m.uplink("ens4")
    m.put("/usr/bin/google_guest_agent", "")
    return m


@machine
def gce_idpf():
    m = Machine("GCE c3-highcpu-192-metal with IDPF", 192, threads=2, packages=2, nodes=4, memory_gib=512, dmi=GCP, os_release=RHEL, boot="grubby",
                hypervisor=False, kernel="6.9.0-gce", iommu=True)
    pci_nic(m, "eth0", "0000:05:00.0", "42:01:0a:80:00:03", (0x8086, 0x1452), "idpf", "idpf-eth0-TxRx-%d", 16, 192, node=0,
            control=("idpf-0000:05:00.0-Mailbox-0",), rings={"rx": (2048, 8160), "tx": (512, 8160)}, rss=(128, 16), speed=200000, rings_two=False)
    m.uplink("eth0")
    return m


@machine
def aws_ena_efa():
    m = Machine("AWS c5n.9xlarge with ENA and EFA", 36, threads=2, memory_gib=96, dmi=AWS, os_release=UBUNTU, kernel="6.5.0-1018-aws")
    # ena: rings 256 to 16384 (receive), 1024 (send); 128 entries of indirection (ena_com.h); 32 queue pairs at most.
    for i, name in enumerate(("ens5", "ens6")):
        pci_nic(m, name, "0000:00:%02x.0" % (5 + i), "0a:00:00:00:00:%02x" % (1 + i), (0x1d0f, 0xec20), "ena", name + "-Tx-Rx-%d", 16, 32,
                control=("ena-mgmnt@pci:0000:00:%02x.0" % (5 + i),), rings={"rx": (1024, 16384), "tx": (1024, 1024)}, rss=(128, 16), speed=-1,
                coalesce={"adaptive-rx": 1, "rx-usecs": 20, "tx-usecs": 64})
    m.uplink("ens5")
    # ec2-net-utils: a table an ENI.
    m.address("ens6", "198.51.100.20", 24)
    m.route("ens6", "198.51.100.0", 24)
    m.route("ens6", "0.0.0.0", 0, "198.51.100.1", table=10001)
    d = m.pci("0000:00:07.0", 0x1d0f, 0xefa1, "efa", klass=0x020000, subsystem=(0x1d0f, 0xefa1), module="efa")
    m.irq("efa-mgmnt@pci:0000:00:07.0", m.online, d)
    m.module("efa", version="2.1.0g")
    # efa has no network interface: its own GID, node_type unspecified (efa_verbs.c).
    m.rdma("rdmap0s7", d, None, "0a00:00ff:fe00:0063", node_type="6: <unknown>", firmware="0.0.0.0", link_layer="Unspecified")
    m.put("/usr/bin/amazon-ssm-agent", "")
    return m


def netvsc(m, name, guid, mac):
    """A VMBus channel of class HV_NIC_GUID (include/linux/hyperv.h); its interrupts are the hypervisor's own, in no /proc/irq."""
    d = "/sys/devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00/" + guid
    m.put(d + "/class_id", "{f8615163-df3e-46c5-913f-f2d2f965ed0e}")
    m.put(d + "/device_id", "{%s}" % guid)
    m.put(d + "/vendor", "0x1414")
    m.put(d + "/device", "0x0")
    m.put(d + "/numa_node", 0)
    m.link(d + "/subsystem", "/sys/bus/vmbus")
    m.link("/sys/bus/vmbus/devices/" + guid, d)
    m.driver("vmbus", "hv_netvsc", d, guid, "hv_netvsc")
    m.netdev(name, d, mac, rx=4, tx=4, rx_total=64, tx_total=64, speed=50000)
    m.ethtool(name, channels={"combined": (4, 4)}, rings={"rx": (9709, 18811), "tx": (170, 2560)}, rss=(128, 4))


@machine
def azure_mlx5():
    m = Machine("Azure D8s v5 with accelerated networking (ConnectX-4 Lx VF)", 8, threads=2, memory_gib=32, dmi=AZURE, os_release=UBUNTU,
                kernel="6.5.0-1021-azure")
    mac = "00:0d:3a:00:00:01"
    netvsc(m, "eth0", "000d3a00-0001-000d-3a00-0001000d3a00", mac)
    pci_nic(m, "enP30832s1", "7870:00:02.0", mac, (0x15b3, 0x1016), "mlx5_core", "mlx5_comp%d@pci:7870:00:02.0", 8, 8,
            control=("mlx5_async0@pci:7870:00:02.0",), rings={"rx": (1024, 8192), "tx": (1024, 8192)}, rss=(256, 8), speed=50000,
            flags=0x1803, node=0, subsystem=(0x15b3, 0x0190))
    m.below("enP30832s1", "eth0", as_master=True)
    m.uplink("eth0")
    m.rdma("mlx5_0", m.path("enP30832s1").rsplit("/net/", 1)[0], "enP30832s1", eui64(mac), firmware="14.30.1284")
    m.put("/usr/sbin/waagent", "")
    return m


@machine
def azure_mana():
    m = Machine("Azure with MANA", 16, threads=2, memory_gib=64, dmi=AZURE, os_release=UBUNTU, kernel="6.8.0-1008-azure")
    mac = "00:0d:3a:00:00:02"
    netvsc(m, "eth0", "000d3a00-0002-000d-3a00-0002000d3a00", mac)
    pci_nic(m, "enP30832s1", "7870:00:00.0", mac, (0x1414, 0x00ba), "mana", "mana_q%d@pci:7870:00:00.0", 16, 16,
            control=("mana_hwc@pci:7870:00:00.0",), rss=(64, 16), speed=200000, flags=0x1803, node=0, coalesce={"rx-usecs": 0})
    m.below("enP30832s1", "eth0", as_master=True)
    m.uplink("eth0")
    m.rdma("mana_0", m.path("enP30832s1").rsplit("/net/", 1)[0], "enP30832s1", eui64(mac), firmware="1.0.0")
    return m


@machine
def metal_mlx5_bond():
    m = Machine("bare metal, ConnectX-6 Dx with bond and VLANs", 64, threads=2, packages=2, nodes=2, memory_gib=256, hypervisor=False, iommu=True,
                dmi=("Dell Inc.", "PowerEdge R650"), os_release=DEBIAN, hugepages_2m=512)
    for i in range(2):
        a = "0000:31:00.%d" % i
        # A bond's slaves take its address; the permanent one stays the card's.
        d = pci_nic(m, "ens1f%dnp%d" % (i, i), a, "b8:ce:f6:00:00:01", (0x15b3, 0x101d), "mlx5_core", "mlx5_comp%%d@pci:%s" % a, 32, 63, node=0,
                    control=("mlx5_async0@pci:" + a,), rings={"rx": (1024, 8192), "tx": (1024, 8192)}, rss=(256, 32), speed=100000, flags=0x1803,
                    permanent="b8:ce:f6:00:00:%02x" % (1 + i), assigned=0, subsystem=(0x15b3, 0x0016))
        m.rdma("mlx5_%d" % i, d, "ens1f%dnp%d" % (i, i), eui64("b8:ce:f6:00:00:%02x" % (1 + i)), firmware="22.35.1012", uverbs=i)
    m.netdev("bond0", None, "b8:ce:f6:00:00:01", rx=16, tx=16, kind="bond", permanent=None, assigned=2, speed=200000)
    for i in range(2):
        m.below("ens1f%dnp%d" % (i, i), "bond0", as_master=True)
    for vlan in (100, 200):
        m.netdev("bond0.%d" % vlan, None, "b8:ce:f6:00:00:01", kind="vlan", link=m.index("bond0"), permanent=None, assigned=2, speed=200000)
        m.below("bond0", "bond0.%d" % vlan)
    m.uplink("bond0.100")
    return m


@machine
def metal_mlx4():
    m = Machine("bare metal, ConnectX-3", 16, threads=2, packages=2, nodes=2, memory_gib=64, hypervisor=False, dmi=("HP", "ProLiant DL380p Gen8"), os_release=DEBIAN)
    d = pci_nic(m, "ens2", "0000:0a:00.0", "f4:52:14:00:00:01", (0x15b3, 0x1003), "mlx4_core", "mlx4-%d@pci:0000:0a:00.0", 8, 16, node=1,
                control=("mlx4-async@pci:0000:0a:00.0",), rings={"rx": (1024, 8192), "tx": (512, 8192)}, rss=(8, 8), speed=10000, split=True)
    m.uplink("ens2")
    m.rdma("mlx4_0", d, "ens2", eui64("f4:52:14:00:00:01"), firmware="2.42.5000")
    return m


def intel(note, name, ids, driver, irqs, control, queues, maximum, entries, rings=4096, hypervisor=False, **kw):
    m = Machine(note, 32, threads=2, packages=2, nodes=2, memory_gib=128, hypervisor=hypervisor, iommu=not hypervisor,
                dmi=("Intel Corporation", "M50CYP2SB1U") if not hypervisor else ("QEMU", "Standard PC (Q35 + ICH9, 2009)"), os_release=DEBIAN)
    for i in range(2):
        a = "0000:18:00.%d" % i
        n = "%s%d" % (name, i)
        pci_nic(m, n, a, "b4:96:91:00:00:%02x" % (1 + i), ids, driver, irqs % {"if": n}, queues, maximum, node=0 if not hypervisor else -1,
                control=[c % {"if": n, "pci": a} for c in control], rings={"rx": (512, rings), "tx": (512, rings)}, rss=(entries, queues), **kw)
    m.uplink(name + "0")
    return m


@machine
def intel_ice():
    return intel("Intel E810, second port free", "ens785f", (0x8086, 0x1592), "ice", "ice-%(if)s-TxRx-%%d", ("ice-%(pci)s:misc",), 16, 32, 2048, 8160, speed=100000,
                 rings_two=False)


@machine
def intel_i40e():
    return intel("Intel X710, second port free", "ens3f", (0x8086, 0x1572), "i40e", "i40e-%(if)s-TxRx-%%d", ("i40e-%(pci)s:misc", "i40e-%(pci)s:fdir-TxRx-0"), 32, 32, 512,
                 speed=10000, rings_two=False)


@machine
def intel_iavf():
    return intel("virtual functions of Intel E810 in a guest", "ens", (0x8086, 0x1889), "iavf", "iavf-%(if)s-TxRx-%%d", ("iavf-%(pci)s:mbx",), 4, 16, 64, hypervisor=True,
                 speed=25000, rings_two=False)


@machine
def intel_ixgbe():
    return intel("Intel 82599, second port free", "enp24s0f", (0x8086, 0x10fb), "ixgbe", "%(if)s-TxRx-%%d", ("%(if)s",), 32, 63, 128, speed=10000, rings_two=False)


@machine
def intel_ixgbevf():
    # The physical function decides how many queues there are: no set_channels.
    return intel("virtual functions of Intel 82599 in a guest", "ens", (0x8086, 0x10ed), "ixgbevf", "%(if)s-TxRx-%%d", ("%(if)s",), 2, 2, 64, hypervisor=True,
                 speed=10000, no_channels=True, rings_two=False)


def huawei(note, ids, driver, irqs, control, arch="x86_64", **kw):
    m = Machine(note, 16, memory_gib=64, nodes=2, dmi=HUAWEI, os_release=OPENEULER, boot="grubby", kernel="5.10.0-182.0.0.95.oe2203sp3." + arch, arch=arch)
    pci_nic(m, "eth0", "0000:7d:00.0", "28:6e:d4:00:00:01", ids, driver, irqs, 16, 16, node=0, control=control, rings={"rx": (1024, 4096), "tx": (1024, 4096)},
            rss=(256, 16), **kw)
    m.uplink("eth0")
    return m


@machine
def huawei_hinic():
    return huawei("Huawei Hi1822", (0x19e5, 0x1822), "hinic", ["eth0_rxq%d", "eth0_txq%d"], ("hinic_aeq0@pci:0000:7d:00.0", "hinic_ceq0@pci:0000:7d:00.0"))


@machine
def huawei_hinic3():
    return huawei("Huawei Hi1822 SP600 VF", (0x19e5, 0x375f), "hinic3", "eth0_qp%d", ("hinic3_aeq0@pci:0000:7d:00.0", "hinic3_ceq0@pci:0000:7d:00.0"))


@machine
def huawei_hns3():
    m = huawei("Kunpeng with HNS3", (0x19e5, 0xa222), "hns3", "hns3-0000:7d:00.0-TxRx-%d", ("hclge-misc-0000:7d:00.0",), arch="aarch64", rings_two=False)
    m.rdma("hns_0", m.path("eth0").rsplit("/net/", 1)[0], "eth0", eui64("28:6e:d4:00:00:01"), firmware="1.20.0")
    return m


@machine
def vmware_vmxnet3():
    m = Machine("VMware guest with vmxnet3", 8, memory_gib=16, dmi=VMWARE, os_release=DEBIAN)
    # One shared interrupt a queue pair, then the event's (vmxnet3_request_irqs); no set_channels.
    pci_nic(m, "ens192", "0000:0b:00.0", "00:50:56:00:00:01", (0x15ad, 0x07b0), "vmxnet3", "ens192-rxtx-%d", 8, 8, speed=10000,
            rings={"rx": (1024, 4096), "rx-jumbo": (256, 4096), "tx": (512, 4096)}, rss=(32, 8), no_channels=True, rings_two=False)
    m.irq("ens192-event-8", m.online, m.path("ens192").rsplit("/net/", 1)[0])
    m.uplink("ens192")
    return m


@machine
def small_2cpu():
    m = Machine("UCloud, two CPUs", 2, memory_gib=4, dmi=UCLOUD, os_release=DEBIAN)
    virtio(m, "eth0", "0000:00:03.0", "52:54:00:00:00:01", 2, 2, 0)
    m.uplink("eth0")
    return m


@machine
def huge_1024():
    m = Machine("1024 CPUs, 8 nodes, two cards with 127 queues each", 1024, threads=2, packages=8, nodes=8, memory_gib=8192, possible=1152, hypervisor=False,
                iommu=True, dmi=("HPE", "Superdome Flex 280"), os_release=RHEL, boot="grubby")
    for i in range(2):
        a, n = "000%d:01:00.0" % i, "ens%df0np0" % (1 + i)
        d = pci_nic(m, n, a, "b8:ce:f6:10:00:%02x" % (1 + i), (0x15b3, 0x1021), "mlx5_core", "mlx5_comp%%d@pci:%s" % a, 127, 255, node=4 * i,
                    control=("mlx5_async0@pci:" + a,), rings={"rx": (1024, 8192), "tx": (1024, 8192)}, rss=(256, 127), speed=400000)
        m.rdma("mlx5_%d" % i, d, n, eui64("b8:ce:f6:10:00:%02x" % (1 + i)), firmware="28.39.1002", uverbs=i)
    m.uplink("ens1f0np0")
    return m


@machine
def cpu0_offline():
    m = Machine("CPU 0 offline", 8, memory_gib=16, offline=(0, 5), dmi=("QEMU", "Standard PC (Q35 + ICH9, 2009)"), os_release=DEBIAN, possible=16)
    virtio(m, "eth0", "0000:00:03.0", "52:54:00:00:00:02", 4, 4, 0)
    m.uplink("eth0")
    return m


@machine
def ipv6_only():
    m = Machine("IPv6 only", 4, memory_gib=8, os_release=DEBIAN, boot="systemd-boot")
    virtio(m, "eth0", "0000:00:03.0", "52:54:00:00:00:03", 4, 4, 0, modern=True)
    virtio(m, "eth1", "0000:00:04.0", "52:54:00:00:00:13", 4, 4, 1, modern=True, up=False)
    m.address("eth0", "2001:db8::10", 64)
    m.address("eth0", "fe80::5054:ff:fe00:3", 64, 253)
    m.route("eth0", "2001:db8::", 64)
    m.route("eth0", "fe80::", 64)
    m.route("eth0", "::", 0, "fe80::1")
    m.net["sockets"].append({"local": "2001:db8::10", "port": 22})
    return m


@machine
def policy_routing():
    m = Machine("policy routing: the second card's routes in a table of their own", 4, memory_gib=8, os_release=UBUNTU, kernel="6.5.0-1018-generic")
    virtio(m, "eth0", "0000:00:03.0", "52:54:00:00:00:04", 4, 4, 0)
    virtio(m, "eth1", "0000:00:04.0", "52:54:00:00:00:14", 4, 4, 1)
    virtio(m, "eth2", "0000:00:05.0", "52:54:00:00:00:24", 4, 4, 2)
    m.uplink("eth0")
    # No global address and no route of the main table: only table 100 says that it is in use.
    m.route("eth1", "203.0.113.0", 24, table=100)
    m.route("eth1", "0.0.0.0", 0, "203.0.113.1", table=100)
    return m


@machine
def virtio_queues_1of4():
    m = Machine("virtio with one of four queues in use", 4, memory_gib=8, dmi=UCLOUD, os_release=DEBIAN)
    virtio(m, "eth0", "0000:00:03.0", "52:54:00:00:00:05", 4, 1, 0)
    m.uplink("eth0")
    return m


@machine
def bridge_host():
    m = Machine("virtual machine host: the card is in a bridge", 16, threads=2, memory_gib=64, hypervisor=False, iommu=True, dmi=("Supermicro", "X11"), os_release=DEBIAN)
    for i in range(2):
        n = "enp1s0f%d" % i
        pci_nic(m, n, "0000:01:00.%d" % i, "ac:1f:6b:00:00:%02x" % (1 + i), (0x8086, 0x1563), "ixgbe", n + "-TxRx-%d", 16, 16, node=0,
                control=(n,), rings={"rx": (512, 4096), "tx": (512, 4096)}, rss=(128, 16), speed=10000, rings_two=False, up=not i)
    m.netdev("br0", None, "ac:1f:6b:00:00:01", kind="bridge", permanent=None, assigned=3)
    m.below("enp1s0f0", "br0", as_master=True)
    m.netdev("vnet0", None, "fe:54:00:00:00:01", kind="tun", permanent=None, assigned=3)
    m.below("vnet0", "br0", as_master=True)
    m.uplink("br0")
    return m
