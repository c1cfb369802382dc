"""What kvedge makes in a data directory: how one is told from any other directory, and taken away without the rest.

Called by killall and by uninstalling, which are sent to a directory by a setting or an option that may be wrong. Both
the program's trees and the lock come into being by such a call itself: neither shows that kvedge has worked there.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from kvedge.appliance.cluster.image_loader import ARCHIVE
from kvedge.appliance.host.launcher_link import LINK
from kvedge.appliance.install.unpacked_trees import is_of_trees
from kvedge.appliance.install.volume_places import VOLUMES, own_place
from kvedge.runtime.mount_table import mounts_below
from kvedge.runtime.settings import DEFAULT_DATA_DIR
from kvedge.storage.images.image_store import OWN_ENTRIES
from kvedge.storage.volumes.place_identity import IDENTITY_FILE

_BOX_SIGNS: Final = ("state/layout", "state/kvedge.db")
_RECORDS: Final = "kubelet/pods/*/pod.json"
# Of what was kept of Pods that the object store had forgotten.
_KEPT: Final = "kubelet/lost/*/pod.json"
_NODE_SIGNS: Final = ("state/handler", "state/upgrade.json", "previous/kvedge")
# Patterns, as others may have a directory of such a name: a file that a user drops into `images` stays the user's.
_OWN: Final = (
    *("state", "manifests", "qemu-capabilities", "previous", "kubeconfig", ARCHIVE, LINK, f".{LINK}.new"),
    *(f"images/{name}" for name in sorted(OWN_ENTRIES)),
    # The record of a NIC is not among them: a NIC that was not given back is known by it.
    *("nics/lock", "nics/*.lock", "nics/*.confirmed"),
    *("backup/kvedge-*.db", "backup/kvedge-*.unfinished*", "bundle/kvedge"),
    # Which CPUs guests have for themselves.
    "kubelet/cpu_manager_state",
)
_OF_FILE_SYSTEM: Final = "lost+found"
# Removed when they are empty then, the inner ones first.
_SHARED: Final = (
    "images",
    "backup",
    "bundle",
    "data",
    "nics",
    "kubelet/pods",
    "kubelet/lost",
    "kubelet/device-plugins",
    "kubelet",
)


def holds_box(directory: Path) -> bool:
    """Whether `kvedge standalone` has worked there."""
    # Not the directory of its Pods: a kubelet's may lie there, if it was sent to the wrong place.
    return any((directory / sign).exists() for sign in _BOX_SIGNS) or any(directory.glob(_RECORDS))


def strangers(directory: Path) -> list[str]:
    """What lies in a directory in which kvedge has not worked; nothing for one of kvedge's, or an empty one."""
    is_link = (directory / LINK).is_symlink()
    if is_link or holds_box(directory) or any((directory / sign).exists() for sign in _NODE_SIGNS):
        return []
    if directory == DEFAULT_DATA_DIR or not directory.is_dir():
        return []
    names = {entry.name for entry in directory.iterdir() if not _is_program(entry)}
    return sorted(names - {_OF_FILE_SYSTEM})


def purge(directory: Path) -> list[Path]:
    """Remove what kvedge has made in a data directory, and the directory when it is empty then; returns what stays.

    Nothing is followed to another place: neither links nor mounts.

    Raises:
        OSError: as the file system has it.
    """
    if not directory.is_dir():
        return []
    root = directory.resolve()
    _remove_all(_own(root), root)
    own = own_place(root)
    if (root / VOLUMES / IDENTITY_FILE).is_file() and not own.volumes():
        # kvedge's own notes there are about volumes alone.
        own.purge()
    for name in _SHARED:
        # A directory that holds something else, or is a mount of its own, stays.
        with contextlib.suppress(OSError):
            (root / name).rmdir()
    left = [path for name in sorted(root.iterdir()) for path in _list_inside(name)]
    with contextlib.suppress(OSError):
        root.rmdir()
    return left


def purge_settings(directory: Path) -> list[Path]:
    """Remove kvedge's settings, with the operator's, and their directory; returns what stays, as something is mounted.

    Raises:
        OSError: as the file system has it.
    """
    if not directory.is_dir():
        return []
    root = directory.resolve()
    _remove_all(sorted(root.iterdir()), root)
    left = sorted(root.iterdir())
    with contextlib.suppress(OSError):
        root.rmdir()
    return left


def remove_entry(path: Path) -> None:
    """Remove a file, a link or a whole directory in which nothing is mounted.

    Raises:
        OSError: as the file system has it.
    """
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _remove_all(paths: Iterable[Path], root: Path) -> None:
    mounts = mounts_below(root)
    for path in paths:
        if not _leads_away(path, root, mounts):
            remove_entry(path)


def _own(root: Path) -> Iterator[Path]:
    for pattern in _OWN:
        # A pattern does not find a link that leads nowhere.
        yield from sorted(root.glob(pattern)) if "*" in pattern else [root / pattern]
    yield from (record.parent for pattern in (_RECORDS, _KEPT) for record in sorted(root.glob(pattern)))
    yield from (path for path in sorted(root.glob("kubelet/device-plugins/*")) if path.is_socket())
    yield from (path for path in sorted(root.glob("data/*")) + sorted(root.glob("data/.*")) if is_of_trees(path.name))


def _leads_away(path: Path, root: Path, mounts: Sequence[Path]) -> bool:
    """Whether a path, or anything in it, is on another mount or behind a link."""
    if any(mount == path or mount in path.parents or path in mount.parents for mount in mounts):
        return True
    return any(parent.is_symlink() for parent in path.parents if root in parent.parents)


def _is_program(entry: Path) -> bool:
    if entry.name != "data" or entry.is_symlink() or not entry.is_dir():
        return False
    return all(is_of_trees(tree.name) for tree in entry.iterdir())


def _list_inside(entry: Path) -> list[Path]:
    """The entries of a directory that we share with others, else the entry itself."""
    is_shared = entry.name in _SHARED and entry.is_dir() and not entry.is_symlink()
    return sorted(entry.iterdir()) or [entry] if is_shared else [entry]
