"""Whether anything of a launcher still runs on this host, when nobody answers for it.

Called by the sync loop before a run is called failed: the Pod's object may have been deleted by force, and then nothing
else keeps the VM from being started a second time. Called by the fencer, which kills what is left. Reads /proc. Where
it cannot be known, something runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from kvedge.resources.names import LAUNCHER_UID
from kvedge.runtime.process_facts import is_kernel_thread, pods_of, process_status

_PROC: Final = Path("/proc")
_ZOMBIE: Final = "Z"


def runs_here(vmi_uid: str, pod_uid: str, proc: Path = _PROC) -> bool:
    """Whether a process is left of the launcher of this VMI in this Pod, whose UID is empty where it is not known."""
    return next(find_left({vmi_uid: pod_uid}, proc), None) is not None


def find_left(guests: Mapping[str, str], proc: Path = _PROC, only: int | None = None) -> Iterator[int]:
    """The processes that are left of launchers of these VMIs, each with its Pod; of `only` one where that is given.

    Its monitor, it itself and QEMU name the VMI. An ending process names nothing any more, but may still write to a
    disk that hangs. A process in another Pod belongs to another VMI, whatever its command line says.
    """
    around = _pods_around(proc)
    for process in proc.iterdir() if only is None else (proc / str(only),):
        if process.name.isdigit():
            # It may end while it is looked at.
            with suppress(FileNotFoundError, ProcessLookupError):
                if _is_left(process, guests, around):
                    yield int(process.name)


def _pods_around(proc: Path) -> frozenset[str]:
    """The Pods that this handler itself is in: launchers of a node within a Pod are all in that one."""
    with suppress(FileNotFoundError):
        return pods_of(proc / "self")
    return frozenset()


def _is_left(process: Path, guests: Mapping[str, str], around: frozenset[str]) -> bool:
    # Before the command line: of a process that ends meanwhile the Pod is known, or that it has none.
    pods = pods_of(process) - around
    # A process that is in none of the Pods that it should be in is another's.
    near = {vmi: pod in pods for vmi, pod in guests.items() if not (pods and pod and pod not in pods)}
    if not near:
        return False
    command = (process / "cmdline").read_bytes()
    if not command:
        return _is_ending(process, is_ours=any(near.values()))
    named = [is_ours for vmi, is_ours in near.items() if vmi.encode() in command]
    return bool(named) and (any(named) or _is_launchers(process_status(process)))


def _is_ending(process: Path, *, is_ours: bool) -> bool:
    """Whether a process without a command line is one that hangs on its way out, and may be the launcher's."""
    status = process_status(process)
    # A process whose other threads still end is shown as a zombie as soon as its first thread has ended.
    if status.get("State", "").startswith(_ZOMBIE) and int(status.get("Threads", "1")) <= 1:
        return False
    # Of which Pod it was nobody tells any more, where the kernel has taken it out of its cgroup.
    return _is_launchers(status) or (is_ours and not is_kernel_thread(process))


def _is_launchers(status: dict[str, str]) -> bool:
    return status.get("Uid", "").split()[:1] == [str(LAUNCHER_UID)]
