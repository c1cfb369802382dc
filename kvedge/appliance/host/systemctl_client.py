"""The one door to systemd's administration and to modprobe.

Called by the steps and by upgrade. Runs systemctl, journalctl and modprobe, each with a time limit.
"""

from __future__ import annotations

import logging
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

_RUNS: Final = Path("/run/systemd/system")
_JOURNAL_LINES: Final = 15
_SECONDS: Final = 20.0


class SystemdError(Exception):
    """systemctl failed; the text says what was asked and what it said."""


def systemd_runs() -> bool:
    """Whether systemd is this host's init (sd_booted(3))."""
    return _RUNS.is_dir()


def systemctl(*arguments: str, seconds: float = 60.0) -> str:
    """Run systemctl; its output.

    Raises:
        SystemdError: when it fails or takes longer.
    """
    command = ["systemctl", "--no-ask-password", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except FileNotFoundError as error:
        raise SystemdError("systemctl is not installed: this host has no systemd") from error
    except subprocess.TimeoutExpired as error:
        raise SystemdError(f"systemctl {' '.join(arguments)} takes longer than {seconds:.0f} s") from error
    if done.returncode != 0:
        raise SystemdError(f"systemctl {' '.join(arguments)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def unit_property(unit: str, name: str) -> str:
    """A property of a unit, such as ActiveState; empty for a unit that is not there.

    Raises:
        SystemdError: when systemctl fails.
    """
    return systemctl("show", "--value", f"--property={name}", unit).strip()


def last_words(unit: str) -> list[str]:
    """What the unit said last, oldest first; empty where there is no journal."""
    command = ["journalctl", "--no-pager", "--quiet", "--output=cat", f"--unit={unit}", f"--lines={_JOURNAL_LINES}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (FileNotFoundError, subprocess.TimeoutExpired) as error:
        log.info("no journal", extra={"facts": {"error": str(error)}})
        return []
    return done.stdout.splitlines()


def load_modules(names: Sequence[str]) -> None:
    """Load kernel modules, as far as this kernel has them."""
    modprobe = shutil.which("modprobe") or shutil.which("modprobe", path="/usr/sbin:/sbin")
    if modprobe is not None:
        subprocess.run([modprobe, "--all", "--quiet", *names], timeout=_SECONDS, capture_output=True, check=False)
