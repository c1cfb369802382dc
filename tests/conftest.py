"""Which tests may run side by side: `tests/run` has three processes.

The machine tier and the cluster tier are one process's each, as their tests share links and mounts, or one cluster.
All other tests go by the directory to whichever process is free: those of one share API servers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from xdist.remote import Producer

_UNDIVIDED = {"tests/machine", "tests/cluster"}


class ByTier(LoadScopeScheduling):
    """Gives whole tiers or whole directories to processes, in the order in which they were asked for."""

    def _split_scope(self, nodeid: str) -> str:
        directory = nodeid.partition("::")[0].rpartition("/")[0]
        tier = "/".join(directory.split("/")[:2])
        return tier if tier in _UNDIVIDED else directory


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByTier:
    """Called by pytest-xdist where it runs tests in several processes."""
    return ByTier(config, log)
