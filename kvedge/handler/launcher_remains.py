"""Whether anything of a launcher still runs on this host, when nobody answers for it.

Called by the sync loop before a run is called failed: the Pod's object may have been deleted by force, and then nothing
else keeps the VM from being started a second time. Reads /proc.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kvedge.resources.names import LAUNCHER_UID

_PROC: Final = Path("/proc")
_ZOMBIE: Final = "Z"


def runs_here(vmi_uid: str, pod_uid: str, proc: Path = _PROC) -> bool:
    """Whether a process of the launcher's user names this VMI, as its monitor, it itself and QEMU do.

    One that is just ending has no command line any more, but may still write to a disk that hangs: it is known by the
    Pod's cgroup.
    """
    name = vmi_uid.encode()
    # As cgroupfs and systemd write it.
    groups = (pod_uid, pod_uid.replace("-", "_")) if pod_uid else ()
    for process in proc.iterdir():
        if not process.name.isdigit():
            continue
        try:
            command = (process / "cmdline").read_bytes()
            if name in command and _is_launchers(process):
                return True
            if not command and groups and _is_ending(process, groups):
                return True
        except (FileNotFoundError, ProcessLookupError):
            # It has ended meanwhile.
            continue
    return False


def _is_launchers(process: Path) -> bool:
    return _status(process).get("Uid", "").split()[:1] == [str(LAUNCHER_UID)]


def _is_ending(process: Path, groups: tuple[str, ...]) -> bool:
    text = (process / "cgroup").read_text()
    return any(group in text for group in groups) and not _status(process).get("State", "").startswith(_ZOMBIE)


def _status(process: Path) -> dict[str, str]:
    lines = (process / "status").read_text(errors="replace").splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}
