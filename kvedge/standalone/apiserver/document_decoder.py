"""The request decoder: bytes from a client become a document, or a refusal, within bounds of time and memory.

Called by `request_body`. Pure. A body is at most a few megabytes when it comes here; what a few megabytes can stand for
is bounded here: nesting, aliases, numbers.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec
import yaml

from kvedge.resources.codec import JsonValue
from kvedge.standalone.apiserver.api_errors import BadRequest
from kvedge.standalone.apiserver.json_values import MAX_DEPTH, is_deep

# Longer than any number that has a meaning; a number of a megabyte takes minutes to convert.
_LONG_NUMBER: Final = re.compile(rb"[0-9]{300}")
_LARGEST_BITS: Final = 1024
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
    if is_deep(value, MAX_DEPTH):
        raise _too_deep()
    if _LONG_NUMBER.search(body):
        _check_numbers(value)
    return Document(value, _duplicates(body, value))


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
        return Document(msgspec.json.decode(msgspec.json.encode(value)), tuple(loader.duplicates))
    except (yaml.YAMLError, msgspec.MsgspecError, UnicodeDecodeError, TypeError, ValueError, OverflowError) as error:
        raise BadRequest(f"error converting YAML to JSON: {error}") from error
    except RecursionError as error:
        raise _too_deep() from error


def _check_events(text: str) -> None:
    """Refuse what would be large or deep, before anything is made of it."""
    depth = 0
    for event in yaml.parse(text, Loader=_BASE):
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
    return tuple(f'duplicate field "{path}"' for path in _twice(pairs, ""))


class _Pairs(list[tuple[str, Any]]):
    """An object as it was written."""


def _twice(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for key, item in value:
            where = f"{path}.{key}" if path else key
            if key in seen:
                yield where
            seen.add(key)
            yield from _twice(item, where)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _twice(item, f"{path}[{index}]")


def _too_deep() -> BadRequest:
    return BadRequest(f"the body of the request is nested more than {MAX_DEPTH} levels deep")


class _KubernetesYaml(_BASE):  # type: ignore[misc, valid-type]
    """YAML as Kubernetes reads it: a date stays a text."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.duplicates: list[str] = []

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    self.duplicates.append(f'line {key.start_mark.line + 1}: key "{key.value}" already set in map')
                seen.add(key.value)
        constructed: dict[Any, Any] = super().construct_mapping(node, deep)
        return constructed


_KubernetesYaml.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
