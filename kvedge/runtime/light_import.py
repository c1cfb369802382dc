"""Packages of which a module or two are used, without all that their `__init__` brings along.

Called by the program's entry, before anything else is imported. `pyroute2` imports its database, Wi-Fi and Plan 9 with
its first module: 6 MB, and 30 ms at each start.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import Any


def defer_init(package: str) -> None:
    """From now on importing a module of `package` does not run the `__init__` of the package.

    Whoever asks the package for a name that only its `__init__` knows has it run then. Nothing happens when the package
    is loaded already, or is not there.
    """
    spec = None if package in sys.modules else importlib.util.find_spec(package)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    loader = spec.loader

    def find(name: str) -> Any:
        if not name.startswith("__") and importlib.util.find_spec(f"{package}.{name}") is not None:
            return importlib.import_module(f"{package}.{name}")
        # One that lacks from here on is lacking.
        vars(module).pop("__getattr__", None)
        loader.exec_module(module)
        return getattr(module, name)

    # As a package may say itself what its missing names are (PEP 562).
    vars(module)["__getattr__"] = find
    sys.modules[package] = module
