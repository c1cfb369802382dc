"""What a test run that was killed left on this machine is taken away before it is in the next one's way.

A box outlives its test when the run is ended by force: processes, bridge, tables and namespaces stay, and so does the
range of addresses, which the next run's box of that test wants. So who makes a box says so first, in a file, with the
process that makes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kvedge.standalone.agent.agent_removal import RemovalError, remove_everything
from kvedge.standalone.agent.agent_service import AgentConfig
from kvedge.standalone.agent.pod.pod_record import PodRecordError
from tests.support.values import replace
from tests.support.waiting import wait_until

_BOXES = Path("/run/kvedge-tests/boxes")


def announce_box(data_dir: Path, pod_cidr: str) -> None:
    """Say that this process makes a box; boxes of processes that are gone are removed. May be called again."""
    config = _config(data_dir, pod_cidr)
    with _locked():
        for path in _BOXES.glob("*.json"):
            said = json.loads(path.read_text())
            if _started(said["pid"]) != said["started"]:
                _remove(Path(said["data_dir"]), said["pod_cidr"])
                path.unlink()
        said = {"data_dir": str(data_dir), "pod_cidr": pod_cidr, "pid": os.getpid(), "started": _started(os.getpid())}
        (_BOXES / f"{config.instance}.json").write_text(json.dumps(said))


def retract_box(data_dir: Path) -> None:
    """Say that nothing is left of it."""
    with _locked():
        (_BOXES / f"{_config(data_dir).instance}.json").unlink(missing_ok=True)


def _remove(data_dir: Path, pod_cidr: str) -> None:
    def left() -> list[int]:
        words = str(data_dir).encode()
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            # Ended meanwhile.
            with contextlib.suppress(OSError):
                if words in path.read_bytes() and int(path.parent.name) != os.getpid():
                    found.append(int(path.parent.name))
        return found

    def are_gone() -> bool:
        for pid in left():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not left()

    wait_until(are_gone, f"the processes of {data_dir} are gone", 20)
    try:
        remove_everything(_config(data_dir, pod_cidr), grace=0)
    except (PodRecordError, RemovalError):
        # By a test's own doing; without the Pods' files there is still all that is in another box's way.
        remove_everything(replace(_config(data_dir, pod_cidr), kubelet=Path("/nonexistent")), grace=0)


def _config(data_dir: Path, pod_cidr: str = "") -> AgentConfig:
    return AgentConfig(node="", data_dir=data_dir, kubelet=data_dir / "kubelet", pod_cidr=pod_cidr)


def _started(pid: int) -> str:
    """When the process began, and since which boot that is counted; empty when there is none."""
    try:
        ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""
    return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()}/{ticks}"


@contextmanager
def _locked() -> Iterator[None]:
    _BOXES.mkdir(parents=True, exist_ok=True)
    with (_BOXES / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
