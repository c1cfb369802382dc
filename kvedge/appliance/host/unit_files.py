"""The units that ship with the program.

Called by install and by tests. Reads the `systemd` directory of the checkout or of the unpacked program.
"""

from __future__ import annotations

from pathlib import Path

import kvedge


def unit_directory() -> Path:
    """Where they are: beside the package, in a checkout and in the unpacked program alike."""
    return Path(kvedge.__file__).resolve().parents[1] / "systemd"


def unit_texts(names: tuple[str, ...]) -> dict[str, bytes]:
    """The units' texts by name.

    Raises:
        OSError: when the program is incomplete.
    """
    return {name: (unit_directory() / name).read_bytes() for name in names}
