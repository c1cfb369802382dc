"""Kernel settings under /proc/sys/net, which belong to the network namespace of the thread that opens them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kvedge.network.errors import NetworkError

ROOT: Final = Path("/proc/sys/net")


def read_sysctl(name: str) -> str | None:
    """The value of `ipv4/conf/all/arp_ignore`, say; None when this kernel or this link has no such setting."""
    try:
        return (ROOT / name).read_text().strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise NetworkError("cannot read kernel setting", subject=name, errno=error.errno or 0) from error


def write_sysctl(name: str, value: str) -> None:
    """Sets it, unless it is so already. Raises NetworkError."""
    if read_sysctl(name) == value:
        return
    try:
        (ROOT / name).write_text(value)
    except OSError as error:
        raise NetworkError(f"cannot set kernel setting to {value}", subject=name, errno=error.errno or 0) from error
