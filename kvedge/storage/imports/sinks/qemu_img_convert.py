"""Images that only `qemu-img` can read, converted into a claim.

Called by the image sink, once the header was found harmless, with an image whose header stays that one. Starts
`qemu-img`: confined, with the format named, without a backing file, and with no file but the target; it reads the image
over a socket (`nbd_server`).
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
import subprocess
from typing import Final

from kvedge.runtime.background import passing_thread
from kvedge.storage.disk_file import QEMU_IMG_MEMORY, QEMU_IMG_STACK
from kvedge.storage.imports.image_parts import PinnedParts, SectorParts
from kvedge.storage.imports.import_errors import ImportFailure
from kvedge.storage.imports.sinks.import_target import ImportTarget
from kvedge.storage.imports.sinks.nbd_server import NbdServer

_ADDRESSES: Final = 2 << 30
_INFO_SECONDS: Final = 120
# CDI gives no end either, but an import that a Pod's restart begins anew must end some day.
_CONVERT_SECONDS: Final = 12 * 3600
_LONGEST_TEXT: Final = 300


def virtual_size_of(parts: PinnedParts, kind: str) -> int:
    """The size of the guest's disk, as qemu-img finds it.

    Raises:
        ImportFailure: when the image is broken, or needs what it may not have.
    """
    answer = _run(parts, kind, ["info", "--output=json"], [], _INFO_SECONDS, ())
    found = json.loads(answer)
    size = found.get("virtual-size")
    if found.get("backing-filename"):
        raise ImportFailure("Unable to process data: the image is invalid because it has invalid backing file")
    if not isinstance(size, int) or size <= 0:
        raise ImportFailure(f"Unable to process data: the {kind} image has no size")
    return size


def convert_to(target: ImportTarget, parts: PinnedParts, kind: str, virtual_size: int) -> None:
    """Write the disk of an image to a target, which is begun here.

    Raises:
        ImportFailure: as :func:`virtual_size_of`.
        OSError: of the claim.
    """
    target.begin(virtual_size)
    into = target.descriptor()
    is_device = stat.S_ISBLK(os.fstat(into).st_mode)
    if not is_device:
        os.ftruncate(into, virtual_size)
    driver = "host_device" if is_device else "file"
    where = f"driver=raw,file.driver={driver},file.filename=/dev/fd/{into},file.locking=off"
    # One request at a time, in order: a server by ranges then sends one stream. Unwritten parts read as zeros.
    verb = ["convert", "-n", "--target-is-zero", "-m", "1", "-t", "writeback", "--target-image-opts"]
    _run(parts, kind, verb, [where], _CONVERT_SECONDS, (into,))


def _source(kind: str, connection: int) -> str:
    """The image, whatever it names as its backing file; a data file has no such word, and is refused by the header."""
    image = {"driver": "nbd", "server": {"type": "fd", "str": str(connection)}}
    return f"json:{json.dumps({'driver': kind, 'read-only': True, 'backing': None, 'file': image})}"


def _run(parts: PinnedParts, kind: str, verb: list[str], last: list[str], seconds: int, keep: tuple[int, ...]) -> bytes:
    program = shutil.which("qemu-img")
    if program is None:
        raise ImportFailure("the program qemu-img is missing on this node: apt install qemu-utils")
    ours, theirs = socket.socketpair()
    server = NbdServer(ours, SectorParts(parts))
    with theirs:
        limits = ["prlimit", f"--data={QEMU_IMG_MEMORY}", f"--stack={QEMU_IMG_STACK}", f"--as={_ADDRESSES}"]
        limits += [f"--cpu={seconds}", "--core=0"]
        process = subprocess.Popen(
            [*limits, program, *verb, _source(kind, theirs.fileno()), *last],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
            pass_fds=(theirs.fileno(), *keep),
        )
    serving = passing_thread("nbd", server.serve)
    try:
        out, problem = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired as error:
        raise ImportFailure(f"Unable to process data: qemu-img took more than {seconds} s") from error
    finally:
        process.kill()
        process.wait()
        # Wakes the thread, should it still read.
        ours.close()
        serving.join(timeout=60)
    if server.failure is not None:
        raise server.failure
    if process.returncode:
        words = problem.decode(errors="replace").strip().splitlines()
        detail = words[-1][:_LONGEST_TEXT] if words else f"it ended with {process.returncode}"
        raise ImportFailure(f"Unable to process data: qemu-img cannot read the {kind} image: {detail}")
    return out
