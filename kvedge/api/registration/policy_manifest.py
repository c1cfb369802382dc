"""A ValidatingAdmissionPolicy as documents: the policy, and the binding that puts it into force.

Called by the manifests that forbid a role some writes of a kind to which it has the right. Touches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from kvedge import __version__
from kvedge.api.registration.document import Document
from kvedge.resources.codec import JsonObject
from kvedge.resources.names import VERSION

POLICIES: Final = "validatingadmissionpolicies"
GROUP_VERSION: Final = "admissionregistration.k8s.io/v1"
_BASE: Final = f"/apis/{GROUP_VERSION}"


class Validation(Struct, frozen=True):
    """The condition that a write must meet, as a CEL expression, and the message of a refusal."""

    expression: str
    message: str


def match_writes(group: str, *resources: str) -> JsonObject:
    """The rule that names the writes that the policy judges."""
    return {
        "apiGroups": [group],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE", "DELETE"],
        "resources": list(resources),
        "scope": "*",
    }


def is_unchanged(member: str) -> str:
    """The condition that an update leaves this member of the metadata as it was, or absent."""
    return (
        f"has(object.metadata.{member}) == has(oldObject.metadata.{member})"
        f" && (!has(object.metadata.{member}) || object.metadata.{member} == oldObject.metadata.{member})"
    )


def policy(
    name: str,
    rules: Sequence[JsonObject],
    caller: tuple[str, str],
    variables: Mapping[str, str],
    validations: Sequence[Validation],
) -> list[Document]:
    """Policy and binding.

    Args:
        name: of both.
        rules: which writes are judged.
        caller: the callers to judge: a name for them, and the condition that finds them.
        variables: expressions that validations name as `variables.NAME`, in this order.
        validations: the conditions that a write must meet.
    """
    labels = {"app.kubernetes.io/managed-by": "kvedge"}
    named, condition = caller
    judges: JsonObject = {
        "apiVersion": GROUP_VERSION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name, "labels": labels, "annotations": {VERSION: __version__}},
        "spec": {
            # Fail: the server, which is never away from itself, refuses a write on which an expression fails.
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": list(rules)},
            "matchConditions": [{"name": named, "expression": condition}],
            "variables": [{"name": key, "expression": value} for key, value in variables.items()],
            "validations": [
                {"expression": item.expression, "message": item.message, "reason": "Forbidden"} for item in validations
            ],
        },
    }
    binding: JsonObject = {
        "apiVersion": GROUP_VERSION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name, "labels": labels},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
    return [Document(f"{_BASE}/{POLICIES}", judges), Document(f"{_BASE}/validatingadmissionpolicybindings", binding)]
