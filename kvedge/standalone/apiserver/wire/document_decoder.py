"""The request decoder: bytes from a client become a document, or a refusal, within bounds of time and memory.

Called by `request_body`, for large bodies in a thread. Pure. A body is at most a few megabytes when it comes here; what
a few megabytes can stand for is bounded here: nesting, the number of values, aliases, numbers.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec
import yaml

from kvedge.resources.codec import JsonValue
from kvedge.standalone.apiserver.wire.api_errors import ApiError, BadRequest
from kvedge.standalone.apiserver.wire.json_values import MAX_DEPTH, measure
from kvedge.standalone.apiserver.wire.told import LONGEST_VALUE, MOST_TOLD, child, cut, note

# Longer than any number that has a meaning; a number of a megabyte takes minutes to convert. Looked for where digits
# begin only: from each digit on it would take three hundred times as long.
_LONG_NUMBER: Final = re.compile(rb"(?<![0-9])[0-9]{300}")
_LARGEST_BITS: Final = 1024
_LONGEST_INTEGER: Final = 400
# Several times what the largest honest objects have. Each costs some ten microseconds until the object is stored.
MOST_VALUES: Final = 200_000
# The steps from the top to each of them: what a manager of fields owns is written down with the way to it. The largest
# CustomResourceDefinitions that people use have 22,000 values and 400,000 steps.
MOST_STEPS: Final = 1_000_000
_MERGE: Final = "tag:yaml.org,2002:merge"
# libyaml's, where it was built in: fifty times faster than the one in Python.
_BASE: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Document(NamedTuple):
    """What a body says, and which of its keys stand there twice (the last one counts), in words for the client."""

    value: Any
    duplicates: tuple[str, ...] = ()


def decode(body: bytes, is_yaml: bool = False) -> Document:
    """Decode JSON, or YAML of which JSON is a part.

    Raises:
        BadRequest: it is neither, or more than anybody needs.
    """
    try:
        value = msgspec.json.decode(body)
    except RecursionError as error:
        raise _too_deep() from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if is_yaml:
            return _decode_yaml(body)
        raise BadRequest(f"the body of the request is not valid JSON: {error}") from error
    check_size(value)
    if _LONG_NUMBER.search(body):
        _check_numbers(value)
    return Document(value, _duplicates(body, value))


def check_size(value: JsonValue) -> None:
    """Refuse a document of which every later step would take too long: it is nested too deep or has too many values.

    Raises:
        BadRequest, ApiError: 413 for too many values.
    """
    try:
        count, steps = measure(value, MAX_DEPTH)
    except RecursionError as error:
        raise _too_deep() from error
    if count > MOST_VALUES or steps > MOST_STEPS:
        raise _too_many()


def _decode_yaml(body: bytes) -> Document:
    try:
        text = body.decode()
        _check_events(text)
        loader = _KubernetesYaml(text)
        try:
            value = loader.get_single_data()
        finally:
            loader.dispose()
        _check_numbers(value)
        # Through JSON, so that what only YAML knows becomes what JSON has.
        document = msgspec.json.decode(msgspec.json.encode(value))
        check_size(document)
        return Document(document, tuple(loader.duplicates))
    except (yaml.YAMLError, msgspec.MsgspecError, UnicodeDecodeError, TypeError, ValueError, OverflowError) as error:
        raise BadRequest(f"error converting YAML to JSON: {error}") from error
    except RecursionError as error:
        raise _too_deep() from error


def _check_events(text: str) -> None:
    """Refuse what would be large or deep, before anything is made of it."""
    depth = 0
    for count, event in enumerate(yaml.parse(text, Loader=_BASE), 1):
        # Each value of a mapping comes with its key, each collection with its end.
        if count > 3 * MOST_VALUES:
            raise _too_many()
        if isinstance(event, yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not supported")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise _too_deep()
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _check_numbers(value: Any) -> None:
    """Refuse numbers that a 64-bit float does not hold: no two clients would read the same."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
        elif isinstance(item, float) and not math.isfinite(item):
            raise BadRequest(f"the body of the request has a number that JSON does not have: {item}")
        elif isinstance(item, int) and item.bit_length() > _LARGEST_BITS:
            raise BadRequest("the body of the request has a number that is too large")


def _duplicates(body: bytes, value: JsonValue) -> tuple[str, ...]:
    """The keys that stand twice in an object. A text as long as the document written anew has none."""
    if len(body) == len(msgspec.json.encode(value)):
        return ()
    pairs = json.loads(body, object_pairs_hook=_Pairs)
    return tuple(f'duplicate field "{path}"' for path in islice(_find_duplicates(pairs, ""), MOST_TOLD + 1))


class _Pairs(list[tuple[str, Any]]):
    """An object as it was written."""


def _find_duplicates(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for key, item in value:
            where = child(path, key)
            if key in seen:
                yield where
            seen.add(key)
            yield from _find_duplicates(item, where)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _find_duplicates(item, f"{path}[{index}]")


def _too_many() -> ApiError:
    text = f"Request entity too large: an object may have at most {MOST_VALUES} values, fewer where they stand deep"
    return ApiError(413, "RequestEntityTooLarge", text)


def _too_deep() -> BadRequest:
    return BadRequest(f"the body of the request is nested more than {MAX_DEPTH} levels deep")


class _KubernetesYaml(_BASE):  # type: ignore[misc, valid-type]
    """YAML as Kubernetes reads it: a date stays a text, and so does `1:30`, which is 90 to YAML 1.1."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.duplicates: list[str] = []

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    name = cut(key.value, LONGEST_VALUE)
                    note(self.duplicates, f'line {key.start_mark.line + 1}: key "{name}" already set in map')
                seen.add(key.value)
        constructed: dict[Any, Any] = super().construct_mapping(node, deep)
        return constructed

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        # The library moves all members of a mapping for each of its merge keys.
        if sum(key.tag == _MERGE for key, _ in node.value) > 1:
            raise yaml.YAMLError("a mapping may have one merge key (<<)")
        super().flatten_mapping(node)

    def construct_integer(self, node: yaml.ScalarNode) -> int:
        """An integer, also where a tag says that it is one."""
        self._check_number(node)
        return int(self.construct_yaml_int(node))

    def construct_fraction(self, node: yaml.ScalarNode) -> float:
        """A fraction, also where a tag says that it is one."""
        self._check_number(node)
        return float(self.construct_yaml_float(node))

    def _check_number(self, node: yaml.ScalarNode) -> None:
        text = self.construct_scalar(node)
        # To base 60 the library takes time for the square of the length.
        if ":" in text:
            raise ValueError(f'"{cut(text, LONGEST_VALUE)}" is not a number')
        if len(text.replace("_", "")) > _LONGEST_INTEGER:
            raise BadRequest("the body of the request has a number that is too large")


_KubernetesYaml.add_constructor("tag:yaml.org,2002:int", _KubernetesYaml.construct_integer)
_KubernetesYaml.add_constructor("tag:yaml.org,2002:float", _KubernetesYaml.construct_fraction)
# YAML 1.1's without base 60, and without dates.
_RESOLVED: Final = {
    "tag:yaml.org,2002:timestamp": None,
    "tag:yaml.org,2002:int": re.compile(r"[-+]?(0b[0-1_]+|0[0-7_]+|(0|[1-9][0-9_]*)|0x[0-9a-fA-F_]+)\Z"),
    "tag:yaml.org,2002:float": re.compile(
        r"([-+]?[0-9][0-9_]*\.[0-9_]*([eE][-+][0-9]+)?|\.[0-9][0-9_]*([eE][-+][0-9]+)?"
        r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))\Z"
    ),
}
_KubernetesYaml.yaml_implicit_resolvers = {
    first: [(tag, replaced) for tag, pattern in resolvers if (replaced := _RESOLVED.get(tag, pattern)) is not None]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
