"""What of a VM is of its place and its history alone, and does not go along into a file, a twin or another cluster.

Called by exports, restores of snapshots and of backups, clones and the command line. Pure; what it is given is not
touched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.resources.disks.state_claims import STATE_CLAIM, TPM_ORIGIN
from kvedge.resources.names import KEPT_TYPES
from kvedge.resources.values.saved_memory import RESUME_MEMORY

# Annotations that another API server would take for its own work, or that are copies of the object.
_HISTORY: Final = ("kubectl.kubernetes.io/", "restore.kubevirt.io/")
# Beyond those: what belongs to this very VM, in its own cluster too.
_OF_THIS_VM: Final = (*_HISTORY, RESUME_MEMORY, STATE_CLAIM, TPM_ORIGIN)
# Beyond those, for another cluster: of controllers that keep books of their own, and what no user may write.
_BOOKS: Final = ("kubemacpool.io/", "kubevirt.io/latest-observed", "kubevirt.io/storage-observed")
_FOREIGN: Final = (*_OF_THIS_VM, *_BOOKS, KEPT_TYPES)
_MEMORY_DUMP: Final = "memoryDump"


def without_history(annotations: Mapping[str, str]) -> dict[str, str]:
    """The annotations of a VM that another one of its cluster may have, too."""
    return {key: value for key, value in annotations.items() if not key.startswith(_OF_THIS_VM)}


def without_place(annotations: Mapping[str, str]) -> dict[str, str]:
    """The annotations of an object that one of another cluster may have, too."""
    return {key: value for key, value in annotations.items() if not key.startswith(_FOREIGN)}


def without_memory_dumps(spec: JsonObject) -> JsonObject:
    """A VM's spec without the claims of memory dumps: they belong to a VM for as long as its status says so."""
    template = spec.get("template") or {}
    inner = template.get("spec") or {}
    volumes: Sequence[JsonObject] = inner.get("volumes") or ()
    kept = [volume for volume in volumes if _MEMORY_DUMP not in volume]
    if len(kept) == len(volumes):
        return spec
    return {**spec, "template": {**template, "spec": {**inner, "volumes": kept}}}
