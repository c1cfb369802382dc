"""Which VMI has a claim that another one cannot have at the same time.

Asked by the VMI loop before it makes a launcher, and by the hotplug loop before it makes an attachment Pod, each with
`taking` held, so that of two VMIs that want one claim the second sees that the first has it. Reads informers only.
"""

from __future__ import annotations

import threading

from kvedge.controller.vmi.claim_rules import conflicts, find_needed_claims
from kvedge.controller.vmi.launcher_pod_status import has_ended
from kvedge.controller.vmi_claims import has_hotplugged, index_by_claim, is_moving_to, vmis_of
from kvedge.kube.informer import Informer
from kvedge.resources.types.core import Pod
from kvedge.resources.types.vmi import VirtualMachineInstance


class ClaimHolders:
    """Claims and the VMIs that have them; every method may be called from any thread."""

    def __init__(
        self, vmis: Informer[VirtualMachineInstance], launchers: Informer[Pod], attachments: Informer[Pod]
    ) -> None:
        """The informers have not been started yet."""
        self._vmis = vmis
        index_by_claim(vmis)
        self._launchers = launchers
        self._attachments = attachments
        # Held from the question whether a claim is free until the Pod that takes it has been observed.
        self.taking = threading.Lock()

    def holder(self, vmi: VirtualMachineInstance, claim: str) -> VirtualMachineInstance | None:
        """The VMI that has a claim which this one cannot have beside it: its launcher is there and not over, and has
        the claim from its start or by an attachment Pod, or takes its data there.
        """
        for other in vmis_of(self._vmis, vmi.metadata.namespace, claim):
            if other.metadata.uid != vmi.metadata.uid and conflicts(vmi, other, claim) and self._has(other, claim):
                return other
        return None

    def _has(self, vmi: VirtualMachineInstance, claim: str) -> bool:
        alive = [pod for pod in self._launchers.find_owned_by(vmi.metadata.uid) if not has_ended(pod)]
        if not alive:
            return False
        from_start = any(name == claim for _, name in find_needed_claims(vmi))
        if from_start or has_hotplugged(vmi, claim) or is_moving_to(vmi, claim):
            return True
        return any(self._attaches(pod, claim) for pod in alive)

    def _attaches(self, launcher: Pod, claim: str) -> bool:
        """Whether there is an attachment Pod, of which the VMI's status may not tell yet."""
        return any(
            volume.persistent_volume_claim is not None and volume.persistent_volume_claim.claim_name == claim
            for pod in self._attachments.find_owned_by(launcher.metadata.uid)
            for volume in pod.spec.volumes
        )
