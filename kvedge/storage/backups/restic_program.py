"""Runs restic: its words and options, what becomes of a run that hangs, and what its failures mean for a user.

Held by the client of a repository. Starts processes; the repository's password reaches them as a file's name.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from kvedge.resources.types.protection.backup_job import PASSWORD_KEY
from kvedge.storage.backups.patience import Patience, Stalled, read_room
from kvedge.storage.backups.place_access import AccessError, make_environment, make_options
from kvedge.storage.backups.restic_words import judge_words

# How long nothing may move.
STALL_SECONDS: Final = 600.0
_LOOK_SECONDS: Final = 1.0
# What is read of what a program says of its failure: its first words, and its last ones.
_LONGEST_WORDS: Final = 32 << 10
# On a full disk: restic ends by itself at once, or never. It writes packs of 16 MiB and what it must note of them.
_FULL_SECONDS: Final = 15.0
_LEAST_ROOM: Final = 32 << 20
# A repository of ours has a record for each backup of a VM: more are nobody's.
LARGEST_LIST: Final = 64 << 20
LARGEST_RECORD: Final = 1 << 20
# restic's words where another process has the repository, and where what is kept is damaged.
_LOCKED: Final = ("already locked",)
_DAMAGED: Final = ("repository contains errors", "LoadIndex returned errors")


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


class CannotLock(BackupFailure):
    """A place that can be read and not written."""


class ResticProgram:
    """restic for one repository; `locks_kept` is why locks that may be stale were left there."""

    def __init__(self, repository: str, secret: Path, program: str, user: int | None) -> None:
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
        self.locks_kept = ""
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

    @property
    def path(self) -> str:
        """Where restic finds programs of its own."""
        return self._environment["PATH"]

    def run(
        self,
        words: Sequence[str],
        most: int = LARGEST_RECORD,
        stdin: BinaryIO | None = None,
        watch: Callable[[int], None] | None = None,
        seconds: float = STALL_SECONDS,
    ) -> bytes:
        """What it prints, the last `most` bytes of it. It is ended when it has moved nothing for so long."""
        with tempfile.TemporaryFile() as printed, self.open_words() as said:
            process = self.start(words, subprocess.DEVNULL if stdin is None else stdin, printed, said)
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
                raise self.make_stall(error, said) from error
            finally:
                process.kill()
                process.wait()
            if code != 0:
                raise self.make_failure(said)
            size = printed.seek(0, os.SEEK_END)
            if size > most and most >= LARGEST_LIST:
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
    def open_words(self) -> Iterator[BinaryIO]:
        """A file for what restic and ssh say, each behind the other."""
        with tempfile.NamedTemporaryFile() as said:
            fcntl.fcntl(said, fcntl.F_SETFL, fcntl.fcntl(said, fcntl.F_GETFL) | os.O_APPEND)
            if self._user is not None:
                os.fchown(said.fileno(), self._user, self._user)
            yield cast("BinaryIO", said)

    def start(
        self,
        words: Sequence[str],
        stdin: Any,
        stdout: Any,
        stderr: BinaryIO,
        channel: int | None = None,
        added: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        """A process; it has `channel`, a descriptor, and `added` in its environment."""
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

    def make_failure(self, said: BinaryIO) -> BackupFailure:
        """What a run that has failed has said of it."""
        words = self._words(said)
        judged = judge_words(words)
        text = f"restic, for {_without_password(self._where)}: {judged.text}"
        if judged.is_absent:
            return RepositoryAbsent(f"{text}; there is no repository")
        is_locked = any(each in words for each in _LOCKED)
        if is_locked and self.locks_kept:
            text += f"; {self.locks_kept}"
        return (CannotLock if judged.cannot_lock else BackupFailure)(
            text,
            fatal=judged.is_fatal,
            locked=is_locked,
            damaged=any(each in words for each in _DAMAGED),
        )

    def make_stall(self, why: Stalled, said: BinaryIO) -> BackupFailure:
        """What a run that hangs has said so far."""
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


def _wait(process: subprocess.Popen[bytes]) -> int | None:
    """Its exit code, or None when it goes on after a second."""
    try:
        return process.wait(_LOOK_SECONDS)
    except subprocess.TimeoutExpired:
        return None


def _without_password(repository: str) -> str:
    """The place, as it may be shown: a URL may carry a user's password."""
    scheme, separator, rest = repository.partition("://")
    user, at, host = rest.rpartition("@")
    return f"{scheme}{separator}***@{host}" if separator and at and user else repository
