"""The socket behind a guest's port of metrics, with a QEMU that is played."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.launcher.metrics.metrics_channel import MetricsSocket

REQUEST = b"GET /metrics/XML\n\n"
ANSWER = b"<metrics/>\n\n"


@pytest.fixture
def qemu(tmp_path: Path) -> Iterator[socket.socket]:
    """QEMU's end, which listens."""
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(tmp_path / "port"))
        made.listen(1)
        made.settimeout(10)
        yield made


def serve(path: Path, answer: bytes = ANSWER) -> MetricsSocket:
    """Serve in a thread, as the keeper does."""
    made = MetricsSocket(str(path), lambda: answer)

    def run() -> None:
        for _ in range(100):
            made.serve(time.monotonic() + 0.1)

    threading.Thread(target=run, daemon=True).start()
    return made


def test_a_guest_is_answered(qemu: socket.socket, tmp_path: Path) -> None:
    serve(tmp_path / "port")
    port, _ = qemu.accept()
    with port:
        port.settimeout(10)
        port.sendall(REQUEST)
        assert port.recv(100) == ANSWER


def test_a_port_that_was_closed_is_opened_again(qemu: socket.socket, tmp_path: Path) -> None:
    serve(tmp_path / "port")
    qemu.accept()[0].close()
    port, _ = qemu.accept()
    with port:
        port.settimeout(10)
        port.sendall(REQUEST)
        assert port.recv(100) == ANSWER


def test_a_guest_that_does_not_read_keeps_nobody_waiting(qemu: socket.socket, tmp_path: Path) -> None:
    # Sockets hold far less than that.
    made = MetricsSocket(str(tmp_path / "port"), lambda: b"x" * (8 << 20))
    made.serve(time.monotonic() + 0.01)
    port, _ = qemu.accept()
    with port:
        port.sendall(REQUEST)
        made.serve(time.monotonic() + 0.1)
    made.close()
    assert made._channel.unsent


def test_without_a_port_nothing_happens(tmp_path: Path) -> None:
    made = MetricsSocket(str(tmp_path / "port"), lambda: ANSWER)
    made.serve(time.monotonic() + 0.01)
    assert made._socket is None
