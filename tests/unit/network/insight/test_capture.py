"""Recording frames: what is asked for, and when it is enough."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Iterator

import pytest

from kvedge.network.insight.capture import BadCaptureRequest, CaptureRequest, capture_request, record
from kvedge.network.insight.pcap_message import SMALLEST


@pytest.fixture
def wire() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A socket that receives frames, and who sends them."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, theirs:
        yield ours, theirs


def test_defaults_and_what_is_asked_for() -> None:
    assert capture_request({}) == CaptureRequest("", 10 << 20, 10.0)
    query = {"interface": "lan", "bytes": "100000", "seconds": "3"}
    assert capture_request(query) == CaptureRequest("lan", 100_000, 3.0)


@pytest.mark.parametrize(
    "query",
    [
        {"bytes": "0"},
        {"bytes": str(SMALLEST - 1)},
        {"bytes": str((16 << 20) + 1)},
        {"bytes": "9" * 5000},
        {"bytes": "1e6"},
        {"seconds": "0"},
        {"seconds": "51"},
        {"seconds": "-1"},
        {"seconds": ""},
    ],
    ids=lambda query: f"{next(iter(query))} {next(iter(query.values()))[:10]}",
)
def test_what_makes_no_sense_is_refused_by_name(query: dict[str, str]) -> None:
    with pytest.raises(BadCaptureRequest, match=next(iter(query))):
        capture_request(query)


def test_frames_are_recorded_until_the_size_is_reached(wire: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = wire
    for letter in b"abc":
        theirs.send(bytes([letter]) * 60)
    # Room for two; the third one ends it, long before the time is over.
    content = record(ours, CaptureRequest("", 24 + 2 * (16 + 60), 3600.0), lambda: False)
    assert (content[40:100], content[116:176], len(content)) == (b"a" * 60, b"b" * 60, 176)


def test_a_record_ends_when_whoever_asked_has_gone(wire: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = wire
    theirs.send(b"a" * 60)
    answers = itertools.chain([False], itertools.repeat(True))
    assert len(record(ours, CaptureRequest("", 1 << 20, 3600.0), lambda: next(answers))) == 24 + 16 + 60


def test_what_came_before_the_link_went_is_kept(wire: tuple[socket.socket, socket.socket]) -> None:
    class Gone:
        """A socket whose link goes after a frame."""

        def __init__(self) -> None:
            self.left = [b"a" * 60]

        def settimeout(self, seconds: float) -> None: ...

        def recv(self, most: int) -> bytes:
            if not self.left:
                raise OSError(100, "Network is down")
            return self.left.pop()

    assert len(record(Gone(), CaptureRequest("", 1 << 20, 3600.0), lambda: False)) == 24 + 16 + 60  # type: ignore[arg-type]
