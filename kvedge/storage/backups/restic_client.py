"""The door to restic: a repository of backups, by the program of that name.

Called by the worker of backups. restic keeps what it is given in pieces that it finds again (deduplication), encrypts
them with a key that the password opens, and checks each piece as it reads it. Starts processes; the repository's
password reaches them as a file's name.
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import re
import select
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from socket import gethostname
from typing import Any, BinaryIO, Final, cast

from kvedge.resources.types.protection.backup_job import PASSWORD_KEY
from kvedge.storage.backups.file_asker import FileAsker, NoAnswer, lay_mounter
from kvedge.storage.backups.lock_rules import CLOCKS_DIFFER, read_lock, read_moment, why_kept
from kvedge.storage.backups.patience import Patience, Stalled, read_room
from kvedge.storage.backups.place_access import AccessError, make_environment, make_options
from kvedge.storage.backups.restic_words import judge_words

_PROGRAM: Final = "restic"
_LOOK_SECONDS: Final = 1.0
# What is read of what a program says of its failure: its first words, and its last ones.
_LONGEST_WORDS: Final = 32 << 10
# How long nothing may move, and how long a place may take to say that it is there.
_STALL_SECONDS: Final = 600.0
_FIRST_SECONDS: Final = 120.0
# For a run that nobody asks any more to take its lock back.
_END_SECONDS: Final = 5.0
# On a full disk: restic ends by itself at once, or never. It writes packs of 16 MiB and what it must note of them.
_FULL_SECONDS: Final = 15.0
_LEAST_ROOM: Final = 32 << 20
# A repository of ours has a record for each backup of a VM: more are nobody's.
_LARGEST_LIST: Final = 64 << 20
_LARGEST_RECORD: Final = 1 << 20
_PIECE: Final = 1 << 20
# restic's words where another process has the repository, and where what is kept is damaged.
_LOCKED: Final = ("already locked",)
_DAMAGED: Final = ("repository contains errors", "LoadIndex returned errors")
# The whole number of a file; restic itself would take a part of one, or a word such as `latest`.
_NUMBER: Final = re.compile(r"[0-9a-f]{64}")
_NUMBERS: Final = re.compile(r"\b[0-9a-f]{64}\b")
# A lock is read by a run of restic; more of them are no matter of one killed worker.
_MOST_LOCKS: Final = 8
# Words of a command have a limit, and a file that is gone already must not keep many others.
_FORGET_AT_ONCE: Final = 100


class BackupFailure(Exception):
    """What went wrong, in words for the user of the backup; `fatal`: another try cannot help, `locked`: somebody else
    works in the repository, `damaged`: what is kept there is not whole.
    """

    def __init__(self, message: str, *, fatal: bool = False, locked: bool = False, damaged: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.fatal = fatal
        self.locked = locked
        self.damaged = damaged


class RepositoryAbsent(BackupFailure):
    """The place answers, and has no repository."""


class _CannotLock(BackupFailure):
    """A place that can be read and not written."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What one run of restic has put into the repository: `size` was read, `added` is what it has grown by."""

    size: int
    added: int


@dataclass(frozen=True, slots=True)
class KeptFile:
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
        found = shutil.which(program)
        if found is None:
            raise BackupFailure("this node has no restic: install its package (apt install restic) on every node")
        if not (secret / PASSWORD_KEY).is_file():
            raise BackupFailure(f"the repository's Secret has no key {PASSWORD_KEY}: without it nothing is encrypted")
        self._program = found
        self._user = user
        self._where = repository
        self._locks: bool | None = None
        self._locks_kept = ""
        self._secret = secret
        try:
            make_options(repository, secret)
        except AccessError as error:
            raise BackupFailure(str(error), fatal=True) from error
        self._environment = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": "/tmp",
            "TMPDIR": "/tmp",
            "RESTIC_PASSWORD_FILE": str(secret / PASSWORD_KEY),
            # It would print sixty lines a second.
            "RESTIC_PROGRESS_FPS": "0.05",
            **make_environment(repository, secret),
        }

    def ensure(self, *, is_known: bool = False) -> None:
        """Have a repository there; one that is there stays as it is. One that `is_known` and is gone is not made anew:
        its disk may not be mounted, and what is written into the empty directory lies beside the VMs.
        """
        try:
            self._run(["cat", "config", "--no-lock"], seconds=_FIRST_SECONDS)
        except RepositoryAbsent as error:
            if is_known:
                raise BackupFailure(
                    "the repository is gone in which earlier backups were kept: is its disk mounted, and its share?"
                    f" For an empty place make another BackupRepository; {error.message}"
                ) from error
            self._run(["init", "--repository-version", "2"])
        self.unlock_stale()

    def unlock_stale(self, now: datetime | None = None) -> None:
        """Remove locks of runs that were killed. Where a lock may be another host's at work all of them stay, and who
        needs the repository for itself fails with `locked`.
        """
        numbers = _NUMBERS.findall(self._run(["list", "locks", "--no-lock"]).decode(errors="replace"))
        if len(numbers) > _MOST_LOCKS:
            self._locks_kept = f"it has {len(numbers)} locks: `restic unlock` once nobody works in it"
        elif numbers:
            self._locks_kept = self._why_kept(numbers, now or datetime.now(UTC))
            if not self._locks_kept:
                self._run(["unlock"])

    def _why_kept(self, numbers: Sequence[str], now: datetime) -> str:
        try:
            locks = [read_lock(self._run(["cat", "lock", number, "--no-lock"])) for number in numbers]
        except BackupFailure:
            # A run has ended, or has renewed its lock.
            locks = [None]
        own = gethostname()
        if why := why_kept(locks, own, None, now):
            return why
        if all(lock is not None and lock.host == own for lock in locks):
            return ""
        text = self._run(["snapshots", "--json", "--no-lock", "--latest", "1"], _LARGEST_LIST)
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
        summary = _last_json(self._run(words, stdin=file, watch=watch))
        size, added = summary.get("total_bytes_processed"), summary.get("data_added")
        if summary.get("message_type") != "summary" or not isinstance(size, int) or not isinstance(added, int):
            raise BackupFailure("restic has ended without saying what it kept; its version may be unknown to kvedge")
        return Kept(size, added)

    def list(self, tags: Sequence[str], host: str = "") -> list[KeptFile]:
        """What carries all of these tags, the oldest first; of one host unless all are asked for."""
        chosen = ["--host", host] if host else []
        text = self._run(["snapshots", "--json", "--no-lock", *chosen, "--tag", ",".join(tags)], _LARGEST_LIST)
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
            self._run(["forget", *numbers[start : start + _FORGET_AT_ONCE]])

    def free_room(self) -> None:
        """Delete the pieces that no file in the list needs."""
        self._run(["prune"])

    def check(self, part: int, parts: int) -> None:
        """Check the structure, and read one of so many parts of all pieces; all of them where there is one part."""
        subset = "--read-data" if parts <= 1 else f"--read-data-subset={part}/{parts}"
        self._run(["check", subset])

    def read(self, kept: KeptFile, name: str) -> bytes:
        """A small file."""
        return self._run(["dump", "--no-lock", kept.number, f"/{name}"], _LARGEST_RECORD)

    @contextmanager
    def stream(self, kept: KeptFile, name: str) -> Iterator[BinaryIO]:
        """A large file, to be read to its end: restic has checked it only then."""
        # Without a lock, what is read could be pruned meanwhile; where nobody can write, nobody prunes.
        locked = self._can_lock()
        with self._open_words() as said:
            words = ["dump", *([] if locked else ["--no-lock"]), kept.number, f"/{name}"]
            process = self._start(words, subprocess.DEVNULL, subprocess.PIPE, said)
            assert process.stdout is not None
            watched = _WatchedPipe(process.stdout.fileno(), Patience(process.pid, _STALL_SECONDS))
            try:
                yield io.BufferedReader(watched, _PIECE)  # what is read from is enough of a file
                process.stdout.close()
                if process.wait() != 0:
                    raise self._failure(said)
            except Stalled as error:
                raise self._stall(error, said) from error
            finally:
                process.stdout.close()
                process.kill()
                process.wait()

    @contextmanager
    def stream_from(self, kept: KeptFile, name: str, position: int) -> Iterator[BinaryIO]:
        """The rest of a large file from there on, without what is before it; each piece is checked as it is read."""
        locked = self._can_lock()
        with self._open_words() as said, tempfile.TemporaryDirectory() as place, _channel() as (ours, theirs):
            programs, empty = Path(place, "bin"), Path(place, "files")
            for made in (programs, empty):
                made.mkdir()
            added = lay_mounter(programs, self._environment["PATH"], theirs.fileno())
            words = ["mount", *([] if locked else ["--no-lock"]), "--path-template", "%I", str(empty)]
            process = self._start(words, subprocess.DEVNULL, subprocess.DEVNULL, said, theirs.fileno(), added)
            theirs.close()
            try:
                asker = FileAsker(ours, _watch(process, Patience(process.pid, _STALL_SECONDS)))
                asker.open(kept.number, name)
                yield io.BufferedReader(_AskedFile(asker, position), _PIECE)  # enough of a file, too
            except NoAnswer as error:
                process.kill()
                process.wait()
                raise self._failure(said) from error
            except Stalled as error:
                raise self._stall(error, said) from error
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
                self._run(["list", "keys"])
                self._locks = True
            except _CannotLock:
                self._locks = False
        return self._locks

    def _run(
        self,
        words: Sequence[str],
        most: int = _LARGEST_RECORD,
        stdin: BinaryIO | None = None,
        watch: Callable[[int], None] | None = None,
        seconds: float = _STALL_SECONDS,
    ) -> bytes:
        """What it prints, the last `most` bytes of it. It is ended when it has moved nothing for so long."""
        with tempfile.TemporaryFile() as printed, self._open_words() as said:
            process = self._start(words, subprocess.DEVNULL if stdin is None else stdin, printed, said)
            patience, was_quiet = Patience(process.pid, seconds), False
            try:
                while (code := _wait(process)) is None:
                    patience.check()
                    is_quiet = stdin is not None and patience.quiet_seconds >= _FULL_SECONDS
                    if is_quiet and not was_quiet:
                        self._check_room()
                    was_quiet = is_quiet
                    if watch is not None and stdin is not None:
                        # The place in the file is shared with the program that reads it.
                        watch(os.lseek(stdin.fileno(), 0, os.SEEK_CUR))
            except Stalled as error:
                raise self._stall(error, said) from error
            finally:
                process.kill()
                process.wait()
            if code != 0:
                raise self._failure(said)
            size = printed.seek(0, os.SEEK_END)
            if size > most and most >= _LARGEST_LIST:
                raise BackupFailure(f"the repository's list has more than {most >> 20} MiB: use one for fewer VMs")
            printed.seek(max(0, size - most))
            return printed.read(most)

    def _check_room(self) -> None:
        """Raises BackupFailure for a place of this host that is full: restic 0.14 may hang there, and says nothing."""
        room = None if ":" in self._where else read_room(self._where)
        if room is not None and room < _LEAST_ROOM:
            words = f"no space left on device: {room >> 20} MiB are free in {self._where}"
            raise BackupFailure(f"restic, for {self._where}: {judge_words(words).text}")

    @contextmanager
    def _open_words(self) -> Iterator[BinaryIO]:
        """A file for what restic and ssh say, each behind the other."""
        with tempfile.NamedTemporaryFile() as said:
            fcntl.fcntl(said, fcntl.F_SETFL, fcntl.fcntl(said, fcntl.F_GETFL) | os.O_APPEND)
            if self._user is not None:
                os.fchown(said.fileno(), self._user, self._user)
            yield cast("BinaryIO", said)

    def _start(
        self,
        words: Sequence[str],
        stdin: Any,
        stdout: Any,
        stderr: BinaryIO,
        channel: int | None = None,
        added: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        options = make_options(self._where, self._secret, stderr.name)
        command = [self._program, "--no-cache", *options, *words]
        kept = () if channel is None else (channel,)
        environment = {**self._environment, **(added or {})}
        if self._user is None:
            return subprocess.Popen(
                command, stdin=stdin, stdout=stdout, stderr=stderr, env=environment, pass_fds=kept
            )  # fmt: skip
        return subprocess.Popen(
            command, stdin=stdin, stdout=stdout, stderr=stderr, env=environment, cwd="/", user=self._user,
            group=self._user, extra_groups=[], pass_fds=kept,
        )  # fmt: skip

    def _failure(self, said: BinaryIO) -> BackupFailure:
        words = self._words(said)
        judged = judge_words(words)
        text = f"restic, for {_without_password(self._where)}: {judged.text}"
        if judged.is_absent:
            return RepositoryAbsent(f"{text}; there is no repository")
        is_locked = any(each in words for each in _LOCKED)
        if is_locked and self._locks_kept:
            text += f"; {self._locks_kept}"
        return (_CannotLock if judged.cannot_lock else BackupFailure)(
            text,
            fatal=judged.is_fatal,
            locked=is_locked,
            damaged=any(each in words for each in _DAMAGED),
        )

    def _stall(self, why: Stalled, said: BinaryIO) -> BackupFailure:
        words = judge_words(self._words(said)).text
        return BackupFailure(
            f"restic, for {_without_password(self._where)}: {why}: the server takes what it is sent, and does not"
            f" answer: is it overloaded, or its disk full or gone? It has said: {words}"
        )

    def _words(self, said: BinaryIO) -> str:
        """The first words of a program and its last ones, without the password that its URL may have."""
        size = said.seek(0, os.SEEK_END)
        said.seek(0)
        first = said.read(_LONGEST_WORDS)
        said.seek(max(len(first), size - _LONGEST_WORDS))
        text = (first + said.read(_LONGEST_WORDS)).decode(errors="replace")
        return text.replace(self._environment["RESTIC_REPOSITORY"], _without_password(self._where))


class _WatchedPipe(io.RawIOBase):
    """What a program writes, read for as long as it does something."""

    def __init__(self, pipe: int, patience: Patience) -> None:
        super().__init__()
        self._pipe = pipe
        self._patience = patience

    def readable(self) -> bool:
        """It is for nothing else."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Raises Stalled when the program has hung."""
        while not select.select([self._pipe], [], [], _LOOK_SECONDS)[0]:
            self._patience.check()
        return os.readv(self._pipe, [buffer])


class _AskedFile(io.RawIOBase):
    """A file from a place on, as it is asked for."""

    def __init__(self, asker: FileAsker, position: int) -> None:
        super().__init__()
        self._asker = asker
        self._position = position

    def readable(self) -> bool:
        """It is for nothing else."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Raises NoAnswer when restic has ended or cannot read it, Stalled when it has hung."""
        found = self._asker.read(self._position, len(buffer))
        buffer[: len(found)] = found
        self._position += len(found)
        return len(found)


@contextmanager
def _channel() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        yield ours, theirs


def _watch(process: subprocess.Popen[bytes], patience: Patience) -> Callable[[], None]:
    """Raises NoAnswer once the process has ended, Stalled when it has hung."""

    def look() -> None:
        if process.poll() is not None:
            raise NoAnswer("restic has ended")
        patience.check()

    return look


def _wait(process: subprocess.Popen[bytes]) -> int | None:
    """Its exit code, or None when it goes on after a second."""
    try:
        return process.wait(_LOOK_SECONDS)
    except subprocess.TimeoutExpired:
        return None


def _last_json(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text.strip().rsplit(b"\n", 1)[-1])
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _without_password(repository: str) -> str:
    """The place, as it may be shown: a URL may carry a user's password."""
    scheme, separator, rest = repository.partition("://")
    user, at, host = rest.rpartition("@")
    return f"{scheme}{separator}***@{host}" if separator and at and user else repository
