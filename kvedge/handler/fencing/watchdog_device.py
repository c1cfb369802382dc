"""The kernel's watchdog, hardware or softdog: a machine that is not fed is reset.

The fence service alone opens it. It is held as long as the node has promised to end guests: whoever closes it without
the magic letter, as the kernel does for a process that has gone, leaves it running. A watchdog that cannot be stopped
any more (`nowayout`) is not used: a node that promises nothing could not be left alone.
"""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

# linux/watchdog.h
_SETTIMEOUT: Final = 0xC0045706
_GETTIMEOUT: Final = 0x80045707
_KEEPALIVE: Final = 0x80045705
_INT: Final = struct.Struct("=i")
_MAGIC_CLOSE: Final = b"V"
_DEVICE: Final = Path("/dev/watchdog0")
_SYS: Final = Path("/sys/class/watchdog/watchdog0")
_MODPROBE_SECONDS: Final = 10
_LONGEST_NAME: Final = 64


class WatchdogError(Exception):
    """There is no watchdog that can be used; the text says why, and what helps."""


class Watchdog(Protocol):
    """An armed watchdog."""

    @property
    def name(self) -> str:
        """What it calls itself."""

    @property
    def seconds(self) -> int:
        """How long it waits to be fed, as it says itself."""

    def feed(self) -> None:
        """The machine may live on. Raises WatchdogError."""

    def disarm(self) -> None:
        """Stop the timer, and close it."""

    def leave(self) -> None:
        """Close it, and let the timer run."""


class WatchdogDevice:
    """The one device of this machine; its timer runs from the moment that it is made."""

    def __init__(self, seconds: int, device: Path = _DEVICE, sys: Path = _SYS) -> None:
        """Arm it for so many seconds, or as many as it can.

        Raises:
            WatchdogError: when there is none, another program has it, or it cannot be stopped again.
        """
        _check(device, sys)
        try:
            # Unbuffered: what is written feeds at once.
            self._fd = os.open(device, os.O_WRONLY | os.O_CLOEXEC)
        except OSError as error:
            text = f"{device} cannot be opened: {error.strerror}"
            raise WatchdogError(f"{text}; another program has it, such as systemd's RuntimeWatchdogSec") from error
        try:
            self.seconds = self._set(seconds)
        except OSError as error:
            self.disarm()
            raise WatchdogError(f"{device} takes no timeout: {error.strerror}") from error
        self.name = _read(sys / "identity") or device.name

    def _set(self, seconds: int) -> int:
        # One that refuses keeps what it has: that is read next, and is what counts.
        with suppress(OSError):
            fcntl.ioctl(self._fd, _SETTIMEOUT, _INT.pack(seconds))
        found: int = _INT.unpack(fcntl.ioctl(self._fd, _GETTIMEOUT, _INT.pack(0)))[0]
        return found

    def feed(self) -> None:
        """The machine may live on."""
        try:
            fcntl.ioctl(self._fd, _KEEPALIVE, _INT.pack(0))
        except OSError as error:
            raise WatchdogError(f"the watchdog cannot be fed: {error.strerror}") from error

    def disarm(self) -> None:
        """Stop the timer, and close it."""
        os.write(self._fd, _MAGIC_CLOSE)
        os.close(self._fd)

    def leave(self) -> None:
        """Close it, and let the timer run."""
        os.close(self._fd)


def load_softdog() -> None:
    """Have the kernel's own watchdog where the machine has none."""
    if _DEVICE.exists():
        return
    try:
        subprocess.run(["modprobe", "-q", "softdog"], timeout=_MODPROBE_SECONDS, check=False, capture_output=True)
    except (OSError, subprocess.TimeoutExpired):
        # Its absence is told by the one that opens it.
        return


def _check(device: Path, sys: Path) -> None:
    if not device.exists():
        raise WatchdogError(f"this node has no {device}; load the module softdog, or that of its hardware")
    if _read(sys / "nowayout") == "1":
        raise WatchdogError(f"{device} cannot be stopped once it runs (nowayout); load its module with nowayout=0")


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()[:_LONGEST_NAME]
    except OSError:
        return ""
