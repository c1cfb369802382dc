"""The state of a box in a repository of backups, beside its VMs: one place has all of a site.

Called by `kvedge state backup --to` and `kvedge state restore --from`. Runs restic; the state lies in a file for its
owner alone for as long as that takes.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final

from kvedge.standalone.box_state.state_file import StateHead, write_state
from kvedge.storage.backups.restic_client import BackupFailure, ResticClient

# By restic's word for the host; the ones of VMs are `kvedge-NAMESPACE`, and no namespace has a dot.
_HOST: Final = "kvedge.state"
_NAME: Final = "kvedge-state.tar.gz"
_TAGS: Final = ("kvedge", "state")
_PIECE: Final = 1 << 20
_PASSING: Final = ".in-repository-"


def keep_state(client: ResticClient, data_dir: Path, node: str, now: datetime) -> StateHead:
    """Put the state of a box into a repository, which is made where there is none.

    Raises:
        StateError: the state cannot be read.
        BackupFailure: the repository does not take it.
    """
    client.ensure()
    with _private_directory(data_dir) as folder:
        path = Path(folder) / _NAME
        head = write_state(data_dir, path, now)
        with path.open("rb") as file:
            kept = client.keep(file, _NAME, [*_TAGS, f"node={node}"], _HOST)
        if kept.size != path.stat().st_size:
            raise BackupFailure(f"the state has {path.stat().st_size} bytes, of which restic has read {kept.size}")
    return head


@contextmanager
def fetched_state(client: ResticClient, node: str, data_dir: Path) -> Iterator[Path]:
    """The latest state in a repository, of one box where several have theirs there, as a file that goes afterwards.

    Raises:
        BackupFailure: there is none, several boxes have one, or it cannot be read.
    """
    found = client.list([*_TAGS, *([f"node={node}"] if node else [])], _HOST)
    if not found:
        raise BackupFailure("the repository has no state of a box: `kvedge state backup --to` puts it there")
    nodes = sorted({tag.removeprefix("node=") for each in found for tag in each.tags if tag.startswith("node=")})
    if len(nodes) > 1:
        raise BackupFailure(f"the repository has the state of {', '.join(nodes)}: choose one by --node")
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
    for left in state.glob(f"{_PASSING}*"):
        # A call that was killed leaves a file with keys.
        shutil.rmtree(left)
    with tempfile.TemporaryDirectory(prefix=_PASSING, dir=state) as folder:
        yield folder
