"""The ready-made preferences: what guests of the usual systems like best.

Read by the controller, which writes them where they are wanted, and by the command line. Pure: a row for each system.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.resources.instancetypes.common_series import VENDOR, VENDOR_LABEL
from kvedge.resources.types.vm_types.instancetypes import INSTANCETYPE_GROUP
from kvedge.resources.types.vm_types.preferences import VirtualMachineClusterPreference

_OS: Final = "vm.kubevirt.io/os"
_VIRTIO: Final[JsonObject] = {"preferredDiskBus": "virtio", "preferredInterfaceModel": "virtio", "preferredRng": {}}
_SMM: Final[JsonObject] = {"features": {"preferredSmm": {"enabled": True}}}
_EFI: Final[JsonObject] = {"firmware": {"preferredEfi": {"secureBoot": False}}}
_SECURE: Final[JsonObject] = {"firmware": {"preferredEfi": {"secureBoot": True}}, **_SMM}
_THREAD: Final[JsonObject] = {"devices": {"preferredDiskDedicatedIoThread": True}}
_DESKTOP: Final[JsonObject] = {"devices": {"preferredInputBus": "virtio", "preferredInputType": "tablet"}}
_QUEUES: Final[JsonObject] = {"devices": {"preferredNetworkInterfaceMultiQueue": True}}


def _spread(ratio: int | None = None) -> JsonObject:
    options = {"across": "SocketsCoresThreads", **({} if ratio is None else {"ratio": ratio})}
    return {"cpu": {"preferredCPUTopology": "spread", "spreadOptions": options}}


def _merge(*parts: JsonObject) -> JsonObject:
    made: JsonObject = {}
    for part in parts:
        for name, value in part.items():
            there = made.get(name)
            made[name] = _merge(there, value) if isinstance(value, dict) and isinstance(there, dict) else value
    return made


def _needs(vcpus: int, memory: str, architecture: str = "") -> JsonObject:
    found: JsonObject = {"cpu": {"guest": vcpus}, "memory": {"guest": memory}}
    return {"requirements": {**found, **({"architecture": architecture} if architecture else {})}}


def _linux(*parts: JsonObject) -> JsonObject:
    return _merge({"devices": dict(_VIRTIO), "annotations": {_OS: "linux"}}, *parts)


def _arm64(vcpus: int, memory: str) -> JsonObject:
    return _linux(_needs(vcpus, memory, "arm64"), {"preferredArchitecture": "arm64"})


_RHEL: Final = _needs(1, "1536Mi")
_RHEL_AMD: Final = _needs(1, "1536Mi", "amd64")
_DPDK: Final = _merge(_needs(8, "1536Mi"), _spread(4), _QUEUES)
_QUIET: Final[JsonObject] = {
    "devices": {"preferredAutoattachGraphicsDevice": False, "preferredAutoattachMemBalloon": False}
}
_LINUX: Final[Mapping[str, tuple[str, JsonObject]]] = {
    "alpine": ("Alpine Linux", _linux(_needs(1, "512Mi"))),
    "centos.stream9": ("CentOS Stream 9", _linux(_RHEL, _THREAD)),
    "centos.stream9.desktop": ("CentOS Stream 9 with a desktop", _linux(_RHEL, _THREAD, _DESKTOP)),
    "centos.stream9.dpdk": ("CentOS Stream 9 for network functions", _linux(_DPDK, _THREAD)),
    "centos.stream10": ("CentOS Stream 10", _linux(_RHEL, _THREAD)),
    "centos.stream10.desktop": ("CentOS Stream 10 with a desktop", _linux(_RHEL, _THREAD, _DESKTOP)),
    "cirros": ("CirrOS", _linux(_needs(1, "256Mi"))),
    "debian": ("Debian", _linux(_needs(1, "512Mi"), _EFI)),
    "fedora": ("Fedora", _linux(_needs(1, "2Gi", "amd64"), _SECURE)),
    "fedora.arm64": ("Fedora on arm64", _arm64(1, "2Gi")),
    "legacy": (
        "Systems without virtio",
        {
            "devices": {"preferredDiskBus": "sata", "preferredInterfaceModel": "e1000"},
            "annotations": {_OS: "legacy"},
        },
    ),
    "linux": ("Linux", _linux()),
    "linux.efi": ("Linux by UEFI", _linux(_EFI)),
    "linux.virtiotransitional": ("Linux of before 2016", _linux({"devices": {"preferredUseVirtioTransitional": True}})),
    "opensuse.leap": ("openSUSE Leap", _linux(_needs(1, "2Gi"))),
    "opensuse.tumbleweed": ("openSUSE Tumbleweed", _linux(_needs(1, "2Gi"))),
    "oraclelinux": ("Oracle Linux", _linux(_needs(2, "4Gi"), _EFI)),
    "rhel.7": ("Red Hat Enterprise Linux 7", _linux(_needs(1, "1Gi"))),
    "rhel.7.desktop": ("Red Hat Enterprise Linux 7 with a desktop", _linux(_needs(1, "1Gi"), _DESKTOP)),
    "rhel.8": ("Red Hat Enterprise Linux 8", _linux(_RHEL)),
    "rhel.8.desktop": ("Red Hat Enterprise Linux 8 with a desktop", _linux(_RHEL, _DESKTOP)),
    "rhel.8.dpdk": ("Red Hat Enterprise Linux 8 for network functions", _linux(_DPDK)),
    "rhel.9": ("Red Hat Enterprise Linux 9", _linux(_RHEL_AMD, _SECURE, _THREAD)),
    "rhel.9.arm64": ("Red Hat Enterprise Linux 9 on arm64", _arm64(1, "1536Mi")),
    "rhel.9.desktop": ("Red Hat Enterprise Linux 9 with a desktop", _linux(_RHEL_AMD, _SECURE, _THREAD, _DESKTOP)),
    "rhel.9.dpdk": ("Red Hat Enterprise Linux 9 for network functions", _linux(_DPDK, _SECURE, _THREAD)),
    "rhel.9.realtime": (
        "Red Hat Enterprise Linux 9 in real time",
        _linux(_needs(4, "4Gi", "amd64"), _spread(), _SECURE, _THREAD, _QUEUES, _QUIET),
    ),
    "rhel.10": ("Red Hat Enterprise Linux 10", _linux(_RHEL_AMD, _SECURE, _THREAD)),
    "rhel.10.arm64": ("Red Hat Enterprise Linux 10 on arm64", _arm64(1, "1536Mi")),
    "sles": ("SUSE Linux Enterprise Server", _linux(_needs(1, "2Gi"))),
    "ubuntu": ("Ubuntu", _linux(_needs(1, "2Gi"))),
}
_BSD: Final[Mapping[str, tuple[str, JsonObject]]] = {
    "freebsd": ("FreeBSD", _merge(_linux(_needs(1, "512Mi")), {"annotations": {_OS: "freebsd"}})),
}

_ON: Final[JsonObject] = {}
_HYPERV: Final[JsonObject] = {
    **dict.fromkeys(("relaxed", "vapic", "vpindex", "synic", "tlbflush", "ipi", "frequencies"), _ON),
    **dict.fromkeys(("reenlightenment", "reset", "runtime"), _ON),
    "spinlocks": {"spinlocks": 8191},
    "synictimer": {"direct": _ON},
}
_WINDOWS: Final[JsonObject] = {
    "annotations": {_OS: "windows"},
    "clock": {
        "preferredClockOffset": {"utc": {}},
        "preferredTimer": {
            "hpet": {"present": False},
            "hyperv": {},
            "pit": {"tickPolicy": "delay"},
            "rtc": {"tickPolicy": "catchup"},
        },
    },
    "cpu": {"preferredCPUTopology": "sockets"},
    "devices": {
        "preferredAutoattachInputDevice": True,
        "preferredDiskBus": "sata",
        "preferredInterfaceModel": "e1000e",
        "preferredInputBus": "usb",
        "preferredInputType": "tablet",
    },
    "features": {"preferredAcpi": _ON, "preferredApic": _ON, "preferredHyperv": _HYPERV},
    "preferredTerminationGracePeriodSeconds": 3600,
}
_WINDOWS_VIRTIO: Final[JsonObject] = {
    "devices": {
        "preferredDiskBus": "virtio",
        "preferredInterfaceModel": "virtio",
        "preferredInputBus": "virtio",
        "preferredVideoType": "virtio",
    }
}
_STATEFUL: Final[JsonObject] = {
    "devices": {"preferredTPM": {"persistent": True}},
    "firmware": {"preferredEfi": {"persistent": True, "secureBoot": True}},
    **_SMM,
}
_OLD_PCI: Final[JsonObject] = {"annotations": {"kubevirt.io/disablePCIHole64": "true"}}
# The title, what the system needs and has of its own, and whether there are virtio drivers for it.
_WINDOWS_SYSTEMS: Final[Mapping[str, tuple[str, JsonObject, bool]]] = {
    "10": ("Microsoft Windows 10", _merge(_needs(1, "2Gi"), _SECURE), True),
    "11": ("Microsoft Windows 11", _merge(_needs(2, "4Gi"), _STATEFUL), True),
    "2k3": (
        "Microsoft Windows Server 2003",
        _merge(_needs(1, "256Mi"), _OLD_PCI, {"devices": {"preferredInterfaceModel": "rtl8139"}}),
        False,
    ),
    "2k8": (
        "Microsoft Windows Server 2008",
        _merge(_needs(1, "512Mi"), {"devices": {"preferredInterfaceModel": "e1000"}}),
        True,
    ),
    "2k12": ("Microsoft Windows Server 2012", _needs(1, "512Mi"), True),
    "2k16": ("Microsoft Windows Server 2016", _merge(_needs(1, "2Gi"), _SECURE), True),
    "2k19": ("Microsoft Windows Server 2019", _merge(_needs(1, "2Gi"), _SECURE), True),
    "2k22": ("Microsoft Windows Server 2022", _merge(_needs(1, "2Gi"), _STATEFUL), True),
    "2k25": ("Microsoft Windows Server 2025", _merge(_needs(1, "2Gi"), _STATEFUL), True),
    "7": ("Microsoft Windows 7", _needs(1, "2Gi"), True),
    "xp": ("Microsoft Windows XP", _merge(_needs(1, "128Mi"), _OLD_PCI), False),
}


def common_preferences() -> Iterator[JsonObject]:
    """All ready-made preferences, as objects of the cluster."""
    for name, (title, spec) in {**_LINUX, **_BSD}.items():
        yield _document(name, title, spec)
    for name, (title, own, has_virtio) in _WINDOWS_SYSTEMS.items():
        yield _document(f"windows.{name}", title, _merge(_WINDOWS, own))
        if has_virtio:
            spec = _merge(_WINDOWS, own, _WINDOWS_VIRTIO)
            yield _document(f"windows.{name}.virtio", f"{title} with virtio drivers", spec)


def _document(name: str, title: str, spec: JsonObject) -> JsonObject:
    kind, needs = VirtualMachineClusterPreference.KIND, spec.get("requirements") or {}
    labels = {"os-type": spec["annotations"][_OS]}
    if needs:
        labels |= {"required-cpu": str(needs["cpu"]["guest"]), "required-memory": needs["memory"]["guest"]}
    if "architecture" in needs:
        labels["required-architecture"] = needs["architecture"]
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {
            "name": name,
            "labels": {VENDOR_LABEL: VENDOR, **{f"{INSTANCETYPE_GROUP}/{key}": labels[key] for key in labels}},
            "annotations": {"openshift.io/display-name": title},
        },
        "spec": spec,
    }
