"""The node's seed of libvirt's capabilities, made once by a launcher that only probes.

Called when the handler starts. Runs the program's own `launcher --probe`: the handler itself never loads libvirt. A
cold cache costs each launcher some seconds of CPU; a launcher copies this seed into its own root and starts warm.
"""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import msgspec

from kvedge.handler.node.node_manifest import NodeCapabilities
from kvedge.runtime.program import program_command

log = logging.getLogger(__name__)

_SECONDS: Final = 120
CAPABILITIES_FILE: Final = "capabilities.json"
# Grows when the probe finds more: what an earlier version has found is not all then.
_FORM: Final = "3"
_CPU_NAME: Final = re.compile(rb"^model name.*$", re.MULTILINE)
_STAMP_FILE: Final = "made-for"
# Whether KVM may encrypt guests' memory: it is switched on in the host's firmware and by options of the kernel.
_ENCRYPTION: Final = (
    *(f"/sys/module/kvm_amd/parameters/{name}" for name in ("sev", "sev_es", "sev_snp")),
    "/sys/module/kvm_intel/parameters/tdx",
)


class ProbeError(Exception):
    """The host's libvirt or QEMU cannot be used; the text says what to do."""


def ensure_seed(directory: Path, *, emulation: bool) -> NodeCapabilities:
    """What this host can do; probed when QEMU, libvirt, the kernel or the accelerator changed since the last time.

    Raises:
        ProbeError: when libvirt or QEMU is missing or does not work.
    """
    stamp = _stamp(emulation=emulation)
    if _read(directory / _STAMP_FILE) != stamp.encode():
        _probe(directory, stamp, emulation=emulation)
    try:
        return msgspec.json.decode((directory / CAPABILITIES_FILE).read_bytes(), type=NodeCapabilities)
    except (OSError, msgspec.DecodeError) as error:
        # A torn or foreign seed is made anew, once.
        facts = {"file": str(directory / CAPABILITIES_FILE), "error": str(error)}
        log.warning("capabilities seed unreadable, probing again", extra={"facts": facts})
        _probe(directory, stamp, emulation=emulation)
        return msgspec.json.decode((directory / CAPABILITIES_FILE).read_bytes(), type=NodeCapabilities)


def _probe(directory: Path, stamp: str, *, emulation: bool) -> None:
    staged = directory.with_name(directory.name + ".new")
    shutil.rmtree(staged, ignore_errors=True)
    staged.mkdir(mode=0o755, parents=True)
    command = [*program_command(), "launcher", "--probe", str(staged), *(["--emulation"] if emulation else [])]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_SECONDS, stdin=subprocess.DEVNULL, check=False)
    except subprocess.TimeoutExpired as error:
        raise ProbeError(f"probing QEMU took longer than {_SECONDS} s") from error
    if done.returncode != 0:
        tail = done.stderr.decode(errors="replace").strip().splitlines()
        raise ProbeError(tail[-1] if tail else f"probing QEMU failed with exit code {done.returncode}")
    _replace_files(directory, staged)
    (directory / _STAMP_FILE).write_text(stamp)


def _replace_files(directory: Path, staged: Path) -> None:
    """Put the new files in the place of the old ones; the directory stays, as launchers have it mounted.

    Without its stamp the seed is made anew. A launcher that starts meanwhile may find a file of each kind, which costs
    it time.
    """
    directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    (directory / _STAMP_FILE).unlink(missing_ok=True)
    made = {path.name for path in staged.iterdir()}
    for path in directory.iterdir():
        # The node's other files for launchers stand in folders there.
        if path.name not in made and not path.is_dir():
            path.unlink()
    for path in staged.iterdir():
        path.replace(directory / path.name)
    staged.rmdir()


def _stamp(*, emulation: bool) -> str:
    machine = platform.machine()
    facts = [_FORM, machine, platform.release(), str(emulation)]
    facts += [_read(Path(path)).decode(errors="replace").strip() for path in _ENCRYPTION]
    facts.append(str(os.path.exists("/dev/sev")))
    # A disk may come to another machine.
    facts += [name.decode(errors="replace") for name in _CPU_NAME.findall(_read(Path("/proc/cpuinfo")))[:1]]
    for path in (shutil.which(f"qemu-system-{machine}"), _libvirt_driver()):
        facts.append(f"{path}:{os.stat(path).st_ctime_ns}:{os.stat(path).st_size}" if path else "none")
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()


def _libvirt_driver() -> str | None:
    found = sorted(Path("/usr/lib").glob("**/libvirt/connection-driver/libvirt_driver_qemu.so"))
    return str(found[0]) if found else None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
