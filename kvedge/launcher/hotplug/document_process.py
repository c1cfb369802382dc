"""Has the documents of disks and NICs made in a process of its own, which then ends.

Called by `disk_keeper` and `nic_keeper`. Starts `kvedge launcher --disk-documents`; gives it a question, takes its
answer.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
from typing import Any, Final, NamedTuple

from kvedge.launcher.launcher_errors import Unanswered
from kvedge.runtime.program import program_command

# Loading takes 0.2 s of CPU; a small box that has just booted takes its time.
SECONDS: Final = 60.0


class DiskDocument(NamedTuple):
    """A device for libvirt and the IO thread that a disk needs (0: none); or the error that keeps it from being one."""

    xml: str = ""
    io_thread: int = 0
    error: str = ""


class DocumentProcess:
    """The process of the disks' documents, loaded ahead of the question: loading takes longer than all the rest of an
    attach. Every method may be called from any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: subprocess.Popen[bytes] | None = None

    def expect(self) -> None:
        """A question is on its way; the process that loads for it ends by itself when none comes."""
        with self._lock:
            if self._waiting is not None and self._waiting.poll() is None:
                return
            _end(self._waiting)
            # A failed start is tried again with the question, which reports the failure.
            with contextlib.suppress(OSError):
                self._waiting = _start()

    def forget_ended(self) -> None:
        """A process that has waited too long leaves nothing behind: no zombie, and no pipes."""
        with self._lock:
            if self._waiting is not None and self._waiting.poll() is not None:
                _end(self._waiting)
                self._waiting = None

    def rest(self) -> None:
        """No question is on its way any more."""
        _end(self._take())

    def make(self, question: dict[str, Any]) -> dict[str, DiskDocument]:
        """As `make_documents`.

        Raises:
            Unanswered: when the process gave no answer.
        """
        process = self._take()
        # A process that has waited too long has ended, or is about to.
        with contextlib.suppress(Unanswered):
            if process is not None:
                return _ask(process, question)
        return make_documents(question)

    def _take(self) -> subprocess.Popen[bytes] | None:
        with self._lock:
            process, self._waiting = self._waiting, None
        return process


def make_documents(question: dict[str, Any]) -> dict[str, DiskDocument]:
    """By name; the question is that of `disk_documents` or `nic_documents`.

    Raises:
        Unanswered: when the process gave no answer.
    """
    try:
        process = _start()
    except OSError as error:
        raise Unanswered(f"the devices' documents were not made: {error}") from error
    return _ask(process, question)


def _start() -> subprocess.Popen[bytes]:
    command = [*program_command(), "launcher", "--disk-documents"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def _ask(process: subprocess.Popen[bytes], question: dict[str, Any]) -> dict[str, DiskDocument]:
    try:
        output, said = process.communicate(json.dumps(question).encode(), SECONDS)
        answer = json.loads(output) if process.returncode == 0 else None
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise Unanswered(f"the devices' documents were not made: {error}") from error
    finally:
        _end(process)
    if answer is None:
        words = said[-500:].decode(errors="replace").strip()
        raise Unanswered(f"the devices' documents were not made: {words}")
    return {name: _document(entry) for name, entry in answer.items()}


def _end(process: subprocess.Popen[bytes] | None) -> None:
    if process is not None:
        process.kill()
        # Closes its pipes as well.
        with process:
            pass


def _document(entry: dict[str, Any]) -> DiskDocument:
    return DiskDocument(str(entry.get("xml", "")), int(entry.get("ioThread", 0)), str(entry.get("error", "")))
