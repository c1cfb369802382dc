"""Keeps users' Pods from the host: the API server's own check of Pods, and of the namespaces that say how strict it is.

Called by `builtin_admission` once webhooks have had their say on the object. Reads the cache, asks the authorizer.

The controller is bound by nothing: its launchers need the host's programs. Somebody who holds every right on the box is
root on it anyway, and is bound only where the namespace's label says so. The label `privileged` hands the host on to
everybody who may make Pods in that namespace, so that only somebody with every right sets it: the same rule as for
roles, in `rbac_guard`.
"""

from __future__ import annotations

from typing import Final

from kvedge.resources.manifests.policy_rules import EVERYTHING, find_uncovered
from kvedge.standalone.apiserver.access.authorizer_rules import CONTROLLERS, Authorizer
from kvedge.standalone.apiserver.admission.admission_protocol import Review
from kvedge.standalone.apiserver.admission.pod_security_rules import (
    changes_security,
    check_labels,
    level_of,
    loosens,
    refusal,
    violations,
)
from kvedge.standalone.apiserver.requests.request_context import Caller
from kvedge.standalone.apiserver.requests.write_rules import invalid, target_of
from kvedge.standalone.apiserver.store.object_hub import ObjectHub
from kvedge.standalone.apiserver.store.stored import ObjectKey
from kvedge.standalone.apiserver.wire.api_errors import Forbidden

_NAMESPACES: Final = "namespaces"


class PodSecurity:
    """Checks writes of Pods and Namespaces."""

    def __init__(self, hub: ObjectHub, authorizer: Authorizer) -> None:
        self._hub = hub
        self._authorizer = authorizer

    def check(self, review: Review) -> None:
        """Let a write pass.

        Raises:
            Forbidden: a Pod asks for more than its namespace allows, or a namespace is opened by who does not own it.
            Invalid: a namespace's level is none.
        """
        if review.obj is None:
            return
        if review.context.kind.storage == _NAMESPACES:
            # Through every subresource: a writer of a namespace's status may change its labels as well.
            self._check_namespace(review)
        elif review.context.kind.storage == "pods" and not review.context.target.subresource:
            self._check_pod(review)

    def _check_pod(self, review: Review) -> None:
        context, pod = review.context, review.obj
        assert pod is not None
        # By certificate, not by service account: an editor of kvedge's namespace can speak as its accounts.
        if CONTROLLERS in context.caller.groups:
            return
        if review.old is not None and not changes_security(pod, review.old):
            return
        stored = self._hub.get(ObjectKey(_NAMESPACES, "", context.namespace))
        labels = (stored.meta.labels or {}) if stored is not None else {}
        level = level_of(labels, owns_host=self._owns_host(context.caller))
        found = violations(level, pod)
        if found:
            raise Forbidden(target_of(context.kind, review.name), refusal(level, found))

    def _check_namespace(self, review: Review) -> None:
        context, namespace = review.context, review.obj
        assert namespace is not None
        errors = check_labels(namespace, review.old)
        if errors:
            raise invalid(context.kind, review.name, errors)
        if loosens(namespace, review.old) and not self._owns_host(context.caller):
            why = (
                "its Pods could be root on this box, so that only somebody with every right in the whole cluster"
                " may set the label pod-security.kubernetes.io/enforce=privileged"
            )
            raise Forbidden(target_of(context.kind, review.name), why)

    def _owns_host(self, caller: Caller) -> bool:
        return not find_uncovered(self._authorizer.rules_of(caller, ""), EVERYTHING)
