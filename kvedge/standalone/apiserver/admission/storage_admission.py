"""What the API server adds to new claims and volumes, and whether a claim may grow.

Called by `builtin_admission`; Kubernetes has three admission plugins for it. Reads the cache, changes only the object
of the request.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kvedge.resources.codec import JsonObject
from kvedge.resources.disks.default_class import ClassSeen, default_class_name
from kvedge.standalone.apiserver.admission.admission_protocol import Review
from kvedge.standalone.apiserver.kinds.rules.storage_rules import grows
from kvedge.standalone.apiserver.requests.write_rules import target_of
from kvedge.standalone.apiserver.store.object_hub import ObjectHub
from kvedge.standalone.apiserver.store.stored import ObjectKey
from kvedge.standalone.apiserver.wire.api_errors import Forbidden

_CLAIMS: Final = "persistentvolumeclaims"
_VOLUMES: Final = "persistentvolumes"
_CLASSES: Final = "storageclasses.storage.k8s.io"
# Nothing of a claim goes while a Pod uses it, nor of a volume while a claim has it.
_FINALIZERS: Final = {_CLAIMS: "kubernetes.io/pvc-protection", _VOLUMES: "kubernetes.io/pv-protection"}
_BETA_CLASS: Final = "volume.beta.kubernetes.io/storage-class"


class StorageAdmission:
    """Completes and checks claims and volumes."""

    def __init__(self, hub: ObjectHub) -> None:
        self._hub = hub

    def complete(self, review: Review) -> None:
        """Protect a new claim or volume, and give a claim that names no class the default one."""
        context = review.context
        finalizer = _FINALIZERS.get(context.kind.storage)
        if review.obj is None or review.old is not None or finalizer is None or context.target.subresource:
            return
        metadata = review.obj["metadata"]
        known = metadata.get("finalizers") or []
        if finalizer not in known:
            metadata["finalizers"] = [*known, finalizer]
        if context.kind.storage == _CLAIMS:
            self._give_class(review.obj)

    def check(self, review: Review) -> None:
        """Let a write pass.

        Raises:
            Forbidden: a claim asks for more than before, and its class does not let claims grow.
        """
        context, new, old = review.context, review.obj, review.old
        if context.kind.storage != _CLAIMS or context.target.subresource or new is None or old is None:
            return
        if not grows(new, old):
            return
        name = str((new.get("spec") or {}).get("storageClassName") or "")
        stored = self._hub.get(ObjectKey(_CLASSES, "", name)) if name else None
        if stored is None or stored.load().get("allowVolumeExpansion") is not True:
            why = (
                "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must "
                "support resize"
            )
            raise Forbidden(target_of(context.kind, review.name), why)

    def _give_class(self, claim: JsonObject) -> None:
        spec = claim.get("spec")
        annotations = claim["metadata"].get("annotations") or {}
        if not isinstance(spec, dict) or spec.get("storageClassName") is not None or _BETA_CLASS in annotations:
            return
        chosen = default_class_name(self._classes())
        if chosen is not None:
            spec["storageClassName"] = chosen

    def _classes(self) -> Iterator[ClassSeen]:
        for stored in self._hub.cache.in_namespace(_CLASSES):
            metadata: dict[str, Any] = stored.load()["metadata"]
            made_at = str(metadata.get("creationTimestamp") or "")
            yield ClassSeen(metadata.get("annotations") or {}, made_at, str(metadata["name"]))
