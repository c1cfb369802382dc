"""What a report says of this host: versions, what kvedge has made here, logs, the journal.

Called by the report verb. Reads /proc and files, runs `ip`, `nft` and `journalctl` with a time limit; changes nothing.
"""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psutil

from kvedge import __version__
from kvedge.appliance.host.layout import ALL_UNITS
from kvedge.storage.beneath import hold_directory, open_regular

_SECONDS: Final = 20.0
_LOG_BYTES: Final = 256 << 10
_MOST_LOGS: Final = 400
_JOURNAL_LINES: Final = 5000
_COMMAND_CHARACTERS: Final = 4000


def versions() -> str:
    """Of kvedge, the kernel, the distribution and what guests run on."""
    lines = [f"kvedge {__version__}", " ".join(platform.uname()), ""]
    with open("/etc/os-release", encoding="utf-8", errors="replace") as release:
        lines.append(release.read())
    emulator = {"x86_64": "qemu-system-x86_64", "aarch64": "qemu-system-aarch64"}.get(platform.machine(), "qemu-img")
    return "\n".join([*lines, run_for_text(emulator, "--version"), run_for_text("qemu-img", "--version")])


def networks(instance: str) -> str:
    """Links, addresses and rules that carry kvedge's mark; `instance` begins the names of this one."""
    links = [line for line in run_for_text("ip", "-d", "-o", "addr").splitlines() if "kve" in line or instance in line]
    tables = [line.split()[1:] for line in run_for_text("nft", "list", "tables").splitlines() if instance in line]
    rules = [run_for_text("nft", "list", "table", *table) for table in tables if len(table) == 2]
    names = [line for line in run_for_text("ip", "netns", "list").splitlines() if "kve" in line]
    return "\n".join(["# links", *links, "", "# network namespaces", *names, "", "# nftables", *rules])


def mounts(data_dir: Path) -> str:
    """Mounts below the data directory, and others of ours."""
    lines = Path("/proc/self/mountinfo").read_text(errors="replace").splitlines()
    return "\n".join(line for line in lines if str(data_dir) in line or "kvedge" in line)


def describe_cgroups(instance: str) -> str:
    """Our cgroups, with how many processes and how much memory is in each."""
    lines = []
    for folder, below, _ in os.walk("/sys/fs/cgroup"):
        if "kvedge" in folder or instance in folder:
            facts = [f"{name}={_first_line(Path(folder) / name)}" for name in ("pids.current", "memory.current")]
            lines.append(f"{folder} {' '.join(facts)}")
        below.sort()
    return "\n".join(lines)


def processes() -> str:
    """kvedge's processes and guests: what they are, and how they were started."""
    lines = []
    for process in psutil.process_iter(["pid", "ppid", "username", "status", "create_time", "memory_info", "cmdline"]):
        facts = process.info
        # A launcher that is a copy of a warm parent has empty words behind its own.
        command = " ".join(facts["cmdline"] or ()).rstrip()
        if "kvedge" in command or "qemu-system" in command:
            memory = facts["memory_info"].rss >> 20 if facts["memory_info"] else 0
            known = f"{facts['pid']} {facts['ppid']} {facts['username']} {facts['status']} {memory}MiB"
            lines.append(f"{known} since {facts['create_time']:.0f}: {command[:_COMMAND_CHARACTERS]}")
    return "\n".join(lines)


def journals() -> Iterator[tuple[str, str]]:
    """(unit, its last lines) for each unit that has any."""
    for unit in ALL_UNITS:
        if not unit.endswith(".service"):
            continue
        options = ["--no-pager", "--quiet", "--output=short-iso", f"--lines={_JOURNAL_LINES}"]
        text = run_for_text("journalctl", *options, f"--unit={unit.replace('@.', '@*.')}")
        if text.strip():
            yield unit, text


def pod_logs(pods: Path) -> Iterator[tuple[str, str]]:
    """(name, end) of the logs of containers, the newest first; guests' own consoles are none of them."""
    found = [path for path in pods.glob("*/logs/*.log*") if not path.is_symlink()]
    newest = sorted(found, key=lambda path: path.lstat().st_mtime, reverse=True)[:_MOST_LOGS]
    for path in newest:
        yield str(path.relative_to(pods)).replace("/logs/", "/"), read_tail(path.parent, path.name)


def read_tail(directory: Path, name: str) -> str:
    """The end of a log that others write: opened without following links."""
    with hold_directory(directory) as root:
        opened = open_regular(root, name)
    with open(opened, "rb") as stream:
        begin = max(0, os.fstat(opened).st_size - _LOG_BYTES)
        stream.seek(begin)
        text = stream.read(_LOG_BYTES).decode(errors="replace")
    # A line that is cut may begin in the middle of a secret.
    return text.partition("\n")[2] if begin else text


def run_for_text(*command: str) -> str:
    """What a command prints, or why it could not be run."""
    environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=environment,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"({' '.join(command)}: {error})\n"
    return (done.stdout + done.stderr).decode(errors="replace")


def _first_line(path: Path) -> str:
    try:
        return path.read_text().split("\n", 1)[0]
    except OSError:
        return "?"
