"""What a user is told when the server refuses a VMI or a launcher Pod, and which refusals are not worth a word.

Called by the loops of VMs and VMIs. Pure. Admission tells its reasons in text alone: its plugins share one status and
one reason, so that their sentences are all there is to tell them apart. Where one changes its words, the user still has
the server's own.
"""

from __future__ import annotations

from typing import Final

from kvedge.kube.errors import KubeError

# Too many requests, no answer in time, a server that starts or stops: the same call succeeds later.
_PASSING: Final = frozenset({0, 408, 429, 503, 504})
_POD_SECURITY: Final = "violates PodSecurity"
_QUOTA: Final = "exceeded quota"
_QUOTA_WANTS: Final = "failed quota"
_NAMESPACE_GOES: Final = "because it is being terminated"
_NO_ACCOUNT: Final = "error looking up service account"


def is_passing(error: KubeError) -> bool:
    """Whether the call is just to be repeated: nothing about the object was judged."""
    return error.status in _PASSING


def is_unjudged(error: KubeError) -> bool:
    """Whether a refusal decides nothing: also a webhook that could not be called, which 500 says, judges no object."""
    return is_passing(error) or error.status >= 500


def is_over_quota(error: KubeError) -> bool:
    """Whether a ResourceQuota of the namespace leaves no room."""
    return _QUOTA in str(error) or _QUOTA_WANTS in str(error)


def says_namespace_goes(text: str) -> bool:
    """Whether an object was refused as its namespace is being deleted: nothing is made in it any more."""
    return _NAMESPACE_GOES in text


def pod_refusal(error: KubeError, namespace: str) -> str:
    """Why a launcher Pod was not created, and what can be done about it where we know."""
    advice = _advice(str(error), namespace)
    return f"Error creating pod: {error}" + (f" ({advice})" if advice else "")


def _advice(text: str, namespace: str) -> str:
    if _POD_SECURITY in text:
        return (
            "launcher Pods read directories of the host, which only the level privileged allows:"
            f" kubectl label namespace {namespace} pod-security.kubernetes.io/enforce=privileged --overwrite"
        )
    if _QUOTA in text:
        return f"tried again until there is room: see kubectl describe resourcequota -n {namespace}"
    if _QUOTA_WANTS in text:
        return (
            "the namespace's ResourceQuota wants them said: set spec.domain.resources.limits of the VM, or a LimitRange"
        )
    if _NO_ACCOUNT in text:
        return f"a new namespace gets it in a moment; else: kubectl create serviceaccount default -n {namespace}"
    return ""
