"""What is good or bad about a host: a list of small rules over HostFacts, each yielding findings with a remedy.

Called by the doctor verb. Pure. Modelled on what `k3s check-config` and `virt-host-validate` look at; the limits are
those of kvedge's own needs, and each says where it comes from.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kvedge.appliance.doctor.host_facts import HostFacts, Version
from kvedge.network.address_plan import gateway_address
from kvedge.resources.names import LAUNCHER_GID, LAUNCHER_UID
from kvedge.runtime.address_pool import AddressPool, address_pool
from kvedge.runtime.address_ranges import address_ranges
from kvedge.runtime.settings import Settings


class Level(StrEnum):
    """How bad: FAIL keeps VMs from running, WARN makes them slower or an operator's life harder."""

    OK = "ok"
    INFO = "info"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report; `remedy` is empty where nothing need be done."""

    check: str
    level: Level
    detail: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class DoctorOptions:
    """What the instance is asked to be: settings that host facts are held against."""

    data_dir: str
    pod_cidr: str
    service_cidr: str
    port: int
    emulation: str
    load_balancer_pool: str = ""

    @classmethod
    def of(cls, settings: Settings) -> DoctorOptions:
        """Those among the settings of an instance."""
        return cls(
            settings.data_dir,
            settings.pod_cidr,
            settings.service_cidr,
            settings.port,
            settings.emulation,
            settings.load_balancer_pool,
        )


Rule = Callable[[HostFacts, DoctorOptions], Iterator[Finding]]

# openat2, by which images are opened beneath their root, came with Linux 5.6.
_KERNEL: Final[Version] = (5, 6)
# An address carries its maker (IFA_PROTO) from kernel 5.18 on.
_KERNEL_OF_POOLS: Final[Version] = (5, 18)
# The oldest that kvedge has been run on: Debian 12's.
_LIBVIRT: Final[Version] = (9, 0)
_QEMU: Final[Version] = (7, 2)
# The length of a network that is one address.
_ALONE: Final = 32
_GIB: Final = 1 << 30
_MIB: Final = 1 << 20
# A container disk of a small Linux and its overlay.
_DISK_LOW: Final = 5 * _GIB
_DISK_FULL: Final = 512 * _MIB
_INODES_LOW: Final = 10_000
# The control plane, one launcher and a guest of 256 MiB.
_MEMORY_LOW: Final = 512 * _MIB
# Lowest sensible values by file below /proc/sys: each VM watches some files; each stream and QEMU needs descriptors.
_LIMITS: Final[Mapping[str, int]] = {
    "fs/inotify/max_user_instances": 128,
    "fs/inotify/max_user_watches": 8192,
    "fs/file-max": 65536,
    "kernel/pid_max": 32768,
}
_MODULES: Final[Mapping[str, tuple[Level, str]]] = {
    "tun": (Level.FAIL, "guests get no network card"),
    "bridge": (Level.FAIL, "Pods get no network"),
    "veth": (Level.FAIL, "Pods get no network"),
    "nf_tables": (Level.FAIL, "VMs cannot reach the outside"),
    "nft_connlimit": (Level.WARN, "nothing keeps a guest from filling the host's table of connections"),
    "vhost_net": (Level.WARN, "QEMU serves guests' network cards itself, which is slower"),
    "loop": (Level.WARN, "claims of mode Block get no device"),
}
# Where files can share blocks; an XFS from before 2019 may not, which the first clone finds out.
_SHARING: Final = ("xfs", "btrfs", "bcachefs")
_VIRTUALIZATION_FLAGS: Final = frozenset({"vmx", "svm"})
_HOST_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_BUILT: Final = 2026
# Names under which distributions have a user and a group for QEMU.
_QEMU_NAMES: Final = frozenset({"qemu", "libvirt-qemu"})
_MEMBERS_TOLD: Final = 5


def examine(facts: HostFacts, options: DoctorOptions) -> list[Finding]:
    """All findings, in the order of the rules."""
    return [finding for rule in RULES for finding in rule(facts, options)]


def worst(findings: Sequence[Finding]) -> Level:
    """The gravest level among them."""
    order = list(Level)
    return max((finding.level for finding in findings), key=order.index, default=Level.OK)


def _kernel(facts: HostFacts, options: DoctorOptions) -> Iterator[Finding]:
    if facts.machine not in ("x86_64", "aarch64"):
        yield Finding("architecture", Level.FAIL, f"{facts.machine} is not supported", "use an x86-64 or arm64 host")
    else:
        yield Finding("architecture", Level.OK, facts.machine)
    if facts.kernel < _KERNEL:
        detail = f"Linux {_text(facts.kernel)} is older than {_text(_KERNEL)}"
        yield Finding("kernel", Level.FAIL, detail, "install a newer kernel")
    else:
        yield Finding("kernel", Level.OK, f"Linux {_text(facts.kernel)}")


def _kvm(facts: HostFacts, options: DoctorOptions) -> Iterator[Finding]:
    if options.emulation == "tcg":
        yield Finding("kvm", Level.INFO, "not used: emulation is set to tcg")
        return
    bad = Level.FAIL if options.emulation == "kvm" else Level.WARN
    slow = "" if options.emulation == "kvm" else "; guests run on software emulation, some ten times slower"
    if facts.machine == "x86_64" and not facts.cpu_flags & _VIRTUALIZATION_FLAGS:
        detail = f"the CPU shows neither vmx nor svm{slow}"
        yield Finding(
            "cpu virtualization", bad, detail, "enable virtualization in the firmware, or nesting in the hypervisor"
        )
    elif facts.machine == "x86_64":
        yield Finding("cpu virtualization", Level.OK, ", ".join(sorted(facts.cpu_flags & _VIRTUALIZATION_FLAGS)))
    device = facts.devices["/dev/kvm"]
    if not device.exists:
        yield Finding("kvm", bad, f"/dev/kvm does not exist{slow}", "modprobe kvm_intel (or kvm_amd)")
    elif device.refusal:
        yield Finding(
            "kvm", bad, f"/dev/kvm cannot be opened: {device.refusal}", "run as root, or mend its mode by udev"
        )
    elif not facts.kvm.tried:
        yield Finding(
            "kvm", Level.INFO, "/dev/kvm opens; whether guests run on it was not tried", "leave out --no-guest"
        )
    elif facts.kvm.works:
        yield Finding("kvm", Level.OK, facts.kvm.detail)
    else:
        remedy = "set emulation to tcg to be silent about it, or use a host whose KVM works"
        yield Finding("kvm", bad, f"{facts.kvm.detail}{slow}", remedy)
    if facts.nested:
        yield Finding("nested virtualization", Level.INFO, f"kvm's parameter nested is {facts.nested}")


def _devices(facts: HostFacts, options: DoctorOptions) -> Iterator[Finding]:
    for path, level in (("/dev/net/tun", Level.FAIL), ("/dev/vhost-net", Level.WARN)):
        device = facts.devices[path]
        module = "tun" if path.endswith("tun") else "vhost_net"
        if not device.exists and module not in facts.modules:
            yield Finding(
                path, level, "does not exist, and this kernel has no such module", f"use a kernel with {module}"
            )
        elif not device.exists:
            yield Finding(path, Level.INFO, "does not exist yet; kvedge loads the module when it starts")
        elif device.refusal:
            yield Finding(path, level, f"cannot be opened: {device.refusal}", "run as root")
        else:
            yield Finding(path, Level.OK, "opens")


def _modules(facts: HostFacts, options: DoctorOptions) -> Iterator[Finding]:
    for name, (level, why) in _MODULES.items():
        if name not in facts.modules:
            yield Finding(
                f"module {name}", level, f"this kernel does not have it: {why}", "use a distribution's kernel"
            )
        else:
            yield Finding(f"module {name}", Level.OK, "there" if facts.modules[name] else "can be loaded")


def _passthrough(facts: HostFacts, options: DoctorOptions) -> Iterator[Finding]:
    """Few guests have devices of their host: those that do need both."""
    if not facts.iommu_groups:
        remedy = "for guests that are to have some, turn it on in the firmware, on Intel with intel_iommu=on too"
        yield Finding("iommu", Level.INFO, "off, or not there: guests get no devices of this host (SR-IOV)", remedy)
    elif "vfio_pci" not in facts.modules:
        remedy = "for guests that are to have some, use a kernel with vfio_pci"
        yield Finding("iommu", Level.INFO, "on, but without VFIO guests get no devices of this host", remedy)
    else:
        yield Finding("iommu", Level.OK, f"on, with {facts.iommu_groups} groups, and VFIO is there")


def _programs(facts: HostFacts, options: DoctorOptions) -> Iterator[Finding]:
    yield _program("libvirt", facts.libvirt, _LIBVIRT, "apt-get install libvirt-daemon-system")
    if facts.libvirt and not facts.libvirt_qemu_driver:
        remedy = "apt-get install libvirt-daemon-driver-qemu"
        yield Finding("libvirt's QEMU driver", Level.FAIL, "libvirt_driver_qemu.so is not installed", remedy)
    package = "qemu-system-x86" if facts.machine == "x86_64" else "qemu-system-arm"
    yield _program("QEMU", facts.qemu, _QEMU, f"apt-get install {package}")
    if "qemu-img" not in facts.commands:
        yield Finding("qemu-img", Level.FAIL, "is not installed", "apt-get install qemu-utils")
    to_load = sorted(name for name in _MODULES if facts.modules.get(name) is False)
    if to_load and "modprobe" not in facts.commands:
        detail = f"is not installed, and must load {', '.join(to_load)}"
        yield Finding("modprobe", Level.FAIL, detail, "apt-get install kmod")


def _program(name: str, found: Version, least: Version, remedy: str) -> Finding:
    if not found:
        return Finding(name, Level.FAIL, "is not installed", remedy)
    if found < least:
        return Finding(name, Level.FAIL, f"{_text(found)} is older than {_text(least)}", "use Debian 12 or newer")
    return Finding(name, Level.OK, _text(found))


def _cgroups(facts: HostFacts, options: DoctorOptions) -> Iterator[Finding]:
    missing = sorted({"cpu", "memory", "pids"} - facts.cgroup_controllers)
    if missing:
        detail = f"no controller {', '.join(missing)}: limits of launcher Pods have no effect"
        yield Finding("cgroups", Level.WARN, detail, "boot with cgroup_enable=memory, mount cgroup2 at /sys/fs/cgroup")
    else:
        yield Finding("cgroups", Level.OK, ", ".join(sorted(facts.cgroup_controllers & {"cpu", "memory", "pids"})))


def _disk(facts: HostFacts, options: DoctorOptions) -> Iterator[Finding]:
    disk = facts.disk
    free = f"{disk.free / _GIB:.1f} GiB free at {disk.path} ({disk.kind})"
    if "ro" in disk.options:
        yield Finding("disk", Level.FAIL, f"{disk.path} is mounted read-only", "mount -o remount,rw, or move data-dir")
    elif disk.free < _DISK_FULL or disk.free_inodes < _INODES_LOW // 10:
        yield Finding("disk", Level.FAIL, free, "make room: kvedge image rm, or move data-dir")
    elif disk.free < _DISK_LOW or disk.free_inodes < _INODES_LOW:
        yield Finding("disk", Level.WARN, free, "make room before more VMs are made")
    else:
        yield Finding("disk", Level.OK, free)
    if disk.kind in ("tmpfs", "ramfs", "overlay"):
        detail = f"{disk.path} is on {disk.kind}: VMs and their state may be gone after a reboot"
        yield Finding("disk kind", Level.WARN, detail, "put data-dir on a disk")
    if disk.kind.startswith("nfs") or disk.kind in ("cifs", "smb3", "9p"):
        detail = f"{disk.path} is on {disk.kind}, whose locks do not keep a database safe"
        yield Finding("disk kind", Level.FAIL, detail, "put data-dir on a local disk")
    if "noexec" in disk.options:
        detail = f"{disk.path} is mounted noexec: the program cannot run from there"
        yield Finding("disk options", Level.FAIL, detail, "mount it without noexec, or move data-dir")
    if "nodev" in disk.options:
        detail = f"{disk.path} is mounted nodev: Pods would have no devices"
        yield Finding("disk options", Level.FAIL, detail, "mount it without nodev, or move data-dir")
    if facts.data_dir_mode is not None and (facts.data_dir_mode & 0o022 or facts.data_dir_owner != 0):
        detail = f"{options.data_dir} can be written by others than root"
        yield Finding(
            "data directory", Level.FAIL, detail, f"chown root {options.data_dir}; chmod 755 {options.data_dir}"
        )


def _volumes(facts: HostFacts, options: DoctorOptions) -> Iterator[Finding]:
    kind = facts.disk.kind
    if kind in _SHARING:
        detail = f"{facts.disk.path} ({kind}) can share blocks: a clone of a disk takes neither time nor room"
        yield Finding("clones", Level.OK, detail)
    else:
        detail = f"{facts.disk.path} ({kind}) cannot share blocks, as XFS and Btrfs can: a clone of a disk is a copy"
        yield Finding("clones", Level.INFO, detail)
    detail = "the disk of a claim is kept to its size; other files in a claim are not, as no project quota is set"
    yield Finding("volume sizes", Level.INFO, detail)


def _memory(facts: HostFacts, options: DoctorOptions) -> Iterator[Finding]:
    text = f"{facts.memory_available / _GIB:.1f} of {facts.memory_total / _GIB:.1f} GiB available"
    if facts.memory_available < _MEMORY_LOW:
        yield Finding("memory", Level.WARN, text, "stop something: a small VM and kvedge take 512 MiB")
    else:
        yield Finding("memory", Level.OK, text)


def _limits(facts: HostFacts, options: DoctorOptions) -> Iterator[Finding]:
    low = {name: value for name, value in facts.limits.items() if value < _LIMITS[name]}
    for name, value in low.items():
        key = name.replace("/", ".")
        yield Finding(key, Level.WARN, f"{value} is low", f"sysctl -w {key}={_LIMITS[name]}")
    if not low:
        yield Finding("limits", Level.OK, "inotify, files and processes suffice")


def _security(facts: HostFacts, options: DoctorOptions) -> Iterator[Finding]:
    if facts.selinux == "enforcing":
        detail = "SELinux enforces; kvedge ships no policy of its own and has not been tried with it"
        yield Finding("selinux", Level.WARN, detail, "look for `avc: denied` in the audit log when a VM does not start")
    else:
        yield Finding("selinux", Level.OK, facts.selinux or "off")
    yield Finding("apparmor", Level.OK, "on: launchers run without a profile of their own" if facts.apparmor else "off")


def _launcher_user(facts: HostFacts, options: DoctorOptions) -> Iterator[Finding]:
    """A launcher sees none of the host's processes and, of its files, `/usr` alone; but the host's processes see it."""
    check = f"user {LAUNCHER_UID}"
    if facts.launcher_user and facts.launcher_user not in _QEMU_NAMES:
        name = facts.launcher_user
        detail = f"is {name} on this host: whatever runs as {name} can read and stop guests, which run with that number"
        yield Finding(check, Level.WARN, detail, f"give {name} another number: usermod -u, then chown its files")
    else:
        yield Finding(check, Level.OK, facts.launcher_user or "is nobody else's on this host")
    check = f"group {LAUNCHER_GID}"
    if not facts.launcher_group or facts.launcher_group in _QEMU_NAMES:
        yield Finding(check, Level.OK, facts.launcher_group or "is nobody else's on this host")
    elif facts.launcher_group_members:
        members = ", ".join(facts.launcher_group_members[:_MEMBERS_TOLD])
        detail = (
            f"is {facts.launcher_group} on this host, with {members}: what guests' files let the group do, they may do"
        )
        yield Finding(check, Level.WARN, detail, f"give {facts.launcher_group} another number: groupmod -g")
    else:
        detail = f"is {facts.launcher_group} on this host, without members; of the host, launchers reach only /usr"
        yield Finding(check, Level.INFO, detail)


def _network(facts: HostFacts, options: DoctorOptions) -> Iterator[Finding]:
    if facts.port_refusal and not facts.kvedge_runs:
        detail = f"{options.port} cannot be listened on: {facts.port_refusal}"
        yield Finding("port", Level.FAIL, detail, "set port, or stop who has it (ss -ltnp)")
    else:
        yield Finding("port", Level.OK, f"{options.port} is {'ours' if facts.kvedge_runs else 'free'}")
    for what, given in (("pod", options.pod_cidr), ("service", options.service_cidr)):
        for cidr in address_ranges(given).all:
            yield from _range(facts, what, cidr)
    if options.load_balancer_pool:
        yield from _pool(facts, address_pool(options.load_balancer_pool))
    if facts.resolvers:
        yield Finding("dns", Level.OK, ", ".join(facts.resolvers))
    else:
        yield Finding("dns", Level.INFO, "no name server in /etc/resolv.conf: guests are told none until there is one")
    if facts.resolved_runs:
        yield Finding("host names", Level.OK, "systemd-resolved asks kvedge for names below cluster.local")
    else:
        server = gateway_address(address_ranges(options.pod_cidr).ipv4)
        detail = "without systemd-resolved this host itself finds no names of VMs and Services; guests do"
        remedy = f"have its resolver ask {server} for them, as dnsmasq by server=/cluster.local/{server}"
        yield Finding("host names", Level.INFO, detail, remedy)


def _filters(facts: HostFacts, options: DoctorOptions) -> Iterator[Finding]:
    """Firewalls of others: kvedge leaves them as they are."""
    bridge = facts.bridge
    if facts.filters is None:
        yield Finding("firewall", Level.INFO, "only root can see whether another one drops what guests send")
        return
    if not facts.filters:
        yield Finding("firewall", Level.OK, "none drops what is forwarded")
    for name in facts.filters:
        remedy = (
            f"firewall-cmd --permanent --zone=trusted --add-interface={bridge}, then firewall-cmd --reload"
            if name == "firewalld"
            else f"let {bridge} pass there both ways (Docker: in its chain DOCKER-USER; ufw: by ufw route allow)"
        )
        detail = f"{name} drops what guests send to the outside, unless a rule there lets {bridge} pass"
        yield Finding("firewall", Level.INFO, detail, remedy)


def _range(facts: HostFacts, what: str, cidr: str) -> Iterator[Finding]:
    """Whether a range of ours is one that the host is in."""
    wanted = ipaddress.ip_network(cidr)
    clashes = [
        f"{link} ({network})"
        for link, networks in facts.networks.items()
        for network in networks
        if ipaddress.ip_network(network, strict=False).overlaps(wanted)
    ]
    if clashes and not facts.kvedge_runs:
        remedy = f"set {what}-cidr to a network that this site does not use"
        yield Finding(f"{what} network", Level.FAIL, f"{cidr} overlaps with {', '.join(clashes)}", remedy)
    else:
        yield Finding(f"{what} network", Level.OK, f"{cidr} is free" if not clashes else cidr)


def _pool(facts: HostFacts, pool: AddressPool) -> Iterator[Finding]:
    """Whether load balancers of one box get addresses that are free, and that the LAN looks for here."""
    check, remedy = "load balancers", "set load-balancer-pool to addresses that nobody else has"
    if facts.kernel < _KERNEL_OF_POOLS:
        detail = f"Linux {_text(facts.kernel)} is older than {_text(_KERNEL_OF_POOLS)}, which load-balancer-pool needs"
        yield Finding(check, Level.FAIL, detail, "leave load-balancer-pool out, or install a newer kernel")
        return
    found = [
        (link, ipaddress.IPv4Interface(network)) for link, networks in facts.networks.items() for network in networks
    ]
    # Of a box that runs, addresses without a network are those of its load balancers.
    own = [(link, at) for link, at in found if not (facts.kvedge_runs and at.network.prefixlen == _ALONE)]
    clashes = [f"{at.ip} of {link}" for link, at in own if at.ip in pool]
    if clashes:
        yield Finding(check, Level.FAIL, f"load-balancer-pool has {', '.join(clashes)}, the host's own", remedy)
        return
    away = [str(each) for each in pool.of_version(4) if not any(each.first in at.network for _, at in own)]
    if away:
        detail = f"{', '.join(away)} is in no network of this host: the LAN's router has to lead it here"
        yield Finding(check, Level.INFO, detail)
    else:
        yield Finding(check, Level.OK, f"get an address of {', '.join(str(each) for each in pool.ranges)}")


def _clock(facts: HostFacts, options: DoctorOptions) -> Iterator[Finding]:
    if facts.year < _BUILT:
        detail = f"the clock says {facts.year}: certificates would not be valid"
        yield Finding("clock", Level.FAIL, detail, "set the clock (date -s, or a time server)")
    elif facts.clock_synchronized is False:
        yield Finding("clock", Level.INFO, "not synchronized to a time server", "install chrony where there is one")
    else:
        yield Finding("clock", Level.OK, "synchronized" if facts.clock_synchronized else "plausible")


def _system(facts: HostFacts, options: DoctorOptions) -> Iterator[Finding]:
    if _HOST_NAME.fullmatch(facts.host_name.lower()) is None or len(facts.host_name) > 253:
        detail = f"{facts.host_name!r} cannot name a node"
        yield Finding("host name", Level.FAIL, detail, "set node-name, or the host's name (hostnamectl)")
    else:
        yield Finding("host name", Level.OK, facts.host_name.lower())
    if facts.init == "systemd":
        yield Finding("init", Level.OK, "systemd")
    else:
        detail = f"{facts.init} is no systemd: start `kvedge standalone` by other means"
        yield Finding("init", Level.INFO, detail)
    if facts.leftovers and not facts.kvedge_runs:
        detail = f"kvedge does not run, but there is {', '.join(facts.leftovers)}"
        yield Finding("leftover state", Level.WARN, detail, "start kvedge, which adopts running VMs, or kvedge killall")
    else:
        yield Finding("leftover state", Level.OK, "none" if not facts.leftovers else "of the running instance")


def _text(version: Version) -> str:
    return ".".join(str(part) for part in version)


RULES: Final[Sequence[Rule]] = (
    _kernel,
    _kvm,
    _devices,
    _modules,
    _passthrough,
    _programs,
    _cgroups,
    _disk,
    _volumes,
    _memory,
    _limits,
    _security,
    _launcher_user,
    _network,
    _filters,
    _clock,
    _system,
)
