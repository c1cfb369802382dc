"""What the annotations about bandwidth say."""

from __future__ import annotations

import pytest

from kvedge.resources.values.bandwidth import EGRESS, INGRESS, Bandwidth, BandwidthError, pod_bandwidth


def test_a_pod_without_annotations_is_not_limited() -> None:
    assert pod_bandwidth({"other": "1"}) == Bandwidth()


def test_each_direction_has_its_own() -> None:
    assert pod_bandwidth({INGRESS: "10M", EGRESS: "1Mi"}) == Bandwidth(ingress=10**7, egress=2**20)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("fast", "is no quantity"),
        ("", "is no quantity"),
        ("10 Mbit", "is no quantity"),
        ("0", "is not between 1k and 1P"),
        ("-10M", "is not between 1k and 1P"),
        ("999", "is not between 1k and 1P"),
        ("2P", "is not between 1k and 1P"),
        ("9" * 100_000, "is no quantity"),
    ],
    ids=["word", "empty", "unit", "nothing", "negative", "too slow", "too fast", "long"],
)
def test_what_is_no_bandwidth_is_refused_by_the_annotations_name(text: str, words: str) -> None:
    with pytest.raises(BandwidthError, match=words) as caught:
        pod_bandwidth({EGRESS: text})
    assert caught.value.annotation == EGRESS
    assert len(str(caught.value)) < 200
