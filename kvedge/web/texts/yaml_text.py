"""Manifests as a page shows and sends them: YAML of one object, within bounds.

Called by `new_vm`, `vm_calls` and `object_edit`. Pure.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import yaml

from kvedge.client.errors import FlagError
from kvedge.resources.codec import JsonObject

LONGEST: Final = 256 * 1024
_FIELD: Final = "yaml"
# What servers note about an object, and no user changes.
_NOTED: Final = ("managedFields", "selfLink")
# PyYAML raises whatever Python does for a value that its tag does not fit: KeyError, IndexError, AttributeError …
_UNREADABLE: Final = (
    yaml.YAMLError, RecursionError, ValueError, TypeError, LookupError, AttributeError, OverflowError,
)  # fmt: skip


class _PlainLoader(yaml.SafeLoader):
    """Without aliases: a few lines of them stand for more than any memory holds."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.events.AliasEvent):
            problem = "aliases (*) are not taken here: write it out"
            raise yaml.composer.ComposerError(None, None, problem, self.get_mark())
        return super().compose_node(parent, index)


class _PlainDumper(yaml.SafeDumper):
    """What stands twice is written twice."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def write_yaml(document: JsonObject) -> str:
    """The object; characters that are no plain text are written as escapes."""
    metadata = {key: value for key, value in (document.get("metadata") or {}).items() if key not in _NOTED}
    shown = {key: metadata if key == "metadata" else value for key, value in document.items()}
    return yaml.dump(shown, Dumper=_PlainDumper, sort_keys=False, width=120)


def read_yaml(text: str) -> JsonObject:
    """One object.

    Raises:
        FlagError: for what is none, with the line.
    """
    if len(text) > LONGEST:
        raise _fault(f"it is longer than {LONGEST >> 10} KiB")
    try:
        # A loader of its own class: it makes plain values alone, as SafeLoader does.
        document = yaml.load(text, Loader=_PlainLoader)
    except _UNREADABLE as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark is not None else ""
        raise _fault(f"{where}{getattr(error, 'problem', None) or 'this is not YAML'}") from error
    if not isinstance(document, dict):
        raise _fault("this is no object: write one, as kubectl has it")
    _check_sendable(document)
    return document


def _check_sendable(document: JsonObject) -> None:
    """YAML has more than JSON: keys such as null and true, and halves of characters."""
    try:
        msgspec.json.encode(document)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise _fault("it cannot be sent as JSON: keys must be texts, and texts whole characters") from error


def check_object(document: JsonObject, kind: str, namespace: str, name: str = "") -> JsonObject:
    """Whether it is of this kind, for this namespace, and of this name if one is given; with the namespace in it.

    Raises:
        FlagError: saying what it has to be.
    """
    metadata = document.get("metadata")
    if document.get("kind") != kind:
        raise _fault(f"kind: must be {kind}")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        raise _fault("metadata.name: the object needs a name")
    if metadata.get("namespace", namespace) != namespace:
        raise _fault(f"metadata.namespace: must be {namespace}, as chosen beside it")
    if name and metadata["name"] != name:
        raise _fault(f"metadata.name: must stay {name}")
    return {**document, "metadata": {**metadata, "namespace": namespace}}


def _fault(why: str) -> FlagError:
    return FlagError(_FIELD, why, f"YAML: {why}")
