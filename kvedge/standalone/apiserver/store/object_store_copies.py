"""Copies of the object store on disk: made while it is in use, thinned out, and put back when the store is damaged.

Used by the API server at its start and by `copy_loop`. Owns the directory `backup`.
"""

from __future__ import annotations

import logging
import shutil
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from msgspec import Struct

from kvedge import __version__
from kvedge.standalone.apiserver.store.copy_plan import StoreCopy, copies_of, copy_name, crowding, is_due, superfluous
from kvedge.standalone.apiserver.store.object_store import ObjectStore
from kvedge.standalone.apiserver.store.object_store_file import (
    StoreCorrupt,
    StoreError,
    check_file,
    is_damage,
    store_lock,
)
from kvedge.standalone.apiserver.store.object_store_mend import (
    Restored,
    coming_file,
    find_last_restored,
    put_in_place,
    take_up,
)
from kvedge.standalone.apiserver.store.stored import Stored

log = logging.getLogger(__name__)

# A revision that clients saw of the damaged store must not come again with another content. No box makes so many writes
# between two copies.
REVISION_GAP: Final = 1 << 30


class CopyFailed(Exception):
    """A copy could not be made; the message says why."""


def _utc_now() -> datetime:
    return datetime.now(UTC)


class StoreCopies(Struct, frozen=True):
    """The copies of one store."""

    store: Path
    directory: Path
    now: Callable[[], datetime] = _utc_now

    def list_copies(self) -> list[StoreCopy]:
        """The copies there are, newest state first."""
        if not self.directory.is_dir():
            return []
        return copies_of(path.name for path in self.directory.iterdir())

    def make_before_an_upgrade(self, store: ObjectStore) -> None:
        """What the store is before this version writes to it is kept, each time that another version wrote before.

        Raises:
            CopyFailed: as :meth:`make`.
        """
        latest = max(self.list_copies(), key=lambda copy: copy.moment, default=None)
        if latest is None or latest.version != __version__:
            self.make(store, always=True)

    def make(self, store: ObjectStore, *, always: bool = False) -> str:
        """Copy the store unless nothing was written since the last time; returns the name of the newest copy.

        With `always` also then: the copy bears this version's name.

        Writers are not held up: a reader of a database in WAL mode blocks nobody.

        Raises:
            CopyFailed: the disk is full, or something in the store cannot be read.
        """
        copies, revision = self.list_copies(), store.revision
        if not always and not is_due(copies, revision):
            return copies[0].name
        name = copy_name(self.now(), revision, __version__)
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._remove_unfinished()
            store.copy_to(self.directory / name)
            self._thin_out()
        except (sqlite3.Error, OSError, StoreError) as error:
            if isinstance(error, sqlite3.Error) and is_damage(error):
                # Its content is in memory, and good.
                store.mend(str(error))
            raise CopyFailed(f"no copy of the object store could be made in {self.directory}: {error}") from error
        return name

    def open_store(self, store: ObjectStore) -> tuple[list[Stored], Restored | None]:
        """Open the store; when it is damaged, put the newest good copy in its place and open that.

        Raises:
            StoreCorrupt: it is damaged and there is no good copy.
            StoreError: it cannot be used for another reason.
        """
        copies = self.list_copies()
        take_up(self.store, copies[0].revision if copies else 0)
        try:
            objects, restored = store.open(must_exist=bool(copies)), None
        except StoreCorrupt as damage:
            restored = self._put_back(copies, damage)
            objects = store.open()
        if copies and copies[0].revision > store.revision:
            # Put back, by us or by hand: what was counted since then is not counted again.
            store.skip_to(copies[0].revision + REVISION_GAP)
        elif restored is not None:
            store.skip_to(store.revision + REVISION_GAP)
        return objects, restored

    def find_last_restored(self) -> tuple[Restored, Path] | None:
        """What was last put back, and where the damaged files are; None once somebody has removed those."""
        return find_last_restored(self.store)

    def _put_back(self, copies: list[StoreCopy], damage: StoreCorrupt) -> Restored:
        log.error("%s", damage)
        with store_lock(self.store):
            for copy in copies:
                try:
                    objects = check_file(self.directory / copy.name)
                except StoreError as error:
                    log.error("the copy %s is no good either: %s", copy.name, error)
                    continue
                moment = f"{self.now():%Y%m%dT%H%M%SZ}"
                restored = Restored(damage.detail, copy.name, copy.moment, moment, copy.revision)
                self._replace(copy, restored, damage)
                log.error("the object store was put back from %s with %d objects", copy.name, objects)
                return restored
        raise damage

    def _replace(self, copy: StoreCopy, restored: Restored, damage: StoreCorrupt) -> None:
        coming = coming_file(self.store)
        try:
            shutil.copyfile(self.directory / copy.name, coming)
            coming.chmod(0o600)
            put_in_place(self.store, restored)
        except OSError as error:
            text = f"{damage} The copy {copy.name} could not be put back: {error}."
            raise StoreCorrupt(text, damage.detail) from error

    def _remove_unfinished(self) -> None:
        # Left by a kill. A copy that has its final name is whole.
        for path in self.directory.glob("kvedge-*.unfinished*"):
            path.unlink(missing_ok=True)

    def _thin_out(self) -> None:
        for copy in superfluous(self.list_copies(), __version__):
            (self.directory / copy.name).unlink(missing_ok=True)
        sizes = [(copy, (self.directory / copy.name).stat().st_size) for copy in self.list_copies()]
        for copy in crowding(sizes, shutil.disk_usage(self.directory).free):
            (self.directory / copy.name).unlink(missing_ok=True)
