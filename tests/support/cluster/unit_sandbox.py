"""What kvedge-node.service takes from its program, played where there is no systemd: privileges and capabilities.

Its filter of system calls is not played: the unit of one box has the same one, under a real systemd.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

_UNIT = Path(__file__).resolve().parents[3] / "systemd/kvedge-node.service"


def sandboxed(command: Sequence[str]) -> list[str]:
    """The argv that runs a command with no more than the unit leaves it."""
    lines = dict(line.partition("=")[::2] for line in _UNIT.read_text().splitlines() if "=" in line)
    assert lines["NoNewPrivileges"] == "yes"
    taken = lines["CapabilityBoundingSet"]
    assert taken.startswith("~")
    names = [name.removeprefix("CAP_").lower() for name in taken[1:].split()]
    return ["setpriv", "--no-new-privs", f"--bounding-set={','.join(f'-{name}' for name in names)}", "--", *command]
