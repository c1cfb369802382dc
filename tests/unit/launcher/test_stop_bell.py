"""What ends the launcher's wait, whichever thread hears it."""

from __future__ import annotations

import subprocess
import sys

import pytest

# The signal goes to a thread that is not the main one, as the kernel may decide.
PROGRAM = """
import signal, threading, time
from kvedge.launcher.stop_bell import StopBell
bell = StopBell()
bell.listen((signal.SIGTERM, signal.SIGINT))
def stir():
    time.sleep({pause})
    {stir}
threading.Thread(target=stir).start()
time.sleep({busy})
bell.wait()
print("asked" if bell.is_asked else "over")
"""
TO_ANOTHER = "signal.pthread_kill(threading.get_ident(), signal.SIGTERM)"


@pytest.mark.parametrize(
    ("pause", "busy"), [pytest.param(0.3, 0.0, id="while it waits"), pytest.param(0.0, 0.3, id="before it waits")]
)
@pytest.mark.parametrize(
    ("stir", "told"),
    [
        pytest.param(TO_ANOTHER, "asked", id="a signal to another thread"),
        pytest.param("signal.raise_signal(signal.SIGINT)", "asked", id="a signal of its own"),
        pytest.param("bell.ring()", "over", id="the run's end"),
        pytest.param("[bell.ring() for _ in range(100_000)]", "over", id="far too often"),
    ],
)
def test_the_wait_ends(pause: float, busy: float, stir: str, told: str) -> None:
    program = PROGRAM.format(pause=pause, busy=busy, stir=stir)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert (done.stdout, done.stderr) == (f"{told}\n", "")
