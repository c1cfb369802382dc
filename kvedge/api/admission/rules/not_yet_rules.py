"""What KubeVirt's API has and kvedge does not do yet: refused by name, never left out in silence.

ONE table. A feature that is built leaves it in the same commit. Works on documents as they came. Called by
admission_plan.py; touches nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec import Struct

from kvedge import __version__
from kvedge.api.admission.rules.causes import Cause, Field, unsupported_cause
from kvedge.resources.codec import JsonObject

_RELEASE: Final = ".".join(__version__.split(".")[:2])


class NotYet(Struct, frozen=True):
    """A field below a VMI's spec, `[]` standing for each item of a list.

    Asked for is what is there and not false or empty (`containerPath: {}` asks for it).
    """

    path: str
    remedy: str = "remove it"


VMI_NOT_YET: Final[Sequence[NotYet]] = (
    # Clock: none of QEMU's timers takes one
    *(NotYet(f"domain.clock.timer.{timer}.frequency") for timer in ("hpet", "hyperv", "kvm", "pit", "rtc")),
)


def not_yet(table: Sequence[NotYet], document: JsonObject, at: Field) -> Iterator[Cause]:
    """A cause for each thing in the table that the document below `at` asks for."""
    for entry in table:
        for path, value in _find(document, entry.path.split("."), at):
            if _is_asked_for(value):
                yield unsupported_cause(path, f"{path}: not supported by kvedge {_RELEASE}; {entry.remedy}")


def _find(value: Any, names: Sequence[str], at: Field) -> Iterator[tuple[Field, Any]]:
    if not names:
        yield at, value
        return
    if not isinstance(value, dict):
        return
    name = names[0].removesuffix("[]")
    item = value.get(name)
    if not names[0].endswith("[]"):
        yield from _find(item, names[1:], at.at(name))
        return
    for index, entry in enumerate(item if isinstance(item, list) else ()):
        yield from _find(entry, names[1:], at.at(name).item(index))


def _is_asked_for(value: Any) -> bool:
    return isinstance(value, dict) or bool(value)
