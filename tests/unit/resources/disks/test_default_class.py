"""The class of claims that name none."""

from __future__ import annotations

import pytest

from kvedge.resources.data_volume_names import DEFAULT_CLASS, DEFAULT_VIRT_CLASS
from kvedge.resources.disks.default_class import ClassSeen, default_class_name


def seen(name: str, made_at: str = "2026-01-01T00:00:00Z", **annotations: str) -> ClassSeen:
    return ClassSeen({DEFAULT_CLASS: "true", **annotations}, made_at, name)


CASES = {
    "none": ([], None),
    "one that is not marked": ([ClassSeen({DEFAULT_CLASS: "false"}, "2026-01-01T00:00:00Z", "a")], None),
    "one": ([seen("a")], "a"),
    "two of one age": ([seen("b"), seen("a")], "a"),
    "a newer one": ([seen("a"), seen("b", "2026-01-02T00:00:00Z")], "b"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_newest_is_the_default_and_of_those_the_first_by_name(case: str) -> None:
    classes, name = CASES[case]
    assert default_class_name(classes) == name
    assert default_class_name(reversed(classes)) == name


def test_another_mark_has_a_default_of_its_own() -> None:
    classes = [seen("a"), seen("b", **{DEFAULT_VIRT_CLASS: "true"})]
    assert default_class_name(classes, DEFAULT_VIRT_CLASS) == "b"
