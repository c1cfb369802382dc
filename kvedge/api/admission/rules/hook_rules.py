"""Rules for hook sidecars, of which KubeVirt judges the feature gate alone: the rest fails its launcher Pod later.

Called by spec_verdict.py; touches nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kvedge.api.admission.rules.causes import Cause
from kvedge.api.admission.rules.subject import Rule, Subject
from kvedge.resources.values.hook_names import HOOK_SIDECARS, SIDECAR_GATE
from kvedge.resources.values.hook_sidecars import HookSidecarError, read_hook_sidecars, wants_hooks


def hook_sidecars_can_be_made(subject: Subject) -> Iterator[Cause]:
    """The gate is on, and the annotation says what the containers are."""
    annotations = subject.metadata.annotations
    if not wants_hooks(annotations):
        return
    at = subject.metadata_at.at("annotations").key(HOOK_SIDECARS)
    if not subject.cluster.configuration.gates.is_on(SIDECAR_GATE):
        yield Cause(at, f"sidecar feature gate is not enabled in kubevirt-config, invalid entry {at}")
        return
    try:
        read_hook_sidecars(annotations)
    except HookSidecarError as error:
        yield Cause(at, f"{at}: {error}")


RULES: Final[tuple[Rule, ...]] = (hook_sidecars_can_be_made,)
