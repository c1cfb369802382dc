"""Has the documents of disks and NICs made in a process of its own, which then ends.

Called by the threads of `disk_keeper` and `nic_keeper`. Starts `kvedge launcher --disk-documents`; gives it a question,
takes its answer.
"""

from __future__ import annotations

import json
import subprocess
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


def make_documents(question: dict[str, Any]) -> dict[str, DiskDocument]:
    """By name; the question is that of `disk_documents` or `nic_documents`.

    Raises:
        Unanswered: when the process gave no answer.
    """
    command = [*program_command(), "launcher", "--disk-documents"]
    try:
        done = subprocess.run(command, input=json.dumps(question).encode(), capture_output=True, timeout=SECONDS)
        answer = json.loads(done.stdout) if done.returncode == 0 else None
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise Unanswered(f"the devices' documents were not made: {error}") from error
    if answer is None:
        said = done.stderr[-500:].decode(errors="replace").strip()
        raise Unanswered(f"the devices' documents were not made: {said}")
    return {name: _document(entry) for name, entry in answer.items()}


def _document(entry: dict[str, Any]) -> DiskDocument:
    return DiskDocument(str(entry.get("xml", "")), int(entry.get("ioThread", 0)), str(entry.get("error", "")))
