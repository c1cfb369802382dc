"""The VMs that a pool makes of its template, and what a change of the template means for one that is there.

Called by the pool's plan. Pure. A VM's number is the end of its name; DataVolumes of the template get it too, and so do
Secrets and ConfigMaps where the pool says so.
"""

from __future__ import annotations

import copy

from kvedge.kube.patches import merge_difference
from kvedge.resources.codec import JsonObject, decode, encode
from kvedge.resources.meta import ObjectMeta, owner_reference
from kvedge.resources.names import MACHINE_MARKS
from kvedge.resources.types.domain import Firmware, Machine
from kvedge.resources.types.scaling.pools import (
    POOL_FINALIZER,
    REVISION_LABEL,
    PoolNameGeneration,
    VirtualMachinePool,
    VirtualMachineTemplate,
)
from kvedge.resources.types.vm import VirtualMachine, VirtualMachineSpec
from kvedge.resources.types.volumes import CloudInit, Volume
from kvedge.resources.values.whole_numbers import whole_number


def number_of(name: str) -> int:
    """The number at the end of a VM's name; 0 where there is none.

    >>> number_of("web-12")
    12
    """
    return whole_number(name.rpartition("-")[2]) or 0


def vm_of_pool(pool: VirtualMachinePool, number: int, revision: str) -> VirtualMachine:
    """The VM of that number."""
    template = pool.spec.virtual_machine_template or VirtualMachineTemplate()
    return VirtualMachine(
        metadata=ObjectMeta(
            name=f"{pool.metadata.name}-{number}",
            namespace=pool.metadata.namespace,
            labels={**template.metadata.labels, REVISION_LABEL: revision},
            annotations=dict(template.metadata.annotations),
            finalizers=[POOL_FINALIZER],
            owner_references=[owner_reference(pool)],
        ),
        spec=numbered_spec(pool, number, revision),
    )


def numbered_spec(pool: VirtualMachinePool, number: int, revision: str) -> VirtualMachineSpec:
    """The template's spec for the VM of that number, and of that revision."""
    template = pool.spec.virtual_machine_template or VirtualMachineTemplate()
    spec = copy.deepcopy(template.spec)
    renamed = {}
    for data_volume in spec.data_volume_templates:
        renamed[data_volume.metadata.name] = f"{data_volume.metadata.name}-{number}"
        data_volume.metadata.name = renamed[data_volume.metadata.name]
    if spec.template is not None:
        spec.template.metadata.labels[REVISION_LABEL] = revision
        naming = pool.spec.name_generation or PoolNameGeneration()
        for volume in spec.template.spec.volumes:
            _rename(volume, renamed, naming, f"-{number}")
    return spec


def update_body(pool: VirtualMachinePool, vm: VirtualMachine, before: JsonObject | None, revision: str) -> JsonObject:
    """The merge patch that brings a VM to the pool's template; who it is stays.

    `before` is the template that it was made of, as far as it is known: labels and annotations of that one go with it,
    those of others stay.
    """
    wanted = vm_of_pool(pool, number_of(vm.metadata.name), revision)
    spec = merge_difference(encode(vm.spec), encode(_with_identity(wanted.spec, vm.spec)))
    metadata = {
        part: _find_changes(
            getattr(vm.metadata, part), getattr(wanted.metadata, part), ((before or {}).get("metadata") or {}).get(part)
        )
        for part in ("labels", "annotations")
    }
    return {"metadata": {part: body for part, body in metadata.items() if body}, **({"spec": spec} if spec else {})}


def template_of(document: JsonObject) -> JsonObject:
    """The template in a revision's data, which is a pool's spec; empty for one that is none."""
    template = document.get("virtualMachineTemplate")
    try:
        return encode(decode(VirtualMachineTemplate, template)) if isinstance(template, dict) else {}
    except ValueError:
        return {}


def _find_changes(there: dict[str, str], wanted: dict[str, str], before: dict[str, str] | None) -> JsonObject:
    gone: JsonObject = {key: None for key in before or {} if key in there and key not in wanted}
    return {**gone, **{key: value for key, value in wanted.items() if there.get(key) != value}}


def _with_identity(wanted: VirtualMachineSpec, known: VirtualMachineSpec) -> VirtualMachineSpec:
    """By what a guest's operating system knows its machine, and the platform that admission wrote down."""
    if wanted.template is None or known.template is None:
        return wanted
    new, old = wanted.template.spec, known.template.spec
    new.architecture = new.architecture or old.architecture
    if old.domain.machine is not None and (new.domain.machine is None or not new.domain.machine.type):
        new.domain.machine = Machine(type=old.domain.machine.type)
    if old.domain.firmware is not None:
        firmware = new.domain.firmware = new.domain.firmware or Firmware()
        firmware.uuid = old.domain.firmware.uuid or firmware.uuid
        firmware.serial = old.domain.firmware.serial or firmware.serial
    for name, value in old_annotations(known).items():
        wanted.template.metadata.annotations.setdefault(name, value)
    return wanted


def old_annotations(known: VirtualMachineSpec) -> dict[str, str]:
    """Annotations that admission writes into a template."""
    annotations = {} if known.template is None else known.template.metadata.annotations
    return {name: value for name, value in annotations.items() if name in MACHINE_MARKS}


def _rename(volume: Volume, renamed: dict[str, str], naming: PoolNameGeneration, suffix: str) -> None:
    claim = volume.persistent_volume_claim
    if claim is not None:
        claim.claim_name = renamed.get(claim.claim_name, claim.claim_name)
    if volume.data_volume is not None:
        volume.data_volume.name = renamed.get(volume.data_volume.name, volume.data_volume.name)
    if volume.config_map is not None and naming.append_index_to_config_map_refs:
        volume.config_map.name += suffix
    if not naming.append_index_to_secret_refs:
        return
    if volume.secret is not None:
        volume.secret.secret_name += suffix
    for cloud_init in (volume.cloud_init_no_cloud, volume.cloud_init_config_drive):
        _rename_secrets(cloud_init, suffix)


def _rename_secrets(cloud_init: CloudInit | None, suffix: str) -> None:
    if cloud_init is None:
        return
    for reference in (cloud_init.secret_ref, cloud_init.network_data_secret_ref):
        if reference is not None:
            reference.name += suffix
