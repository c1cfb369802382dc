"""What a VMI gets of the presets that select it, in KubeVirt's order and with its exceptions.

Called by mutation_plan.py and admission_plan.py. Pure; works on documents. A preset brings a part only where the VMI
has none, and a VMI says by an annotation which presets it agrees with. Presets that contradict each other keep the VMI
out.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kvedge.api.admission.rules.causes import Cause
from kvedge.resources.codec import DecodeError, JsonObject, decode, encode
from kvedge.resources.label_selectors import LabelSelector
from kvedge.resources.types.domain import DomainSpec

EXCLUDED: Final = "virtualmachineinstancepresets.admission.kubevirt.io/exclude"
APPLIED: Final = "virtualmachinepreset.kubevirt.io/"
_VERSION: Final = "kubevirt.io/v1"
DEPRECATED: Final = "kubevirt.io/v1 VirtualMachineInstancePresets is now deprecated and will be removed in v2."
INSTEAD: Final = "Use an instance type with a preference, or write the fields into the VM's own template."
_OFFSET: Final = ("utc", "timezone")
# What is brought as a whole, by its place below the domain.
_WHOLE: Final = ("cpu", "firmware", "features", "ioThreadsPolicy")
# What may be written in several ways; the others are compared as they stand.
_TYPED: Final = frozenset({*_WHOLE, "devices.watchdog", "clock.timer"})
_LONGEST_VALUE: Final = 200


@dataclass(frozen=True, slots=True)
class Preset:
    """One preset: the labels that it is for, and the parts of a domain that it has."""

    name: str
    selector: LabelSelector
    domain: JsonObject


def presets_of(document: JsonObject, presets: Sequence[Preset]) -> list[Preset]:
    """Those that select a VMI, by name; none for one that excludes itself."""
    metadata = _member(document, "metadata")
    if _member(metadata, "annotations").get(EXCLUDED) == "true":
        return []
    labels = _member(metadata, "labels")
    found = [preset for preset in presets if preset.selector.matches(labels)]
    return sorted(found, key=lambda preset: preset.name)


def preset_conflicts(presets: Sequence[Preset]) -> Iterator[Cause]:
    """The parts in which presets of one VMI contradict each other; each is compared with the first that has it."""
    first: dict[str, tuple[str, Any]] = {}
    for preset in presets:
        for place, value in _parts(preset.domain):
            name, known = first.setdefault(place, (preset.name, value))
            if not _is_same(place, known, value):
                text = (
                    f"VirtualMachinePresets cannot be applied due to conflicts: presets '{preset.name}' and '{name}'"
                    f" conflict: spec.{place}: {_show(value)} != {_show(known)}"
                )
                yield Cause("metadata.labels", text)


def with_presets(document: JsonObject, presets: Sequence[Preset]) -> JsonObject:
    """A VMI with what its presets bring; unchanged when they contradict each other, for which it is refused."""
    own = presets_of(document, presets)
    if not own or any(preset_conflicts(own)):
        return document
    spec = copy.deepcopy(_member(document, "spec"))
    domain = _child(spec, "domain")
    agreed = {f"{APPLIED}{preset.name}": _VERSION for preset in own if _apply(preset.domain, domain)}
    if not agreed:
        return document
    metadata = _member(document, "metadata")
    annotations = {**_member(metadata, "annotations"), **agreed}
    return {**document, "metadata": {**metadata, "annotations": annotations}, "spec": spec}


def preset_warnings(document: JsonObject) -> Iterator[str]:
    """What the author of a VMI with presets is told."""
    if any(name.startswith(APPLIED) for name in _member(_member(document, "metadata"), "annotations")):
        yield f"{DEPRECATED} {INSTEAD}"


def unused_members(domain: JsonObject) -> list[str]:
    """The members of a preset's domain that no VMI gets."""
    used = {"cpu", "firmware", "features", "ioThreadsPolicy", "clock"}
    found = [name for name, value in domain.items() if name not in {*used, "resources", "devices"} and value]
    for parent, kept in (("resources", "requests"), ("devices", "watchdog")):
        found += [f"{parent}.{name}" for name, value in _member(domain, parent).items() if name != kept and value]
    return sorted(found)


def _apply(preset: JsonObject, domain: JsonObject) -> bool:
    """Bring parts that are not there; whether the VMI has any part as the preset has it."""
    agrees = False
    if requests := _member(preset, "resources").get("requests"):
        agrees |= bool(_bring(_child(domain, "resources"), "requests", requests) == requests)
    for name in _WHOLE:
        if (value := preset.get(name)) is not None:
            agrees |= _is_same(name, _bring(domain, name, value), value)
    if (clock := preset.get("clock")) is not None:
        agrees |= _apply_clock(clock, domain)
    if (watchdog := _member(preset, "devices").get("watchdog")) is not None:
        agrees |= _is_same("devices.watchdog", _bring(_child(domain, "devices"), "watchdog", watchdog), watchdog)
    return agrees


def _apply_clock(clock: JsonObject, domain: JsonObject) -> bool:
    """The offset only where there is no clock; the timers only where there are none."""
    own = _bring(domain, "clock", {name: clock[name] for name in _OFFSET if name in clock})
    agrees = bool(own == clock)
    timer = clock.get("timer")
    return agrees if timer is None else agrees or bool(_bring(own, "timer", timer) == timer)


def _bring(parent: JsonObject, name: str, value: Any) -> Any:
    """The member, which is a copy of `value` from now on where there was none."""
    if parent.get(name) is None:
        parent[name] = copy.deepcopy(value)
    return parent[name]


def _child(parent: JsonObject, name: str) -> JsonObject:
    """The member as an object, made where there is none."""
    child: JsonObject = _bring(parent, name, {})
    return child


def _parts(domain: JsonObject) -> Iterator[tuple[str, Any]]:
    """What a preset brings, by its place below the domain."""
    for key, value in _member(_member(domain, "resources"), "requests").items():
        yield f"resources.requests[{key}]", value
    for name in _WHOLE:
        if domain.get(name) is not None:
            yield name, domain[name]
    if domain.get("clock") is not None:
        yield "clock.clockoffset", {name: domain["clock"].get(name) for name in _OFFSET}
        if domain["clock"].get("timer") is not None:
            yield "clock.timer", domain["clock"]["timer"]
    if (watchdog := _member(domain, "devices").get("watchdog")) is not None:
        yield "devices.watchdog", watchdog


def _is_same(place: str, one: Any, other: Any) -> bool:
    """Whether two values mean the same: what is left out is what is written out as its default."""
    return bool(one == other or (place in _TYPED and _plain(place, one) == _plain(place, other)))


def _plain(place: str, value: Any) -> Any:
    document: JsonObject = {}
    inner = document
    *parents, last = place.split(".")
    for name in parents:
        inner = inner.setdefault(name, {})
    inner[last] = value
    try:
        return encode(decode(DomainSpec, document))
    except DecodeError:
        return value


def _show(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


def _member(document: JsonObject, name: str) -> JsonObject:
    member = document.get(name)
    return member if isinstance(member, dict) else {}
