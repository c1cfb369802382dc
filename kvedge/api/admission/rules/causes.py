"""What is wrong with an object, one cause per field; and paths of fields.

Yielded by every rule of this folder. Touches nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from kvedge.resources.codec import JsonObject

# As many as KubeVirt spells out in the message; the causes carry all.
_SPELLED_OUT: Final = 10
# A person reads no more, and each process on an answer's way holds it in memory.
MOST_CAUSES: Final = 50
# A message may quote what somebody has written, which may be a megabyte.
_LONGEST_MESSAGE: Final = 2000


class Field(str):
    """A path such as `spec.template.spec.volumes[0].name`; a text like any other once it is made."""

    __slots__ = ()

    def at(self, *names: str) -> Field:
        """A member, or a member's member."""
        return Field(".".join((self, *names) if self else names))

    def item(self, index: int) -> Field:
        """One item of a list."""
        return Field(f"{self}[{index}]")

    def key(self, key: str) -> Field:
        """One key of a map."""
        return Field(f"{self}[{key}]")


class Cause(Struct, frozen=True):
    """One thing that is wrong: where, and what in words for the user; `reason` is a metav1.CauseType."""

    field: str
    message: str
    reason: str = "FieldValueInvalid"

    def shorten(self) -> Cause:
        """The same with at most so much text as somebody reads."""
        if len(self.message) <= _LONGEST_MESSAGE and len(self.field) <= _LONGEST_MESSAGE:
            return self
        return Cause(_shorten(self.field), _shorten(self.message), self.reason)

    def document(self) -> JsonObject:
        """The metav1.StatusCause. Clients show field and message together, so the message leaves the field out."""
        return {"reason": self.reason, "message": without_field(self.message, self.field), "field": str(self.field)}


def cut_list(causes: Sequence[Cause]) -> Sequence[Cause]:
    """The causes for an answer: all, or the first ones and one more that counts the rest."""
    if len(causes) <= MOST_CAUSES:
        return causes
    more = f"{len(causes) - MOST_CAUSES} more validation errors are not listed"
    return [*causes[:MOST_CAUSES], Cause("", more)]


def required_cause(field: str, message: str) -> Cause:
    """Something must be given here."""
    return Cause(field, message, "FieldValueRequired")


def unsupported_cause(field: str, message: str) -> Cause:
    """There is such a thing, but not here."""
    return Cause(field, message, "FieldValueNotSupported")


def duplicate(field: str, message: str) -> Cause:
    """It may be there once."""
    return Cause(field, message, "FieldValueDuplicate")


def not_found_cause(field: str, message: str) -> Cause:
    """It names something that is not there."""
    return Cause(field, message, "FieldValueNotFound")


def invalid_value(at: Field, value: object, complaint: str) -> Cause:
    """The value is none of its kind, in Kubernetes' words."""
    shown = f'"{value}"' if isinstance(value, str) else "null" if value is None else str(value)
    return Cause(at, f"{at}: Invalid value: {shown}: {complaint}")


def required_value_cause(at: Field, complaint: str) -> Cause:
    """Something must be given here, in Kubernetes' words."""
    return required_cause(at, f"{at}: Required value: {complaint}")


def unsupported_value_cause(at: Field, value: str, known: Sequence[str]) -> Cause:
    """It is none of those that are known, in Kubernetes' words."""
    shown = ", ".join(f'"{name}"' for name in known)
    return unsupported_cause(at, f'{at}: Unsupported value: "{value}": supported values: {shown}')


def without_field(message: str, field: str) -> str:
    """The message without the field that it opens with; the one-line summary keeps it, as nothing else names it."""
    if not field:
        return message
    unknown = f'unknown field "{field}"'
    if message.startswith(unknown):
        return f"unknown field{message[len(unknown) :]}"
    for opening in (f"{field}: ", f"{field} "):
        if message.startswith(opening) and len(message) > len(opening):
            return message[len(opening) :]
    return message


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST_MESSAGE else f"{text[: _LONGEST_MESSAGE - 1]}…"


def summary(causes: Sequence[Cause] | Iterable[Cause]) -> str:
    """All messages in one line, as KubeVirt joins them."""
    messages = [cause.message for cause in causes]
    text = ", ".join(messages[:_SPELLED_OUT])
    more = len(messages) - _SPELLED_OUT
    return f"{text}, and {more} more validation errors" if more > 0 else text
