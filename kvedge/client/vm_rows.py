"""A line for each VM: what `kvedge list` shows of a VM and its run.

Called by `list`. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct
from msgspec.structs import fields

from kvedge.client.harmless_text import harmless
from kvedge.resources.codec import JsonObject
from kvedge.resources.disks.volume_facts import claim_of
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance, VirtualMachineInstanceSpec
from kvedge.resources.types.volumes import Volume
from kvedge.resources.vmi_facts import guest_memory_field, vcpu_count
from kvedge.runtime.clock import parse_rfc3339

_HEADER: Final = ["NAME", "STATUS", "READY", "IP", "NODE", "AGE", "MEMORY", "IMAGE"]
_WIDE: Final = ["CPUS", "RUN STRATEGY", "MAC", "IP FROM", "GUEST", "DISKS"]
# As kubectl counts: the two largest units while they are small, then one.
_UNITS: Final = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
_TROUBLE: Final = ("Err", "CrashLoop", "Failed", "ImagePullBackOff", "Unschedulable", "DataVolumeError")


class VmDisk(Struct, frozen=True):
    """One volume of a VM: what it is made of (`pvc/web-root`, `containerDisk`), and how large, where that is known."""

    name: str
    source: str
    size: str

    @property
    def text(self) -> str:
        """For the table."""
        return f"{self.name}={self.source}{f'({self.size})' if self.size else ''}"


class VmRow(Struct, frozen=True):
    """One VM, or a VMI that no VM owns."""

    namespace: str
    name: str
    kind: str
    status: str
    ready: bool
    ip: str
    ip_from: str
    mac: str
    node: str
    age: str
    created: str
    memory: str
    cpus: int
    image: str
    run_strategy: str
    guest: str
    disks: tuple[VmDisk, ...] = ()

    @property
    def kind_and_name(self) -> str:
        """As kubectl's `-o name`."""
        return f"{self.kind.lower()}.kubevirt.io/{self.name}"

    @property
    def is_trouble(self) -> bool:
        """Whether its status is one to look after."""
        return is_trouble(self.status)

    def cells(self, *, wide: bool, with_namespace: bool) -> list[str]:
        """The cells below :func:`header`."""
        cells = [self.name, self.status, "yes" if self.ready else "no", self.ip, self.node, self.age]
        cells += [self.memory, self.image]
        if wide:
            cells += [str(self.cpus), self.run_strategy, self.mac, self.ip_from, self.guest]
            cells.append(", ".join(disk.text for disk in self.disks))
        return [cell or "-" for cell in ([self.namespace] if with_namespace else []) + cells]

    def document(self) -> JsonObject:
        """For scripts; members that are not known are empty, none is missing."""
        return {
            "namespace": self.namespace,
            "name": self.name,
            "kind": self.kind,
            "status": self.status,
            "ready": self.ready,
            "ip": self.ip,
            "ipFrom": self.ip_from,
            "mac": self.mac,
            "node": self.node,
            "created": self.created,
            "memory": self.memory,
            "cpus": self.cpus,
            "image": self.image,
            "runStrategy": self.run_strategy,
            "guest": self.guest,
            "disks": [{"name": disk.name, "source": disk.source, "size": disk.size} for disk in self.disks],
        }


def is_trouble(status: str) -> bool:
    """Whether a VM's status is one to look after."""
    return any(word in status for word in _TROUBLE)


def header(*, wide: bool, with_namespace: bool) -> list[str]:
    """The heads of the columns."""
    return (["NAMESPACE"] if with_namespace else []) + _HEADER + (_WIDE if wide else [])


def rows_of(
    vms: Sequence[VirtualMachine], vmis: Sequence[VirtualMachineInstance], now: datetime, *, with_bare: bool = True
) -> list[VmRow]:
    """A row for each VM with its run, and for each VMI of no VM; by namespace and name."""
    runs = {(vmi.metadata.namespace, vmi.metadata.name): vmi for vmi in vmis}
    rows = [_row_of_vm(vm, runs.pop((vm.metadata.namespace, vm.metadata.name), None), now) for vm in vms]
    if with_bare:
        rows += [_row_of_vmi(vmi, now) for vmi in runs.values() if vmi.metadata.controller_reference() is None]
    return sorted(rows, key=lambda row: (row.namespace, row.name))


def age_text(seconds: float) -> str:
    """How long ago, as kubectl says it: 45s, 3m20s, 5h, 12d."""
    left = max(0, int(seconds))
    for index, (unit, size) in enumerate(_UNITS):
        if left >= size:
            count, rest = divmod(left, size)
            smaller = rest // _UNITS[index + 1][1] if index + 1 < len(_UNITS) else 0
            return f"{count}{unit}{smaller}{_UNITS[index + 1][0]}" if smaller and count < 10 else f"{count}{unit}"
    return "0s"


def image_text(volumes: Sequence[Volume]) -> str:
    """What the VM boots from, as far as its first volumes tell."""
    for volume in volumes:
        if volume.container_disk is not None:
            return volume.container_disk.image
        if volume.data_volume is not None:
            return f"dv/{volume.data_volume.name}"
        if volume.persistent_volume_claim is not None:
            return f"pvc/{volume.persistent_volume_claim.claim_name}"
        if volume.host_disk is not None:
            return volume.host_disk.path
    return ""


def _disks(spec: VirtualMachineInstanceSpec, vmi: VirtualMachineInstance | None) -> tuple[VmDisk, ...]:
    """The volumes in the VM's order; the sizes of claims are those that the run has."""
    known = {entry.name: entry.persistent_volume_claim_info for entry in (vmi.status.volume_status if vmi else [])}
    found = []
    for volume in spec.volumes:
        info = known.get(volume.name)
        size = str(info.capacity.get("storage", "")) if info is not None else ""
        if volume.empty_disk is not None:
            size = str(volume.empty_disk.capacity)
        found.append(VmDisk(volume.name, _source_text(volume), size))
    return tuple(found)


def _source_text(volume: Volume) -> str:
    if volume.data_volume is not None:
        return f"dv/{volume.data_volume.name}"
    claim = claim_of(volume)
    if claim is not None:
        return f"pvc/{claim}"
    return next((item.encode_name for item in fields(volume) if item.name != "name" and getattr(volume, item.name)), "")


def _row_of_vm(vm: VirtualMachine, vmi: VirtualMachineInstance | None, now: datetime) -> VmRow:
    spec = vm.spec.template.spec if vm.spec.template is not None else VirtualMachineInstanceSpec()
    status = vm.status.printable_status
    return _row(vm, "VirtualMachine", status, vm.status.ready, spec, vm.run_strategy, vmi, now)


def _row_of_vmi(vmi: VirtualMachineInstance, now: datetime) -> VmRow:
    is_ready = any(item.type == "Ready" and item.status == "True" for item in vmi.status.conditions)
    return _row(vmi, "VirtualMachineInstance", vmi.status.phase, is_ready, vmi.spec, "", vmi, now)


def _row(
    owner: VirtualMachine | VirtualMachineInstance,
    kind: str,
    status: str,
    ready: bool,
    spec: VirtualMachineInstanceSpec,
    run_strategy: str,
    vmi: VirtualMachineInstance | None,
    now: datetime,
) -> VmRow:
    metadata = owner.metadata
    nics = vmi.status.interfaces if vmi is not None else []
    nic = next((item for item in nics if item.ip_address), nics[0] if nics else None)
    created = metadata.creation_timestamp or ""
    return VmRow(
        namespace=metadata.namespace,
        name=metadata.name,
        kind=kind,
        status=status,
        ready=ready,
        ip=nic.ip_address if nic is not None else "",
        ip_from=nic.info_source if nic is not None else "",
        mac=nic.mac if nic is not None else "",
        node=vmi.status.node_name if vmi is not None else "",
        age=age_text((now - parse_rfc3339(created)).total_seconds()) if created else "",
        created=created,
        memory=_memory_text(spec, vmi),
        cpus=vcpu_count(spec.domain),
        image=image_text(spec.volumes),
        run_strategy=run_strategy,
        guest=_guest_text(vmi),
        disks=_disks(spec, vmi),
    )


def _memory_text(spec: VirtualMachineInstanceSpec, vmi: VirtualMachineInstance | None) -> str:
    """What a guest whose memory can change has now; else what is asked for."""
    can_change = vmi is not None and vmi.spec.domain.memory is not None and vmi.spec.domain.memory.max_guest is not None
    if vmi is not None and can_change and vmi.status.memory is not None and vmi.status.memory.guest_current is not None:
        return str(vmi.status.memory.guest_current)
    asked = guest_memory_field(spec.domain)
    return str(asked[1]) if asked is not None else ""


def _guest_text(vmi: VirtualMachineInstance | None) -> str:
    info = vmi.status.guest_os_info if vmi is not None else None
    # The guest's own words may be anything.
    return harmless((info.pretty_name or info.name).encode()) if info is not None else ""
