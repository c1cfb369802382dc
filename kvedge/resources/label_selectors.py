"""Label selectors: which labels they select, and their canonical text.

Used by the controller and the rules of admission, and by the embedded API, which also parses them from texts. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from kvedge.resources.meta import LabelSelector as SelectorDocument
from kvedge.resources.meta import LabelSelectorRequirement
from kvedge.resources.values import name_grammar
from kvedge.resources.values.whole_numbers import whole_number

_OPERATORS: Final[Mapping[str, str]] = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
# Those of node selectors.
_NODE_OPERATORS: Final[Mapping[str, str]] = {**_OPERATORS, "Gt": ">", "Lt": "<"}
_WITH_VALUES: Final = frozenset({"In", "NotIn"})
# A selector of more conditions than an object has labels selects nothing that anybody means.
MOST_CONDITIONS: Final = 256


class Requirement(Struct, frozen=True):
    """One condition on one label. `operator` is one of = == != in notin exists ! > <; `values` are sorted."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels fulfil it; an absent label fulfils != and notin."""
        value = labels.get(self.key)
        match self.operator:
            case "exists":
                return value is not None
            case "!":
                return value is None
            case "=" | "==" | "in":
                return value in self.values
            case "!=" | "notin":
                return value not in self.values
        found, bound = whole_number(value or ""), whole_number(self.values[0] if self.values else "")
        if found is None or bound is None:
            return False
        return found > bound if self.operator == ">" else found < bound

    def __str__(self) -> str:
        match self.operator:
            case "exists":
                return self.key
            case "!":
                return "!" + self.key
            case "in" | "notin":
                return f"{self.key} {self.operator} ({','.join(self.values)})"
        return self.key + self.operator + self.values[0]


class LabelSelector(Struct, frozen=True):
    """Conditions that must all hold, sorted by key; none at all matches everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """Whether an object with these labels is selected."""
        known = labels or {}
        return all(requirement.matches(known) for requirement in self.requirements)

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


def selector_of(document: SelectorDocument) -> LabelSelector:
    """The selector that an object's field of this kind means; see :func:`selector_problems` for what is wrong with it.

    >>> str(selector_of(SelectorDocument(match_labels={"tier": "web", "app": "shop"})))
    'app=shop,tier=web'
    """
    found = [Requirement(key, "=", (value,)) for key, value in document.match_labels.items()]
    for item in document.match_expressions:
        if item.operator in _OPERATORS:
            values = tuple(sorted(set(item.values)))
            found.append(Requirement(item.key, _OPERATORS[item.operator], values))
        else:
            # An operator that nobody knows selects nothing, whatever the labels are.
            found.append(Requirement(item.key, "in"))
    return LabelSelector(tuple(sorted(found, key=lambda requirement: requirement.key)))


def node_requirement(key: str, operator: str, values: Sequence[str]) -> Requirement:
    """The condition of a node selector, which has two operators more; one that nobody knows selects nothing."""
    known = _NODE_OPERATORS.get(operator)
    return Requirement(key, "in") if known is None else Requirement(key, known, tuple(values))


def selector_problems(document: SelectorDocument) -> Iterator[tuple[str, str]]:
    """What is wrong with such a field: the path below it, and what in words."""
    if len(document.match_labels) + len(document.match_expressions) > MOST_CONDITIONS:
        yield "", f"more than {MOST_CONDITIONS} conditions"
        return
    for key, value in document.match_labels.items():
        if not _is_key(key):
            yield "matchLabels", f'"{key}" is no key of a label'
        elif not is_label_value(value):
            yield f"matchLabels[{key}]", f'"{value}" is no value of a label'
    for index, item in enumerate(document.match_expressions):
        yield from _expression_problems(item, f"matchExpressions[{index}]")


def find_keys(document: SelectorDocument, keys: Collection[str]) -> Iterator[tuple[str, str]]:
    """Where such a field names one of these keys: the path below it, and the key."""
    for key in document.match_labels:
        if key in keys:
            yield f"matchLabels[{key}]", key
    for index, item in enumerate(document.match_expressions):
        if item.key in keys:
            yield f"matchExpressions[{index}].key", item.key


def is_label_value(text: str) -> bool:
    """Whether a label can have this value."""
    return len(text) <= name_grammar.LABEL_LENGTH and name_grammar.LABEL_VALUE.fullmatch(text) is not None


def _expression_problems(item: LabelSelectorRequirement, at: str) -> Iterator[tuple[str, str]]:
    if not _is_key(item.key):
        yield f"{at}.key", f'"{item.key}" is no key of a label'
    if item.operator not in _OPERATORS:
        yield f"{at}.operator", f'"{item.operator}" is not a valid label selector operator'
    elif item.operator in _WITH_VALUES and not item.values:
        yield f"{at}.values", "for 'in', 'notin' operators, values set can't be empty"
    elif item.operator not in _WITH_VALUES and item.values:
        yield f"{at}.values", "values set must be empty for exists and does not exist"
    bad = next((value for value in item.values if not is_label_value(value)), None)
    if bad is not None:
        yield f"{at}.values", f'"{bad}" is no value of a label'


def _is_key(text: str) -> bool:
    prefix, slash, name = text.rpartition("/")
    if slash and not (len(prefix) <= name_grammar.SUBDOMAIN_LENGTH and name_grammar.SUBDOMAIN.fullmatch(prefix)):
        return False
    return len(name) <= name_grammar.LABEL_LENGTH and name_grammar.KEY.fullmatch(name) is not None
