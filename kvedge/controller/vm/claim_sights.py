"""What caches say of the claims that running VMs' volumes are to get, and which VMs a claim matters to.

Held by vm_loop.py. Reads informers only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from kvedge.controller.claim_copy import claim_info
from kvedge.controller.vm.claim_changes import (
    ClaimSights,
    find_exchanges,
    is_moving_data,
    recorded_of,
    template_volumes,
)
from kvedge.controller.vmi_claims import index_by_claim, vmis_of
from kvedge.kube.informer import Informer
from kvedge.kube.work_queue import Key
from kvedge.resources.disks.moved_volumes import MOVE_IN_PLACE
from kvedge.resources.disks.volume_facts import claims
from kvedge.resources.types.core import Node
from kvedge.resources.types.data_volumes import CdiConfig
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance

_INDEX: Final = "claim"


class ClaimWatch:
    """The claims of VMs' templates."""

    def __init__(
        self,
        vms: Informer[VirtualMachine],
        vmis: Informer[VirtualMachineInstance],
        claims: Informer[PersistentVolumeClaim],
        nodes: Informer[Node],
        cdi_config: Callable[[], CdiConfig | None],
    ) -> None:
        """The informers have not been started yet."""
        self._vms = vms
        self._vms.add_index(_INDEX, _keys_of)
        self._vmis = vmis
        index_by_claim(vmis)
        self._claims = claims
        self._nodes = nodes
        self._cdi_config = cdi_config

    def view(self, vm: VirtualMachine, vmi: VirtualMachineInstance | None) -> ClaimSights:
        """What is known of the claims that a run is to exchange; nothing while none are to be."""
        if not is_moving_data(vm):
            return ClaimSights()
        if (vmi is None or vmi.is_final) and (left := recorded_of(vm)):
            infos = [each.destination_pvc_info for each in left]
            return ClaimSights(self._find(vm, [info.claim_name for info in infos if info is not None]))
        if vmi is None or vmi.status.migrated_volumes:
            return ClaimSights()
        exchanges = find_exchanges(vm, vmi)
        if not exchanges:
            return ClaimSights()
        infos = [info for each in exchanges for info in (each.source_pvc_info, each.destination_pvc_info)]
        names = [info.claim_name for info in infos if info is not None]
        found = self._find(vm, names)
        cdi = self._cdi_config()
        copies = {name: claim_info(claim, cdi, None) for name, claim in found.items()}
        others = {name: other for name in names if (other := self._find_other(vm, vmi, name))}
        is_alone = {node.metadata.name for node in self._nodes.list()} == {vmi.status.node_name}
        stays = vm.metadata.annotations.get(MOVE_IN_PLACE) == "true"
        return ClaimSights(found, copies, others, is_alone, stays)

    def users_of(self, claim: PersistentVolumeClaim) -> set[Key]:
        """The VMs whose templates name a claim."""
        found = self._vms.find_indexed(_INDEX, f"{claim.metadata.namespace}/{claim.metadata.name}")
        return {Key(vm.metadata.namespace, vm.metadata.name) for vm in found}

    def _find(self, vm: VirtualMachine, names: Iterable[str]) -> dict[str, PersistentVolumeClaim]:
        seen = (self._claims.get(vm.metadata.namespace, name) for name in names)
        return {claim.metadata.name: claim for claim in seen if claim is not None}

    def _find_other(self, vm: VirtualMachine, vmi: VirtualMachineInstance, claim: str) -> str:
        """Who else has a claim, or is to have it: a VM that is stopped, too."""
        for other in self._vms.find_indexed(_INDEX, f"{vm.metadata.namespace}/{claim}"):
            if other.metadata.uid != vm.metadata.uid:
                return f"VM {other.metadata.name}"
        for run in vmis_of(self._vmis, vm.metadata.namespace, claim):
            if run.metadata.uid != vmi.metadata.uid and not run.is_final:
                return f"VMI {run.metadata.name}"
        return ""


def _keys_of(vm: VirtualMachine) -> tuple[str, ...]:
    return tuple({f"{vm.metadata.namespace}/{name}" for _, name in claims(template_volumes(vm).values())})
