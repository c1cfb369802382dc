"""One look for all pages that ask at the same time."""

from __future__ import annotations

import pytest

from kvedge.client.usage.guest_usage import Figures, Look
from kvedge.kube.errors import KubeError
from kvedge.web.usage_looks import UsageLooks


class Played:
    """Guests that use one CPU and a half, and a clock that is turned by hand."""

    def __init__(self) -> None:
        self.now = 100.0
        self.looked = 0
        self.trouble: KubeError | None = None
        self.looks = UsageLooks(self.look, lambda: self.now)

    def look(self) -> Look:
        self.looked += 1
        if self.trouble is not None:
            raise self.trouble
        return Look(self.now, {("shop", "web"): Figures("n1", answers=True, sums={"cpu": self.now * 1.5})})


def test_the_first_look_has_no_rates_and_the_second_has() -> None:
    played = Played()
    first = played.looks.use_of("shop", "web")
    assert (first["moment"], first["use"]["cpus"]) == (100.0, None)
    played.now += 5
    assert played.looks.use_of("shop", "web")["use"]["cpus"] == 1.5


def test_a_failure_is_told_to_all_that_ask_at_the_same_time() -> None:
    played = Played()
    played.trouble = KubeError(503, "ServiceUnavailable", "no answer")
    for _ in range(5):
        with pytest.raises(KubeError, match="no answer"):
            played.looks.use_of("shop", "web")
        played.now += 0.3
    assert played.looked == 1
    played.trouble = None
    played.now += 1
    assert played.looks.use_of("shop", "web")["use"] is not None


def test_pages_that_ask_at_the_same_time_share_a_look() -> None:
    played = Played()
    for _ in range(5):
        played.looks.use_of("shop", "web")
        played.now += 0.3
    assert played.looked == 1
    played.now += 1
    played.looks.use_of("shop", "web")
    assert played.looked == 2


def test_a_rate_is_of_a_short_time_alone() -> None:
    played = Played()
    played.looks.use_of("shop", "web")
    played.now += 3600
    assert played.looks.use_of("shop", "web")["use"]["cpus"] is None


def test_of_an_unknown_guest_there_is_nothing() -> None:
    assert Played().looks.use_of("shop", "ghost")["use"] is None
