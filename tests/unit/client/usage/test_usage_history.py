# Tests: kvedge/client/usage/usage_history.py
"""What a VM has used is asked of its own subresource, and drawn as bars with gaps."""

from __future__ import annotations

from datetime import UTC
from typing import Any

import pytest
from msgspec import Struct

from kvedge.client.errors import RefusedError
from kvedge.client.usage.usage_history import describe_span, draw_bars, make_history_cells, read_history
from kvedge.resources.codec import encode_json
from kvedge.resources.usage.guest_history import CPUS, MEMORY, READ, GuestHistory


class Played(Struct, frozen=True):
    """A session whose server gives one answer."""

    answer: bytes
    namespace: str = "default"

    @property
    def client(self) -> Any:
        return self

    def hurry(self, seconds: float) -> Any:
        return self

    def content(self, path: str, query: dict[str, str]) -> bytes:
        return self.answer if (path, query) == (ASKED, {"range": "day"}) else b"{}"


ASKED = "/apis/subresources.kubevirt.io/v1/namespaces/shop/virtualmachineinstances/web/usage"


def read(answer: bytes) -> GuestHistory:
    session: Any = Played(answer)
    return read_history(session, "shop", "web", "day")


def test_the_vms_own_node_is_asked_for_the_span() -> None:
    history = GuestHistory(span="day", step=300, end=600, series={CPUS: [None, 0.5]})
    assert read(encode_json(history)) == history


@pytest.mark.parametrize("answer", [b"", b"[]", b'{"series": {"cpus": ["<b>"]}}'])
def test_an_answer_that_is_none_is_refused(answer: bytes) -> None:
    with pytest.raises(RefusedError, match="what VM shop/web has used cannot be read"):
        read(answer)


def test_a_bar_stands_for_a_mean_and_a_gap_is_blank() -> None:
    assert draw_bars([0.0, None, 50.0, 100.0], 1.0) == "▁ ▅█"
    assert draw_bars([], 1.0) == ""
    assert draw_bars([None] * 3, 1.0) == "   "
    # An idle guest has no mountains.
    assert draw_bars([0.0, 0.001], 0.01) == "▁▁"


def test_a_line_has_sixty_bars_at_most() -> None:
    for points in (60, 61, 288, 360, 720):
        assert len(draw_bars([1.0] * points, 1.0)) <= 60


def test_the_table_has_rows_of_what_is_known() -> None:
    series: dict[str, list[float | None]] = {
        CPUS: [0.5, 1.5, None],
        MEMORY: [None, None, 2048.0],
        READ: [None, None, None],
    }
    cells = make_history_cells(GuestHistory(span="hour", step=10, series=series))
    assert [row[:4] for row in cells[1:]] == [["CPU", "150 %", "100 %", "150 %"], ["MEMORY", "2Ki", "2Ki", "2Ki"]]
    assert make_history_cells(GuestHistory()) == cells[:1]


@pytest.mark.parametrize(
    ("step", "points", "said"),
    [
        (10, 360, "1970-01-01 23:00 to 1970-01-02 00:00, a minute a bar"),
        (300, 288, "1970-01-01 00:00 to 1970-01-02 00:00, 25 minutes a bar"),
    ],
)
def test_people_read_from_when_to_when(step: int, points: int, said: str) -> None:
    history = GuestHistory(step=step, end=86400, series={CPUS: [None] * points})
    assert describe_span(history, UTC) == said
