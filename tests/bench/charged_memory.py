"""What a Pod holds of its host's memory, and how much of it is the guest's own, or code that QEMU has translated."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_MOUNTS: Final = {"memory": Path("/sys/fs/cgroup/memory"), "": Path("/sys/fs/cgroup")}
# Of memory.stat: version 1's sums over a group and those below it, and version 2's words.
_HELD_V1: Final = ("total_rss", "total_shmem")
_HELD_V2: Final = ("anon", "shmem", "kernel")
_MAPPING: Final = re.compile(rb"^([0-9a-f]+)-([0-9a-f]+) (\S+) ")


@dataclass(frozen=True, slots=True)
class Held:
    """Bytes: `translated` is code of an emulated guest, `others` all but that and the guest's memory, and `beside` the
    part of others that other processes than QEMU hold.
    """

    translated: int = 0
    others: int = 0
    beside: int = 0


def largest(one: Held, other: Held) -> Held:
    """The most of each part."""
    return Held(max(one.translated, other.translated), max(one.others, other.others), max(one.beside, other.beside))


class ChargedMemory:
    """The memory of the Pod that a QEMU runs in; `guest_bytes` is the size of its guest's memory."""

    def __init__(self, qemu: int, guest_bytes: int) -> None:
        self._qemu = qemu
        self._guest_bytes = guest_bytes
        self._group, self._is_v1 = _find_group(qemu)

    def look(self) -> Held:
        """What is held now; nothing once the Pod has ended.

        Of what the cgroup is charged for, that is what the kernel cannot take back. Code and data of programs it could,
        but not for long, as they are in use: each process' share of them counts as well.
        """
        try:
            charged = self._charged()
            # After it: what the guest has got in between must not count as ours.
            guest, translated = self._of_qemu()
            files, beside = self._of_processes()
            return Held(translated, max(0, charged - guest - translated) + files, beside)
        except (FileNotFoundError, ProcessLookupError):
            return Held()

    def _charged(self) -> int:
        pairs = (line.split() for line in (self._group / "memory.stat").read_text().splitlines())
        figures = {name: int(value) for name, value in pairs}
        if self._is_v1:
            kernel = int((self._group / "memory.kmem.usage_in_bytes").read_text())
            return sum(figures.get(name, 0) for name in _HELD_V1) + kernel
        return sum(figures.get(name, 0) for name in _HELD_V2)

    def _of_qemu(self) -> tuple[int, int]:
        """What is resident of the guest's memory, and of translated code."""
        guest, translated, size, is_code = 0, 0, 0, False
        with open(f"/proc/{self._qemu}/smaps", "rb") as file:
            for line in file:
                if found := _MAPPING.match(line):
                    size, is_code = int(found[2], 16) - int(found[1], 16), found[3] == b"rwxp"
                elif line.startswith(b"Rss:"):
                    resident = int(line.split()[1]) << 10
                    guest += resident if size == self._guest_bytes else 0
                    translated += resident if is_code else 0
        return guest, translated

    def _of_processes(self) -> tuple[int, int]:
        """The share of all processes in code and data of programs; and all that others than QEMU hold."""
        files = beside = 0
        for pid in (self._group / "cgroup.procs").read_text().split():
            with suppress(FileNotFoundError, ProcessLookupError):
                words = [line.split() for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]]
                sizes = {each[0]: int(each[1]) << 10 for each in words}
                files += sizes.get("Pss_File:", 0)
                beside += sizes.get("Pss:", 0) if int(pid) != self._qemu else 0
        return files, beside


def _find_group(pid: int) -> tuple[Path, bool]:
    """The group of the Pod, and whether it is one of version 1."""
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if "memory" in names.split(","):
            return _MOUNTS["memory"] / path.lstrip("/"), True
    path = Path(f"/proc/{pid}/cgroup").read_text().rpartition(":")[2].strip()
    return _MOUNTS[""] / path.lstrip("/"), False
