"""Keeps block devices for this guest alone, for as long as its QEMU can live: the monitor opens them exclusively.

Called by `claim_disk` and `hotplug_sources`, before a guest that writes a device is started, and by
`hotplug/device_locks`. An exclusive open (O_EXCL) of a block device is the kernel's: a second one fails wherever it
comes from, as does a mount on the host, while QEMU's own locks lie on the device's node, of which each Pod has another.
The launcher may be killed under its guest, so the monitor, PID 1 of the Pod, holds the descriptor: with it goes
everything in the Pod.

The words between them are two files in the Pod's public volume: `devices` has a token and lines such as `+/dev/root` or
`-/dev/root`, `devices-held` the token, a number for each line, 0 or an errno, and the paths that are held now. SIGUSR1
says that there is something to read.
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import time
from typing import Final

from kvedge.launcher.launcher_errors import Unanswered
from kvedge.launcher.monitor import ANSWERS, MONITOR, ORDERS

log = logging.getLogger(__name__)

# The monitor waits for signals and nothing else.
SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 0.002


def hold_device(directory: str, path: str) -> int:
    """Keep a device for this Pod; 0, or the errno with which the kernel refuses it: EBUSY while another has it.

    `directory` is the Pod's public volume.

    Raises:
        Unanswered: when the monitor does not answer.
    """
    return _ask(directory, f"+{path}")


def release_device(directory: str, path: str) -> int:
    """Let others have a device again, when no QEMU of this Pod has it any more.

    Raises:
        Unanswered: when the monitor does not answer.
    """
    return _ask(directory, f"-{path}")


def read_held_devices(directory: str) -> list[str]:
    """What the monitor held when it was last asked, by whichever launcher of this Pod; nothing when it never was."""
    return _read(f"{directory}/{ANSWERS}")[2:] if os.environ.get(MONITOR, "").isdigit() else []


def _ask(directory: str, order: str) -> int:
    monitor = os.environ.get(MONITOR, "")
    if not monitor.isdigit():
        # A launcher by itself, as developers start one.
        log.warning("no monitor keeps the device from others", extra={"facts": {"order": order}})
        return 0
    token = secrets.token_hex(8)
    orders, answers = f"{directory}/{ORDERS}", f"{directory}/{ANSWERS}"
    staged = f"{orders}.new"
    with open(staged, "w") as file:
        file.write(f"{token}\n{order}\n")
    os.replace(staged, orders)
    os.kill(int(monitor), signal.SIGUSR1)
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        answer = _read(answers)
        if answer[:1] == [token] and len(answer) >= 2:
            return int(answer[1])
        time.sleep(_PAUSE_SECONDS)
    raise Unanswered(f"the monitor did not answer {order}")


def _read(path: str) -> list[str]:
    try:
        with open(path) as file:
            return file.read().splitlines()
    except FileNotFoundError:
        return []
