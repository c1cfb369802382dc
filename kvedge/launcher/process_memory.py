"""Keeping the launcher small: it lies beside every guest of the node.

Called by `launcher_process`. Touches this process's modules and its C library's allocator. What each
of these saves was measured with one running domain (Python 3.11, glibc 2.36, grpcio 1.85): see the comments.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Final

from kvedge.runtime.linux import memory

# The modules that grpc imports for its asynchronous half, which a launcher does not use: 2.9 MB of the 31 that a VM
# costs. grpc has no switch for it: its package imports the half as its last line.
_NOT_USED: Final = ("asyncio", "grpc.aio")
_SHARED: Final = ("dataclasses", "xml.etree.ElementTree", "kvedge.rpc.launcher_pb2")


def limit_arenas() -> None:
    """One allocation arena for all threads instead of one for each of the first few: 0.7 MB. Before threads start."""
    memory.limit_arenas(1)


def load_shared() -> None:
    """Import what the launcher and the process beside it both use, so that it is done once: 15 ms of CPU."""
    for name in _SHARED:
        importlib.import_module(name)


def load_grpc() -> None:
    """Import grpc without its asynchronous half; with it, should a later grpc insist.

    Empty modules stand in for that half while grpc is imported, and are gone afterwards: whoever imports asyncio later
    gets the real one. Call this before other threads start, as they would find them. Nothing else in kvedge puts one
    module in another's place, which a test checks.
    """
    if "grpc" in sys.modules:
        return
    absent = [name for name in _NOT_USED if name not in sys.modules]
    for name in absent:
        sys.modules[name] = ModuleType(name)
    try:
        import grpc  # noqa: F401 - for what it leaves in sys.modules
    except (AttributeError, ImportError):
        for name in [name for name in sys.modules if name.split(".")[0] == "grpc"]:
            del sys.modules[name]
    finally:
        for name in absent:
            sys.modules.pop(name, None)
