"""Which Pods users may make on one box: Kubernetes' Pod Security levels, and whom they bind.

Called by `pod_security`. Pure. In a cluster a Pod of a namespace without a word on this may be everything, and clusters
set a level where tenants are. One box has no such administrator: a Pod with the host's files would make everybody with
`edit` in one namespace root on the host, so that "baseline" holds where the namespace names no level.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.admission.pod_baseline_checks import BASELINE, apparmor_annotations
from kvedge.standalone.apiserver.admission.pod_restricted_checks import RESTRICTED
from kvedge.standalone.apiserver.admission.pod_security_facts import Check, Violation, containers_of
from kvedge.standalone.apiserver.wire.api_errors import FieldError
from kvedge.standalone.apiserver.wire.causes import invalid
from kvedge.standalone.apiserver.wire.json_values import same

ENFORCE_LABEL: Final = "pod-security.kubernetes.io/enforce"


class Level(StrEnum):
    """From everything to least."""

    PRIVILEGED = "privileged"
    BASELINE = "baseline"
    RESTRICTED = "restricted"


_CHECKS: Final[Mapping[Level, tuple[Check, ...]]] = {
    Level.PRIVILEGED: (),
    Level.BASELINE: BASELINE,
    Level.RESTRICTED: RESTRICTED,
}


def level_of(labels: Mapping[str, Any], *, owns_host: bool) -> Level:
    """The level of a namespace with these labels for somebody who may do everything here anyway, or may not.

    The label's word counts for everybody. A word that is no level means the strictest one, as in Kubernetes.
    """
    named = labels.get(ENFORCE_LABEL)
    if named is None:
        return Level.PRIVILEGED if owns_host else Level.BASELINE
    return Level(named) if named in tuple(Level) else Level.RESTRICTED


def violations(level: Level, pod: JsonObject) -> list[Violation]:
    """What of a Pod its level does not allow."""
    return [found for check in _CHECKS[level] if (found := check(pod)) is not None]


def refusal(level: Level, found: list[Violation]) -> str:
    """The reason of a refusal, in Kubernetes' words."""
    return f'violates PodSecurity "{level}:latest": {", ".join(violation.text for violation in found)}'


def changes_security(pod: JsonObject, live: JsonObject) -> bool:
    """Whether an update touches what the levels are about: of the rest of a Pod's spec nothing can change."""
    return not same(_images(pod), _images(live)) or not same(apparmor_annotations(pod), apparmor_annotations(live))


def check_labels(namespace: JsonObject, live: JsonObject | None) -> list[FieldError]:
    """Errors of a namespace's levels; a level that was wrong before may stay."""
    named = _find_enforced_level(namespace)
    if named is None or named in tuple(Level) or (live is not None and named == _find_enforced_level(live)):
        return []
    path = f"metadata.labels[{ENFORCE_LABEL}]"
    return [invalid(path, named, f"must be one of {', '.join(Level)}")]


def loosens(namespace: JsonObject, live: JsonObject | None) -> bool:
    """Whether a write of a namespace lets Pods of it be everything that they might not be before."""
    named = _find_enforced_level(namespace)
    return named == Level.PRIVILEGED and (live is None or named != _find_enforced_level(live))


def _find_enforced_level(namespace: JsonObject) -> Any:
    return (namespace["metadata"].get("labels") or {}).get(ENFORCE_LABEL)


def _images(pod: JsonObject) -> list[tuple[Any, Any]]:
    return [(container.get("name"), container.get("image")) for container in containers_of(pod)]
