"""Whether KVM really works on this host: a device that is there proves nothing.

Called once per boot by the standalone program and by a handler that runs apart; the result is kept per boot. Starts the
host's QEMU for a moment. Nested hosts and some CI machines show a /dev/kvm on which guests hang: therefore the firmware
of an empty machine has to reach the point where it looks for a disk.
"""

from __future__ import annotations

import contextlib
import os
import platform
import selectors
import shutil
import subprocess
import time
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from kvedge.runtime.damaged_files import put_aside
from kvedge.runtime.durable_files import write_whole
from kvedge.runtime.linux.boot import read_boot_id
from kvedge.runtime.linux.process_stat import read_stat

# SeaBIOS says the first when it has probed all devices, the second when it gives up: either proves that code runs.
_ARRIVED: Final = (b"Booting from", b"No bootable device")
# A working KVM needs a quarter of a second of wall time, more on a busy host; of CPU time it needs the same everywhere.
# A guest that KVM has to rescue instruction by instruction gets there too, now and then, and burns seconds.
_SECONDS: Final = 5.0
_CPU_SECONDS: Final = 1.5
_EMULATORS: Final = {"x86_64": "qemu-system-x86_64", "aarch64": "qemu-system-aarch64"}


class Accelerator(Struct, frozen=True):
    """What guests of this node run on, and why."""

    emulation: bool
    detail: str


class _Kept(msgspec.Struct):
    boot: str
    qemu: str
    works: bool
    detail: str


def choose_accelerator(setting: str, state_dir: Path) -> Accelerator:
    """KVM or TCG for `setting` "auto", "kvm" or "tcg"; only "auto" tries.

    The choice is never silent: the caller logs and publishes `detail`.
    """
    if setting == "tcg":
        return Accelerator(True, "software emulation, as configured")
    if setting == "kvm":
        return Accelerator(False, "KVM, as configured")
    works, detail = _check_once_a_boot(state_dir / "kvm-check.json")
    return Accelerator(not works, f"KVM: {detail}" if works else f"software emulation, as {detail}")


def check_kvm(device: Path = Path("/dev/kvm")) -> tuple[bool, str]:
    """Whether a guest gets anywhere on KVM, and what to tell the user."""
    if not device.exists():
        return (
            False,
            f"{device} does not exist (is the module kvm_intel or kvm_amd loaded, virtualization on in the firmware?)",
        )
    try:
        os.close(os.open(device, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return False, f"{device} cannot be opened: {error.strerror}"
    machine = platform.machine()
    emulator = shutil.which(_EMULATORS.get(machine, f"qemu-system-{machine}"))
    if emulator is None:
        return False, f"no QEMU for {machine} was found (install qemu-system-x86 or qemu-system-arm)"
    if machine != "x86_64":
        # Elsewhere there is no firmware that talks this early; the device opens, which is all we can know.
        return True, f"{device} opens"
    return _boot_firmware(emulator)


def _boot_firmware(emulator: str) -> tuple[bool, str]:
    arguments = [
        emulator,
        "-machine",
        "q35,accel=kvm",
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-m",
        "32",
    ]
    # SeaBIOS writes its progress to I/O port 0x402.
    arguments += ["-chardev", "stdio,id=debug", "-device", "isa-debugcon,iobase=0x402,chardev=debug"]
    process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        seen = _read_until(process, time.monotonic() + _SECONDS)
    finally:
        # A child may be asked for as long as it is not waited for, dead or alive.
        burnt = read_stat(process.pid).cpu_seconds
        process.kill()
        process.wait()
    if any(words in seen for words in _ARRIVED):
        if burnt > _CPU_SECONDS:
            return (
                False,
                f"a test machine on KVM burnt {burnt:.1f} s of CPU time in its firmware, which takes a quarter",
            )
        return True, "a test machine booted its firmware"
    if process.returncode not in (-9, 0):
        tail = seen.decode(errors="replace").strip().splitlines()
        return False, f"QEMU could not use it: {tail[-1] if tail else 'no output'}"
    return False, f"a test machine on KVM hung for {_SECONDS:.0f} s in its firmware"


def _read_until(process: subprocess.Popen[bytes], deadline: float) -> bytes:
    output = process.stdout
    assert output is not None
    seen = b""
    with selectors.DefaultSelector() as selector:
        selector.register(output, selectors.EVENT_READ)
        while not any(words in seen for words in _ARRIVED):
            if not selector.select(max(0.0, deadline - time.monotonic())):
                break
            piece = os.read(output.fileno(), 4096)
            if not piece:
                break
            # The end is what is looked for; a chatty firmware is not kept.
            seen = (seen + piece)[-65536:]
    return seen


def _check_once_a_boot(path: Path) -> tuple[bool, str]:
    boot = read_boot_id()
    emulator = shutil.which(_EMULATORS.get(platform.machine(), "")) or ""
    stamp = f"{emulator}@{os.stat(emulator).st_mtime_ns}" if emulator else ""
    with contextlib.suppress(OSError, msgspec.DecodeError):
        kept = msgspec.json.decode(path.read_bytes(), type=_Kept)
        if (kept.boot, kept.qemu) == (boot, stamp):
            return kept.works, kept.detail
    works, detail = check_kvm()
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        put_aside(path, "a directory stands in its place")
    # Of this boot, so that a power cut may take it.
    write_whole(path, msgspec.json.encode(_Kept(boot, stamp, works, detail)))
    return works, detail
