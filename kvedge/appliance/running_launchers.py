"""Which VMs run on this host from the program of one data directory, told by their processes.

Called before a node of a cluster is uninstalled, or its host goes down: there Pods are the kubelet's to end, and their
launchers run from the data directory, by the name of their tree on one box and by that of the link in a cluster. Reads
/proc.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

from kvedge.appliance.launcher_link import LINK

# A checkout has an interpreter and its options before the verb.
_FIRST: Final = 5


def running_launchers(data_dir: Path, proc: Path = Path("/proc")) -> list[str]:
    """VMIs as namespace/name whose launchers run from a tree of the data directory."""
    ours = (f"{data_dir}/data/", f"{data_dir}/{LINK}/")
    found = set()
    for entry in proc.iterdir():
        if entry.name.isdigit():
            # A process may end while it is looked at.
            with suppress(FileNotFoundError, ProcessLookupError):
                words = _words(entry)
                if "launcher" in words[:_FIRST] and any(word.startswith(ours) for word in words[:_FIRST]):
                    found.add(_title(words))
    return sorted(found)


def launcher_title(process: Path) -> str:
    """Whose launcher a process says that it is, as namespace/name; empty for any other process.

    Raises:
        FileNotFoundError: when the process has ended.
        ProcessLookupError: when it ends just now.
    """
    words = _words(process)
    return _title(words) if "launcher" in words[:_FIRST] else ""


def _words(process: Path) -> list[str]:
    return (process / "cmdline").read_bytes().decode(errors="replace").split("\0")


def _title(words: list[str]) -> str:
    return f"{_after(words, '--namespace')}/{_after(words, '--name')}"


def _after(words: list[str], option: str) -> str:
    return words[words.index(option) + 1] if option in words[:-1] else "?"
