"""What a test needs of the machine or of its user, as marks: it is skipped where that is not there.

Used by tests that can otherwise run anywhere, so that an ordinary user without libvirt runs all others beside them.
"""

from __future__ import annotations

import importlib.util
import os
from typing import Final

import pytest

NEEDS_ROOT: Final = pytest.mark.skipif(os.geteuid() != 0, reason="what it does is root's")
NEEDS_LIBVIRT: Final = pytest.mark.skipif(
    importlib.util.find_spec("libvirt") is None, reason="libvirt's binding is not installed"
)
