"""The door to restic: a repository of backups, by the program of that name.

Called by the worker of backups. restic keeps what it is given in pieces that it finds again (deduplication), encrypts
them with a key that the password opens, and checks each piece as it reads it. Starts processes; the repository's
password reaches them as a file's name.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from kvedge.resources.types.protection.backup_job import PASSWORD_KEY

_PROGRAM: Final = "restic"
_LOOK_SECONDS: Final = 1.0
# What is kept of what a program says of its failure.
_LONGEST_WORDS: Final = 1000
# A repository of ours has a record for each backup of a VM: more are nobody's.
_LARGEST_LIST: Final = 64 << 20
_LARGEST_RECORD: Final = 1 << 20
# restic's words for what another try cannot help.
_HOPELESS: Final = "wrong password or no key found"
_ABSENT: Final = ("unable to open config file", "Is there a repository at the following location?")
# Keys of the Secret that become restic's variables.
_VARIABLES: Final[Mapping[str, str]] = {
    "accessKeyId": "AWS_ACCESS_KEY_ID",
    "secretKey": "AWS_SECRET_ACCESS_KEY",
    "region": "AWS_DEFAULT_REGION",
    "restUser": "RESTIC_REST_USERNAME",
    "restPassword": "RESTIC_REST_PASSWORD",
}


class BackupFailure(Exception):
    """What went wrong, in words for the user of the backup; `fatal`: another try cannot help."""

    def __init__(self, message: str, *, fatal: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.fatal = fatal


@dataclass(frozen=True, slots=True)
class Kept:
    """What one run of restic has put into the repository: `size` was read, `added` is what it has grown by."""

    size: int
    added: int


@dataclass(frozen=True, slots=True)
class KeptFile:
    """One file in the repository, by restic's number, with its tags."""

    number: str
    time: str
    tags: frozenset[str]


class ResticClient:
    """One repository. All calls raise BackupFailure with restic's own words."""

    def __init__(self, repository: str, secret: Path, program: str = _PROGRAM) -> None:
        """`secret` has the keys of the repository's Secret as files.

        Raises:
            BackupFailure: when the host has no restic, or the Secret has no password.
        """
        found = shutil.which(program)
        if found is None:
            raise BackupFailure("this node has no restic: install its package (apt install restic) on every node")
        if not (secret / PASSWORD_KEY).is_file():
            raise BackupFailure(f"the repository's Secret has no key {PASSWORD_KEY}: without it nothing is encrypted")
        self._program = found
        self._where = repository
        self._options = [*_options_of(secret, repository)]
        self._environment = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": "/tmp",
            "TMPDIR": "/tmp",
            "RESTIC_REPOSITORY": repository,
            "RESTIC_PASSWORD_FILE": str(secret / PASSWORD_KEY),
            **{name: _read(secret / key) for key, name in _VARIABLES.items() if (secret / key).is_file()},
        }

    def ensure(self, *, is_known: bool = False) -> None:
        """Have a repository there; one that is there stays as it is. One that `is_known` and is gone is not made anew:
        its disk may not be mounted, and what is written into the empty directory lies beside the VMs.
        """
        try:
            self._run(["cat", "config"])
        except BackupFailure as error:
            if not any(words in error.message for words in _ABSENT):
                raise
            if is_known:
                raise BackupFailure(
                    "the repository is gone in which earlier backups were kept: is its disk mounted, and its share?"
                    f" For an empty place make another BackupRepository; {error.message}"
                ) from error
            self._run(["init", "--repository-version", "2"])
        # Of runs that were killed, once they are older than half an hour: others are respected.
        self._run(["unlock"])

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

    def list(self, tags: Sequence[str], host: str) -> list[KeptFile]:
        """What carries all of these tags, the oldest first."""
        text = self._run(["snapshots", "--json", "--no-lock", "--host", host, "--tag", ",".join(tags)], _LARGEST_LIST)
        try:
            found = json.loads(text) or []
            return sorted(
                (KeptFile(str(each["id"]), str(each["time"]), frozenset(each.get("tags") or ())) for each in found),
                key=lambda each: each.time,
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BackupFailure(f"restic's list of the repository cannot be read: {error}") from error

    def read(self, kept: KeptFile, name: str) -> bytes:
        """A small file."""
        return self._run(["dump", "--no-lock", kept.number, f"/{name}"], _LARGEST_RECORD)

    @contextmanager
    def stream(self, kept: KeptFile, name: str) -> Iterator[BinaryIO]:
        """A large file, to be read to its end: restic has checked it only then."""
        with tempfile.TemporaryFile() as said:
            process = self._start(["dump", kept.number, f"/{name}"], subprocess.DEVNULL, subprocess.PIPE, said)
            assert process.stdout is not None
            try:
                yield process.stdout  # type: ignore[misc] # a pipe of bytes is one
                process.stdout.close()
                if process.wait() != 0:
                    raise self._failure(said)
            finally:
                process.kill()
                process.wait()

    def _run(
        self,
        words: Sequence[str],
        most: int = _LARGEST_RECORD,
        stdin: BinaryIO | None = None,
        watch: Callable[[int], None] | None = None,
    ) -> bytes:
        """What it prints, the last `most` bytes of it."""
        with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as said:
            process = self._start(words, subprocess.DEVNULL if stdin is None else stdin, printed, said)
            try:
                while (code := _wait(process)) is None:
                    if watch is not None and stdin is not None:
                        # The place in the file is shared with the program that reads it.
                        watch(os.lseek(stdin.fileno(), 0, os.SEEK_CUR))
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

    def _start(self, words: Sequence[str], stdin: Any, stdout: Any, stderr: Any) -> subprocess.Popen[bytes]:
        command = [self._program, "--no-cache", *self._options, *words]
        return subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=stderr, env=self._environment)

    def _failure(self, said: BinaryIO) -> BackupFailure:
        size = said.seek(0, os.SEEK_END)
        said.seek(max(0, size - _LONGEST_WORDS))
        words = said.read(_LONGEST_WORDS).decode(errors="replace").strip()
        is_fatal = _HOPELESS in words
        return BackupFailure(f"restic, for {_without_password(self._where)}: {words or 'no word'}", fatal=is_fatal)


def _wait(process: subprocess.Popen[bytes]) -> int | None:
    """Its exit code, or None when it goes on after a second."""
    try:
        return process.wait(_LOOK_SECONDS)
    except subprocess.TimeoutExpired:
        return None


def _options_of(secret: Path, repository: str) -> Iterator[str]:
    if (secret / "ca.crt").is_file():
        yield from ("--cacert", str(secret / "ca.crt"))
    if repository.startswith("sftp:") and (secret / "sshKey").is_file():
        known = secret / "knownHosts"
        # An unknown server is refused: it could be anybody's.
        words = (
            f"ssh -i {secret / 'sshKey'} -o UserKnownHostsFile={known} -o StrictHostKeyChecking=yes -o BatchMode=yes"
        )
        target, _, _ = repository.removeprefix("sftp:").partition(":")
        yield from ("-o", f"sftp.command={words} {target} -s sftp")


def _read(path: Path) -> str:
    return path.read_text().strip()


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
