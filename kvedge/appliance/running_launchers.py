"""Which VMs run on this host from the program of one data directory, told by their processes.

Called before a node of a cluster is uninstalled: there Pods are the kubelet's to end, and their launchers run from the
data directory, by the name of their tree on one box and by that of the link in a cluster. Reads /proc.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from kvedge.appliance.launcher_link import LINK


def running_launchers(data_dir: Path, proc: Path = Path("/proc")) -> list[str]:
    """VMIs as namespace/name whose launchers run from a tree of the data directory."""
    ours = (f"{data_dir}/data/", f"{data_dir}/{LINK}/")
    found = set()
    for entry in proc.iterdir():
        if entry.name.isdigit():
            # A process may end while it is looked at.
            with suppress(FileNotFoundError, ProcessLookupError):
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
                if "launcher" in words[:4] and any(word.startswith(ours) for word in words[:4]):
                    found.add(f"{_after(words, '--namespace')}/{_after(words, '--name')}")
    return sorted(found)


def _after(words: list[str], option: str) -> str:
    return words[words.index(option) + 1] if option in words[:-1] else "?"
