"""What must outlast a launcher of a migration, in either direction.

Written by `outgoing_guest` and `incoming_guest`, below the directory of the run. The Pod is gone after a power cut, so
nothing is synced to disk.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any, Final, NamedTuple

from kvedge.launcher.launcher_files import replace_json

# Of libvirt's words.
_LONGEST: Final = 16 << 10


class OutgoingRecord(NamedTuple):
    """`kept` says that the guest stays, or ended here, `paused` that a user had paused it, `held` that its CPUs were
    stopped so that it gets away; `qemu_pid` is its QEMU here.

    Times are in milliseconds since 1970.
    """

    uid: str = ""
    kept: bool = False
    message: str = ""
    paused: bool = False
    held: bool = False
    qemu_pid: int = 0
    started_ms: int = 0
    ended_ms: int = 0


class IncomingRecord(NamedTuple):
    """As `IncomingSeen` has it; `goes_on` says that the guest is released and is still to be let run, `copied` are the
    volumes whose disks come with it, with a comma between, and `accepted` says that these are disks by now, or may be
    the last copies: they are not dropped. `switched` are the NICs that come to other networks than they were on.
    """

    uid: str = ""
    prepared: bool = False
    arrived: bool = False
    discarded: bool = False
    goes_on: bool = False
    copied: str = ""
    accepted: bool = False
    switched: str = ""
    message: str = ""


class MigrationRecord:
    """The records of one run in one Pod."""

    def __init__(self, directory: str) -> None:
        self._outgoing = f"{directory}/outgoing.json"
        self._staying = f"{directory}/outgoing-kept.json"
        self._incoming = f"{directory}/incoming.json"
        self._timed = f"{directory}/incoming-timed.json"
        self._refreshed = f"{directory}/incoming-refreshed.json"

    def outgoing(self) -> OutgoingRecord:
        """What is known of the last migration away from here."""
        return OutgoingRecord(**_read(self._outgoing, OutgoingRecord()._asdict()))

    def keep_outgoing(self, record: OutgoingRecord) -> None:
        """Remember it. Raises OSError."""
        replace_json(self._outgoing, record._asdict())

    def begin_outgoing(self, record: OutgoingRecord) -> None:
        """Remember that the guest is about to move; also what it takes to say later that it stays. Raises OSError."""
        replace_json(self._staying, record._replace(kept=True, ended_ms=record.started_ms)._asdict())
        replace_json(self._outgoing, record._asdict())

    def keep_stay(self, record: OutgoingRecord) -> None:
        """Remember that the guest stays: on this rests whether its copy may run, so it takes no room on the disk.

        Raises:
            OSError: when even that failed.
        """
        try:
            replace_json(self._outgoing, record._asdict())
        except OSError:
            if OutgoingRecord(**_read(self._staying, OutgoingRecord()._asdict())).uid != record.uid:
                raise
            os.rename(self._staying, self._outgoing)

    def incoming(self) -> IncomingRecord:
        """What is known of the migration by which the guest comes."""
        return IncomingRecord(**_read(self._incoming, IncomingRecord()._asdict()))

    def switched_nics(self) -> frozenset[str]:
        """The NICs that came here to other networks than they were on."""
        return frozenset(name for name in self.incoming().switched.split(",") if name)

    def keep_incoming(self, record: IncomingRecord) -> None:
        """Remember it. Raises OSError."""
        replace_json(self._incoming, record._asdict())

    @property
    def owes_time(self) -> bool:
        """Whether a guest came here that was not told the time since."""
        return self.incoming().arrived and not os.path.exists(self._timed)

    @property
    def owes_refresh(self) -> bool:
        """Whether a guest came here whose links were not refreshed since."""
        return self.incoming().arrived and not os.path.exists(self._refreshed)

    def keep_refreshed(self) -> None:
        """Remember that they were. Raises OSError."""
        replace_json(self._refreshed, {})

    def keep_timed(self) -> None:
        """Remember that it was told. Raises OSError."""
        replace_json(self._timed, {})


def _read(path: str, blank: dict[str, Any]) -> dict[str, Any]:
    with contextlib.suppress(FileNotFoundError, ValueError), open(path) as file:
        found = json.loads(file.read(_LONGEST))
        if isinstance(found, dict):
            kept = {name: found[name] for name, value in blank.items() if isinstance(found.get(name), type(value))}
            return blank | kept
    return blank
