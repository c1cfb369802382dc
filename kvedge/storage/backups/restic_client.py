"""The door to restic: a repository of backups, by the program of that name.

Called by the worker of backups. restic keeps what it is given in pieces that it finds again (deduplication), encrypts
them with a key that the password opens, and checks each piece as it reads it. Has `restic_program` start processes.
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from socket import gethostname
from typing import Any, BinaryIO, Final

from msgspec import Struct

from kvedge.storage.backups.file_asker import FileAsker, NoAnswer, lay_mounter
from kvedge.storage.backups.lock_rules import CLOCKS_DIFFER, read_lock, read_moment, why_kept
from kvedge.storage.backups.patience import Patience, Stalled
from kvedge.storage.backups.restic_program import (
    LARGEST_LIST,
    LARGEST_RECORD,
    STALL_SECONDS,
    BackupFailure,
    CannotLock,
    RepositoryAbsent,
    ResticProgram,
)
from kvedge.storage.backups.restic_streams import AskedFile, WatchedPipe, open_channel, watch_process

_PROGRAM: Final = "restic"
# How long a place may take to say that it is there.
_FIRST_SECONDS: Final = 120.0
# For a run that nobody asks any more to take its lock back.
_END_SECONDS: Final = 5.0
_PIECE: Final = 1 << 20
# The whole number of a file; restic itself would take a part of one, or a word such as `latest`.
_NUMBER: Final = re.compile(r"[0-9a-f]{64}")
_NUMBERS: Final = re.compile(r"\b[0-9a-f]{64}\b")
# A lock is read by a run of restic; more of them are no matter of one killed worker.
_MOST_LOCKS: Final = 8
# Words of a command have a limit, and a file that is gone already must not keep many others.
_FORGET_AT_ONCE: Final = 100


class Kept(Struct, frozen=True):
    """What one run of restic has put into the repository: `size` was read, `added` is what it has grown by."""

    size: int
    added: int


class KeptFile(Struct, frozen=True):
    """One file in the repository, by restic's number, with its tags and restic's word for where it is from."""

    number: str
    time: str
    tags: frozenset[str]
    host: str = ""

    def is_ahead_of(self, now: datetime) -> bool:
        """Whether it was kept later than now: a clock was or is wrong, and "the latest" may be an old one."""
        return read_moment(self.time) > now + CLOCKS_DIFFER


class ResticClient:
    """One repository. All calls raise BackupFailure with restic's own words."""

    def __init__(self, repository: str, secret: Path, program: str = _PROGRAM, user: int | None = None) -> None:
        """`secret` has the keys of the repository's Secret as files; `user` is who restic runs as, with its group.

        Raises:
            BackupFailure: when the host has no restic, or the Secret has no password.
        """
        self._where = repository
        self._restic = ResticProgram(repository, secret, program, user)
        self._locks: bool | None = None

    def ensure(self, *, is_known: bool = False) -> None:
        """Have a repository there; one that is there stays as it is. One that `is_known` and is gone is not made anew:
        its disk may not be mounted, and what is written into the empty directory lies beside the VMs.
        """
        try:
            self._restic.run(["cat", "config", "--no-lock"], seconds=_FIRST_SECONDS)
        except RepositoryAbsent as error:
            if is_known:
                raise BackupFailure(
                    "the repository is gone in which earlier backups were kept: is its disk mounted, and its share?"
                    f" For an empty place make another BackupRepository; {error.message}"
                ) from error
            self._restic.run(["init", "--repository-version", "2"])
        self.unlock_stale()

    def unlock_stale(self, now: datetime | None = None) -> None:
        """Remove locks of runs that were killed. Where a lock may be another host's at work all of them stay, and who
        needs the repository for itself fails with `locked`.
        """
        numbers = _NUMBERS.findall(self._restic.run(["list", "locks", "--no-lock"]).decode(errors="replace"))
        if len(numbers) > _MOST_LOCKS:
            self._restic.locks_kept = f"it has {len(numbers)} locks: `restic unlock` once nobody works in it"
        elif numbers:
            self._restic.locks_kept = self._why_kept(numbers, now or datetime.now(UTC))
            if not self._restic.locks_kept:
                self._restic.run(["unlock"])

    def _why_kept(self, numbers: Sequence[str], now: datetime) -> str:
        try:
            locks = [read_lock(self._restic.run(["cat", "lock", number, "--no-lock"])) for number in numbers]
        except BackupFailure:
            # A run has ended, or has renewed its lock.
            locks = [None]
        own = gethostname()
        if why := why_kept(locks, own, None, now):
            return why
        if all(lock is not None and lock.host == own for lock in locks):
            return ""
        text = self._restic.run(["snapshots", "--json", "--no-lock", "--latest", "1"], LARGEST_LIST)
        try:
            entries = json.loads(text) or []
            newest = max((read_moment(str(each["time"])) for each in entries), default=None)
        except (ValueError, KeyError, TypeError) as error:
            raise BackupFailure(f"restic's list of the repository cannot be read: {error}") from error
        return why_kept(locks, own, newest, now)

    def keep(
        self, file: BinaryIO, name: str, tags: Sequence[str], host: str, watch: Callable[[int], None] | None = None
    ) -> Kept:
        """Put what is read from `file` into the repository, as one file of that name.

        `watch` is told now and then how many bytes have been read.
        """
        words = ["backup", "--stdin", "--stdin-filename", name, "--host", host, "--json"]
        for tag in tags:
            words += ["--tag", tag]
        summary = _last_json(self._restic.run(words, stdin=file, watch=watch))
        size, added = summary.get("total_bytes_processed"), summary.get("data_added")
        if summary.get("message_type") != "summary" or not isinstance(size, int) or not isinstance(added, int):
            raise BackupFailure("restic has ended without saying what it kept; its version may be unknown to kvedge")
        return Kept(size, added)

    def list(self, tags: Sequence[str], host: str = "") -> list[KeptFile]:
        """What carries all of these tags, the oldest first; of one host unless all are asked for."""
        chosen = ["--host", host] if host else []
        text = self._restic.run(["snapshots", "--json", "--no-lock", *chosen, "--tag", ",".join(tags)], LARGEST_LIST)
        try:
            found = json.loads(text) or []
            kept = (
                KeptFile(
                    str(each["id"]),
                    str(each["time"]),
                    frozenset(each.get("tags") or ()),
                    str(each.get("hostname", "")),
                )
                for each in found
            )
            return sorted(kept, key=lambda each: (read_moment(each.time), each.time))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BackupFailure(f"restic's list of the repository cannot be read: {error}") from error

    def forget(self, numbers: Sequence[str]) -> None:
        """Remove exactly these files from the repository's list; their room is freed later."""
        for number in numbers:
            if not _NUMBER.fullmatch(number):
                raise BackupFailure(f"{number[:80]!r} is no number of a file: nothing was removed", fatal=True)
        for start in range(0, len(numbers), _FORGET_AT_ONCE):
            self._restic.run(["forget", *numbers[start : start + _FORGET_AT_ONCE]])

    def free_room(self) -> None:
        """Delete the pieces that no file in the list needs."""
        self._restic.run(["prune"])

    def check(self, part: int, parts: int) -> None:
        """Check the structure, and read one of so many parts of all pieces; all of them where there is one part."""
        subset = "--read-data" if parts <= 1 else f"--read-data-subset={part}/{parts}"
        self._restic.run(["check", subset])

    def read(self, kept: KeptFile, name: str) -> bytes:
        """A small file."""
        return self._restic.run(["dump", "--no-lock", kept.number, f"/{name}"], LARGEST_RECORD)

    @contextmanager
    def stream(self, kept: KeptFile, name: str) -> Iterator[BinaryIO]:
        """A large file, to be read to its end: restic has checked it only then."""
        # Without a lock, what is read could be pruned meanwhile; where nobody can write, nobody prunes.
        locked = self._can_lock()
        with self._restic.open_words() as said:
            words = ["dump", *([] if locked else ["--no-lock"]), kept.number, f"/{name}"]
            process = self._restic.start(words, subprocess.DEVNULL, subprocess.PIPE, said)
            assert process.stdout is not None
            watched = WatchedPipe(process.stdout.fileno(), Patience(process.pid, STALL_SECONDS))
            try:
                yield io.BufferedReader(watched, _PIECE)  # what is read from is enough of a file
                process.stdout.close()
                if process.wait() != 0:
                    raise self._restic.make_failure(said)
            except Stalled as error:
                raise self._restic.make_stall(error, said) from error
            finally:
                process.stdout.close()
                process.kill()
                process.wait()

    @contextmanager
    def stream_from(self, kept: KeptFile, name: str, position: int) -> Iterator[BinaryIO]:
        """The rest of a large file from there on, without what is before it; each piece is checked as it is read."""
        with self.ask(kept, name) as asker:
            yield io.BufferedReader(AskedFile(asker, position), _PIECE)  # enough of a file, too

    @contextmanager
    def ask(self, kept: KeptFile, name: str, seconds: float = STALL_SECONDS) -> Iterator[FileAsker]:
        """A large file, to be read anywhere; each piece is checked as it is read. `seconds` is restic's to move."""
        locked = self._can_lock()
        with (
            self._restic.open_words() as said,
            tempfile.TemporaryDirectory() as place,
            open_channel() as (ours, theirs),
        ):
            programs, empty = Path(place, "bin"), Path(place, "files")
            for made in (programs, empty):
                made.mkdir()
            added = lay_mounter(programs, self._restic.path, theirs.fileno())
            words = ["mount", *([] if locked else ["--no-lock"]), "--path-template", "%I", str(empty)]
            process = self._restic.start(words, subprocess.DEVNULL, subprocess.DEVNULL, said, theirs.fileno(), added)
            theirs.close()
            try:
                asker = FileAsker(ours, watch_process(process, Patience(process.pid, seconds)))
                asker.open(kept.number, name)
                yield asker
            except NoAnswer as error:
                process.kill()
                process.wait()
                failure = self._restic.make_failure(said)
                # Another try reads it from its beginning: what nobody can help is heard then.
                failure.fatal = False
                raise failure from error
            except Stalled as error:
                raise self._restic.make_stall(error, said) from error
            finally:
                # It takes its lock along when nobody asks any more.
                ours.close()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_END_SECONDS)
                process.kill()
                process.wait()

    def _can_lock(self) -> bool:
        """Whether the place can be written: else it is read without a lock."""
        if ":" not in self._where:
            return os.access(self._where, os.W_OK)
        if self._locks is None:
            try:
                self._restic.run(["list", "keys"])
                self._locks = True
            except CannotLock:
                self._locks = False
        return self._locks


def _last_json(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text.strip().rsplit(b"\n", 1)[-1])
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
