"""Which nodes a launcher may run on, so that its hotplugged volumes can come to it.

Called when a launcher's Pod is made; reads PersistentVolumes, one by one. A hotplugged claim is no part of that Pod,
and so the scheduler does not know of it: on storage that is one node's own, the guest would wait on another node for
ever.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from itertools import product
from typing import Any, Final

import msgspec

from kvedge.kube.errors import NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.resources.types.core import Pod
from kvedge.resources.types.storage import PersistentVolume, PersistentVolumeClaim
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.volume_facts import claim_of, hotplugged

# Alternatives multiply with each volume; where there are more, the attachment Pod says what is wrong.
_MOST_TERMS: Final = 64
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PARTS: Final = ("matchExpressions", "matchFields")


def placed(pod: Pod, vmi: VirtualMachineInstance, claims: Iterable[PersistentVolumeClaim], client: KubeClient) -> Pod:
    """The Pod, bound to where its hotplugged volumes can come to; `claims` are those of the VMI that there are."""
    wanted = {claim_of(volume) for volume in hotplugged(vmi)}
    names = [claim.spec.volume_name for claim in claims if claim.metadata.name in wanted and claim.spec.volume_name]
    volumes = []
    for name in names:
        # One that is gone is told of by its claim, which is lost.
        with contextlib.suppress(NotFound):
            volumes.append(client.get(PersistentVolume, "", name))
    affinity = with_places(pod.spec.affinity, volumes)
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, affinity=affinity))


def with_places(affinity: JsonObject | None, volumes: Iterable[PersistentVolume]) -> JsonObject | None:
    """The affinity of a Pod that these volumes can come to as well; it is left alone when they are everywhere."""
    found = [_terms(volume.spec.node_affinity and volume.spec.node_affinity.get("required")) for volume in volumes]
    node = (affinity or {}).get("nodeAffinity") or {}
    asked = node.get(_REQUIRED)
    terms = _terms(asked)
    if asked and not terms:
        # It matches no node at all, and stays so.
        return affinity
    for more in found:
        if not more or len(more) * max(1, len(terms)) > _MOST_TERMS:
            continue
        terms = [_both(one, other) for one, other in product(terms, more)] if terms else more
    if terms == _terms(asked):
        return affinity
    return {**(affinity or {}), "nodeAffinity": {**node, _REQUIRED: {"nodeSelectorTerms": terms}}}


def _terms(selector: Any) -> list[JsonObject]:
    """The alternatives of a node selector; one without any condition matches no node, and is none."""
    terms = (selector or {}).get("nodeSelectorTerms") or []
    return [term for term in terms if any(term.get(part) for part in _PARTS)]


def _both(one: JsonObject, other: JsonObject) -> JsonObject:
    merged = {part: [*(one.get(part) or []), *(other.get(part) or [])] for part in _PARTS}
    return {part: conditions for part, conditions in merged.items() if conditions}
