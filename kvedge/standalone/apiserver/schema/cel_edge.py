"""The one door to CEL, the language of webhooks' match conditions (https://kubernetes.io/docs/reference/using-api/cel/).

Called by admission and by the rules of webhooks. Loads the library's compiled part alone: its package would bring
command-line tools along, which cost 20 MB that nobody here uses.
"""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
import re
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from kvedge.resources.codec import JsonValue

# Longer conditions cost more to compile than any honest one needs (Kubernetes bounds their cost instead).
_LONGEST: Final = 4096
_VARIABLES: Final = ("object", "oldObject", "request")
# After a name of which a field is taken, no function called.
_FIELD_AFTER: Final = re.compile(r"\s*\.\s*(\w+)\b(?!\s*\()")


class CelError(Exception):
    """An expression cannot be compiled, or has no Boolean result for these variables; the text says why."""


def check_condition(expression: str) -> None:
    """See whether an expression can be compiled.

    Raises:
        CelError: when it cannot.
    """
    _compile(expression)


def condition_holds(expression: str, variables: Mapping[str, JsonValue]) -> bool:
    """Whether an expression is true for these variables (`object`, `oldObject`, `request`).

    Raises:
        CelError: when it cannot be compiled, fails, or is no Boolean.
    """
    program = _compile(expression)
    needed = {name: _part(variables.get(name), fields) for name, fields in _find_used_fields(expression).items()}
    try:
        result = program.execute(needed)
    except Exception as error:  # the library raises whatever fits: KeyError, TypeError, RuntimeError
        raise CelError(f"{type(error).__name__}: {error}") from error
    if not isinstance(result, bool):
        raise CelError(f"must evaluate to bool, not {type(result).__name__}")
    return result


def _part(value: JsonValue, fields: frozenset[str] | None) -> JsonValue:
    """What an expression can see of a variable: the library copies it all, a millisecond for a VMI, at each call."""
    if fields is None or not isinstance(value, dict):
        return value
    return {key: item for key, item in value.items() if key in fields}


@functools.lru_cache(maxsize=256)
def _find_used_fields(expression: str) -> Mapping[str, frozenset[str] | None]:
    """By variable that is meant: the fields that are taken of it; None when it is used in any other way.

    The library knows the variables, not their fields: those stand after the name. Where the name stands for something
    else as well (`request.object`), there are more fields than are needed, never fewer.
    """
    used: dict[str, frozenset[str] | None] = {}
    for name in set(_VARIABLES) & set(_compile(expression).variables()):
        places = re.finditer(rf"\b{name}\b", expression)
        fields = [_FIELD_AFTER.match(expression, place.end()) for place in places]
        used[name] = frozenset(field[1] for field in fields if field is not None) if all(fields) else None
    return used


@functools.lru_cache(maxsize=256)
def _compile(expression: str) -> Any:
    if len(expression) > _LONGEST:
        raise CelError(f"longer than {_LONGEST} characters")
    try:
        return _library().compile(expression)
    except Exception as error:  # as above
        raise CelError(str(error)) from error


@functools.cache
def _library() -> ModuleType:
    package = importlib.util.find_spec("cel")
    # In the built program the compiled part is all that there is of the package: it has a place and no `__init__`.
    if package is None or not package.submodule_search_locations:
        raise CelError("the library common-expression-language is missing")
    directory = Path(next(iter(package.submodule_search_locations)))
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        path = directory / f"cel{suffix}"
        if path.exists():
            spec = importlib.util.spec_from_file_location("cel.cel", path)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    raise CelError(f"the library in {directory} has no compiled part for this interpreter")
