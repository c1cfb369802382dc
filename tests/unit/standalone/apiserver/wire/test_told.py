"""What clients are told: short, however large what they sent is, and made in time for what is shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvedge.standalone.apiserver.requests.request_context import LONGEST_WARNING, Warnings
from kvedge.standalone.apiserver.wire.api_errors import (
    LONGEST_MESSAGE,
    ApiError,
    FieldError,
    FieldErrorType,
    Invalid,
    Target,
)
from kvedge.standalone.apiserver.wire.json_values import identity, measure, same
from kvedge.standalone.apiserver.wire.told import LONGEST_PATH, LONGEST_VALUE, MOST_TOLD, child, member_path, show

VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    1.0,
    "",
    "1",
    [],
    [1],
    [True],
    {},
    {"a": 1},
    {"a": True},
    {"a": [1]},
    [[1]],
]


@pytest.mark.parametrize("value", [*VALUES, {"a": {"b": [1, "ü", None]}, "c": []}, '"\\\n'], ids=repr)
def test_a_short_value_is_shown_as_json(value: Any) -> None:
    assert show(value) == json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class Unbounded(list[int]):
    """A list that nobody may read to its end."""

    def __iter__(self) -> Any:
        yield from range(LONGEST_VALUE + 2)
        raise AssertionError("read further than it is shown")


@pytest.mark.parametrize("value", [Unbounded([1]), "x" * 10**6, {"x" * 10**6: 1}, [["x" * 300]] * 9], ids=lambda _: "")
def test_a_long_value_is_cut_and_not_read_to_its_end(value: Any) -> None:
    assert len(show(value)) == LONGEST_VALUE
    assert show(value).endswith("…")


def test_paths_stop_growing() -> None:
    path = child(child("spec", "a" * 10**6), "b")
    assert len(path) == LONGEST_PATH
    assert path.endswith("…")
    assert child(path, "c") == member_path(path, "c") == path
    assert (child("", "a"), child("a", "b"), member_path("a", "b")) == ("a", "a.b", "a[b]")


def test_a_status_says_the_first_causes_and_that_there_are_more() -> None:
    def errors() -> Any:
        for number in range(MOST_TOLD + 1):
            yield FieldError(FieldErrorType.INVALID, f"spec.a[{number}]", "x" * 10**4, "y" * 10**4)
        raise AssertionError("more errors were asked for than are told")

    status = Invalid(Target("Widget", "a" * 10**4), errors()).status()
    causes = status["details"]["causes"]
    assert len(causes) == MOST_TOLD + 1
    assert "more errors" in causes[-1]["message"]
    assert len(status["message"]) == LONGEST_MESSAGE
    assert len(json.dumps(status)) < 100_000


def test_any_status_is_cut() -> None:
    status = ApiError(400, "BadRequest", "x" * 10**6, causes=[{"message": "x"}] * 1_000).status()
    assert len(json.dumps(status)) < LONGEST_MESSAGE + 10_000


def test_warnings_are_told_once_and_fit_into_headers() -> None:
    warnings = Warnings()
    for number in range(1_000):
        warnings.add(f"w{number % 3}")
    assert list(warnings) == ["w0", "w1", "w2"]
    for number in range(1_000):
        warnings.add(f"{number}{'x' * 1_000}")
    texts = list(warnings)
    assert texts[-1] == "there are more warnings than are shown"
    assert max(map(len, texts)) == LONGEST_WARNING
    assert sum(map(len, texts)) < 4_500


@pytest.mark.parametrize("one", VALUES, ids=repr)
@pytest.mark.parametrize("other", VALUES, ids=repr)
def test_two_values_are_identical_when_they_are_the_same_json(one: Any, other: Any) -> None:
    assert (identity(one) == identity(other)) is same(one, other)


def test_values_are_counted_with_the_steps_to_them() -> None:
    assert measure({"a": [1, 2], "b": {"c": 1}}, 3) == (5, 2 + 3 * 2)
    assert measure(1, 3) == (0, 0)
    with pytest.raises(RecursionError):
        measure([[[[]]]], 3)
