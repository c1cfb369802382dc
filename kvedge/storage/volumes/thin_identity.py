"""Which thin pool a place is, so that another one of the same name is found out before anything is written.

Called by the thin driver. lvm2 gives groups and pools identities of their own, so nothing is written there; touches the
file by which the box remembers them.
"""

from __future__ import annotations

import json
from pathlib import Path

from msgspec import Struct

from kvedge.runtime.durable_files import write_durably
from kvedge.storage.volumes.lvm_report import VolumeGroup
from kvedge.storage.volumes.volume_driver import PlaceMissing


class ThinIdentity(Struct, frozen=True):
    """The pool of a volume group, and the file of the box that remembers which ones they are."""

    group: str
    pool: str
    memory: Path

    @property
    def where(self) -> str:
        """As lvm2 names the pool."""
        return f"{self.group}/{self.pool}"

    def choose(self, groups: list[VolumeGroup]) -> VolumeGroup:
        """Which of the host's groups it is.

        Raises:
            PlaceMissing: none of them.
        """
        named = [each for each in groups if each.name == self.group]
        known = self.recall().partition("/")[0]
        if known:
            named = [each for each in named if each.uuid == known]
        if len(named) == 1:
            return named[0]
        if named:
            raise self._refuse(f"there are {len(named)} volume groups of that name: rename one (vgrename)")
        if known and any(each.name == self.group for each in groups):
            raise self._refuse("there is another volume group of that name")
        raise self._refuse("there is no such volume group: connect its disk, or make it (vgcreate)")

    def check(self, group_uuid: str, pool_uuid: str) -> None:
        """Return when these are the ones that they were; ones that were never used are remembered.

        Raises:
            PlaceMissing: they are others.
            OSError: as the file system has it.
        """
        found, known = f"{group_uuid}/{pool_uuid}", self.recall()
        if known and known != found:
            raise self._refuse("another pool has its name")
        if not known:
            self.memory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_durably(self.memory, json.dumps({"place": found}).encode() + b"\n")

    def is_remembered(self) -> bool:
        """Whether the place has been used by this box. Writes nothing."""
        return self.memory.exists()

    def recall(self) -> str:
        """The identities, or empty.

        Raises:
            PlaceMissing: the file is damaged.
        """
        try:
            known = json.loads(self.memory.read_bytes())
        except FileNotFoundError:
            return ""
        except (ValueError, OSError) as error:
            raise self._report_damage() from error
        found = known.get("place") if isinstance(known, dict) else None
        if not isinstance(found, str) or not found:
            raise self._report_damage()
        return found

    def _report_damage(self) -> PlaceMissing:
        return PlaceMissing(
            f"{self.memory} is damaged: it should say which thin pool {self.where} is. Remove it if that pool is the "
            "right one",
            "PlaceMissing",
        )

    def _refuse(self, what: str) -> PlaceMissing:
        known = f" If the volumes in it are lost for good, remove {self.memory}" if self.memory.exists() else ""
        return PlaceMissing(f"thin pool {self.where} cannot be used: {what}.{known}", "PlaceMissing")
