"""What claims, volumes and storage classes may say, and what of them may change.

Called by the rows of these kinds. Pure; claims and classes have the types of their kinds (`builtin_shape`), a volume's
spec may be anything. All causes at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Final

from kvedge.resources.codec import JsonObject
from kvedge.resources.values.quantities import QuantityError, parse_quantity
from kvedge.standalone.apiserver.schema.metadata_rules import check_immutable
from kvedge.standalone.apiserver.schema.selectors import check_label_selector
from kvedge.standalone.apiserver.wire import name_rules
from kvedge.standalone.apiserver.wire.api_errors import FieldError
from kvedge.standalone.apiserver.wire.causes import (
    forbidden,
    invalid,
    invalids,
    not_supported_error,
    one_of,
    required_error,
)
from kvedge.standalone.apiserver.wire.json_values import same

_ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_VOLUME_MODES: Final = ("Block", "Filesystem")
_RECLAIM: Final = ("Delete", "Recycle", "Retain")
_CLASS_RECLAIM: Final = ("Delete", "Retain")
_BINDING: Final = ("Immediate", "WaitForFirstConsumer")
_STORAGE: Final = "spec.resources.requests.storage"
# Fields of a volume's spec that are no source; every other field is one.
_NO_SOURCES: Final = frozenset(
    (
        *("accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity", "persistentVolumeReclaimPolicy"),
        *("storageClassName", "volumeAttributesClassName", "volumeMode"),
    )
)


def check_claim(claim: JsonObject) -> Iterator[FieldError]:
    """Everything wrong with a PersistentVolumeClaim."""
    spec = claim.get("spec") or {}
    modes = spec.get("accessModes") or []
    if not modes:
        yield required_error("spec.accessModes", "at least 1 access mode is required")
    yield from _check_modes(modes)
    wanted = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if wanted is None:
        yield required_error("spec.resources[storage]")
    elif _amount(wanted) <= 0:
        yield invalid("spec.resources[storage]", wanted, "must be greater than zero")
    name = spec.get("storageClassName")
    if name:
        yield from invalids("spec.storageClassName", name, name_rules.dns_subdomain(name))
    if spec.get("volumeMode"):
        yield from _check_supported("spec.volumeMode", spec["volumeMode"], _VOLUME_MODES)
    if spec.get("selector") is not None:
        yield from check_label_selector(spec["selector"], "spec.selector")


def check_claim_update(new: JsonObject, old: JsonObject) -> Iterator[FieldError]:
    """A claim keeps its spec; it gets a volume and a class once, and a bound one may ask for more."""
    after, before = dict(new.get("spec") or {}), dict(old.get("spec") or {})
    bound = (old.get("status") or {}).get("phase") == "Bound"
    if not before.get("volumeName"):
        before["volumeName"] = after.get("volumeName")
        if before.get("storageClassName") is None:
            before["storageClassName"] = after.get("storageClassName")
    if bound:
        before["resources"] = _with_request(before.get("resources"), _request(new))
        before["volumeAttributesClassName"] = after.get("volumeAttributesClassName")
    if not same(_set_fields(after), _set_fields(before)):
        text = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
        )
        yield forbidden("spec", text)
    wanted, known = _amount(_request(new)), _amount(_request(old))
    if wanted < known:
        capacity = _amount(((old.get("status") or {}).get("capacity") or {}).get("storage"))
        if wanted <= capacity:
            yield forbidden(_STORAGE, "field can not be less than status.capacity")


def check_volume(volume: JsonObject) -> Iterator[FieldError]:
    """Everything wrong with a PersistentVolume."""
    spec = volume.get("spec") or {}
    modes = spec.get("accessModes")
    if not modes:
        yield required_error("spec.accessModes")
    elif isinstance(modes, list):
        yield from _check_modes(modes)
    if "storage" not in (spec.get("capacity") or {}):
        yield not_supported_error("spec.capacity", list(spec.get("capacity") or {}), ("storage",))
    sources = [key for key, value in spec.items() if key not in _NO_SOURCES and value is not None]
    if not sources:
        yield required_error("spec", "must specify a volume type")
    for another in sources[1:]:
        yield forbidden(f"spec.{another}", "may not specify more than 1 volume type")
    for kind in ("local", "hostPath"):
        if kind in sources:
            yield from _check_path(spec[kind], f"spec.{kind}.path")
    if "local" in sources and not spec.get("nodeAffinity"):
        yield required_error("spec.nodeAffinity", "Local volume requires node affinity")
    yield from one_of("spec.persistentVolumeReclaimPolicy", spec.get("persistentVolumeReclaimPolicy"), _RECLAIM)
    if spec.get("volumeMode"):
        yield from _check_supported("spec.volumeMode", spec["volumeMode"], _VOLUME_MODES)


def check_volume_update(new: JsonObject, old: JsonObject) -> Iterator[FieldError]:
    """A volume keeps what it is."""
    after, before = new.get("spec") or {}, old.get("spec") or {}
    if not same(_sources(after), _sources(before)):
        yield forbidden("spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation")
    yield from check_immutable(after.get("volumeMode"), before.get("volumeMode"), "spec.volumeMode")
    if before.get("nodeAffinity") is not None:
        yield from check_immutable(after.get("nodeAffinity"), before.get("nodeAffinity"), "spec.nodeAffinity")


def check_class(storage_class: JsonObject) -> Iterator[FieldError]:
    """Everything wrong with a StorageClass."""
    if not storage_class.get("provisioner"):
        yield required_error("provisioner")
    yield from _check_supported("reclaimPolicy", storage_class.get("reclaimPolicy"), _CLASS_RECLAIM)
    yield from _check_supported("volumeBindingMode", storage_class.get("volumeBindingMode"), _BINDING)


def check_class_update(new: JsonObject, old: JsonObject) -> Iterator[FieldError]:
    """A class keeps what volumes are made by."""
    for field in ("parameters", "provisioner", "reclaimPolicy"):
        if not same(new.get(field) or None, old.get(field) or None):
            yield forbidden(field, f"updates to {field} are forbidden.")
    yield from check_immutable(new.get("volumeBindingMode"), old.get("volumeBindingMode"), "volumeBindingMode")


def grows(new: JsonObject, old: JsonObject) -> bool:
    """Whether a claim that is bound asks for more than before."""
    bound = (old.get("status") or {}).get("phase") == "Bound"
    return bound and _amount(_request(new)) > _amount(_request(old))


def _check_modes(modes: list[Any]) -> Iterator[FieldError]:
    for mode in modes:
        if mode not in _ACCESS_MODES:
            yield not_supported_error("spec.accessModes", mode, _ACCESS_MODES)
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        yield forbidden("spec.accessModes", "may not use ReadWriteOncePod with other access modes")


def _check_supported(path: str, value: Any, supported: tuple[str, ...]) -> Iterator[FieldError]:
    if value not in supported:
        yield not_supported_error(path, value, supported)


def _check_path(source: Any, path: str) -> Iterator[FieldError]:
    found = source.get("path") if isinstance(source, dict) else None
    if not isinstance(found, str) or not found:
        yield required_error(path)
    elif ".." in found.split("/"):
        yield invalid(path, found, "must not contain '..'")


def _request(claim: JsonObject) -> Any:
    return (((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}).get("storage")


def _with_request(resources: Any, wanted: Any) -> JsonObject:
    known = dict(resources or {})
    return {**known, "requests": {**(known.get("requests") or {}), "storage": wanted}}


def _sources(spec: JsonObject) -> JsonObject:
    return {key: value for key, value in spec.items() if key not in _NO_SOURCES and value is not None}


def _set_fields(spec: JsonObject) -> JsonObject:
    return {key: value for key, value in spec.items() if value not in (None, "", [], {}) or key == "storageClassName"}


def _amount(value: Any) -> Fraction:
    try:
        return parse_quantity(value) if isinstance(value, str | int | float) else Fraction(0)
    except QuantityError:
        return Fraction(0)
