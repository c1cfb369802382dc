"""Which nodes a launcher may run on, so that its hotplugged volumes can come to it.

Called when a launcher's Pod is made; reads PersistentVolumes, one by one. A hotplugged claim is no part of that Pod, so
the scheduler does not know of it. On storage of one node, the guest would wait on another node for
ever. A guest that may start without its volumes only prefers their nodes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from itertools import product
from typing import Any, Final

import msgspec

from kvedge.kube.errors import KubeError, NotFound, Unavailable
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.resources.disks.volume_facts import claim_of, hotplugged_disks
from kvedge.resources.names import START_WITHOUT_VOLUMES
from kvedge.resources.types.core import Pod
from kvedge.resources.types.storage import PersistentVolume, PersistentVolumeClaim
from kvedge.resources.types.vmi import VirtualMachineInstance

log = logging.getLogger(__name__)

# Alternatives multiply with each volume; where there are more, the attachment Pod says what is wrong.
_MOST_TERMS: Final = 64
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_WEIGHT: Final = 100
_PARTS: Final = ("matchExpressions", "matchFields")


def place_by_volumes(
    pod: Pod, vmi: VirtualMachineInstance, claims: Iterable[PersistentVolumeClaim], client: KubeClient
) -> Pod:
    """Bind the Pod to nodes that its hotplugged volumes can reach; `claims` are the existing ones of the VMI.

    Raises:
        Unavailable: the server does not say where a volume is: no Pod must be made that may come to a wrong node.
    """
    wanted = {claim_of(volume) for volume in hotplugged_disks(vmi)}
    names = [claim.spec.volume_name for claim in claims if claim.metadata.name in wanted and claim.spec.volume_name]
    volumes = [volume for name in names if (volume := _read(client, name)) is not None]
    only_prefers = vmi.metadata.annotations.get(START_WITHOUT_VOLUMES) == "true"
    affinity = with_places(pod.spec.affinity, volumes, only_prefers=only_prefers)
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, affinity=affinity))


def with_places(
    affinity: JsonObject | None, volumes: Iterable[PersistentVolume], *, only_prefers: bool = False
) -> JsonObject | None:
    """The affinity of a Pod that needs these volumes; unchanged when the volumes are everywhere."""
    terms: list[JsonObject] = []
    for volume in volumes:
        more = _terms(volume.spec.node_affinity and volume.spec.node_affinity.get("required"))
        if more and len(more) * max(1, len(terms)) <= _MOST_TERMS:
            terms = _all_of(terms, more)
    if not terms:
        return affinity
    node = (affinity or {}).get("nodeAffinity") or {}
    if only_prefers:
        wishes = [*(node.get(_PREFERRED) or []), *({"weight": _WEIGHT, "preference": term} for term in terms)]
        return {**(affinity or {}), "nodeAffinity": {**node, _PREFERRED: wishes}}
    own = _terms(node.get(_REQUIRED))
    if len(own) * len(terms) > _MOST_TERMS or (node.get(_REQUIRED) and not own):
        # Too many alternatives, or the user's own match no node at all.
        return affinity
    required = {"nodeSelectorTerms": _all_of(own, terms)}
    return {**(affinity or {}), "nodeAffinity": {**node, _REQUIRED: required}}


def _all_of(terms: list[JsonObject], more: list[JsonObject]) -> list[JsonObject]:
    return [_merge_both(one, other) for one, other in product(terms, more)] if terms else more


def _read(client: KubeClient, name: str) -> PersistentVolume | None:
    try:
        return client.get(PersistentVolume, "", name)
    except NotFound:
        # The lost claim itself tells the user.
        return None
    except Unavailable:
        raise
    except KubeError as error:
        # The attachment Pod says what is wrong, if the guest then waits on another node.
        log.warning("where a volume is cannot be read", extra={"facts": {"volume": name, "error": str(error)}})
        return None


def _terms(selector: Any) -> list[JsonObject]:
    """The alternatives of a node selector; one without any condition matches no node, and is none."""
    terms = (selector or {}).get("nodeSelectorTerms") or []
    return [term for term in terms if any(term.get(part) for part in _PARTS)]


def _merge_both(one: JsonObject, other: JsonObject) -> JsonObject:
    merged = {part: [*(one.get(part) or []), *(other.get(part) or [])] for part in _PARTS}
    return {part: conditions for part, conditions in merged.items() if conditions}
