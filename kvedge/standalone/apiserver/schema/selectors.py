"""Label selectors and field selectors of requests, and LabelSelector objects: parsing and checking them.

Called by the server for list, watch and deletecollection, and by the loops that play Kubernetes' controllers. Pure.
Texts that cannot be understood raise `BadRequest` with apimachinery's words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NoReturn

from msgspec import Struct

from kvedge.resources.codec import JsonObject
from kvedge.resources.label_selectors import LabelSelector, Requirement
from kvedge.resources.values.whole_numbers import whole_number
from kvedge.standalone.apiserver.wire import name_rules
from kvedge.standalone.apiserver.wire.api_errors import BadRequest, FieldError, FieldErrorType, first_errors

_ONE_VALUE: Final = frozenset({"=", "==", "!=", ">", "<"})
_BINARY: Final = "in, notin, =, ==, !=, >, <"


class FieldTerm(Struct, frozen=True):
    """`field=value`, or `field!=value` when not `equal`."""

    field: str
    value: str
    equal: bool = True

    def __str__(self) -> str:
        escaped = re.sub(r"([\\,=])", r"\\\1", self.value)
        return f"{self.field}{'=' if self.equal else '!='}{escaped}"


class FieldSelector(Struct, frozen=True):
    """Terms that must all hold. Fields are dotted paths; what is absent counts as an empty text."""

    terms: tuple[FieldTerm, ...] = ()

    def matches(self, value_of: Callable[[str], str]) -> bool:
        """Whether an object whose fields `value_of` looks up is selected."""
        return all((value_of(term.field) == term.value) is term.equal for term in self.terms)

    def exact(self, field: str) -> str | None:
        """The one value that `field` must have, when the selector says so."""
        return next((term.value for term in self.terms if term.field == field and term.equal), None)

    def __str__(self) -> str:
        return ",".join(map(str, self.terms))


def parse_label_selector(text: str) -> LabelSelector:
    """Parse `app=web,tier in (a,b),!old`.

    Raises:
        BadRequest: with what was found and what was expected.
    """
    return _LabelParser(text).parse()


def label_selector_of(document: JsonObject | None) -> LabelSelector:
    """The selector of a metav1.LabelSelector object; of None one that selects everything, as an absent selector
    of a webhook does.
    """
    return LabelSelector(tuple(sorted(_requirements_of(document or {}), key=lambda item: item.key)))


def check_label_selector(document: JsonObject | None, path: str) -> list[FieldError]:
    """What is wrong with a metav1.LabelSelector object that stands at `path`: the first errors."""
    return first_errors(_selector_errors(document or {}, path))


def check_labels(labels: Mapping[str, str] | None, path: str) -> Iterator[FieldError]:
    """What is wrong with a map of labels that stands at `path`."""
    for key, value in (labels or {}).items():
        for text in name_rules.label_key(key):
            yield FieldError(FieldErrorType.INVALID, path, text, key)
        for text in name_rules.label_value(value):
            yield FieldError(FieldErrorType.INVALID, path, text, value)


def parse_field_selector(text: str) -> FieldSelector:
    r"""Parse `metadata.name=x,status.phase!=Running`; in values `\`, `,` and `=` are escaped by a backslash.

    Raises:
        BadRequest: when a term has no operator or a wrong escape.
    """
    terms = [_field_term(text, part) for part in sorted(re.findall(r"(?:\\.|[^,\\]|\\$)+", text, re.DOTALL))]
    return FieldSelector(tuple(terms))


def _requirements_of(document: JsonObject) -> list[Requirement]:
    words = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
    found = [Requirement(key, "=", (value,)) for key, value in (document.get("matchLabels") or {}).items()]
    for expression in document.get("matchExpressions") or []:
        operator = words.get(expression.get("operator", ""))
        if operator is None:
            raise BadRequest(f'"{expression.get("operator", "")}" is not a valid label selector operator')
        found.append(Requirement(expression.get("key", ""), operator, tuple(sorted(expression.get("values") or []))))
    return found


def _selector_errors(document: JsonObject, path: str) -> Iterator[FieldError]:
    yield from check_labels(document.get("matchLabels"), f"{path}.matchLabels")
    for index, expression in enumerate(document.get("matchExpressions") or []):
        yield from _check_expression(expression, f"{path}.matchExpressions[{index}]")


def _check_expression(expression: JsonObject, path: str) -> Iterator[FieldError]:
    operator, values = expression.get("operator", ""), expression.get("values") or []
    if operator in {"In", "NotIn"}:
        if not values:
            text = "must be specified when `operator` is 'In' or 'NotIn'"
            yield FieldError(FieldErrorType.REQUIRED, f"{path}.values", text)
    elif operator in {"Exists", "DoesNotExist"}:
        if values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield FieldError(FieldErrorType.FORBIDDEN, f"{path}.values", text)
    else:
        yield FieldError(FieldErrorType.INVALID, f"{path}.operator", "not a valid selector operator", operator)
    key = expression.get("key", "")
    for text in name_rules.label_key(key):
        yield FieldError(FieldErrorType.INVALID, f"{path}.key", text, key)
    for index, value in enumerate(values):
        for text in name_rules.label_value(value):
            yield FieldError(FieldErrorType.INVALID, f"{path}.values[{index}]", text, value)


def _field_term(whole: str, part: str) -> FieldTerm:
    split = re.match(r"(?P<field>.*?)(?P<operator>!=|==|=)(?P<value>.*)", part, re.DOTALL)
    if split is None:
        raise BadRequest(f"invalid selector: '{whole}'; can't understand '{part}'")
    return FieldTerm(split["field"], _unescape(split["value"]), split["operator"] != "!=")


def _unescape(value: str) -> str:
    plain = []
    characters = iter(value)
    for character in characters:
        if character == "\\":
            escaped = next(characters, "")
            if escaped not in {"\\", ",", "="}:
                raise BadRequest(f"invalid field selector: invalid escape sequence: \\{escaped}")
            plain.append(escaped)
        elif character == "=":
            # Go prints a rune as its number.
            raise BadRequest(f"invalid field selector: unescaped character in value: {ord(character)}")
        else:
            plain.append(character)
    return "".join(plain)


_TOKEN: Final = re.compile(r"[ \t\r\n]*(?P<token>==|!=|[=!(),<>]|[^=!(),<> \t\r\n]+)")
_SPECIAL: Final = frozenset("=!(),<>") | {"==", "!="}


class _LabelParser:
    """Recursive descent over the tokens of one selector; the end of the text is the empty token."""

    def __init__(self, text: str) -> None:
        self._tokens = [*(match["token"] for match in _TOKEN.finditer(text)), ""]
        self._at = 0

    def parse(self) -> LabelSelector:
        requirements: list[Requirement] = []
        while self._peek():
            if not self._at_requirement():
                self._refuse(self._peek(), ", expected: !, identifier, or 'end of string'")
            try:
                requirements.append(self._requirement())
            except BadRequest as error:
                raise BadRequest(f"unable to parse requirement: {error.message}") from error
            token = self._take()
            if not token:
                break
            if token != ",":
                self._refuse(token, ", expected: ',' or 'end of string'")
            if not self._at_requirement():
                self._refuse(self._peek(), ", expected: identifier after ','")
        return LabelSelector(tuple(sorted(requirements, key=lambda requirement: requirement.key)))

    def _requirement(self) -> Requirement:
        absent = self._peek() == "!"
        if absent:
            self._take()
        key = self._take()
        if not _is_identifier(key):
            self._refuse(key, ", expected: identifier")
        _refuse_invalid("<nil>", key, name_rules.label_key(key))
        if self._peek() in {"", ","}:
            return Requirement(key, "!" if absent else "exists")
        operator = self._take()
        if operator in _ONE_VALUE:
            values = [self._one_value()]
        elif operator in {"in", "notin"}:
            values = self._value_list()
        else:
            self._refuse(operator, f", expected: {_BINARY}")
        return _check(Requirement(key, operator, tuple(sorted(set(values)))))

    def _one_value(self) -> str:
        if self._peek() in {"", ","}:
            return ""
        value = self._take()
        if not _is_identifier(value):
            self._refuse(value, ", expected: identifier")
        return value

    def _value_list(self) -> list[str]:
        token = self._take()
        if token != "(":
            self._refuse(token, " expected: '('")
        if not _is_identifier(self._peek()) and self._peek() not in {",", ")"}:
            self._refuse(self._peek(), ", expected: ',', ')' or identifier")
        values = [self._read_value()]
        while self._peek() == ",":
            self._take()
            values.append(self._read_value())
        token = self._take()
        if token != ")":
            self._refuse(token, ", expected: ',' or ')'")
        return values

    def _read_value(self) -> str:
        """A value of a list; between two commas, or a comma and a bracket, it is empty."""
        if self._peek() in {",", ")"}:
            return ""
        value = self._take()
        if not _is_identifier(value):
            self._refuse(value, ", expected: ',', or identifier")
        return value

    def _at_requirement(self) -> bool:
        return self._peek() == "!" or _is_identifier(self._peek())

    def _peek(self) -> str:
        return self._tokens[self._at]

    def _take(self) -> str:
        token = self._tokens[self._at]
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def _refuse(self, found: str, expected: str) -> NoReturn:
        raise BadRequest(f"found '{found}'{expected}")


def _is_identifier(token: str) -> bool:
    return bool(token) and token not in _SPECIAL


def _check(requirement: Requirement) -> Requirement:
    if requirement.operator in {">", "<"} and whole_number(requirement.values[0]) is None:
        text = "for 'Gt', 'Lt' operators, the value must be an integer"
        _refuse_invalid("values[0]", requirement.values[0], [text])
    for index, value in enumerate(requirement.values):
        _refuse_invalid(f"values[{index}][{requirement.key}]", value, name_rules.label_value(value))
    return requirement


def _refuse_invalid(path: str, value: str, complaints: Sequence[str]) -> None:
    if complaints:
        raise BadRequest(FieldError(FieldErrorType.INVALID, path, "; ".join(complaints), value).text())
