"""How often Python looks for garbage: seldom while a program is loaded, as usual once its services start.

Called by the program's entry and by the roles. Touches the collector of this process.
"""

from __future__ import annotations

import gc
from typing import Final

_USUAL: Final = gc.get_threshold()
# Modules, classes and functions stay: to look among them for what can go took a quarter of the CPU time of loading a
# role (0.25 of 1.0 s), and found next to nothing. A program without services is over before this matters; what their
# start leaves behind is looked for, or 2 MB more stay in use.
_OBJECTS_WHILE_LOADING: Final = 50_000


def collect_seldom() -> None:
    """Look for garbage after so many new objects that loading hardly ever does."""
    gc.set_threshold(_OBJECTS_WHILE_LOADING)


def collect_as_usual() -> None:
    """Look for garbage as the interpreter does by itself."""
    gc.set_threshold(*_USUAL)
