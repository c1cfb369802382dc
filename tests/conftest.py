"""Which tests may run side by side: `tests/run` has four processes.

Tests go by the directory to whichever process is free: those of one share servers, a cluster, or are whole boxes.
The parts of the machine tier stay together, as they share names of links and mounts; but for the appliance, whose hosts
are containers and boxes of their own: beside it the others would take longer than all the rest. Unit tests share
nothing beyond their file, so they go file by file: no process is left with a long directory at the end.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from xdist.remote import Producer

_PARTS = "tests/machine/"
_APPLIANCE = "tests/machine/appliance"
_UNIT = "tests/unit/"
# Kubernetes' servers, which are a quarter of what a run costs, clean up less often: there is memory for it.
os.environ.setdefault("GOGC", "400")
# How long an example takes says more about the machine than about what it tries.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")


class ByDirectory(LoadScopeScheduling):
    """Gives whole directories to processes, and unit tests by the file, in the order in which they were asked for."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if file.startswith(_UNIT):
            return file
        directory = file.rpartition("/")[0]
        return _PARTS if directory.startswith(_PARTS) and directory != _APPLIANCE else directory


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByDirectory:
    """Called by pytest-xdist where it runs tests in several processes."""
    return ByDirectory(config, log)
