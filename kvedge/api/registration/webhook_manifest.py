"""One webhook, and the configuration that holds several.

Used by admission_manifest.py and clone_manifest.py. Pure. Everything that the server would fill in is spelled out, so
that what is there can be compared with what should be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvedge.api.registration.document import OURS, RELEASE, SERVICE_PORT, Document, encode_bundle
from kvedge.api.served_paths import SERVICE
from kvedge.resources.codec import JsonObject
from kvedge.resources.names import SYSTEM_NAMESPACE

# An API server waits so long for an answer; ours come within milliseconds or not at all.
_TIMEOUT_SECONDS: Final = 10
# And for one that it can do without: a role that hangs must not hold reports up.
_SHORT_TIMEOUT_SECONDS: Final = 2


def webhook(
    name: str,
    path: str,
    ca_bundle: bytes,
    resource: str,
    *,
    operations: Sequence[str],
    conditions: Sequence[JsonObject] = (),
    policy: str = "Fail",
    served: tuple[str, Sequence[str]] = ("kubevirt.io", ("v1", "v1alpha3")),
) -> JsonObject:
    """One webhook; `served` is the group of the resource and its versions."""
    rule = {
        "apiGroups": [served[0]],
        "apiVersions": list(served[1]),
        "operations": list(operations),
        "resources": [resource],
        "scope": "*",
    }
    target = {"namespace": SYSTEM_NAMESPACE, "name": SERVICE, "path": path, "port": SERVICE_PORT}
    made: JsonObject = {
        "name": name,
        "clientConfig": {"service": target, "caBundle": encode_bundle(ca_bundle)},
        "rules": [rule],
        "failurePolicy": policy,
        "matchPolicy": "Equivalent",
        "namespaceSelector": {},
        "objectSelector": {},
        "sideEffects": "None",
        "timeoutSeconds": _TIMEOUT_SECONDS if policy == "Fail" else _SHORT_TIMEOUT_SECONDS,
        "admissionReviewVersions": ["v1"],
    }
    if conditions:
        made["matchConditions"] = [dict(condition) for condition in conditions]
    return made


def webhook_configuration(kind: str, webhooks: list[JsonObject], name: str = "kvedge") -> Document:
    """The configuration of these webhooks; `kind` is Mutating or Validating."""
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        # A release that takes something out of a webhook writes it anew: see registration_plan.covers.
        "metadata": {"name": name, "labels": dict(OURS), "annotations": dict(RELEASE)},
        "webhooks": webhooks,
    }
    plural = f"{kind.lower()}webhookconfigurations"
    return Document(f"/apis/admissionregistration.k8s.io/v1/{plural}", body)
