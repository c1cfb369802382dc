"""What a VMI gets of the presets that select it, in KubeVirt's order and with its exceptions.

Called by mutation_plan.py and admission_plan.py. Pure; works on documents. A preset brings a part only where the VMI
has none, and a VMI says by an annotation which presets it agrees with. Presets that contradict each other keep the VMI
out.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

from msgspec.structs import replace

from kvedge.api.admission.presets.preset_parts import OFFSET, WATCHDOG, WHOLE, Part, Preset, part_of
from kvedge.api.admission.rules.causes import MOST_CAUSES, Cause, Field
from kvedge.api.admission.spec_verdict import member_of
from kvedge.resources.codec import JsonObject

EXCLUDED: Final = "virtualmachineinstancepresets.admission.kubevirt.io/exclude"
APPLIED: Final = "virtualmachinepreset.kubevirt.io/"
# Why a VMI was left without its presets. The mutation writes it and the validation refuses it: meanwhile the presets
# may have changed, and a VMI would enter bare.
LEFT_BARE: Final = "kvedge.io/presets-not-applied"
_VERSION: Final = "kubevirt.io/v1"
DEPRECATED: Final = "kubevirt.io/v1 VirtualMachineInstancePresets is now deprecated and will be removed in v2."
INSTEAD: Final = "Use an instance type with a preference, or write the fields into the VM's own template."
# All VMIs' reviews wait for the comparison of one VMI's presets.
MOST_PRESETS: Final = 64
_LONGEST_VALUE: Final = 200
_MOST_NAMES: Final = 5
_LABELS: Final = Field("metadata.labels")
# Where the faults of what presets bring are found; memory comes of requests.
_BROUGHT: Final = tuple(f"spec.domain.{place}" for place in (*WHOLE, WATCHDOG, "clock", "resources", "memory"))


def presets_of(document: JsonObject, presets: Sequence[Preset]) -> list[Preset]:
    """Those that select a VMI, by name; none for one that excludes itself."""
    metadata = member_of(document, "metadata")
    if member_of(metadata, "annotations").get(EXCLUDED) == "true":
        return []
    labels = member_of(metadata, "labels")
    found = [preset for preset in presets if preset.selector.matches(labels)]
    return sorted(found, key=lambda preset: preset.name)


def preset_causes(document: JsonObject, presets: Sequence[Preset]) -> list[Cause]:
    """Why a VMI is refused for its presets: as they are now, or as they were when the mutation left it without them."""
    own = presets_of(document, presets)
    # One more than an answer spells out, so that it says that there are more.
    found = list(islice(_refusals(own), MOST_CAUSES + 1))
    left_bare = _annotations(document).get(LEFT_BARE)
    return [Cause(_LABELS, str(left_bare))] if left_bare is not None and not found else found


def preset_conflicts(presets: Sequence[Preset]) -> Iterator[Cause]:
    """The parts in which presets of one VMI contradict each other; each is compared with the first that has it."""
    first: dict[str, tuple[str, Part]] = {}
    for preset in presets:
        for place, part in preset.parts.items():
            name, known = first.setdefault(place, (preset.name, part))
            if not known.is_same(part):
                text = (
                    f"VirtualMachinePresets cannot be applied due to conflicts: presets '{preset.name}' and '{name}'"
                    f" conflict: spec.{place}: {_show(part.value)} != {_show(known.value)}"
                )
                yield Cause(_LABELS, text)


def with_presets(document: JsonObject, presets: Sequence[Preset]) -> JsonObject:
    """A VMI with what its presets bring; where they keep it out, it gets nothing of them, and says why."""
    own = presets_of(document, presets)
    refused = next(_refusals(own), None)
    if refused is not None:
        return _annotate(document, {LEFT_BARE: refused.shorten().message})
    document = _without_mark(document)
    if not own:
        return document
    spec = copy.deepcopy(member_of(document, "spec"))
    domain = _OwnDomain(_child(spec, "domain"))
    agreed = {f"{APPLIED}{preset.name}": _VERSION for preset in own if domain.take(preset)}
    return {**_annotate(document, agreed), "spec": spec} if agreed else document


def name_presets(document: JsonObject, causes: Sequence[Cause]) -> list[Cause]:
    """Causes in what presets can bring name the presets that the VMI got it of: its author has not written it."""
    names = sorted(name.removeprefix(APPLIED) for name in _annotations(document) if name.startswith(APPLIED))
    if not names:
        return list(causes)
    shown = ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if (more := len(names) - _MOST_NAMES) > 0 else "")
    text = f" (the VMI has parts of these VirtualMachineInstancePresets: {shown})"
    return [
        replace(cause, message=f"{cause.message}{text}") if cause.field.startswith(_BROUGHT) else cause
        for cause in causes
    ]


def preset_doubts(document: JsonObject, doubt: str) -> Iterator[str]:
    """What the author of a VMI is told, whoever it is, that may have missed presets."""
    if doubt and _annotations(document).get(EXCLUDED) != "true":
        yield doubt


def preset_warnings(document: JsonObject) -> Iterator[str]:
    """What the author of a VMI with presets is told."""
    if any(name.startswith(APPLIED) for name in _annotations(document)):
        yield f"{DEPRECATED} {INSTEAD}"


def unused_members(domain: JsonObject) -> list[str]:
    """The members of a preset's domain that no VMI gets."""
    used = {"cpu", "firmware", "features", "ioThreadsPolicy", "clock"}
    found = [name for name, value in domain.items() if name not in {*used, "resources", "devices"} and value]
    for parent, kept in (("resources", "requests"), ("devices", "watchdog")):
        found += [f"{parent}.{name}" for name, value in member_of(domain, parent).items() if name != kept and value]
    return sorted(found)


class _OwnDomain:
    """The domain of one VMI while presets bring their parts; its own parts are decoded once, not for each preset."""

    def __init__(self, domain: JsonObject) -> None:
        self._domain = domain
        self._parts: dict[str, Part] = {}

    def take(self, preset: Preset) -> bool:
        """Bring parts that are not there; whether the VMI has any part as the preset has it."""
        agrees = False
        if requests := member_of(preset.domain, "resources").get("requests"):
            agrees |= bool(_bring(_child(self._domain, "resources"), "requests", requests) == requests)
        for name in WHOLE:
            agrees |= self._take_part(preset, name, self._domain, name)
        if isinstance(clock := preset.domain.get("clock"), dict):
            agrees |= self._take_clock(clock)
        if WATCHDOG in preset.parts:
            agrees |= self._take_part(preset, WATCHDOG, _child(self._domain, "devices"), "watchdog")
        return agrees

    def _take_part(self, preset: Preset, place: str, parent: JsonObject, name: str) -> bool:
        part = preset.parts.get(place)
        if part is None:
            return False
        value = _bring(parent, name, part.value)
        if value == part.value:
            return True
        if place not in self._parts:
            self._parts[place] = part_of(place, value)
        return self._parts[place].is_same(part)

    def _take_clock(self, clock: JsonObject) -> bool:
        """The offset only where there is no clock; the timers only where there are none."""
        own = _bring(self._domain, "clock", {name: clock[name] for name in OFFSET if name in clock})
        agrees = bool(own == clock)
        timer = clock.get("timer")
        return agrees if timer is None else agrees or bool(_bring(own, "timer", timer) == timer)


def _refusals(own: Sequence[Preset]) -> Iterator[Cause]:
    """Why these presets of one VMI keep it out."""
    if len(own) <= MOST_PRESETS:
        yield from preset_conflicts(own)
        return
    keys = Counter(requirement.key for preset in own for requirement in preset.selector.requirements)
    at = _LABELS.key(keys.most_common(1)[0][0]) if keys else _LABELS
    yield Cause(
        at,
        f"{at}: {len(own)} VirtualMachineInstancePresets select this VMI, and {MOST_PRESETS} may: take the label away,"
        f' delete presets, or keep all away by the annotation {EXCLUDED}: "true"',
    )


def _annotations(document: JsonObject) -> JsonObject:
    return member_of(member_of(document, "metadata"), "annotations")


def _annotate(document: JsonObject, added: JsonObject) -> JsonObject:
    metadata = member_of(document, "metadata")
    return {**document, "metadata": {**metadata, "annotations": {**_annotations(document), **added}}}


def _without_mark(document: JsonObject) -> JsonObject:
    """The mark is the mutation's own: whoever wrote one into a template, or an earlier call, does not count."""
    annotations = _annotations(document)
    if LEFT_BARE not in annotations:
        return document
    kept = {name: value for name, value in annotations.items() if name != LEFT_BARE}
    return {**document, "metadata": {**member_of(document, "metadata"), "annotations": kept}}


def _bring(parent: JsonObject, name: str, value: Any) -> Any:
    """The member, which is a copy of `value` from now on where there was none."""
    if parent.get(name) is None:
        parent[name] = copy.deepcopy(value)
    return parent[name]


def _child(parent: JsonObject, name: str) -> JsonObject:
    """The member as an object, made where there is none."""
    child: JsonObject = _bring(parent, name, {})
    return child


def _show(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"
