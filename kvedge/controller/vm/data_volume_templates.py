"""The DataVolumes of a VM's dataVolumeTemplates.

Called by the VM's loop. Pure. A template is applied once: what is there is left as it is, what was deleted is made
again. A claim of that name that nobody owns is taken over with its data.
"""

from __future__ import annotations

from typing import Final

from kvedge.controller.vm.vmi_template import owner_reference
from kvedge.resources.data_volume_names import ALLOW_ADOPTION
from kvedge.resources.disks.clone_grants import CLONE_ACCOUNT
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.names import CREATED_BY
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.vm import VirtualMachine

CREATED: Final = "SuccessfulDataVolumeCreate"
NOT_CREATED: Final = "FailedDataVolumeCreate"
UNAUTHORIZED: Final = "UnauthorizedDataVolumeCreate"


def make_wanted_data_volumes(vm: VirtualMachine) -> list[DataVolume]:
    """All DataVolumes that a VM brings along; none while it goes."""
    if vm.metadata.deletion_timestamp is not None or vm.spec.template is None:
        return []
    priority = vm.spec.template.spec.priority_class_name
    made = []
    for template in vm.spec.data_volume_templates:
        if not template.metadata.name:
            continue
        account = template.spec.service_account_name or _account(vm)
        meta = ObjectMeta(
            name=template.metadata.name,
            namespace=vm.metadata.namespace,
            labels={**template.metadata.labels, CREATED_BY: vm.metadata.uid},
            annotations={ALLOW_ADOPTION: "true", **template.metadata.annotations, CLONE_ACCOUNT: account},
            owner_references=[owner_reference(vm)],
        )
        dv = DataVolume(metadata=meta, spec=template.spec)
        dv.spec.priority_class_name = template.spec.priority_class_name or priority
        made.append(dv)
    return made


def _account(vm: VirtualMachine) -> str:
    """By whose rights claims of other namespaces are copied: the account that the VM's guest has, or the usual one."""
    volumes = [] if vm.spec.template is None else vm.spec.template.spec.volumes
    accounts = (volume.service_account for volume in volumes)
    return next((found.service_account_name for found in accounts if found is not None), "") or "default"
