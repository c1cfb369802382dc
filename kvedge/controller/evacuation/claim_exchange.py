"""Claims for disks of a guest that leaves its node, and the change of its VM that has them exchanged.

Used by the loop of evacuations. The names of the claims are the same with each try, so that what an earlier one has
made is found again. The VM's controller and the loop of updates do the rest.
"""

from __future__ import annotations

import logging
from typing import Final, Literal

from kvedge.controller.vm.create_refusal import is_passing
from kvedge.controller.vm.vm_status import has_changes_to_come
from kvedge.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import JsonPatch
from kvedge.resources.disks.volume_facts import claims
from kvedge.resources.moves.disk_moves import (
    MOVED_FROM,
    Exchange,
    NoMove,
    has_pending_exchange,
    plan_disk_move,
    stable_name,
)
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance

log = logging.getLogger(__name__)

_FAILED: Final = "FailedClaimExchange"


class ClaimExchange:
    """The VMs and claims of a cluster; all writes of it are made here."""

    def __init__(
        self,
        client: KubeClient,
        vms: Informer[VirtualMachine],
        known: Informer[PersistentVolumeClaim],
        events: EventRecorder,
    ) -> None:
        """The informers have not been started yet."""
        self._client = client
        self._vms = vms
        self._claims = known
        self._events = events
        # By the VMI's UID: why its disks do not move along, as its user was told.
        self._told: dict[str, str] = {}

    def forget(self, uid: str) -> None:
        """The VMI of that UID is gone."""
        self._told.pop(uid, None)

    def judge(self, vmi: VirtualMachineInstance) -> Literal["", "moves", "refused"]:
        """Whether claims of the VMI are exchanged already, or only a restart brings others."""
        vm = self._find_vm(vmi)
        if vm is None or not has_pending_exchange(vm, vmi):
            return ""
        return "refused" if has_changes_to_come(vm) else "moves"

    def begin(self, vmi: VirtualMachineInstance) -> KubeError | None:
        """Make claims and have the VM name them; the refusal, or None."""
        vm, namespace = self._find_vm(vmi), vmi.metadata.namespace
        if vm is None:
            return None
        found = (self._claims.get(namespace, name) for _, name in claims(vmi.spec.volumes))
        known = {claim.metadata.name: claim for claim in found if claim is not None}
        plan = plan_disk_move(vm, vmi, known, lambda old: stable_name(vmi, old))
        if isinstance(plan, NoMove):
            self._tell_failure(vmi, f"the disks do not move along: {plan.reason}")
            return None
        try:
            for each in plan.exchanges:
                self._create(each)
            changed = self._client.patch(VirtualMachine, namespace, vm.metadata.name, JsonPatch(plan.ops))
        except NotFound as error:
            # The namespace goes, or the VM does.
            log.debug("claims not exchanged", extra={"facts": {"vm": vm.metadata.name, "error": str(error)}})
            return None
        except KubeError as error:
            if not is_passing(error) and not isinstance(error, Conflict):
                self._tell_failure(vmi, f"the disks do not move along yet: {error}")
            return error
        self._vms.observe(changed)
        self._told.pop(vmi.metadata.uid, None)
        names = ", ".join(f"{each.old} to {each.claim.metadata.name}" for each in plan.exchanges)
        text = f"The guest is to leave its node with its disks, from claims {names}; the old ones stay"
        self._events.record(vmi, "Normal", "ClaimsExchanged", text)
        return None

    def _create(self, each: Exchange) -> None:
        """Make a claim, unless an earlier try has.

        Raises:
            KubeError: when the server refuses it, or the name is somebody else's.
        """
        meta = each.claim.metadata
        try:
            self._claims.observe(self._client.create(each.claim))
        except AlreadyExists:
            there = self._client.get(PersistentVolumeClaim, meta.namespace, meta.name).metadata
            if there.annotations.get(MOVED_FROM) != each.old or there.deletion_timestamp is not None:
                raise

    def _find_vm(self, vmi: VirtualMachineInstance) -> VirtualMachine | None:
        owner = vmi.metadata.controller_reference()
        if owner is None or owner.kind != VirtualMachine.KIND.kind:
            return None
        vm = self._vms.get(vmi.metadata.namespace, owner.name)
        return vm if vm is not None and vm.metadata.uid == owner.uid else None

    def _tell_failure(self, vmi: VirtualMachineInstance, text: str) -> None:
        if self._told.get(vmi.metadata.uid) != text:
            self._told[vmi.metadata.uid] = text
            self._events.record(vmi, "Warning", _FAILED, text)
