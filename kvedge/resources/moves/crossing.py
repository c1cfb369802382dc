"""A guest that moves from one box to another: what their handlers say to each other, and the names that both use.

Read by both handlers, the controller, admission, the api role's signer and the command line. Touches nothing. Each box
has a VM, a VMI and a migration of its own; neither has rights in the other one's API. All that they know of each other
are these words, which the source's handler brings to the target's relay again and again, and the answers. What is said
has been written down before, and stays true.
"""

from __future__ import annotations

import re
from typing import Final

from kvedge.resources.codec import KubeStruct
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance

# Where a box listens while a guest is to come to it: KubeVirt's port of the same purpose.
CROSSING_PORT: Final = 9185
# On a VM: the box that its guest moves to, or has moved to. Its VM does not start with either.
MOVES_TO: Final = "kvedge.io/moves-to"
MOVED_TO: Final = "kvedge.io/moved-to"
# On a source's migration: its user says that the guest runs nowhere, as the other box is lost for good.
TARGET_IS_LOST: Final = "kvedge.io/target-is-lost"
# On a VM that waits for its guest: the run strategy that it gets once that is there.
RESTORE_RUN_STRATEGY: Final = "kubevirt.io/restore-run-strategy"
WAIT_AS_RECEIVER: Final = "WaitAsReceiver"
# On a VMI: its guest comes from elsewhere, and it starts none.
IS_RECEIVER: Final = "kubevirt.io/create-migration-target"
# Where the source's handler finds the credentials that its user has got of the target: one Secret for each migration,
# named after it, in a namespace of their own. Whoever may make one may send guests away.
CREDENTIALS_NAMESPACE: Final = "kvedge-crossings"
CREDENTIAL_NODE: Final = "node"
CREDENTIAL_CERTIFICATE: Final = "tls.crt"
CREDENTIAL_KEY: Final = "tls.key"
CREDENTIAL_CA: Final = "ca.crt"
# The longest that such a credential is good for; the command renews it.
CREDENTIAL_SECONDS: Final = 24 * 3600
# As the command makes them; they stand in paths, in labels, and in a certificate.
_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
LONGEST_WORDS: Final = 64 << 10


class SourceWords(KubeStruct, kw_only=True):
    """What the source's VMI says; times are RFC 3339.

    `gone`: nothing of the guest is left there, and it did not end. `failed`: it stays, or has ended. `over`: all that
    the target has to say is written down.
    """

    node: str = ""
    disks: dict[str, int] = {}
    images: dict[str, int] = {}
    paused: bool = False
    started: str | None = None
    gone: str | None = None
    failed: bool = False
    reason: str = ""
    over: bool = False


class TargetWords(KubeStruct, kw_only=True):
    """What the target's VMI says; `uid` is its own.

    `ready`: the guest may come. `taken`: it is the target's from now on, whatever becomes of it; said after `gone`
    alone, and never together with `failed`, unless the guest was lost after it was taken. `heard_end`: that it stays is
    written down.
    """

    node: str = ""
    uid: str = ""
    ready: bool = False
    detected: bool = False
    taken: str | None = None
    failed: bool = False
    reason: str = ""
    unwanted: bool = False
    heard_end: bool = False


def crossing_server_name(migration_id: str) -> str:
    """The name in the certificate of a source: it is good for this migration alone. No node has such a name."""
    return f"{migration_id}.crossing.kvedge.io"


def is_crossing_id(text: str) -> bool:
    """Whether two boxes may call a migration so; UIDs of VMIs have this form, too."""
    return _ID.fullmatch(text) is not None


def describe_hold(vm: VirtualMachine) -> str:
    """Why a VM does not start, as its guest is another box's or is on its way there; empty when it may."""
    marks, name = vm.metadata.annotations, vm.metadata.name
    remedy = f"once it is certain that its guest does not run there, `kvedge migrate {name} --forget` frees it"
    if marks.get(MOVED_TO):
        return f"it has moved to {marks[MOVED_TO]}, and its disks here are of before; {remedy}"
    if marks.get(MOVES_TO):
        return f"its guest is moving to {marks[MOVES_TO]}; {remedy}"
    return ""


def is_awaited(vmi: VirtualMachineInstance) -> bool:
    """Whether a VMI's guest comes from another box, and is on no node of this one yet."""
    return IS_RECEIVER in vmi.metadata.annotations and not vmi.status.node_name
