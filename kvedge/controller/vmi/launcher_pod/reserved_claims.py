"""Launchers whose guests reserve LUNs: two guests of one node would share a reservation, which the node's port has.

Called by the Pod's manifest. Pure. The label has the UID of the claim, as KubeVirt's, so that launchers of both keep
apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.resources.disks.volume_facts import claim_of
from kvedge.resources.names import HOST_NAME, PR_CLAIM_PREFIX
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.vmi_facts import reserved_disks

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def label_reserved_claims(vmi: VirtualMachineInstance, claims: Mapping[str, PersistentVolumeClaim]) -> dict[str, str]:
    """A label for each claim whose LUN the guest may reserve; a claim that is not there has none."""
    reserved = set(reserved_disks(vmi.spec))
    names = [claim_of(volume) for volume in vmi.spec.volumes if volume.name in reserved]
    found = [claims[name] for name in names if name is not None and name in claims]
    return {f"{PR_CLAIM_PREFIX}{claim.metadata.uid}": "" for claim in found}


def keep_apart(affinity: JsonObject | None, labels: Iterable[str]) -> JsonObject | None:
    """Not on a node with another Pod that has one of the labels."""
    terms = [
        {"labelSelector": {"matchExpressions": [{"key": label, "operator": "Exists"}]}, "topologyKey": HOST_NAME}
        for label in labels
    ]
    if not terms:
        return affinity
    own = affinity or {}
    apart = own.get("podAntiAffinity") or {}
    return {**own, "podAntiAffinity": {**apart, _REQUIRED: [*(apart.get(_REQUIRED) or []), *terms]}}
