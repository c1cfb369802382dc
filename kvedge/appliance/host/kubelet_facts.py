"""What the kubelet that runs on this host was told on its command line.

Called by installing on a node whose distribution leaves no other trace, or that was set up in its own way. Reads /proc.
Distributions that have the kubelet inside a program of theirs (k3s, RKE2) are known by their files.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from kvedge.storage.beneath import hold_directory

_NAME: Final = "kubelet"


class KubeletFacts(Struct, frozen=True):
    """Values as they were given; empty for what was not."""

    root: str = ""
    # Of the container runtime, such as unix:///run/containerd/containerd.sock.
    endpoint: str = ""
    node_name: str = ""
    kubeconfig: str = ""


def kubelet_facts(words: Sequence[str]) -> KubeletFacts | None:
    """What a command line says; None for one that is no kubelet's."""
    names = [Path(word).name for word in words[:2]]
    if not names or (names[0] != _NAME and names[1:] != [_NAME]):
        return None
    return KubeletFacts(
        root=_value(words, "--root-dir"),
        endpoint=_value(words, "--container-runtime-endpoint"),
        node_name=_value(words, "--hostname-override"),
        kubeconfig=_value(words, "--kubeconfig"),
    )


def find_running_kubelet(proc: Path = Path("/proc")) -> KubeletFacts | None:
    """The kubelet of this host, or None where none runs as a program of its own."""
    own = os.readlink(proc / "self/ns/pid")
    for entry in sorted(proc.iterdir()):
        if entry.name.isdigit():
            # A process may end while it is looked at, or be closed even to root.
            with (
                suppress(FileNotFoundError, ProcessLookupError, PermissionError),
                # The open directory stays with this process, even when another one gets its number.
                hold_directory(entry) as process,
            ):
                words = _read(process, "cmdline").rstrip("\0").split("\0")
                # A process in a container can take this name, and so can a program of root's that a user of the host
                # may start. Root would believe its command line.
                if not _is_root_s(process) or os.readlink("ns/pid", dir_fd=process) != own:
                    continue
                if (found := kubelet_facts(words)) is not None:
                    return found
    return None


def _is_root_s(process: int) -> bool:
    """Whether root has started it: the first of a process's users is the one who started it."""
    lines = _read(process, "status").splitlines()
    return next((line.split()[1] for line in lines if line.startswith("Uid:")), "") == "0"


def _read(process: int, name: str) -> str:
    with open(os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=process), "rb") as file:
        return file.read().decode(errors="replace")


def _value(words: Sequence[str], flag: str) -> str:
    """The last one counts, as it does for the kubelet."""
    found = ""
    for index, word in enumerate(words):
        if word.startswith(f"{flag}="):
            found = word.removeprefix(f"{flag}=")
        elif word == flag and index + 1 < len(words):
            found = words[index + 1]
    return found
