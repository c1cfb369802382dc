"""What the volumes of a Pod may say.

Called by pod_rules. Pure; the object has the types of its kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.resources.values.quantities import QuantityError, parse_quantity
from kvedge.standalone.apiserver.wire import name_rules
from kvedge.standalone.apiserver.wire.api_errors import FieldError
from kvedge.standalone.apiserver.wire.causes import duplicate, forbidden, invalid, invalids, one_of, required_error

_HOST_PATH_TYPES: Final = (
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_MODE_LIMIT: Final = 0o777
# The required fields of each source.
_NEEDED: Final = {
    "hostPath": "path",
    "configMap": "name",
    "secret": "secretName",
    "persistentVolumeClaim": "claimName",
    "image": "reference",
}


def check_volumes(volumes: list[JsonObject], path: str) -> Iterator[FieldError]:
    """What is wrong with a Pod's volumes."""
    seen: set[str] = set()
    for index, volume in enumerate(volumes):
        where, name = f"{path}[{index}]", volume.get("name")
        if not name:
            yield required_error(f"{where}.name")
        else:
            yield from invalids(f"{where}.name", name, name_rules.dns_label(name))
            if name in seen:
                yield duplicate(f"{where}.name", name)
            seen.add(name)
        yield from _check_source(volume, where)


def _check_source(volume: JsonObject, path: str) -> Iterator[FieldError]:
    sources = [key for key, value in volume.items() if key != "name" and value is not None]
    if not sources:
        yield required_error(path, "must specify a volume type")
        return
    for another in sources[1:]:
        yield forbidden(f"{path}.{another}", "may not specify more than 1 volume type")
    kind = sources[0]
    source = volume[kind]
    if kind in _NEEDED and not source.get(_NEEDED[kind]):
        yield required_error(f"{path}.{kind}.{_NEEDED[kind]}")
    if kind == "hostPath":
        yield from one_of(f"{path}.hostPath.type", source.get("type"), _HOST_PATH_TYPES)
        if ".." in (source.get("path") or "").split("/"):
            yield invalid(f"{path}.hostPath.path", source["path"], "must not contain '..'")
    if kind in {"configMap", "secret"}:
        yield from _check_items(source, f"{path}.{kind}")
    if kind == "emptyDir" and source.get("sizeLimit") is not None:
        yield from _check_size(source["sizeLimit"], f"{path}.emptyDir.sizeLimit")


def _check_items(source: JsonObject, path: str) -> Iterator[FieldError]:
    mode = source.get("defaultMode")
    if mode is not None and not 0 <= mode <= _MODE_LIMIT:
        yield invalid(f"{path}.defaultMode", mode, "must be a number between 0 and 0777 (octal), both inclusive")
    for index, item in enumerate(source.get("items") or []):
        for field in ("key", "path"):
            if not item.get(field):
                yield required_error(f"{path}.items[{index}].{field}")
        target = item.get("path") or ""
        if target.startswith("/"):
            yield invalid(f"{path}.items[{index}].path", target, "must be a relative path")
        if ".." in target.split("/"):
            yield invalid(f"{path}.items[{index}].path", target, "must not contain '..'")


def _check_size(value: str | int, path: str) -> Iterator[FieldError]:
    try:
        size = parse_quantity(value)
    except QuantityError:
        yield invalid(path, value, "must be a quantity")
        return
    if size < 0:
        yield invalid(path, value, "SizeLimit field must be a valid resource quantity")
