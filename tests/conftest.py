"""Which tests may run side by side: `tests/run` has two processes.

The machine tier and the cluster tier are one process's each, as their tests share links and mounts, or one cluster.
All other tests go by the file to whichever process is free.
"""

from __future__ import annotations

from pathlib import Path

import pytest

_TESTS = Path(__file__).parent
_UNDIVIDED = {"machine", "cluster"}


# Before xdist looks for groups.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put each test into a group: its tier's, or its file's."""
    if not hasattr(config, "workerinput"):
        return
    for item in items:
        path = item.path.relative_to(_TESTS)
        group = path.parts[0] if path.parts[0] in _UNDIVIDED else path.with_suffix("").as_posix()
        item.add_marker(pytest.mark.xdist_group(group))
