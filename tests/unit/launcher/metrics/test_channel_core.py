"""What a guest asks on its port of metrics, byte by byte."""

from __future__ import annotations

import pytest

from kvedge.launcher.metrics.channel_core import INVALID, LONGEST_REQUEST, PAUSE_SECONDS, MetricsChannel

REQUEST = b"GET /metrics/XML\n\n"
ANSWER = b"<metrics/>\n\n"


def channel() -> MetricsChannel:
    return MetricsChannel(lambda: ANSWER)


@pytest.mark.parametrize(
    "request_", [REQUEST, b"GET /metrics/XML\r\n\r\n", b"GET /metrics/XML?a=b\n\n"], ids=["plain", "CRLF", "a query"]
)
def test_metrics_are_told(request_: bytes) -> None:
    made = channel()
    made.receive(request_, 0.0)
    assert made.unsent == ANSWER


def test_a_request_may_come_in_pieces() -> None:
    made = channel()
    for byte in REQUEST[:-1]:
        made.receive(bytes((byte,)), 0.0)
    assert made.unsent == b""
    made.receive(REQUEST[-1:], 0.0)
    assert made.unsent == ANSWER


@pytest.mark.parametrize(
    "data",
    [
        b"GET /metrics\n\n",
        b"PUT /metrics/XML\n\n",
        b"GET /metrics/XML\nmore\n",
        b"\n\n",
        b"x" * (LONGEST_REQUEST + 1),
        b"x\n" + b"y" * LONGEST_REQUEST,
        b"x" * (LONGEST_REQUEST + 1) + b"\n\n",
    ],
    ids=["a path", "a method", "no blank line", "nothing", "a line without end", "a second one", "a long line"],
)
def test_anything_else_is_refused(data: bytes) -> None:
    made = channel()
    made.receive(data, 0.0)
    assert made.unsent == INVALID


def test_the_next_request_waits_for_a_second_and_for_the_guest_to_read() -> None:
    made = channel()
    made.receive(REQUEST * 2, 0.0)
    assert not made.is_listening(PAUSE_SECONDS)
    made.note_sent(5)
    assert made.unsent == ANSWER[5:]
    made.note_sent(len(ANSWER) - 5)
    made.advance(PAUSE_SECONDS / 2)
    assert made.unsent == b""
    made.advance(PAUSE_SECONDS)
    assert made.unsent == ANSWER


def test_after_nonsense_a_request_is_answered() -> None:
    made = channel()
    made.receive(b"x" * 2000, 0.0)
    made.note_sent(len(INVALID))
    made.receive(REQUEST, PAUSE_SECONDS)
    assert made.unsent == ANSWER
