"""How a launcher becomes the one that owns its guest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.needs import NEEDS_LIBVIRT

pytestmark = NEEDS_LIBVIRT

# A thread that serves takes signals while the main thread has them blocked. The next program says what waits for it.
PROGRAM = """
import os, signal, sys, threading
from kvedge.launcher import incoming_process
from kvedge.launcher.launcher_options import LauncherOptions
from kvedge.launcher.stop_bell import StopBell

NEXT = "import signal; print(sorted(signal.sigpending()), signal.SIGTERM in signal.pthread_sigmask(0, []))"
execv = os.execv
incoming_process.os.execv = lambda program, arguments: execv(program, [program, "-c", NEXT])
threading.Thread(target=threading.Event().wait, daemon=True).start()
bell = StopBell()
bell.listen((signal.SIGTERM, signal.SIGINT))
if sys.argv[1] == "asked":
    os.kill(os.getpid(), signal.SIGTERM)
    bell.wait()
elif sys.argv[1] == "asked late":
    block = signal.pthread_sigmask
    def block_late(how, mask):
        block(how, mask)
        os.kill(os.getpid(), signal.SIGTERM)
        bell.wait()
    incoming_process.signal.pthread_sigmask = block_late
incoming_process._start_again(LauncherOptions(namespace="n", name="v", uid="u", incoming="m-1"), bell)
"""


@pytest.mark.parametrize(
    ("when", "pending"),
    [
        ("asked", "[<Signals.SIGTERM: 15>] True"),
        ("asked late", "[<Signals.SIGTERM: 15>] True"),
        ("not asked", "[] True"),
    ],
)
def test_the_launcher_that_owns_the_guest_hears_that_it_is_to_stop(when: str, pending: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, when],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout.strip(), done.stderr.count("Traceback")) == (0, pending, 0)
