"""What becomes of a launcher one of whose threads fails."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import threading
from kvedge.launcher.launcher_process import _end_with
threading.excepthook = _end_with
threading.Thread(target=lambda: 1 / 0, name="domain-watch").start()
threading.Event().wait(30)
"""


def test_a_thread_that_fails_ends_the_process_with_a_code_that_restarts_it() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=30, check=False)
    # Neither 0 nor 1, which would be the guest's end.
    assert done.returncode == 70
    assert "a thread failed" in done.stderr
    assert "ZeroDivisionError" in done.stderr
