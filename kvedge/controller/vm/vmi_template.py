"""The VMI that a VM starts.

Called by the VM's plan. Pure. What a guest is known by (MAC addresses, firmware UUID) is written in from the VM's UID,
so that it is the same in every run.

Whether a running VM needs a restart is told by the template's hash in an annotation of the VMI: nothing has to be read
for that. The ControllerRevision that KubeVirt compares with is kept for others (`start_revision.py`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection

import msgspec

from kvedge.controller.vm.network_changes import interfaces_need_restart, lasting_interfaces
from kvedge.controller.vm.start_revision import revision_name
from kvedge.controller.vm.volume_changes import disks_have_changed, permanent_spec
from kvedge.resources.codec import encode_json
from kvedge.resources.identity import firmware_uuid, guest_mac
from kvedge.resources.meta import ObjectMeta, owner_reference
from kvedge.resources.names import TEMPLATE_HASH, VM_FINALIZER, VM_GENERATION, VMI_FINALIZER
from kvedge.resources.types.devices import Interface
from kvedge.resources.types.domain import Firmware
from kvedge.resources.types.vm import VirtualMachine, VirtualMachineInstanceTemplate
from kvedge.resources.types.vmi import VirtualMachineInstance, VirtualMachineInstanceSpec, VirtualMachineInstanceStatus


def vmi_from_vm(vm: VirtualMachine, paused: bool) -> VirtualMachineInstance:
    """The VMI to create; `paused` when somebody asked for a start that waits for an unpause."""
    template = vm.spec.template or VirtualMachineInstanceTemplate()
    spec = _with_identity(template.spec, vm.metadata.uid)
    if paused:
        spec = msgspec.structs.replace(spec, start_strategy="Paused")
    marks = {VM_GENERATION: str(vm.metadata.generation), TEMPLATE_HASH: template_hash(vm)}
    return VirtualMachineInstance(
        metadata=ObjectMeta(
            name=vm.metadata.name,
            namespace=vm.metadata.namespace,
            labels=template.metadata.labels,
            annotations={**template.metadata.annotations, **marks},
            finalizers=[VMI_FINALIZER, VM_FINALIZER],
            owner_references=[owner_reference(vm)],
        ),
        spec=spec,
        status=VirtualMachineInstanceStatus(
            virtual_machine_revision_name=revision_name(vm.metadata.uid, vm.metadata.generation)
        ),
    )


def template_hash(vm: VirtualMachine) -> str:
    """What of the template's spec stays for a whole run, as a few characters that change when it does."""
    return _hash(lasting_interfaces(_make_permanent(vm)))


def _make_permanent(vm: VirtualMachine) -> VirtualMachineInstanceSpec:
    return permanent_spec((vm.spec.template or VirtualMachineInstanceTemplate()).spec)


def _hash(spec: VirtualMachineInstanceSpec) -> str:
    return hashlib.sha256(encode_json(spec)).hexdigest()[:16]


def needs_restart(vm: VirtualMachine, vmi: VirtualMachineInstance, plugins: Collection[str] = ()) -> bool:
    """Whether the VM's template has changed since this VMI was made from it, in what a running guest keeps.

    `plugins` are the network binding plugins whose NICs come while it runs.
    """
    marks = vmi.metadata.annotations
    if TEMPLATE_HASH not in marks or marks.get(VM_GENERATION) == str(vm.metadata.generation):
        # The VM adopted this VMI, or only its run strategy has changed.
        return False
    # A version before counted all of the interfaces: a run that it started says so.
    known = (template_hash(vm), _hash(_make_permanent(vm)))
    if marks[TEMPLATE_HASH] not in known:
        return True
    return disks_have_changed(vm, vmi) or interfaces_need_restart(vm, vmi, plugins)


def _with_identity(spec: VirtualMachineInstanceSpec, uid: str) -> VirtualMachineInstanceSpec:
    domain = spec.domain
    interfaces = [_with_mac(interface, uid) for interface in domain.devices.interfaces]
    firmware = domain.firmware or Firmware()
    if not firmware.uuid:
        firmware = msgspec.structs.replace(firmware, uuid=firmware_uuid(uid))
    devices = msgspec.structs.replace(domain.devices, interfaces=interfaces)
    return msgspec.structs.replace(spec, domain=msgspec.structs.replace(domain, devices=devices, firmware=firmware))


def _with_mac(interface: Interface, uid: str) -> Interface:
    if interface.mac_address:
        return interface
    return msgspec.structs.replace(interface, mac_address=guest_mac(uid, interface.name))
