"""The series of VMs: what each is, in which state and since when, and what it asks for.

Called by object_series.py. Pure. Names, types, labels and units are KubeVirt's. The figures of a VM with an instance
type are those of its own template: the type is not looked up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Final

from kvedge.api.metrics.label_choice import LabelChoice
from kvedge.api.metrics.nic_series import describe_nics
from kvedge.api.metrics.series_table import NONE, Table, Told, counter, describe, gauge, unix_seconds
from kvedge.resources.types.domain import Cpu
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import Matcher, VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstanceSpec
from kvedge.resources.values.quantities import Quantity, parse_quantity

_UNKNOWN: Final = "<unknown>"
_GROUPS: Final = {
    "starting": ("Provisioning", "Starting", "WaitingForVolumeBinding", "WaitingForReceiver"),
    "running": ("Running",),
    "migrating": ("Migrating",),
    "non_running": ("Stopped", "Paused", "Stopping", "Terminating"),
    "error": (
        "CrashLoopBackOff",
        "Unknown",
        "ErrorUnschedulable",
        "ErrImagePull",
        "ImagePullBackOff",
        "ErrorPvcNotFound",
        "DataVolumeError",
    ),
}
_GROUP_OF: Final = {status: group for group, statuses in _GROUPS.items() for status in statuses}
_SINCE: Final = "kubevirt_vm_{}_status_last_transition_timestamp_seconds"
# Conditions whose changes are changes of the state.
_STATE_CONDITIONS: Final = ("Ready", "Failure", "Paused")

_DISK_SIZE: Final = "kubevirt_vm_disk_allocated_size_bytes"

TABLE: Final[Table] = {
    "kubevirt_vm_info": gauge("VMs, and how they are."),
    **{
        _SINCE.format(group): counter(f"Since when a VM is {group.replace('_', ' ')}; 0 when it is not.")
        for group in _GROUPS
    },
    "kubevirt_vm_create_date_timestamp_seconds": gauge("When a VM was made."),
    "kubevirt_vm_resource_requests": gauge("CPUs and memory that a VM asks for."),
    "kubevirt_vm_resource_limits": gauge("CPUs and memory that a VM may have at most."),
    "kubevirt_vm_vnic_info": gauge("The NICs of a VM's template."),
    "kubevirt_vm_labels": gauge("The labels of a VM and of its template, of those that the site has chosen."),
    _DISK_SIZE: gauge("What the claim of a VM's disk asks for."),
}
# Claims by namespace and name.
Claims = Mapping[tuple[str, str], PersistentVolumeClaim]


def tell_vm(claims: Claims, choice: LabelChoice, vm: VirtualMachine) -> Iterator[Told]:
    """The samples of one VM; of its claims those that are known have a size, of its labels some are told of."""
    base = {"name": vm.metadata.name, "namespace": vm.metadata.namespace}
    status = vm.status.printable_status
    group = _GROUP_OF.get(status, _UNKNOWN)
    template = vm.spec.template
    annotations = template.metadata.annotations if template is not None else {}
    labels = {
        **base,
        **describe(annotations),
        "machine_type": _machine(template.spec) if template is not None else NONE,
        "instance_type": _name_of(vm.spec.instancetype),
        "preference": _name_of(vm.spec.preference),
        "status": status.lower(),
        "status_group": group,
    }
    yield Told("kubevirt_vm_info", labels, 1)
    yield from _tell_state(vm, base, "error" if group == _UNKNOWN else group)
    made = unix_seconds(vm.metadata.creation_timestamp)
    if made is not None:
        yield Told("kubevirt_vm_create_date_timestamp_seconds", base, made)
    if chosen := choice.choose(vm.metadata.labels | (template.metadata.labels if template is not None else {})):
        yield Told("kubevirt_vm_labels", base | chosen, 1)
    if template is not None:
        yield from _tell_requests(template.spec, base)
        for nic in describe_nics(template.spec):
            yield Told("kubevirt_vm_vnic_info", base | nic, 1)
        yield from _tell_disks(vm, template.spec, base, claims)


def _tell_disks(
    vm: VirtualMachine, spec: VirtualMachineInstanceSpec, base: dict[str, str], claims: Claims
) -> Iterator[Told]:
    for volume in spec.volumes:
        if volume.persistent_volume_claim is not None:
            name, asked = volume.persistent_volume_claim.claim_name, None
        elif volume.data_volume is not None:
            # The claim may ask for more: for the room of its file system.
            name, asked = volume.data_volume.name, _asked_of_data_volume(vm, volume.data_volume.name)
        else:
            continue
        claim = claims.get((vm.metadata.namespace, name))
        if claim is not None:
            labels = {"persistentvolumeclaim": name, "volume_mode": claim.spec.volume_mode or "", "device": volume.name}
            yield Told(_DISK_SIZE, base | labels, _value(asked or claim.spec.resources.requests.get("storage")))


def _asked_of_data_volume(vm: VirtualMachine, name: str) -> Quantity | None:
    for template in vm.spec.data_volume_templates:
        if template.metadata.name == name:
            spec = template.spec.pvc or template.spec.storage
            return spec.resources.requests.get("storage") if spec is not None and spec.resources is not None else None
    return None


def _machine(spec: VirtualMachineInstanceSpec) -> str:
    return spec.domain.machine.type if spec.domain.machine is not None else NONE


def _name_of(matcher: Matcher | None) -> str:
    return matcher.name if matcher is not None else NONE


def _tell_state(vm: VirtualMachine, base: dict[str, str], now: str) -> Iterator[Told]:
    changes = [
        unix_seconds(each.last_transition_time) or 0 for each in vm.status.conditions if each.type in _STATE_CONDITIONS
    ]
    # KubeVirt's word for a VM of which nothing is known yet.
    newest = max(changes, default=-1)
    for group in _GROUPS:
        yield Told(_SINCE.format(group), base, newest if group == now else 0)


def _tell_requests(spec: VirtualMachineInstanceSpec, base: dict[str, str]) -> Iterator[Told]:
    domain = spec.domain
    requests, limits = domain.resources.requests, domain.resources.limits
    memory = {"domain": requests.get("memory"), "guest": domain.memory.guest if domain.memory is not None else None}
    if domain.memory is not None and domain.memory.hugepages is not None:
        memory["hugepages"] = domain.memory.hugepages.page_size
    for source, quantity in memory.items():
        if value := _value(quantity):
            yield _request(base, "memory", "bytes", source, value)
    yield from _tell_cpus(domain.cpu, requests.get("cpu"), base)
    for resource, unit in (("memory", "bytes"), ("cpu", "cores")):
        if value := _value(limits.get(resource)):
            yield Told("kubevirt_vm_resource_limits", base | {"resource": resource, "unit": unit}, value)


def _tell_cpus(cpu: Cpu | None, requested: Quantity | None, base: dict[str, str]) -> Iterator[Told]:
    if cpu is not None:
        for unit, count in (("cores", cpu.cores), ("threads", cpu.threads), ("sockets", cpu.sockets)):
            if count:
                yield _request(base, "cpu", unit, "domain", count)
    if value := _value(requested):
        yield _request(base, "cpu", "cores", "requests", value)
    elif cpu is None:
        for unit in ("cores", "threads", "sockets"):
            yield _request(base, "cpu", unit, "default", 1)


def _request(base: dict[str, str], resource: str, unit: str, source: str, value: int | float) -> Told:
    labels = base | {"resource": resource, "unit": unit, "source": source}
    return Told("kubevirt_vm_resource_requests", labels, value)


def _value(quantity: Quantity | None) -> int | float:
    found = parse_quantity(quantity) if quantity is not None else Fraction(0)
    return int(found) if found.denominator == 1 else float(found)
