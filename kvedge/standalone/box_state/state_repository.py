"""The state of a box in a repository of backups, beside its VMs: one place has all of a site.

Called by `kvedge state backup --to` and `kvedge state restore --from`. Runs restic; the state lies in a file for its
owner alone for as long as that takes.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final

from kvedge.standalone.box_state.state_file import StateHead, write_state
from kvedge.storage.backups.restic_client import ResticClient
from kvedge.storage.backups.restic_program import BackupFailure

# By restic's word for the host; the ones of VMs are `kvedge-NAMESPACE`, and no namespace has a dot.
_HOST: Final = "kvedge.state"
_NAME: Final = "kvedge-state.tar.gz"
_TAGS: Final = ("kvedge", "state")
_PIECE: Final = 1 << 20
_PASSING: Final = ".in-repository-"
_LOCK: Final = "repository.lock"
# Of IDs: restic's own lists have as much of each.
_SHORT: Final = 8
_MOST_TOLD: Final = 5


def keep_state(client: ResticClient, data_dir: Path, node: str, now: datetime) -> StateHead:
    """Put the state of a box into a repository, which is made where there is none.

    Raises:
        StateError: the state cannot be read.
        BackupFailure: the repository does not take it.
    """
    with _private_directory(data_dir) as folder:
        client.ensure()
        path = Path(folder) / _NAME
        head = write_state(data_dir, path, now)
        with path.open("rb") as file:
            kept = client.keep(file, _NAME, [*_TAGS, f"node={node}"], _HOST)
        if kept.size != path.stat().st_size:
            raise BackupFailure(f"the state has {path.stat().st_size} bytes, of which restic has read {kept.size}")
    return head


@contextmanager
def fetched_state(client: ResticClient, node: str, data_dir: Path, now: datetime, number: str = "") -> Iterator[Path]:
    """The latest state in a repository, of one box where several have theirs there, as a file that goes afterwards.

    `number` chooses another one, by restic's ID or the beginning of it.

    Raises:
        BackupFailure: there is none, several boxes have one, it cannot be read, or which is the latest is not known.
    """
    found = client.list([*_TAGS, *([f"node={node}"] if node else [])], _HOST)
    if not found:
        raise BackupFailure("the repository has no state of a box: `kvedge state backup --to` puts it there")
    if number:
        found = [each for each in found if each.number.startswith(number)]
        if len(found) != 1:
            raise BackupFailure(f"{len(found)} states in the repository have the ID {number[:80]}: one must be named")
    nodes = sorted({tag.removeprefix("node=") for each in found for tag in each.tags if tag.startswith("node=")})
    if len(nodes) > 1:
        raise BackupFailure(f"the repository has the state of {', '.join(nodes)}: choose one by --node")
    if not number and found[-1].is_ahead_of(now):
        newest = ", ".join(f"{each.number[:_SHORT]} of {each.time}" for each in reversed(found[-_MOST_TOLD:]))
        raise BackupFailure(
            "the newest state lies ahead of this box's clock: which one is the latest is not known while a clock is or"
            f" was wrong. Choose one by --id: {newest}"
        )
    with _private_directory(data_dir) as inside:
        path = Path(inside) / _NAME
        with client.stream(found[-1], _NAME) as stream, path.open("xb") as file:
            while piece := stream.read(_PIECE):
                file.write(piece)
        yield path


@contextmanager
def _private_directory(data_dir: Path) -> Iterator[str]:
    state = data_dir / "state"
    data_dir.mkdir(mode=0o755, parents=True, exist_ok=True)
    state.mkdir(mode=0o700, exist_ok=True)
    # What one call leaves is removed by the next: not while the first one works with it.
    lock = os.open(state / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BackupFailure(
                f"another `kvedge state backup --to` or `restore --from` of {data_dir} is at work: wait for its end"
            ) from error
        for left in state.glob(f"{_PASSING}*"):
            # A call that was killed leaves a file with keys.
            shutil.rmtree(left)
        with tempfile.TemporaryDirectory(prefix=_PASSING, dir=state) as folder:
            yield folder
    finally:
        os.close(lock)
