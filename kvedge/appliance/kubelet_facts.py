"""What the kubelet that runs on this host was told on its command line.

Called by installing on a node whose distribution leaves no other trace, or that was set up in its own way. Reads /proc.
Distributions that have the kubelet inside a program of theirs (k3s, RKE2) are known by their files.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_NAME: Final = "kubelet"


@dataclass(frozen=True, slots=True)
class KubeletFacts:
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


def running_kubelet(proc: Path = Path("/proc")) -> KubeletFacts | None:
    """The kubelet of this host, or None where none runs as a program of its own."""
    own = _processes_seen_by(proc / "self")
    for entry in sorted(proc.iterdir()):
        if entry.name.isdigit():
            # A process may end while it is looked at, or be closed even to root.
            with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
                # Anybody in a container may call a program so: what it says would be believed by root.
                if entry.stat().st_uid != 0 or _processes_seen_by(entry) != own:
                    continue
                words = (entry / "cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
                if (found := kubelet_facts(words)) is not None:
                    return found
    return None


def _processes_seen_by(process: Path) -> str:
    """The PID namespace that a process is in: a container has its own."""
    return os.readlink(process / "ns/pid")


def _value(words: Sequence[str], flag: str) -> str:
    """The last one counts, as it does for the kubelet."""
    found = ""
    for index, word in enumerate(words):
        if word.startswith(f"{flag}="):
            found = word.removeprefix(f"{flag}=")
        elif word == flag and index + 1 < len(words):
            found = words[index + 1]
    return found
