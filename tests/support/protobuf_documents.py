"""Kubernetes' JSON as its protobuf messages: the way back of what the embedded API reads, for tests of it."""

from __future__ import annotations

import base64
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message


def filled(message: Any, document: dict[str, Any]) -> Any:
    """The message with everything that the document has; a field that it does not know fails the test."""
    for key, value in document.items():
        _set(message, key, value)
    return message


def _set(message: Any, key: str, value: Any) -> None:
    fields = message.DESCRIPTOR.fields_by_name
    if key not in fields:
        holders = [field for name, field in fields.items() if name.startswith("inline_")]
        holder = next(field for field in holders if key in field.message_type.fields_by_name)
        inner = getattr(message, holder.name)
        inner.SetInParent()
        _set(inner, key, value)
        return
    field = fields[key]
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        for name, item in value.items():
            entry = field.message_type.fields_by_name["value"]
            if entry.message_type is None:
                getattr(message, key)[name] = _scalar(entry, item)
            else:
                _fill(getattr(message, key)[name], item)
    elif field.message_type is None:
        if isinstance(value, list):
            getattr(message, key).extend(_scalar(field, item) for item in value)
        else:
            setattr(message, key, _scalar(field, value))
    elif isinstance(value, list) and field.message_type.name != "ExtraValue":
        for item in value:
            _fill(getattr(message, key).add(), item)
    else:
        _fill(getattr(message, key), value)


def _fill(message: Message, value: Any) -> None:
    found: Any = message
    match message.DESCRIPTOR.name:
        case "Quantity":
            found.string = str(value)
        case "IntOrString" if isinstance(value, int):
            found.type, found.intVal = 0, value
        case "IntOrString":
            found.type, found.strVal = 1, value
        case _:
            found.SetInParent()
            filled(found, value)


def _scalar(field: FieldDescriptor, value: Any) -> Any:
    return base64.b64decode(value) if field.type == FieldDescriptor.TYPE_BYTES else value
