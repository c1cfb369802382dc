"""Which VMs run on this host from the program of one data directory, or in the Pods of one kubelet, by their processes.

Called before a node of a cluster is uninstalled, its role changes, or its host goes down. Launchers run from the data
directory, by the name of their tree on one box and by that of the link in a cluster; but where the data directory is
named in the settings file only, the one file, which does not read that, has unpacked itself to the default one. Then
the cgroup of a launcher tells its kubelet. Reads /proc.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Final

from kvedge.appliance.host.launcher_link import LINK
from kvedge.runtime.process_facts import pods_of

# A checkout has an interpreter and its options before the verb.
_FIRST: Final = 5
_PROGRAM: Final = re.compile(rf"/.*/(?:data/[0-9a-f]{{64}}|{LINK})/kvedge")


def running_launchers(data_dir: Path, kubelet: Path, proc: Path = Path("/proc")) -> list[str]:
    """VMIs as namespace/name whose launchers run from a tree of the data directory, or in Pods of this kubelet.

    `kubelet` is the directory of a cluster's kubelet, or of the agent of one box.
    """
    found = set()
    for entry in proc.iterdir():
        if entry.name.isdigit():
            # A process may end while it is looked at.
            with suppress(FileNotFoundError, ProcessLookupError):
                words = _words(entry)
                if "launcher" in words[:_FIRST] and _is_ours(entry, words, data_dir, kubelet):
                    found.add(_title(words))
    return sorted(found)


def _is_ours(process: Path, words: list[str], data_dir: Path, kubelet: Path) -> bool:
    prefixes = (f"{data_dir}/data/", f"{data_dir}/{LINK}/")
    if any(word.startswith(prefixes) for word in words[:_FIRST]):
        return True
    # The process that asks QEMU for its capabilities is called a launcher too, and has no VM.
    if "--name" not in words or not any(_PROGRAM.fullmatch(word) for word in words[:_FIRST]):
        return False
    # Several boxes may run from one tree: a Pod that this kubelet does not know is another's. A process of which no
    # cgroup tells may be ours. A VM that nothing manages is worse than a VM that must be stopped first.
    uids = pods_of(process)
    return not uids or any((kubelet / "pods" / uid).is_dir() for uid in uids)


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
    return f"{_find_word_after(words, '--namespace')}/{_find_word_after(words, '--name')}"


def _find_word_after(words: list[str], option: str) -> str:
    return words[words.index(option) + 1] if option in words[:-1] else "?"
