"""The annotations of a launcher Pod by which Velero freezes the guest before it backs its claims up, and thaws it.

Called by the Pod's manifest, by the VMI's plan, which keeps them as the annotation that switches them off says, and by
the VM's plan, which carries that annotation to the run. Pure.
"""

from __future__ import annotations

from typing import Final

import msgspec

from kvedge.resources.codec import JsonObject
from kvedge.resources.moves.workload_updates import is_outdated
from kvedge.resources.names import COMPUTE_CONTAINER, FREEZER_TOOL, GO_TRUE, SKIP_BACKUP_HOOKS
from kvedge.resources.types.core import Pod
from kvedge.resources.types.vmi import VirtualMachineInstance

_PRE: Final = "pre.hook.backup.velero.io/"
_POST: Final = "post.hook.backup.velero.io/"
# KubeVirt's.
_TIMEOUT: Final = "60s"


def make_hooks(vmi: VirtualMachineInstance, *, skips: bool) -> dict[str, str]:
    """The annotations; none where the VMI says so, or else the KubeVirt object (`skips`)."""
    said = vmi.metadata.annotations.get(SKIP_BACKUP_HOOKS)
    return {} if (skips if said is None else said in GO_TRUE) else _all_hooks(vmi)


def plan_hooks(vmi: VirtualMachineInstance, pod: Pod, version: str, *, skips: bool) -> JsonObject | None:
    """A merge patch of a launcher Pod; None when it has what it is to have.

    A launcher of another release keeps what it has, as it may know nothing of a freeze.
    """
    if is_outdated(vmi, version) or pod.metadata.deletion_timestamp is not None:
        return None
    present, wanted = pod.metadata.annotations, make_hooks(vmi, skips=skips)
    changes: JsonObject = {key: value for key, value in wanted.items() if present.get(key) != value}
    # What a user has written there for a backup of their own stays.
    changes |= {key: None for key, value in _all_hooks(vmi).items() if not wanted and present.get(key) == value}
    return {"metadata": {"annotations": changes}} if changes else None


def _all_hooks(vmi: VirtualMachineInstance) -> dict[str, str]:
    return {
        f"{_PRE}container": COMPUTE_CONTAINER,
        f"{_PRE}command": _command("--freeze", vmi),
        f"{_PRE}timeout": _TIMEOUT,
        f"{_POST}container": COMPUTE_CONTAINER,
        f"{_POST}command": _command("--unfreeze", vmi),
    }


def _command(verb: str, vmi: VirtualMachineInstance) -> str:
    words = [FREEZER_TOOL, verb, "--name", vmi.metadata.name, "--namespace", vmi.metadata.namespace]
    return msgspec.json.encode(words).decode()
