"""Label selectors of objects: what they select, how they are written, what is wrong with them."""

from __future__ import annotations

import pytest

from kvedge.resources.codec import decode
from kvedge.resources.label_selectors import selector_of, selector_problems
from kvedge.resources.meta import LabelSelector


def made(**document: object) -> LabelSelector:
    return decode(LabelSelector, document)


def expression(operator: str, *values: str, key: str = "tier") -> LabelSelector:
    return made(matchExpressions=[{"key": key, "operator": operator, "values": list(values)}])


@pytest.mark.parametrize(
    ("selector", "selected", "others"),
    [
        (made(), [{}, {"a": "b"}], []),
        (made(matchLabels={"a": "b", "c": "d"}), [{"a": "b", "c": "d", "e": "f"}], [{"a": "b"}, {}]),
        (expression("In", "x", "y"), [{"tier": "x"}, {"tier": "y"}], [{"tier": "z"}, {}]),
        (expression("NotIn", "x"), [{"tier": "y"}, {}], [{"tier": "x"}]),
        (expression("Exists"), [{"tier": ""}], [{}]),
        (expression("DoesNotExist"), [{}], [{"tier": "x"}]),
        (expression("Like", "x"), [], [{"tier": "x"}, {}]),
    ],
    ids=["everything", "labels", "in", "not in", "exists", "does not exist", "an operator that nobody knows"],
)
def test_what_is_selected(
    selector: LabelSelector, selected: list[dict[str, str]], others: list[dict[str, str]]
) -> None:
    known = selector_of(selector)
    assert [labels for labels in [*selected, *others] if known.matches(labels)] == selected


def test_the_text_of_a_selector_is_sorted_by_keys() -> None:
    selector = made(
        matchLabels={"z": "1", "a": "2"},
        matchExpressions=[
            {"key": "m", "operator": "In", "values": ["y", "x"]},
            {"key": "b", "operator": "DoesNotExist"},
        ],
    )
    assert str(selector_of(selector)) == "a=2,!b,m in (x,y),z=1"


@pytest.mark.parametrize(
    ("selector", "at"),
    [
        (made(matchLabels={"a b": "c"}), "matchLabels"),
        (made(matchLabels={"Example.com/x": "c"}), "matchLabels"),
        (made(matchLabels={"/x": "c"}), "matchLabels"),
        (made(matchLabels={"a": "c d"}), "matchLabels[a]"),
        (expression("Like", "x"), "matchExpressions[0].operator"),
        (expression("In"), "matchExpressions[0].values"),
        (expression("Exists", "x"), "matchExpressions[0].values"),
        (expression("In", "a b"), "matchExpressions[0].values"),
        (expression("Exists", key=""), "matchExpressions[0].key"),
        (made(matchLabels={f"k{number}": "v" for number in range(300)}), ""),
    ],
)
def test_what_is_wrong_with_a_selector_is_told_with_its_place(selector: LabelSelector, at: str) -> None:
    assert [path for path, _ in selector_problems(selector)] == [at]


def test_a_selector_as_users_write_it_has_no_problem() -> None:
    selector = made(
        matchLabels={"kubevirt.io/vmReplicaSet": "web"},
        matchExpressions=[{"key": "tier", "operator": "NotIn", "values": ["old", ""]}],
    )
    assert list(selector_problems(selector)) == []
