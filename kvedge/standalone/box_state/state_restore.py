"""Puts the state of one box back from a file of `kvedge state backup`.

Called by the verb while no kvedge runs on the data directory. What was there is kept beside it. Cut short at any step,
a mark keeps kvedge from starting with half of each, and restoring again ends it.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Final

from msgspec import Struct

from kvedge.runtime.durable_files import sync, write_durably
from kvedge.runtime.services import ServiceError
from kvedge.standalone.apiserver.store.object_store import ObjectStore
from kvedge.standalone.apiserver.store.object_store_copies import REVISION_GAP, StoreCopies
from kvedge.standalone.apiserver.store.object_store_file import StoreError, revision_of
from kvedge.standalone.box_lock import RESTORING, BoxLock
from kvedge.standalone.box_node import NODE_NAME, read_node_name, sole_node
from kvedge.standalone.box_state.state_file import STORE, StateError, StateHead, read_state

_COMING: Final = ".restore-"
_PARTS: Final = (STORE, f"{STORE}-wal", f"{STORE}-shm", "layout", NODE_NAME, "pki")


class Restored(Struct, frozen=True):
    """What was put back, and where what was there before is; None when nothing was."""

    head: StateHead
    aside: Path | None


def restore_state(data_dir: Path, path: Path, now: datetime) -> Restored:
    """Put the state back.

    Raises:
        StateError: the file is no good, or kvedge runs; nothing has changed then.
        OSError: the data directory cannot be written; to be run again.
    """
    lock = BoxLock(data_dir)
    try:
        lock.take()
    except ServiceError as error:
        raise StateError(error.detail) from error
    try:
        return _restore(data_dir, path, now)
    finally:
        lock.stop()


def _restore(data_dir: Path, path: Path, now: datetime) -> Restored:
    state = data_dir / "state"
    for left in state.glob(f"{_COMING}*"):
        # A restore that was killed leaves a directory with keys.
        shutil.rmtree(left)
    with tempfile.TemporaryDirectory(prefix=_COMING, dir=state) as folder:
        coming = Path(folder)
        head = read_state(path, coming)
        # This box owns everything bound to that name from now on, under any host name.
        if node := sole_node(coming / STORE) or read_node_name(state):
            write_durably(coming / NODE_NAME, f"{node}\n".encode(), mode=0o644)
        _count_on(coming / STORE, _highest_revision(data_dir))
        write_durably(state / RESTORING, f"{path}\n".encode())
        aside = _set_aside(state, now)
        for part in _PARTS:
            if (coming / part).exists():
                (coming / part).rename(state / part)
        sync(state)
    (state / RESTORING).unlink()
    sync(state)
    return Restored(head, aside)


def _highest_revision(data_dir: Path) -> int:
    """What clients of this box may have seen: the store's, and those of its copies."""
    found = [copy.revision for copy in StoreCopies(data_dir / "state" / STORE, data_dir / "backup").list_copies()]
    # A damaged store counts no more; the copies tell about where it was.
    with contextlib.suppress(StoreError):
        found.append(revision_of(data_dir / "state" / STORE))
    return max(found, default=0)


def _count_on(store: Path, seen: int) -> None:
    """What clients saw of the present store must not come again with another content."""
    opened = ObjectStore(store)
    try:
        opened.open(must_exist=True)
        opened.skip_to(max(opened.revision, seen) + REVISION_GAP)
    except StoreError as error:
        raise StateError(str(error)) from error
    finally:
        opened.stop()


def _set_aside(state: Path, now: datetime) -> Path | None:
    there = [state / part for part in _PARTS if (state / part).exists()]
    if not there:
        return None
    aside = Path(tempfile.mkdtemp(prefix=f"replaced-{now:%Y%m%dT%H%M%SZ}-", dir=state))
    for part in there:
        shutil.move(part, aside / part.name)
    sync(aside)
    return aside
