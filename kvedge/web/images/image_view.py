"""What the page of images shows, made of DataVolumes and DataSources. Pure; called by `image_calls`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, Final

from kvedge.resources.codec import JsonObject, encode
from kvedge.resources.types.data_volumes import CdiCondition, DataSource, DataVolume
from kvedge.web.texts.shown_text import showable

_MOST: Final = 1000
_LONGEST: Final = 1024
_PERCENT: Final = re.compile(r"([0-9]{1,3})(?:\.[0-9]+)?%")


def images_view(volumes: Sequence[DataVolume], sources: Sequence[DataSource]) -> JsonObject:
    """A row for each, by namespace, name and kind."""
    rows = sorted(
        chain(map(_volume, volumes), map(_source, sources)),
        key=lambda row: (row["namespace"], row["name"], row["kind"]),
    )
    return {"rows": rows[:_MOST], "more": max(0, len(rows) - _MOST)}


def _volume(volume: DataVolume) -> JsonObject:
    phase = volume.status.phase or "Pending"
    spec = volume.spec
    claim: Any = spec.storage or spec.pvc
    resources = (encode(claim).get("resources") or {}) if claim else {}
    return {
        **_names(volume),
        "kind": DataVolume.KIND.kind,
        "state": showable(phase),
        "trouble": phase == "Failed",
        "percent": _percent(volume.status.progress, phase),
        "from": _origin_of(volume),
        "size": showable(str((resources.get("requests") or {}).get("storage") or "")),
        "message": _message(volume.status.conditions) if phase != "Succeeded" else "",
    }


def _source(source: DataSource) -> JsonObject:
    origin = source.spec.source
    ready = next((each for each in source.status.conditions if each.type == "Ready"), None)
    named = origin.pvc or origin.snapshot or origin.data_source
    what = "claim" if origin.pvc else "snapshot" if origin.snapshot else "DataSource" if origin.data_source else ""
    place = f"{named.namespace}/" if named and named.namespace not in ("", source.metadata.namespace) else ""
    return {
        **_names(source),
        "kind": DataSource.KIND.kind,
        "state": "Ready" if ready and ready.status == "True" else "Not ready",
        "trouble": bool(ready and ready.status != "True"),
        "percent": None,
        "from": showable(f"{what} {place}{named.name}") if named else "",
        "size": "",
        "message": showable(ready.message, _LONGEST) if ready and ready.status != "True" else "",
    }


def _names(made: DataVolume | DataSource) -> JsonObject:
    about = made.metadata
    return {
        "namespace": showable(about.namespace),
        "name": showable(about.name),
        "created": about.creation_timestamp or "",
    }


def _origin_of(volume: DataVolume) -> str:
    reference, source = volume.spec.source_ref, volume.spec.source
    if reference is not None:
        return showable(f"{reference.kind} {reference.name}")
    found: JsonObject = encode(source) if source else {}
    kind, about = next(iter(found.items()), ("", {}))
    named = (about.get("url") or about.get("name") or "") if isinstance(about, dict) else ""
    return showable(f"{kind} {named}".strip())


def _percent(progress: str, phase: str) -> int | None:
    """None when it is not known; never more than 100."""
    if phase == "Succeeded":
        return 100
    found = _PERCENT.fullmatch(progress[:16])
    return min(100, int(found[1])) if found else None


def _message(conditions: Iterable[CdiCondition]) -> str:
    """What the controller says of it: of what runs before what is ready."""
    told = {each.type: each.message for each in conditions if each.status != "True" and each.message}
    return showable(told.get("Running") or told.get("Bound") or told.get("Ready") or "", _LONGEST)
