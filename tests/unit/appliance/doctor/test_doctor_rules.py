"""The doctor's rules: what is said of a good host, and of each thing that may be wrong with one."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.appliance.doctor.doctor_rules import examine
from kvedge.appliance.doctor.findings import DoctorOptions, Finding, Level, worst
from kvedge.appliance.doctor.host_facts import DeviceState, DiskFacts, HostFacts, KvmFacts
from tests.support.values import replace

GIB = 1 << 30
OPTIONS = DoctorOptions(
    data_dir="/var/lib/kvedge", pod_cidr="10.99.0.0/24", service_cidr="10.100.0.0/16", port=6443, emulation="auto"
)
DISK = DiskFacts("/var/lib", "ext4", frozenset({"rw", "relatime"}), 50 * GIB, 1_000_000)
OPENS = DeviceState(exists=True)
GOOD = HostFacts(
    machine="x86_64",
    kernel=(6, 1, 0),
    cpu_flags=frozenset({"vmx", "sse2"}),
    nested="Y",
    kvm=KvmFacts(True, True, "a test machine booted its firmware"),
    devices={"/dev/kvm": OPENS, "/dev/net/tun": OPENS, "/dev/vhost-net": OPENS},
    modules=dict.fromkeys(
        ("tun", "bridge", "veth", "nf_tables", "nft_connlimit", "nft_limit", "vhost_net", "loop", "vfio_pci"), True
    ),
    libvirt=(9, 0, 0),
    libvirt_qemu_driver=True,
    qemu=(7, 2, 22),
    qemu_spice=True,
    commands=frozenset({"qemu-img", "qemu-pr-helper", "modprobe", "passt", "swtpm", "swtpm_setup"}),
    cgroup_controllers=frozenset({"cpu", "memory", "pids", "io"}),
    disk=DISK,
    memory_total=4 * GIB,
    memory_available=3 * GIB,
    limits={"fs/inotify/max_user_instances": 128, "fs/inotify/max_user_watches": 8192, "fs/file-max": 1 << 20},
    selinux="",
    apparmor=True,
    port_refusal="",
    year=2026,
    clock_synchronized=True,
    resolvers=("192.0.2.1",),
    host_name="edge-1",
    init="systemd",
    kvedge_runs=False,
    leftovers=(),
    data_dir_mode=0o755,
    data_dir_owner=0,
    launcher_user="",
    launcher_group="",
    launcher_group_members=(),
    networks={"eth0": ("192.0.2.10/255.255.255.0",)},
    iommu_groups=20,
    watchdog="iTCO_wdt",
)


def found(check: str, options: DoctorOptions = OPTIONS, **changes: Any) -> Finding:
    """The gravest finding of one check on the good host with some changes."""
    named = [finding for finding in examine(replace(GOOD, **changes), options) if finding.check == check]
    assert named, f"nothing was said of {check}"
    return max(named, key=lambda finding: list(Level).index(finding.level))


@pytest.mark.parametrize(
    ("filters", "remedy"),
    [(("ip/filter/FORWARD",), "DOCKER-USER"), (("firewalld",), "--add-interface=kvedge0")],
    ids=["a chain that drops", "firewalld"],
)
def test_a_firewall_of_others_is_told_with_how_it_lets_guests_pass(filters: tuple[str, ...], remedy: str) -> None:
    finding = found("firewall", filters=filters)
    assert finding.detail.startswith(f"{filters[0]} drops what guests send")
    assert remedy in finding.remedy
    assert found("firewall", filters=None).remedy == ""


@pytest.mark.parametrize(
    ("groups", "has_vfio", "level", "words"),
    [
        (0, True, Level.INFO, "off, or not there"),
        (3, False, Level.INFO, "without VFIO"),
        (3, True, Level.OK, "on, with 3 groups"),
    ],
    ids=["off", "no VFIO", "both"],
)
def test_whether_guests_can_have_devices_of_the_host_is_told(
    groups: int, has_vfio: bool, level: Level, words: str
) -> None:
    modules = {name: True for name in GOOD.modules if has_vfio or name != "vfio_pci"}
    finding = found("iommu", iommu_groups=groups, modules=modules)
    assert finding.level is level
    assert words in finding.detail


@pytest.mark.parametrize(
    ("changes", "level", "words"),
    [
        pytest.param({}, Level.OK, "iTCO_wdt", id="free"),
        pytest.param({"watchdog": ""}, Level.INFO, "loads softdog", id="none"),
        pytest.param({"watchdog_is_taken": True}, Level.INFO, "runs already", id="of another program"),
        pytest.param({"watchdog_is_taken": True, "kvedge_runs": True}, Level.OK, "iTCO_wdt", id="perhaps our own"),
    ],
)
def test_what_a_node_needs_to_fence_itself_is_told(changes: dict[str, Any], level: Level, words: str) -> None:
    finding = found("watchdog", **changes)
    assert (finding.level, words in finding.detail) == (level, True)


def test_a_good_host_has_nothing_to_mend() -> None:
    findings = examine(GOOD, OPTIONS)
    assert worst(findings) == Level.INFO
    assert [finding for finding in findings if finding.remedy] == []


@pytest.mark.parametrize(
    ("check", "changes", "level", "words"),
    [
        pytest.param("user 107", {"launcher_user": "sshd"}, Level.WARN, "is sshd", id="the guests' user is another's"),
        pytest.param(
            "group 107",
            {"launcher_group": "rdma", "launcher_group_members": tuple("abcdefgh")},
            Level.WARN,
            "with a, b, c, d, e:",
            id="the guests' group has members",
        ),
        pytest.param("architecture", {"machine": "riscv64"}, Level.FAIL, "riscv64", id="an unknown architecture"),
        pytest.param("kernel", {"kernel": (5, 4)}, Level.FAIL, "5.4 is older than 5.6", id="an old kernel"),
        pytest.param(
            "cpu virtualization", {"cpu_flags": frozenset({"sse2"})}, Level.WARN, "neither vmx", id="no virtualization"
        ),
        pytest.param(
            "kvm",
            {"kvm": KvmFacts(True, False, "a test machine on KVM hung")},
            Level.WARN,
            "hung; guests run on software emulation",
            id="a kvm on which guests hang",
        ),
        pytest.param("libvirt", {"libvirt": ()}, Level.FAIL, "not installed", id="no libvirt"),
        pytest.param("libvirt", {"libvirt": (7, 0, 0)}, Level.FAIL, "7.0.0 is older than 9.0", id="an old libvirt"),
        pytest.param(
            "libvirt's QEMU driver", {"libvirt_qemu_driver": False}, Level.FAIL, "driver_qemu", id="no QEMU driver"
        ),
        pytest.param("QEMU", {"qemu": (6, 2)}, Level.FAIL, "6.2 is older than 7.2", id="an old QEMU"),
        pytest.param("swtpm", {"commands": frozenset({"qemu-img"})}, Level.INFO, "get no TPM", id="no swtpm"),
        pytest.param(
            "qemu-pr-helper", {"commands": frozenset({"qemu-img"})}, Level.INFO, "cannot reserve LUNs", id="no helper"
        ),
        pytest.param("passt", {"commands": frozenset({"qemu-img"})}, Level.INFO, "passtBinding", id="no passt"),
        pytest.param("SPICE", {"qemu_spice": False}, Level.INFO, "by VNC alone", id="no SPICE"),
        pytest.param("qemu-img", {"commands": frozenset()}, Level.FAIL, "not installed", id="no qemu-img"),
        pytest.param(
            "cgroups", {"cgroup_controllers": frozenset({"cpu", "pids"})}, Level.WARN, "memory", id="no memory cgroup"
        ),
        pytest.param("disk", {"disk": replace(DISK, free=4 * GIB)}, Level.WARN, "4.0 GiB free", id="little room"),
        pytest.param("disk", {"disk": replace(DISK, free=1)}, Level.FAIL, "0.0 GiB free", id="no room"),
        pytest.param("disk", {"disk": replace(DISK, free_inodes=10)}, Level.FAIL, "GiB free", id="no inodes"),
        pytest.param("disk", {"disk": replace(DISK, options={"ro"})}, Level.FAIL, "read-only", id="a read-only disk"),
        pytest.param("disk kind", {"disk": replace(DISK, kind="tmpfs")}, Level.WARN, "reboot", id="data in memory"),
        pytest.param("disk kind", {"disk": replace(DISK, kind="nfs4")}, Level.FAIL, "locks", id="data over NFS"),
        pytest.param("disk options", {"disk": replace(DISK, options={"noexec"})}, Level.FAIL, "noexec", id="noexec"),
        pytest.param("disk options", {"disk": replace(DISK, options={"nodev"})}, Level.FAIL, "nodev", id="nodev"),
        pytest.param("data directory", {"data_dir_mode": 0o777}, Level.FAIL, "others than root", id="open to all"),
        pytest.param("data directory", {"data_dir_owner": 1000}, Level.FAIL, "others than root", id="a user's own"),
        pytest.param("memory", {"memory_available": 1}, Level.WARN, "available", id="little memory"),
        pytest.param(
            "fs.inotify.max_user_instances",
            {"limits": {"fs/inotify/max_user_instances": 8}},
            Level.WARN,
            "8 is low",
            id="few inotify instances",
        ),
        pytest.param("selinux", {"selinux": "enforcing"}, Level.WARN, "SELinux enforces", id="SELinux"),
        pytest.param("port", {"port_refusal": "another program has it"}, Level.FAIL, "6443", id="a port in use"),
        pytest.param(
            "pod network",
            {"networks": {"lan0": ("10.99.0.5/255.255.0.0",)}},
            Level.FAIL,
            "overlaps with lan0",
            id="a site network in the way",
        ),
        pytest.param(
            "service network",
            {"networks": {"lan0": ("10.100.7.5/255.255.255.0",)}},
            Level.FAIL,
            "overlaps with lan0",
            id="a site network in the way of Services",
        ),
        pytest.param("dns", {"resolvers": ()}, Level.INFO, "no name server", id="no resolver"),
        pytest.param("clock", {"year": 1970}, Level.FAIL, "1970", id="an empty clock battery"),
        pytest.param("clock", {"clock_synchronized": False}, Level.INFO, "not synchronized", id="no time server"),
        pytest.param("host name", {"host_name": "edge_1"}, Level.FAIL, "cannot name a node", id="an underscore"),
        pytest.param("init", {"init": "runit"}, Level.INFO, "runit is no systemd", id="no systemd"),
        pytest.param(
            "leftover state", {"leftovers": ("the bridge kvedge0",)}, Level.WARN, "bridge kvedge0", id="leftovers"
        ),
    ],
)
def test_what_is_wrong_is_told_with_a_remedy(check: str, changes: dict[str, Any], level: Level, words: str) -> None:
    finding = found(check, **changes)
    assert (finding.level, words in finding.detail) == (level, True), finding
    assert finding.remedy or level == Level.INFO


@pytest.mark.parametrize("device", ["/dev/net/tun", "/dev/vhost-net", "/dev/kvm"])
def test_a_device_that_cannot_be_opened_is_told(device: str) -> None:
    changed = {**GOOD.devices, device: DeviceState(exists=True, refusal="Permission denied")}
    finding = found("kvm" if device == "/dev/kvm" else device, devices=changed)
    assert finding.level in (Level.WARN, Level.FAIL)
    assert "Permission denied" in finding.detail


@pytest.mark.parametrize("module", ["nft_connlimit", "nft_limit"])
def test_a_kernel_that_counts_no_packets_is_no_reason_not_to_install(module: str) -> None:
    without = {name: state for name, state in GOOD.modules.items() if name != module}
    assert worst(examine(replace(GOOD, modules=without), OPTIONS)) == Level.WARN


def test_a_missing_device_whose_module_can_be_loaded_is_no_fault() -> None:
    changed = {**GOOD.devices, "/dev/net/tun": DeviceState(exists=False)}
    assert found("/dev/net/tun", devices=changed).level == Level.INFO
    without = {name: state for name, state in GOOD.modules.items() if name != "tun"}
    assert found("/dev/net/tun", devices=changed, modules=without).level == Level.FAIL


def test_modprobe_matters_only_where_something_must_be_loaded() -> None:
    commands = frozenset({"qemu-img"})
    assert all(finding.check != "modprobe" for finding in examine(replace(GOOD, commands=commands), OPTIONS))
    finding = found("modprobe", commands=commands, modules={**GOOD.modules, "tun": False})
    assert (finding.level, "tun" in finding.detail) == (Level.FAIL, True)


def test_kvm_that_does_not_work_is_a_failure_where_it_is_demanded_and_silent_where_it_is_not() -> None:
    broken = KvmFacts(True, False, "hung")
    assert found("kvm", replace(OPTIONS, emulation="kvm"), kvm=broken).level == Level.FAIL
    assert found("kvm", replace(OPTIONS, emulation="tcg"), kvm=broken).level == Level.INFO


@pytest.mark.parametrize(
    ("emulation", "changes", "is_told"),
    [
        ("tcg", {}, True),
        ("auto", {"kvm": KvmFacts(True, False, "hung")}, True),
        ("auto", {"devices": {**GOOD.devices, "/dev/kvm": DeviceState(exists=False)}}, True),
        ("auto", {}, False),
        ("auto", {"kvm": KvmFacts(False)}, False),
        ("kvm", {"kvm": KvmFacts(True, False, "hung")}, False),
        ("tcg", {"qemu": (9, 0)}, False),
        ("tcg", {"qemu": ()}, False),
    ],
)
def test_what_an_old_qemu_loses_of_emulated_guests_that_move_is_told(
    emulation: str, changes: dict[str, Any], *, is_told: bool
) -> None:
    findings = examine(replace(GOOD, **changes), replace(OPTIONS, emulation=emulation))
    assert [each.level for each in findings if each.check == "emulated guests"] == [Level.INFO] * is_told


def test_what_belongs_to_the_running_instance_is_no_fault() -> None:
    changes = {"kvedge_runs": True, "port_refusal": "another program has it", "leftovers": ("the bridge kvedge0",)}
    assert found("port", **changes).level == Level.OK
    assert found("leftover state", **changes).level == Level.OK


@pytest.mark.parametrize(
    ("check", "changes", "level"),
    [
        ("user 107", {"launcher_user": "qemu"}, Level.OK),
        ("group 107", {"launcher_group": "qemu", "launcher_group_members": ("qemu",)}, Level.OK),
        ("group 107", {"launcher_group": "rdma"}, Level.INFO),
    ],
)
def test_a_number_that_qemu_has_or_nobody_uses_is_nothing_to_mend(
    check: str, changes: dict[str, Any], level: Level
) -> None:
    finding = found(check, **changes)
    assert (finding.level, finding.remedy) == (level, "")


@pytest.mark.parametrize(
    ("shares", "level", "word"),
    [(True, Level.OK, "neither time"), (False, Level.INFO, "is a copy"), (None, Level.INFO, "could not be tried")],
)
def test_whether_clones_share_blocks_is_told_as_it_was_tried(shares: bool | None, level: Level, word: str) -> None:
    finding = found("clones", disk=replace(DISK, shares_blocks=shares))
    assert (finding.level, word in finding.detail) == (level, True)


def test_what_volumes_are_not_is_told_with_what_the_host_has() -> None:
    assert "counts projects" not in found("volume sizes").detail
    assert "counts projects" in found("volume sizes", disk=replace(DISK, options=frozenset({"prjquota"}))).detail


_MAPPER = {"dm_mod": False, "dm_thin_pool": False}
_LVM2 = frozenset({"lvs", "thin_check", "mkfs.ext4"})


@pytest.mark.parametrize(
    ("modules", "commands", "without", "with_pools", "word"),
    [
        pytest.param({}, _LVM2, Level.INFO, Level.FAIL, "no device-mapper", id="no device-mapper"),
        pytest.param({"dm_mod": True}, _LVM2, Level.INFO, Level.FAIL, "no thin pools", id="no thin pools"),
        pytest.param(_MAPPER, frozenset({"lvs"}), Level.INFO, Level.FAIL, "thin-provisioning-tools", id="no tools"),
        pytest.param(_MAPPER, _LVM2, Level.INFO, Level.OK, "thin", id="all there"),
    ],
)
def test_what_thin_pools_need_is_a_fault_where_volumes_are_to_lie_in_one(
    modules: dict[str, bool], commands: frozenset[str], without: Level, with_pools: Level, word: str
) -> None:
    finding = found("LVM", modules=modules, commands=commands)
    assert "snapshots of VMs are no copies" in finding.detail
    assert (finding.level, word in finding.detail) == (without, True)
    finding = found("LVM", replace(OPTIONS, thin_pools=("ssd/thin",)), modules=modules, commands=commands)
    assert (finding.level, "ssd/thin" in finding.detail) == (with_pools, True)
    assert bool(finding.remedy) == (with_pools == Level.FAIL)


@pytest.mark.parametrize(
    ("pool", "changes", "level", "word"),
    [
        pytest.param("192.0.2.240-192.0.2.250", {}, Level.OK, "192.0.2.240-192.0.2.250", id="of the host's network"),
        pytest.param("192.0.2.0/28", {}, Level.FAIL, "192.0.2.10 of eth0", id="with the host's own"),
        pytest.param("203.0.113.5", {}, Level.INFO, "router has to lead it here", id="of no network"),
        pytest.param(
            "192.0.2.240", {"kernel": (5, 17, 9)}, Level.FAIL, "Linux 5.17.9 is older than 5.18", id="of an old kernel"
        ),
        pytest.param("192.0.2.240", {"kernel": (5, 18, 0)}, Level.OK, "192.0.2.240", id="of the oldest kernel"),
        pytest.param(
            "192.0.2.240",
            {"kvedge_runs": True, "networks": {"eth0": ("192.0.2.10/24", "192.0.2.240/255.255.255.255")}},
            Level.OK,
            "192.0.2.240",
            id="that a Service has by now",
        ),
    ],
)
def test_the_pool_of_load_balancers_is_held_against_the_hosts_networks(
    pool: str, changes: dict[str, Any], level: Level, word: str
) -> None:
    finding = found("load balancers", replace(OPTIONS, load_balancer_pool=pool), **changes)
    assert finding.level == level
    assert word in finding.detail


def test_a_host_without_systemd_resolved_is_told_how_it_finds_the_names_of_vms() -> None:
    assert found("host names").level == Level.OK
    finding = found("host names", resolved_runs=False)
    assert finding.level == Level.INFO
    assert "server=/cluster.local/10.99.0.1" in finding.remedy
