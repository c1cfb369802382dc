"""What a test needs of the machine or of its user, as marks: it is skipped where that is not there.

Used by tests that can otherwise run anywhere, so that an ordinary user without libvirt runs all others beside them.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Final

import pytest

NEEDS_ROOT: Final = pytest.mark.skipif(os.geteuid() != 0, reason="what it does is root's")
NEEDS_LIBVIRT: Final = pytest.mark.skipif(
    importlib.util.find_spec("libvirt") is None, reason="libvirt's binding is not installed"
)

_CAP_SYS_RESOURCE: Final = 24


def may_lift_limits() -> bool:
    """Whether this process may raise limits of others beyond what they have, which containers often may not."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("CapEff:")]
    return bool(int(line.split()[1], 16) >> _CAP_SYS_RESOURCE & 1)
