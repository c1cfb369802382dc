"""The block devices that the kubelet itself gave to a Pod.

Called by `hotplug_volumes`. The kubelet, and the node agent of one box, keeps for each block claim of a Pod an entry
that leads to its device: a link, or the device mounted there. The directory belongs to root, and no Pod has it: what a
Pod shows as its device may be anything, what lies here is the claim's. Reads only.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from kvedge.resources.values.name_grammar import is_label


def find_given_devices(kubelet: Path, pod_uid: str) -> frozenset[int]:
    """The device numbers; none for a Pod that has no such entry."""
    if not is_label(pod_uid):
        return frozenset()
    return frozenset(_read_numbers(kubelet / "pods" / pod_uid / "volumeDevices"))


def _read_numbers(top: Path) -> Iterator[int]:
    for plugin in _list_entries(top):
        for entry in _list_entries(plugin):
            # The device may just be gone.
            with suppress(OSError):
                facts = os.stat(entry)
                if stat.S_ISBLK(facts.st_mode):
                    yield facts.st_rdev


def _list_entries(directory: Path) -> list[Path]:
    """What lies in a directory of root's; nothing when somebody else may write it."""
    with suppress(OSError):
        facts = os.stat(directory, follow_symlinks=False)
        if stat.S_ISDIR(facts.st_mode) and facts.st_uid == 0 and not facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return sorted(directory.iterdir())
    return []
