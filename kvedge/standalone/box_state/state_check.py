"""Tells whether the state of one box, and the copies of it, can be used.

Called by `kvedge state check`, while kvedge runs or not. Reads only.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from kvedge.standalone.agent.pod.damage_notes import put_aside_below
from kvedge.standalone.apiserver.access.pki import Authority
from kvedge.standalone.apiserver.store.object_store_copies import StoreCopies
from kvedge.standalone.apiserver.store.object_store_file import StoreError, check_file
from kvedge.standalone.box_lock import LAYOUT, RESTORING, read_layout
from kvedge.standalone.box_state.state_file import STORE, StateError, read_state


class Checked(Struct, frozen=True):
    """One thing that was looked at; `problem` is empty when it is sound, `detail` what there is to say then."""

    what: str
    detail: str = ""
    problem: str = ""


def check_state(data_dir: Path) -> list[Checked]:
    """The store, its copies, the authorities and the version mark of one data directory."""
    state = data_dir / "state"
    found = [_check_store("object store", state / STORE)]
    copies = StoreCopies(state / STORE, data_dir / "backup").list_copies()
    found += [_check_store(f"copy {copy.name}", data_dir / "backup" / copy.name) for copy in copies]
    if not copies:
        found.append(
            Checked("copies", problem=f"there is none in {data_dir / 'backup'}: kvedge makes one when it runs")
        )
    found += _check_pki(state / "pki")
    found.append(_check_layout(state))
    found += [
        Checked("damaged file", problem=f"{path} was put aside: remove it once nothing in it is needed")
        for path in put_aside_below(data_dir)
    ]
    return found


def check_files(files: Iterable[Path]) -> Iterator[Checked]:
    """Files of `kvedge state backup`, wherever they are."""
    for path in files:
        with tempfile.TemporaryDirectory(prefix="kvedge-state-") as folder:
            try:
                head = read_state(path, Path(folder))
            except StateError as error:
                yield Checked(str(path), problem=str(error))
            else:
                detail = f"{head.objects} objects, of {head.made_at}, by kvedge {head.version}"
                yield Checked(str(path), detail)


def _check_store(what: str, path: Path) -> Checked:
    if not path.exists():
        return Checked(what, problem=f"{path} does not exist")
    try:
        return Checked(what, f"{check_file(path)} objects")
    except StoreError as error:
        return Checked(what, problem=str(error))


def _check_pki(directory: Path) -> Iterator[Checked]:
    certificates = sorted(directory.glob("*.crt"))
    if not certificates:
        yield Checked("authorities", problem=f"there is none in {directory}: kubeconfigs that were given out are lost")
    for path in certificates:
        key = path.with_suffix(".key")
        what = f"certificate {path.stem}"
        try:
            if not Authority.fits(path.read_bytes(), key.read_bytes()):
                yield Checked(what, problem=f"{key} is not its key: restore {directory} from a backup")
            elif key.stat().st_mode & 0o077:
                yield Checked(what, problem=f"{key} can be read by others: chmod 600 {key}")
            else:
                yield Checked(what)
        except OSError as error:
            yield Checked(what, problem=f"{key} cannot be read: {error.strerror}")
        except ValueError as error:
            yield Checked(what, problem=f"{path} cannot be read: {error}")


def _check_layout(state: Path) -> Checked:
    if (state / RESTORING).exists():
        return Checked("data directory", problem="a restore was cut short: run `kvedge state restore FILE` again")
    layout, version = read_layout(state / "layout")
    if layout > LAYOUT:
        return Checked(
            "data directory", problem=f"it was written by kvedge {version}, which is newer: use that version"
        )
    return Checked("data directory", f"written by kvedge {version}" if version else "")
