"""The processes of attachment Pods on this node, found by a volume that only their containers have.

Called by `hotplug_volumes`. The directory on the host is the kubelet's, and no process without privileges can move or
counterfeit it in a Pod. All Pods that are wanted are looked for in one round over the host's processes.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection
from pathlib import Path
from typing import Final

from kvedge.handler.held_process import HeldProcess, Identity, identity_of
from kvedge.handler.launchers.launcher_socket import volume_directory
from kvedge.resources.disks.hotplug_places import MARK_PLACE, MARK_VOLUME
from kvedge.resources.values.name_grammar import is_label

_PROC: Final = Path("/proc")


def find_attachment_pods(kubelet: Path, uids: Collection[str], stack: contextlib.ExitStack) -> dict[str, HeldProcess]:
    """A process of each of these Pods that runs here, by the Pod's UID; held until the stack ends."""
    marks: dict[Identity, str] = {}
    for uid in filter(is_label, uids):
        with contextlib.suppress(OSError):
            marks[identity_of(os.stat(volume_directory(kubelet, uid, MARK_VOLUME), follow_symlinks=False))] = uid
    found: dict[str, HeldProcess] = {}
    if not marks:
        return found
    for name in os.listdir(_PROC):
        if len(found) == len(marks):
            break
        if not name.isdigit():
            continue
        # A process may end while it is looked at, or have left the node's user namespace.
        with contextlib.suppress(OSError):
            process = HeldProcess.of(int(name))
            pod = _uid_of(process, marks)
            if pod is None or pod in found:
                process.close()
            else:
                found[pod] = stack.enter_context(process)
    return found


def _uid_of(process: HeldProcess, marks: dict[Identity, str]) -> str | None:
    try:
        mark = process.identify_directory(MARK_PLACE)
    except OSError:
        return None
    return None if mark is None else marks.get(mark)
