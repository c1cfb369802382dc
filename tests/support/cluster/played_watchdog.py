"""`kvedge` with a watchdog that resets nothing: each feeding is a line in a file, with the machine's uptime.

Run as a program in the place of kvedge: `played_watchdog.py FILE ARGUMENTS…`. A test that sees that the file gets no
more lines plays the reset itself, by cutting the node's power.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

FED, DISARMED = "fed", "disarmed"


class LoggedWatchdog:
    """An armed one."""

    name = "played"

    def __init__(self, path: Path, seconds: int) -> None:
        self.seconds = seconds
        self._path = path
        self.feed()

    def feed(self) -> None:
        self._note(FED)

    def disarm(self) -> None:
        self._note(DISARMED)

    def leave(self) -> None:
        pass

    def _note(self, what: str) -> None:
        with self._path.open("a") as file:
            file.write(f"{what} {time.monotonic():.3f}\n")


def last_note(path: Path) -> tuple[str, float]:
    """What was done to the watchdog last, and when."""
    lines = path.read_text().splitlines() if path.exists() else []
    what, _, moment = (lines[-1] if lines else "never 0").partition(" ")
    return what, float(moment)


def main() -> None:
    """Run kvedge."""
    from kvedge.cli.main import main as run_kvedge
    from kvedge.handler.fencing import fence_service

    path = Path(sys.argv.pop(1))
    fence_service.arm_device = lambda seconds: LoggedWatchdog(path, seconds)
    run_kvedge()


if __name__ == "__main__":
    main()
