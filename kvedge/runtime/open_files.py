"""How many files and sockets this process may have open.

Called once at the start of a long-running role. Changes the process's own limit.
"""

from __future__ import annotations

import resource
from typing import Final

# Consoles, watches and idle clients all take one; systemd's default of 1024 is for programs that use select().
_WANTED: Final = 65536


def raise_open_files() -> int:
    """Raise the limit as far as an unprivileged process may, up to what is wanted; returns what it is now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _WANTED if hard == resource.RLIM_INFINITY else min(_WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        return most
    return open_files()


def open_files() -> int:
    """The limit as it is."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _WANTED if soft == resource.RLIM_INFINITY else soft
