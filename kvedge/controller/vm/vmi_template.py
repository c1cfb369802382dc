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

from kvedge.controller.vm.claim_changes import find_exchanges
from kvedge.controller.vm.network_changes import interfaces_need_restart, lasting_interfaces
from kvedge.controller.vm.start_revision import revision_name
from kvedge.controller.vm.template_changes import is_made_from, without_live_parts
from kvedge.controller.vm.typed_vm import UNTYPED, TypedVm
from kvedge.controller.vm.volume_changes import disks_have_changed, permanent_spec
from kvedge.resources.codec import encode_json
from kvedge.resources.disks.state_claims import STATE_CLAIM
from kvedge.resources.disks.volume_facts import claim_of, is_hotpluggable, is_memory_dump, lasting_claim
from kvedge.resources.identity import firmware_uuid, guest_mac
from kvedge.resources.meta import ObjectMeta, owner_reference
from kvedge.resources.moves.crossing import IS_RECEIVER, WAIT_AS_RECEIVER
from kvedge.resources.names import (
    RESERVED_LABELS,
    SKIP_BACKUP_HOOKS,
    TEMPLATE_HASH,
    VM_FINALIZER,
    VM_GENERATION,
    VMI_FINALIZER,
)
from kvedge.resources.types.devices import Devices, Input, Interface
from kvedge.resources.types.domain import Firmware
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance, VirtualMachineInstanceSpec, VirtualMachineInstanceStatus
from kvedge.resources.types.volumes import PersistentVolumeClaimSource, Volume
from kvedge.resources.values.saved_memory import RESUME_MEMORY, read_resume


def vmi_from_vm(vm: VirtualMachine, paused: bool, typed: TypedVm = UNTYPED) -> VirtualMachineInstance:
    """The VMI to create; `paused` when somebody asked for a start that waits for an unpause."""
    template = typed.template_of(vm)
    volumes = [volume for volume in template.spec.volumes if not is_memory_dump(volume)]
    spec = _with_identity(msgspec.structs.replace(template.spec, volumes=volumes), vm.metadata.uid)
    if paused:
        spec = msgspec.structs.replace(spec, start_strategy="Paused")
    marks = {
        **typed.annotations,
        VM_GENERATION: str(vm.metadata.generation),
        TEMPLATE_HASH: template_hash(vm, typed),
    }
    ours = (IS_RECEIVER, RESUME_MEMORY, STATE_CLAIM)
    given = {key: value for key, value in template.metadata.annotations.items() if key not in ours}
    disks = {volume.name: claim for volume in volumes if (claim := lasting_claim(volume)) is not None}
    if read_resume(vm.metadata.annotations, disks):
        marks[RESUME_MEMORY] = vm.metadata.annotations[RESUME_MEMORY]
    if vm.metadata.annotations.get(STATE_CLAIM):
        marks[STATE_CLAIM] = vm.metadata.annotations[STATE_CLAIM]
    if SKIP_BACKUP_HOOKS in vm.metadata.annotations:
        marks[SKIP_BACKUP_HOOKS] = vm.metadata.annotations[SKIP_BACKUP_HOOKS]
    if vm.run_strategy == WAIT_AS_RECEIVER:
        marks[IS_RECEIVER] = "true"
    return VirtualMachineInstance(
        metadata=ObjectMeta(
            name=vm.metadata.name,
            namespace=vm.metadata.namespace,
            # Admission keeps users from labels that roles act on; a restore's patches come in the controller's name.
            labels={key: value for key, value in template.metadata.labels.items() if key not in RESERVED_LABELS},
            annotations={**given, **marks},
            finalizers=[VMI_FINALIZER, VM_FINALIZER],
            owner_references=[owner_reference(vm)],
        ),
        spec=spec,
        status=VirtualMachineInstanceStatus(
            virtual_machine_revision_name=revision_name(vm.metadata.uid, vm.metadata.generation)
        ),
    )


def template_hash(vm: VirtualMachine, typed: TypedVm = UNTYPED) -> str:
    """What of the template's spec stays for a whole run, as a few characters that change when it does.

    Which claims volumes have is no part of it: a running guest can take its data to others. Nor are the sockets,
    the guest's memory and where it may run, which are compared with the run itself.
    """
    return _hash(without_live_parts(_without_claims(lasting_interfaces(_make_permanent(vm, typed)))))


def _without_claims(spec: VirtualMachineInstanceSpec) -> VirtualMachineInstanceSpec:
    return msgspec.structs.replace(spec, volumes=[_without_claim(volume) for volume in spec.volumes])


def _without_claim(volume: Volume) -> Volume:
    if volume.persistent_volume_claim is None and volume.data_volume is None:
        return volume
    source = volume.persistent_volume_claim
    unnamed = PersistentVolumeClaimSource(claim_name="", read_only=source is not None and source.read_only)
    return msgspec.structs.replace(volume, persistent_volume_claim=unnamed, data_volume=None)


def _make_permanent(vm: VirtualMachine, typed: TypedVm) -> VirtualMachineInstanceSpec:
    return permanent_spec(typed.template_of(vm).spec)


def _hash(spec: VirtualMachineInstanceSpec) -> str:
    return hashlib.sha256(encode_json(spec)).hexdigest()[:16]


def is_measured(vm: VirtualMachine, vmi: VirtualMachineInstance) -> bool:
    """Whether the run is compared with its VM: not one that the VM adopted, nor one that was made from its spec."""
    return TEMPLATE_HASH in vmi.metadata.annotations and not is_made_from(vm, vmi)


def needs_restart(
    vm: VirtualMachine,
    vmi: VirtualMachineInstance,
    plugins: Collection[str] = (),
    *,
    claims_move: bool = False,
    is_alone: bool = False,
    typed: TypedVm = UNTYPED,
) -> bool:
    """Whether the VM's template has changed since this VMI was made from it, in what a running guest keeps.

    `plugins` are the network binding plugins whose NICs come while it runs; with `claims_move` other claims of its
    volumes come then, too. `is_alone`: there is one node. `typed` is the VM with its instance type and preference.
    """
    marks = vmi.metadata.annotations
    if not is_measured(vm, vmi):
        return False
    # Versions before counted more, all of the interfaces and the claims at first: a run that they started says so.
    permanent = _make_permanent(vm, typed)
    counted = _with_claims_of(vmi, permanent)
    before = _hash(_without_claims(lasting_interfaces(permanent)))
    known = (template_hash(vm, typed), before, _hash(lasting_interfaces(counted)), _hash(counted))
    if marks[TEMPLATE_HASH] not in known:
        return True
    lasting = {volume.name for volume in vmi.spec.volumes if not is_hotpluggable(volume)}
    if not claims_move and any(each.volume_name in lasting for each in find_exchanges(vm, vmi)):
        return True
    return disks_have_changed(vm, vmi) or interfaces_need_restart(vm, vmi, plugins, is_alone=is_alone)


def _with_claims_of(vmi: VirtualMachineInstance, spec: VirtualMachineInstanceSpec) -> VirtualMachineInstanceSpec:
    """The spec on the claims that the run has."""
    there = {volume.name: volume for volume in vmi.spec.volumes if claim_of(volume) is not None}
    volumes = []
    for volume in spec.volumes:
        own = there.get(volume.name)
        is_exchanged = own is not None and claim_of(volume) not in (None, claim_of(own))
        volumes.append(own if own is not None and is_exchanged else volume)
    return msgspec.structs.replace(spec, volumes=volumes)


def _with_identity(spec: VirtualMachineInstanceSpec, uid: str) -> VirtualMachineInstanceSpec:
    domain = spec.domain
    interfaces = [_with_mac(interface, uid) for interface in domain.devices.interfaces]
    firmware = domain.firmware or Firmware()
    if not firmware.uuid:
        firmware = msgspec.structs.replace(firmware, uuid=firmware_uuid(uid))
    devices = msgspec.structs.replace(domain.devices, interfaces=interfaces, inputs=_find_inputs(domain.devices))
    return msgspec.structs.replace(spec, domain=msgspec.structs.replace(domain, devices=devices, firmware=firmware))


def _find_inputs(devices: Devices) -> list[Input]:
    """The inputs, with the tablet that is attached by itself where that is asked for and there is none."""
    if devices.inputs or not devices.autoattach_input_device:
        return devices.inputs
    return [Input(name="default-0", type="tablet", bus="usb")]


def _with_mac(interface: Interface, uid: str) -> Interface:
    if interface.mac_address:
        return interface
    return msgspec.structs.replace(interface, mac_address=guest_mac(uid, interface.name))
