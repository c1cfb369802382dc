"""Whether this host can run guests at all: its kernel, KVM, device nodes, modules, programs and cgroups.

Called by `doctor_rules`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from kvedge.appliance.doctor.findings import DoctorOptions, Finding, Level, version_text
from kvedge.appliance.doctor.host_facts import HostFacts, Version

# openat2, by which images are opened beneath their root, came with Linux 5.6.
_KERNEL: Final[Version] = (5, 6)
# The oldest that kvedge has been run on: Debian 12's.
_LIBVIRT: Final[Version] = (9, 0)
_QEMU: Final[Version] = (7, 2)
# Before, a page that an emulated guest writes again right after QEMU has noted it as written is not sent once more.
_MOVES_EMULATED: Final[Version] = (9, 0)
_MODULES: Final[Mapping[str, tuple[Level, str]]] = {
    "tun": (Level.FAIL, "guests get no network card"),
    "bridge": (Level.FAIL, "Pods get no network"),
    "veth": (Level.FAIL, "Pods get no network"),
    "nf_tables": (Level.FAIL, "VMs cannot reach the outside"),
    "nft_connlimit": (Level.WARN, "nothing keeps a guest from filling the host's table of connections"),
    "nft_limit": (Level.WARN, "a guest that asks for names without end leaves its neighbours few answers"),
    "vhost_net": (Level.WARN, "QEMU serves guests' network cards itself, which is slower"),
    "loop": (Level.WARN, "claims of mode Block get no device"),
}
_VIRTUALIZATION_FLAGS: Final = frozenset({"vmx", "svm"})


def check_kernel(facts: HostFacts, options: DoctorOptions) -> Iterator[Finding]:
    """The processor and the kernel."""
    if facts.machine not in ("x86_64", "aarch64"):
        yield Finding("architecture", Level.FAIL, f"{facts.machine} is not supported", "use an x86-64 or arm64 host")
    else:
        yield Finding("architecture", Level.OK, facts.machine)
    if facts.kernel < _KERNEL:
        detail = f"Linux {version_text(facts.kernel)} is older than {version_text(_KERNEL)}"
        yield Finding("kernel", Level.FAIL, detail, "install a newer kernel")
    else:
        yield Finding("kernel", Level.OK, f"Linux {version_text(facts.kernel)}")


def check_kvm(facts: HostFacts, options: DoctorOptions) -> Iterator[Finding]:
    """KVM, and what guests are without it."""
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


def _is_emulated(facts: HostFacts, options: DoctorOptions) -> bool:
    if options.emulation != "auto":
        return options.emulation == "tcg"
    device = facts.devices["/dev/kvm"]
    return not device.exists or bool(device.refusal) or (facts.kvm.tried and not facts.kvm.works)


def check_devices(facts: HostFacts, options: DoctorOptions) -> Iterator[Finding]:
    """The device nodes of network cards."""
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


def check_modules(facts: HostFacts, options: DoctorOptions) -> Iterator[Finding]:
    """The kernel's modules."""
    for name, (level, why) in _MODULES.items():
        if name not in facts.modules:
            yield Finding(
                f"module {name}", level, f"this kernel does not have it: {why}", "use a distribution's kernel"
            )
        else:
            yield Finding(f"module {name}", Level.OK, "there" if facts.modules[name] else "can be loaded")


def check_passthrough(facts: HostFacts, options: DoctorOptions) -> Iterator[Finding]:
    """Devices of the host for guests, which few have: they need an IOMMU and VFIO."""
    if not facts.iommu_groups:
        remedy = "for guests that are to have some, turn it on in the firmware, on Intel with intel_iommu=on too"
        yield Finding("iommu", Level.INFO, "off, or not there: guests get no devices of this host (SR-IOV)", remedy)
    elif "vfio_pci" not in facts.modules:
        remedy = "for guests that are to have some, use a kernel with vfio_pci"
        yield Finding("iommu", Level.INFO, "on, but without VFIO guests get no devices of this host", remedy)
    else:
        yield Finding("iommu", Level.OK, f"on, with {facts.iommu_groups} groups, and VFIO is there")


def check_programs(facts: HostFacts, options: DoctorOptions) -> Iterator[Finding]:
    """libvirt, QEMU and the programs that kvedge runs."""
    yield _program("libvirt", facts.libvirt, _LIBVIRT, "apt-get install libvirt-daemon-system")
    if facts.libvirt and not facts.libvirt_qemu_driver:
        remedy = "apt-get install libvirt-daemon-driver-qemu"
        yield Finding("libvirt's QEMU driver", Level.FAIL, "libvirt_driver_qemu.so is not installed", remedy)
    package = "qemu-system-x86" if facts.machine == "x86_64" else "qemu-system-arm"
    yield _program("QEMU", facts.qemu, _QEMU, f"apt-get install {package}")
    if facts.qemu and facts.qemu < _MOVES_EMULATED and _is_emulated(facts, options):
        older = f"QEMU {version_text(facts.qemu)} is older than {version_text(_MOVES_EMULATED)}"
        yield Finding(
            "emulated guests",
            Level.INFO,
            f"one that moves while it runs may lose some of what it wrote last: {older}",
            "have guests that move on KVM, or on a system with QEMU 9.0 or newer",
        )
    if "qemu-img" not in facts.commands:
        yield Finding("qemu-img", Level.FAIL, "is not installed", "apt-get install qemu-utils")
    if "qemu-pr-helper" not in facts.commands:
        text = "is not installed: guests cannot reserve LUNs"
        yield Finding("qemu-pr-helper", Level.INFO, text, "apt-get install qemu-system-common")
    if not {"swtpm", "swtpm_setup"} <= facts.commands:
        yield Finding("swtpm", Level.INFO, "is not installed: guests get no TPM", "apt-get install swtpm swtpm-tools")
    if "passt" not in facts.commands:
        detail = "is not installed: no guest has a passtBinding"
        yield Finding("passt", Level.INFO, detail, "apt-get install passt, for VMs that ask for it")
    if facts.qemu and not facts.qemu_spice:
        detail = "QEMU has none: guests show their screens by VNC alone"
        yield Finding("SPICE", Level.INFO, detail, "apt-get install qemu-system-modules-spice")
    to_load = sorted(name for name in _MODULES if facts.modules.get(name) is False)
    if to_load and "modprobe" not in facts.commands:
        detail = f"is not installed, and must load {', '.join(to_load)}"
        yield Finding("modprobe", Level.FAIL, detail, "apt-get install kmod")


def _program(name: str, found: Version, least: Version, remedy: str) -> Finding:
    if not found:
        return Finding(name, Level.FAIL, "is not installed", remedy)
    if found < least:
        return Finding(
            name, Level.FAIL, f"{version_text(found)} is older than {version_text(least)}", "use Debian 12 or newer"
        )
    return Finding(name, Level.OK, version_text(found))


def check_cgroups(facts: HostFacts, options: DoctorOptions) -> Iterator[Finding]:
    """The controllers that limit Pods."""
    missing = sorted({"cpu", "memory", "pids"} - facts.cgroup_controllers)
    if missing:
        detail = f"no controller {', '.join(missing)}: limits of launcher Pods have no effect"
        yield Finding("cgroups", Level.WARN, detail, "boot with cgroup_enable=memory, mount cgroup2 at /sys/fs/cgroup")
    else:
        yield Finding("cgroups", Level.OK, ", ".join(sorted(facts.cgroup_controllers & {"cpu", "memory", "pids"})))
