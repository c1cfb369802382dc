"""JSON patch (RFC 6902), with the refusals and limits of an API server.

Called by the server's PATCH. Pure; the inputs are not touched. Written out because the usual library takes `true` for
1 in a test and knows no limits; the tests use it as an oracle.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from kvedge.resources.codec import JsonObject, JsonValue
from kvedge.standalone.apiserver.wire.api_errors import ApiError, BadRequest
from kvedge.standalone.apiserver.wire.json_values import MAX_DEPTH, clone, compact, is_deep, same, type_word

MAX_OPERATIONS: Final = 10_000
# A few `copy` operations can double a document each: a short patch must not fill the memory.
MAX_COPIED_BYTES: Final = 3 * 1024 * 1024
# An insertion into a list moves the items behind it: ten thousand on the largest list would move billions.
MAX_MOVED_ITEMS: Final = 100_000_000

# No list has more items, and Python refuses to convert very long numbers.
_INDEX: Final = re.compile("0|[1-9][0-9]{0,8}")
_MISSING: Final = object()
_TOO_DEEP: Final = f"the patched document is nested more than {MAX_DEPTH} levels deep"


def apply(document: JsonObject, operations: JsonValue) -> JsonObject:
    """The document after all operations; an operation that does not apply refuses the whole patch.

    Raises:
        BadRequest: when the patch is no list of operations.
        ApiError: 422 when an operation does not apply or a test fails, 413 when the patch is too large.
    """
    if not isinstance(operations, list):
        raise BadRequest(
            f"error decoding patch: a JSON patch must be an array of operations, not {type_word(operations)}"
        )
    if len(operations) > MAX_OPERATIONS:
        raise _too_large(f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}")
    run = _Run(clone(document))
    try:
        for operation in operations:
            run.step(operation)
    except RecursionError as error:
        # Each operation may put one deep value below another.
        raise _does_not_apply(_TOO_DEEP) from error
    if not isinstance(run.root, dict):
        raise _does_not_apply("the patched document is not an object")
    if is_deep(run.root, MAX_DEPTH):
        raise _does_not_apply(_TOO_DEEP)
    return run.root


class _Run:
    """The document while operations are applied to it."""

    def __init__(self, root: JsonValue) -> None:
        self.root = root
        self._copied = 0
        self._moved = 0
        self._steps: dict[str, Callable[[JsonObject, str], None]] = {
            "add": lambda operation, path: self._add(path, clone(_value_of(operation)), "add"),
            "remove": lambda operation, path: self._remove(path, "remove"),
            "replace": self._replace,
            "move": self._move,
            "copy": self._copy,
            "test": self._test,
        }

    def step(self, operation: JsonValue) -> None:
        if not isinstance(operation, dict):
            raise BadRequest(f"error decoding patch: an operation must be an object, not {type_word(operation)}")
        name = operation.get("op", "unknown")
        step = self._steps.get(name) if isinstance(name, str) else None
        if step is None:
            raise _does_not_apply(f"Unexpected kind: {name if isinstance(name, str) else compact(name)}")
        step(operation, _pointer(operation, "path"))

    def _replace(self, operation: JsonObject, path: str) -> None:
        value = clone(_value_of(operation))
        if not path:
            self.root = value
            return
        parent, key = self._parent(path, "replace")
        if isinstance(parent, dict):
            # RFC 6902 asks for a member that is there. The API server takes any (seen with kube-apiserver 1.36), and
            # clients rely on it for labels and annotations of objects that have none.
            parent[key] = value
        elif _item(parent, key) is _MISSING:
            raise _refuse_missing("replace", path)
        else:
            parent[int(key)] = value

    def _move(self, operation: JsonObject, path: str) -> None:
        source = _pointer(operation, "from")
        if (path + "/").startswith(source + "/") and path != source:
            raise _does_not_apply(f"move operation does not apply: {source} cannot be moved into itself")
        value = self._get(source)
        if value is _MISSING:
            raise _refuse_missing("move", source)
        if path != source:
            self._remove(source, "move")
            self._add(path, value, "move")

    def _copy(self, operation: JsonObject, path: str) -> None:
        source = _pointer(operation, "from")
        value = self._get(source)
        if value is _MISSING:
            raise _refuse_missing("copy", source)
        self._copied += len(compact(value))
        if self._copied > MAX_COPIED_BYTES:
            raise _too_large(f"The copies of a JSON patch may have {MAX_COPIED_BYTES} bytes in all")
        self._add(path, clone(value), "copy")

    def _test(self, operation: JsonObject, path: str) -> None:
        expected, found = operation.get("value"), self._get(path)
        # As with the API server, an absent value passes as null.
        if not same(None if found is _MISSING else found, expected):
            raise _does_not_apply(f"testing value {path} failed")

    def _get(self, path: str) -> Any:
        value: Any = self.root
        for key in _keys(path):
            value = _item(value, key)
            if value is _MISSING:
                break
        return value

    def _parent(self, path: str, word: str) -> tuple[Any, str]:
        head, _, _ = path.rpartition("/")
        parent = self._get(head)
        if not isinstance(parent, dict | list):
            raise _refuse_missing(word, path)
        return parent, _keys(path)[-1]

    def _add(self, path: str, value: JsonValue, word: str) -> None:
        if not path:
            self.root = value
            return
        parent, key = self._parent(path, word)
        if isinstance(parent, dict):
            parent[key] = value
        elif key == "-":
            parent.append(value)
        elif _INDEX.fullmatch(key) and int(key) <= len(parent):
            self._move_items(len(parent) - int(key))
            parent.insert(int(key), value)
        else:
            raise _refuse_missing(word, path)

    def _remove(self, path: str, word: str) -> None:
        if not path:
            raise _does_not_apply(f"{word} operation does not apply: the whole document cannot be removed")
        parent, key = self._parent(path, word)
        if _item(parent, key) is _MISSING:
            raise _refuse_missing(word, path)
        if isinstance(parent, dict):
            del parent[key]
            return
        self._move_items(len(parent) - int(key))
        del parent[int(key)]

    def _move_items(self, count: int) -> None:
        self._moved += count
        if self._moved > MAX_MOVED_ITEMS:
            raise _too_large(f"The operations of a JSON patch may move {MAX_MOVED_ITEMS} items of lists in all")


def _item(value: Any, key: str) -> Any:
    if isinstance(value, dict):
        return value.get(key, _MISSING)
    if isinstance(value, list) and _INDEX.fullmatch(key) and int(key) < len(value):
        return value[int(key)]
    return _MISSING


def _keys(path: str) -> list[str]:
    return [key.replace("~1", "/").replace("~0", "~") for key in path.split("/")[1:]]


def _pointer(operation: JsonObject, field: str) -> str:
    path = operation.get(field)
    if not isinstance(path, str) or (path and not path.startswith("/")):
        raise _does_not_apply(f"{operation.get('op')} operation has no usable {field}: {compact(path)}")
    return path


def _value_of(operation: JsonObject) -> JsonValue:
    if "value" not in operation:
        raise _does_not_apply(f"{operation['op']} operation does not apply: it has no value")
    return operation["value"]


def _refuse_missing(word: str, path: str) -> ApiError:
    return _does_not_apply(f"{word} operation does not apply: doc is missing path: {path}: missing value")


def _does_not_apply(why: str) -> ApiError:
    # The API server stops after "our request"; the patch's author also wants to know which operation it was.
    return ApiError(422, "Invalid", f"the server rejected our request due to an error in our request: {why}")


def _too_large(why: str) -> ApiError:
    return ApiError(413, "RequestEntityTooLarge", f"Request entity too large: {why}")
