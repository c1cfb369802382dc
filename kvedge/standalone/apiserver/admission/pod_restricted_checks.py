"""What Kubernetes' Pod Security Standard "Restricted" forbids beyond "Baseline": root, and what leads back to it.

Listed for `pod_security_rules`. Pure; words and order are those of the API server.
"""

from __future__ import annotations

from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.admission import pod_baseline_checks as baseline
from kvedge.standalone.apiserver.admission.pod_security_facts import (
    Check,
    Violation,
    containers_of,
    context_of,
    names_of,
    quote,
    setters,
    several,
    spec_of,
)

_CAPABILITIES: Final = frozenset(("NET_BIND_SERVICE",))
_VOLUMES: Final = frozenset(
    (
        *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image"),
        *("persistentVolumeClaim", "projected", "secret"),
    )
)


def check_escalation(pod: JsonObject) -> Violation | None:
    """Programs that get more rights than who starts them."""
    bad = [item for item in containers_of(pod) if context_of(item).get("allowPrivilegeEscalation") is not False]
    if not bad:
        return None
    text = f"{several('container', names_of(bad))} must set securityContext.allowPrivilegeEscalation=false"
    return Violation("allowPrivilegeEscalation != false", text)


def check_capabilities(pod: JsonObject) -> Violation | None:
    """Any capability but one."""
    told = []
    keeping = [item for item in containers_of(pod) if "ALL" not in (_capabilities(item).get("drop") or [])]
    if keeping:
        told.append(f'{several("container", names_of(keeping))} must set securityContext.capabilities.drop=["ALL"]')
    adding = baseline.forbidden_capabilities(pod, _CAPABILITIES, "")
    if adding is not None:
        told.append(adding.detail)
    return Violation("unrestricted capabilities", "; ".join(told)) if told else None


def check_volumes(pod: JsonObject) -> Violation | None:
    """Volumes that are the host's, or of its network."""
    bad = [volume for volume in spec_of(pod).get("volumes") or [] if not _VOLUMES & volume.keys()]
    if not bad:
        return None
    kinds = sorted({next((key for key in volume if key != "name"), "unknown") for volume in bad})
    verb = "uses" if len(bad) == 1 else "use"
    text = f"{several('volume', names_of(bad))} {verb} {several('restricted volume type', kinds)}"
    return Violation("restricted volume types", text)


def check_non_root(pod: JsonObject) -> Violation | None:
    """Containers that may run as root."""
    of_pod = context_of(spec_of(pod)).get("runAsNonRoot")
    denying = [item for item in containers_of(pod) if context_of(item).get("runAsNonRoot") is False]
    reason = "runAsNonRoot != true"
    if of_pod is False or denying:
        who = setters(of_pod is False, names_of(denying))
        return Violation(reason, f"{who} must not set securityContext.runAsNonRoot=false")
    silent = [item for item in containers_of(pod) if not of_pod and context_of(item).get("runAsNonRoot") is None]
    if not silent:
        return None
    text = f"pod or {several('container', names_of(silent))} must set securityContext.runAsNonRoot=true"
    return Violation(reason, text)


def check_user(pod: JsonObject) -> Violation | None:
    """User 0."""
    of_pod = context_of(spec_of(pod)).get("runAsUser") == 0
    bad = [item for item in containers_of(pod) if context_of(item).get("runAsUser") == 0]
    if not of_pod and not bad:
        return None
    return Violation("runAsUser=0", f"{setters(of_pod, names_of(bad))} must not set runAsUser=0")


def check_seccomp(pod: JsonObject) -> Violation | None:
    """System calls that nobody has limited."""
    found = baseline.check_seccomp(pod)
    if found is not None:
        return found
    if context_of(spec_of(pod)).get("seccompProfile") is not None:
        return None
    silent = [item for item in containers_of(pod) if context_of(item).get("seccompProfile") is None]
    if not silent:
        return None
    kinds = quote(("RuntimeDefault",)) + " or " + quote(("Localhost",))
    text = f"pod or {several('container', names_of(silent))} must set securityContext.seccompProfile.type to {kinds}"
    return Violation("seccompProfile", text)


# These stand for the checks of Baseline that they are stricter than.
_REPLACED: Final = {baseline.check_capabilities, baseline.check_host_paths, baseline.check_seccomp}
RESTRICTED: Final[tuple[Check, ...]] = (
    *(check for check in baseline.BASELINE if check not in _REPLACED),
    check_escalation,
    check_capabilities,
    check_volumes,
    check_non_root,
    check_user,
    check_seccomp,
)


def _capabilities(container: JsonObject) -> JsonObject:
    capabilities: JsonObject = context_of(container).get("capabilities") or {}
    return capabilities
