"""Whether the KubeVirt object may be made, changed or deleted, worded as KubeVirt's operator words it.

Called by kubevirt_admission.py; touches nothing. Values that cannot be used are refused. What is unknown or has no
effect is let by with a warning, as manifests for KubeVirt have a lot of it, and stays in the object's conditions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kvedge.api.admission.admission_message import AdmissionRequest
from kvedge.api.admission.rules.causes import Cause
from kvedge.api.admission.rules.size_rules import size_is_sane
from kvedge.api.admission.spec_verdict import MOST_WARNINGS, Verdict
from kvedge.resources.codec import JsonObject
from kvedge.resources.configuration.configuration import Issue
from kvedge.resources.configuration.configuration_reading import Reading, read_configuration
from kvedge.resources.names import GRAPHICS, GRAPHICS_VALUES
from kvedge.resources.node_loss.fence_terms import SELF_FENCING, TermsError, parse_terms
from kvedge.resources.types.kubevirt import BLOCK_UNINSTALL

ALREADY_CREATED: Final = "Kubevirt is already created"
_LONGEST_WARNING: Final = 250
_LONGEST_WORD: Final = 64


def judge_spec(request: AdmissionRequest) -> Verdict:
    """What is wrong with the spec that is written, and what its author should know.

    What was wrong before may stay: an object that entered under older rules must not be stuck for them.
    """
    new, old = _spec(request.object), _spec(request.old_object)
    annotations = (*_judge_fencing(request), *_judge_graphics(request))
    if request.old_object is not None and new == old:
        return Verdict(annotations)
    if too_large := tuple(size_is_sane({"spec": new})):
        return Verdict(too_large)
    reading = read_configuration(new)
    # An object that is too large cannot have entered.
    before = () if any(size_is_sane({"spec": old})) else read_configuration(old).of(Issue.INVALID)
    known = {(item.path, item.message) for item in before}
    causes = [
        Cause(item.path, item.message).shorten()
        for item in reading.of(Issue.INVALID)
        if request.old_object is None or (item.path, item.message) not in known
    ]
    return Verdict((*annotations, *causes), tuple(_warnings(reading)))


def _judge_fencing(request: AdmissionRequest) -> Iterator[Cause]:
    """The terms by which nodes fence themselves; a text that was there before may stay."""
    text = _annotation(request.object, SELF_FENCING)
    if text == _annotation(request.old_object, SELF_FENCING) and request.old_object is not None:
        return
    try:
        parse_terms(text)
    except TermsError as error:
        yield Cause(f"metadata.annotations[{SELF_FENCING}]", f"metadata.annotations[{SELF_FENCING}]: {error}").shorten()


def _judge_graphics(request: AdmissionRequest) -> Iterator[Cause]:
    """By what viewers reach the screens of VMs that do not say; a word that was there before may stay."""
    text = _annotation(request.object, GRAPHICS)
    if text and text not in GRAPHICS_VALUES and text != _annotation(request.old_object, GRAPHICS):
        at = f"metadata.annotations[{GRAPHICS}]"
        yield Cause(at, f"{at}: {text[:_LONGEST_WORD]!r} is not supported; use {' or '.join(GRAPHICS_VALUES)}")


def _annotation(document: JsonObject | None, name: str) -> str:
    metadata = (document or {}).get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return str((annotations or {}).get(name) or "") if isinstance(annotations, dict) else ""


def uninstall_refusal(document: JsonObject | None, workloads: str) -> str | None:
    """Why the object may not be deleted, or None; `workloads` is what there still is, in words, or empty."""
    if not workloads or _spec(document).get("uninstallStrategy") != BLOCK_UNINSTALL:
        return None
    return (
        f"Rejecting the uninstall request, since there are still {workloads} present. Either delete all KubeVirt"
        " related workloads or change the uninstall strategy before uninstalling KubeVirt."
    )


def _warnings(reading: Reading) -> Iterator[str]:
    told = [item.message for item in reading.of(Issue.UNKNOWN, Issue.NO_EFFECT)]
    for message in told[:MOST_WARNINGS]:
        yield message if len(message) <= _LONGEST_WARNING else f"{message[: _LONGEST_WARNING - 1]}…"
    if len(told) > MOST_WARNINGS:
        yield f"and {len(told) - MOST_WARNINGS} more; see the object's conditions"


def _spec(document: JsonObject | None) -> JsonObject:
    spec = (document or {}).get("spec")
    return spec if isinstance(spec, dict) else {}
