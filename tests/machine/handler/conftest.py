"""What the tests of this folder need of the machine: root, and a small image's tree."""

from __future__ import annotations

from tests.machine.agent.conftest import _root, busybox, tree

__all__ = ["_root", "busybox", "tree"]
