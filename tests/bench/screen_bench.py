"""Measures how many pictures of a guest's screen a VNC viewer gets in a second: by `kvedge vnc`, and at QEMU's socket.

    python -m tests.bench.screen_bench [--seconds 5] [--runs 5]

Needs root. By `kvedge vnc` a picture goes through the API server, the api role, the node's relay and a port of this
computer. Each picture is the whole screen, uncompressed (1.1 MB for a text screen of 720 by 400), asked for once the
one before has come; both ways are measured in turns.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import struct
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from kvedge.resources.names import VNC_SOCKET
from tests.bench.report import Goal, Report, Row, median, missed
from tests.support.box import Box, small_vm
from tests.support.guest import build_guest
from tests.support.kvedge_cli import KvedgeCli
from tests.support.rfb_viewer import read

_IMAGE: Final = "local/screen-bench:1"
_NAME: Final = "screen-bench"
# The share of QEMU's own pictures that is to be reached.
_GOAL: Final = 0.9
_SHARED, _NO_PASSWORD, _RAW = b"\1", b"\1", 0
_BYTES_PER_PIXEL: Final = 4


def main() -> int:
    """Measure; 0 when the goal was met, 1 when it was not."""
    parser = argparse.ArgumentParser("tests/bench/screen_bench", description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=5, help="of each run (5)")
    parser.add_argument("--runs", type=int, default=5, help="of which the median is taken (5)")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.stderr.write("tests/bench/screen_bench: needs root, as kvedge standalone does\n")
        return 5
    report = Report()
    with tempfile.TemporaryDirectory(prefix="kvbench-screen-") as place:
        box = Box(Path(place) / "data", "10.98.201.0/24")
        box.data_dir.mkdir()
        try:
            box.import_image(build_guest().disk, _IMAGE)
            box.start()
            box.apply(small_vm(_NAME, _IMAGE))
            box.wait_phase(_NAME, "Running")
            _measure(report, box, options.seconds, options.runs)
        finally:
            box.remove()
    report.notes.append(f"load {os.getloadavg()[0]:.1f} at the end; {os.cpu_count()} CPUs")
    report.show()
    return 1 if missed(report.rows, by_ratio=False) else 0


def _measure(report: Report, box: Box, seconds: float, runs: int) -> None:
    place = f"/proc/self/fd/{_find_directory(box)}/{VNC_SOCKET}"
    cli = KvedgeCli(box.kubeconfig)
    ours, theirs = [], []
    for _ in range(runs):
        with _connect(socket.AF_UNIX, place) as end:
            theirs.append(_count_pictures(end, seconds))
        with cli.running("vnc", _NAME, "--proxy-only") as process:
            assert process.stdout is not None
            port = json.loads(process.stdout.readline())["port"]
            with _connect(socket.AF_INET, ("127.0.0.1", port)) as end:
                ours.append(_count_pictures(end, seconds))
            process.wait(30)
    report.add(Row("a picture by kvedge vnc", "s", 1 / median(ours), 1 / median(theirs), Goal(ratio=1 / _GOAL)))
    report.notes.append(f"pictures a second: {median(ours):.0f} by kvedge vnc, {median(theirs):.0f} at QEMU's socket")


def _find_directory(box: Box) -> int:
    """A descriptor of the directory of QEMU's socket: its path is longer than an address may be."""
    (place,) = box.data_dir.rglob(VNC_SOCKET)
    return os.open(place.parent, os.O_PATH)


def _connect(family: socket.AddressFamily, address: str | tuple[str, int]) -> socket.socket:
    end = socket.socket(family)
    end.settimeout(60)
    end.connect(address)
    return end


def _count_pictures(end: socket.socket, seconds: float) -> float:
    """How many a second, from the second one on."""
    assert read(end, 12) == b"RFB 003.008\n"
    end.sendall(b"RFB 003.008\n")
    assert _NO_PASSWORD in read(end, read(end, 1)[0])
    end.sendall(_NO_PASSWORD)
    assert read(end, 4) == bytes(4)
    end.sendall(_SHARED)
    width, height = struct.unpack(">HH", read(end, 4))
    bits = read(end, 16)[0]
    assert bits == _BYTES_PER_PIXEL * 8
    read(end, int.from_bytes(read(end, 4)))
    end.sendall(struct.pack(">BxHi", 2, 1, _RAW))
    ask = struct.pack(">BBHHHH", 3, 0, 0, 0, width, height)
    end.sendall(ask)
    _read_picture(end)
    begun, count = time.monotonic(), 0
    while (spent := time.monotonic() - begun) < seconds:
        end.sendall(ask)
        _read_picture(end)
        count += 1
    return count / spent


def _read_picture(end: socket.socket) -> None:
    kind, count = struct.unpack(">BxH", read(end, 4))
    assert kind == 0
    for _ in range(count):
        _, _, width, height, encoding = struct.unpack(">HHHHi", read(end, 12))
        assert encoding == _RAW
        _skip(end, width * height * _BYTES_PER_PIXEL)


def _skip(end: socket.socket, length: int) -> None:
    buffer = memoryview(bytearray(1 << 16))
    while length:
        got = end.recv_into(buffer[: min(length, len(buffer))])
        if not got:
            raise EOFError(f"{length} bytes are missing")
        length -= got


if __name__ == "__main__":
    sys.exit(main())
