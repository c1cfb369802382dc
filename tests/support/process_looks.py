"""What the kernel tells of a process that exec(2) or its parent could have made different, in comparable words.

Used by the tests of warm launchers, which are to be as launchers that start apart.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

# Of each process alone, or how much it has used so far.
_OWN_STATUS = (
    *("Pid", "PPid", "Tgid", "Ngid", "NSpid", "NStgid", "NSpgid", "NSsid", "State", "Threads", "SigQ", "Kthread"),
    *("voluntary_ctxt_switches", "nonvoluntary_ctxt_switches", "HugetlbPages", "Rss"),
    *("VmPeak", "VmSize", "VmHWM", "VmRSS", "VmData", "VmStk", "VmExe", "VmLib", "VmPTE", "VmSwap"),
)
_SPACES = ("cgroup", "ipc", "mnt", "net", "pid", "pid_for_children", "time", "time_for_children", "user", "uts")
_NUMBERS = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?:[0-9a-f]{2}:){5}[0-9a-f]{2}|\d+")


def look_at(pid: int, own: dict[str, str]) -> dict[str, object]:
    """The facts by name; `own` maps texts of this launcher alone, such as its name, to those that stand for them."""
    process = Path(f"/proc/{pid}")

    def read(name: str) -> str:
        return _replace((process / name).read_bytes().decode(errors="replace"), own)

    found: dict[str, object] = {
        f"status {key}": value for key, value in _pairs(read("status")) if not key.startswith(_OWN_STATUS)
    }
    found |= {
        name: read(name) for name in ("limits", "oom_score_adj", "timerslack_ns", "personality", "coredump_filter")
    }
    # A copy has the room of its parent's words, of which it may not need all. Numbers are of descriptors, MACs, guests.
    found["cmdline"] = [_NUMBERS.sub("N", word) for word in read("cmdline").rstrip("\0").split("\0")]
    found["environ"] = sorted(read("environ").rstrip("\0").split("\0"))
    found["cgroup"] = _NUMBERS.sub("N", read("cgroup"))
    found["mounts"] = [_plain_mount(line) for line in read("mountinfo").splitlines()]
    found["descriptors"] = sorted(
        _NUMBERS.sub("N", _replace(os.readlink(path), own)) for path in (process / "fd").iterdir()
    )
    found["first descriptors"] = [_replace(os.readlink(process / "fd" / str(number)), own) for number in range(3)]
    found |= {name: _replace(os.readlink(process / name), own) for name in ("cwd", "root", "exe")}
    found |= {f"namespace {name}": _is_hosts(process, name) for name in _SPACES}
    found |= {"comm": read("comm"), "owner": (process / "environ").stat().st_uid}
    found["scheduling"] = (os.sched_getscheduler(pid), os.getpriority(os.PRIO_PROCESS, pid), os.sched_getaffinity(pid))
    found["session"] = os.getsid(pid) == os.getsid(parent_of(pid))
    return found


def parent_of(pid: int) -> int:
    """The parent's number."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def read_memory(pid: int) -> bytes:
    """All that a process could have written: its heap, its stacks, and whatever else is its own."""
    parts = []
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in maps:
            bounds, access, *_ = line.split()
            start, end = (int(bound, 16) for bound in bounds.split("-"))
            # The kernel's own pages cannot be read.
            if access.startswith("rw") and not line.rstrip().endswith("[vvar]"):
                memory.seek(start)
                parts.append(memory.read(end - start))
    return b"".join(parts)


def _pairs(text: str) -> list[tuple[str, str]]:
    return [(key, value.strip()) for key, _, value in (line.partition(":") for line in text.splitlines())]


def _replace(text: str, own: dict[str, str]) -> str:
    for word, instead in own.items():
        text = text.replace(word, instead)
    return text


def _plain_mount(line: str) -> str:
    """Without the numbers of mounts, of peer groups and of file systems in memory."""
    fields = line.split()
    rest = [field for field in fields[3:] if not field.startswith(("shared:", "master:", "propagate_from:"))]
    return _NUMBERS.sub("N", " ".join(rest))


def _is_hosts(process: Path, name: str) -> bool:
    return os.readlink(process / "ns" / name) == os.readlink(f"/proc/self/ns/{name}")
