"""The Node object of one box: what the host is, as a kubelet would say it. Rendering is pure; `read_host_facts` looks.

Called by the node loop.
"""

from __future__ import annotations

import ipaddress
import os
import platform
import shutil
import socket
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final

from msgspec import Struct

import kvedge
from kvedge.resources.codec import JsonObject
from kvedge.resources.names import GUESTFS_LABEL
from kvedge.resources.values.huge_pages import page_resource
from kvedge.runtime.clock import rfc3339
from kvedge.runtime.linux.boot import BOOT_ID
from kvedge.storage.images.image_manifest import architecture_of

# The kubelet keeps so much back by default before it evicts.
_RESERVED_MEMORY: Final = 100 << 20
_HUGE_PAGES: Final = "sys/kernel/mm/hugepages"
MOST_PODS: Final = 250
# Where virtctl has the Pods of `guestfs` look for what libguestfs boots: in their /usr, which is this host's.
_APPLIANCE: Final = "usr/local/lib/guestfs/appliance"
_CONDITIONS: Final = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


class HostFacts(Struct, frozen=True):
    """What does not change while the agent runs; sizes in bytes."""

    name: str
    address: str
    cpus: int
    memory: int
    disk: int
    architecture: str
    machine_id: str
    system_uuid: str
    boot_id: str
    kernel: str
    os_image: str


def read_host_facts(name: str, data_dir: Path) -> HostFacts:
    """Look at this host."""
    return HostFacts(
        name=name,
        address=find_host_address(),
        cpus=os.cpu_count() or 1,
        memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        disk=shutil.disk_usage(data_dir).total,
        architecture=architecture_of(platform.machine()),
        machine_id=_line("/etc/machine-id"),
        system_uuid=_line("/sys/class/dmi/id/product_uuid"),
        boot_id=_line(BOOT_ID),
        kernel=platform.release(),
        os_image=_os_image(),
    )


def find_host_address() -> str:
    """The address by which this host reaches the world; loopback without any route."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked, suppress(OSError):
        # A datagram socket that is connected sends nothing; the address is one for documentation.
        asked.connect(("192.0.2.1", 9))
        return str(asked.getsockname()[0])
    return "127.0.0.1"


def host_addresses(versions: Collection[int]) -> tuple[str, ...]:
    """As :func:`find_host_address`, of these versions of IP; there need not be one of IPv6."""
    return tuple(
        each for version in versions for each in ((find_host_address(),) if version == 4 else _find_ipv6_address())
    )


def _find_ipv6_address() -> tuple[str, ...]:
    with suppress(OSError), socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as asked:
        asked.connect(("2001:db8::1", 9))
        found = str(asked.getsockname()[0])
        return () if ipaddress.ip_address(found).is_link_local else (found,)
    return ()


def has_guestfs(root: str = "/") -> bool:
    """Whether this host has libguestfs, and an appliance for it where virtctl has Pods look for one."""
    needed = ("usr/bin/guestfish", *(f"{_APPLIANCE}/{name}" for name in ("kernel", "initrd", "root")))
    return all(os.access(os.path.join(root, name), os.R_OK) for name in needed)


def node_labels(facts: HostFacts, *, guestfs: bool = False) -> dict[str, str]:
    """The labels that a kubelet sets, and whether `virtctl guestfs` works here."""
    return {
        "kubernetes.io/hostname": facts.name,
        "kubernetes.io/arch": facts.architecture,
        "kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": facts.architecture,
        "beta.kubernetes.io/os": "linux",
        "node-role.kubernetes.io/control-plane": "",
        GUESTFS_LABEL: "true" if guestfs else "false",
    }


def read_huge_pages(root: str = "/") -> dict[str, int]:
    """The bytes in huge pages of each size that the host has set aside, by their resources."""
    found = {}
    for place in sorted(Path(root, _HUGE_PAGES).glob("hugepages-*kB")):
        size = int(place.name.removeprefix("hugepages-").removesuffix("kB")) << 10
        found[page_resource(size)] = size * int(_line(str(place / "nr_hugepages")) or 0)
    return found


def node_status(
    facts: HostFacts,
    devices: tuple[Mapping[str, int], Mapping[str, int]],
    pages: Mapping[str, int],
    known: Sequence[JsonObject],
    notes: Sequence[str],
    now: datetime,
) -> JsonObject:
    """A Node's status; devices are (capacity, allocatable), `pages` its huge pages, `known` its conditions so far,
    `notes` what lacks."""
    capacity_devices, allocatable_devices = devices
    base = {"cpu": str(facts.cpus), "ephemeral-storage": str(facts.disk), "pods": str(MOST_PODS)}
    version = f"v{kvedge.__version__}"
    return {
        "capacity": {**base, "memory": str(facts.memory), **_counts(pages), **_counts(capacity_devices)},
        "allocatable": {
            **base,
            # Nobody else can use what is in huge pages.
            "memory": str(max(0, facts.memory - _RESERVED_MEMORY - sum(pages.values()))),
            **_counts(pages),
            **_counts(allocatable_devices),
        },
        "addresses": [
            {"type": "InternalIP", "address": facts.address},
            {"type": "Hostname", "address": facts.name},
        ],
        "conditions": [_condition(*item, known, notes, now) for item in _CONDITIONS],
        "nodeInfo": {
            "architecture": facts.architecture,
            "bootID": facts.boot_id,
            "containerRuntimeVersion": f"kvedge://{kvedge.__version__}",
            "kernelVersion": facts.kernel,
            "kubeProxyVersion": "",
            "kubeletVersion": version,
            "machineID": facts.machine_id,
            "operatingSystem": "linux",
            "osImage": facts.os_image,
            "systemUUID": facts.system_uuid,
        },
    }


def _condition(
    kind: str,
    status: str,
    reason: str,
    message: str,
    known: Sequence[JsonObject],
    notes: Sequence[str],
    now: datetime,
) -> JsonObject:
    before: JsonObject = next((item for item in known if item.get("type") == kind), {})
    stamp = rfc3339(now)
    kept = before.get("lastTransitionTime") if before.get("status") == status else None
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": "; ".join((message, *notes)) if kind == "Ready" else message,
        "lastHeartbeatTime": stamp,
        "lastTransitionTime": kept or stamp,
    }


def _counts(devices: Mapping[str, int]) -> dict[str, str]:
    return {name: str(count) for name, count in devices.items()}


def _line(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        # Not every host has it, or lets it be read.
        return ""


def _os_image() -> str:
    with suppress(OSError):
        return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    return "Linux"
