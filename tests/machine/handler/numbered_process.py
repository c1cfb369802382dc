"""A process with a number of the test's choosing, in another process's namespaces: as if the kernel had given it again.

A program of its own, run by the tests as root: it enters the namespaces and clones itself with clone3's `set_tid`.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.waiting import wait_until

_SYS_CLONE3 = 435
_NEWNS, _NEWPID, _NEWNET = 0x00020000, 0x20000000, 0x40000000
_INNER = 4000
_USER = 107


class _CloneArguments(ctypes.Structure):
    """struct clone_args."""

    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in (
            "flags",
            "pidfd",
            "child_tid",
            "parent_tid",
            "exit_signal",
            "stack",
            "stack_size",
            "tls",
            "set_tid",
            "set_tid_size",
        )
    )


@contextmanager
def numbered_process(number: int, inside: int) -> Iterator[None]:
    """While it lasts, the host's process `number` is one of the Pod that process `inside` is of."""
    command = [sys.executable, "-m", __name__, str(number), str(inside)]
    maker = subprocess.Popen(command, cwd=Path(__file__).resolve().parents[3])
    try:
        wait_until(lambda: _runs(number, "sleep"), f"process {number}")
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
        maker.wait(10)


def _runs(pid: int, program: str) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == program
    except OSError:
        return False


def main(number: int, inside: int) -> int:
    """Make it and wait for its end."""
    libc = ctypes.CDLL(None, use_errno=True)
    opened = {kind: os.open(f"/proc/{inside}/ns/{kind}", os.O_RDONLY) for kind in ("pid", "net", "mnt")}
    assert libc.setns(opened["pid"], _NEWPID) == 0
    assert libc.setns(opened["net"], _NEWNET) == 0
    # From the innermost namespace outwards.
    numbers = (ctypes.c_int * 2)(_INNER, number)
    asked = _CloneArguments(
        exit_signal=signal.SIGCHLD, set_tid=ctypes.cast(numbers, ctypes.c_void_p).value, set_tid_size=len(numbers)
    )
    child = libc.syscall(_SYS_CLONE3, ctypes.byref(asked), ctypes.sizeof(asked))
    if child == 0:
        if libc.setns(opened["mnt"], _NEWNS) == 0:
            os.setgid(_USER)
            os.setuid(_USER)
            os.execv("/bin/sleep", ["sleep", "1000"])
        os._exit(1)
    if child < 0:
        print(os.strerror(ctypes.get_errno()), file=sys.stderr)
        return 1
    os.waitpid(child, 0)
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
