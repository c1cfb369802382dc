"""A ValidatingAdmissionPolicy as documents: the policy, and the binding that puts it into force.

Called by the manifests of what roles may not do although they have the right to the kind. Touches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kvedge import __version__
from kvedge.api.registration.registration_manifest import Document
from kvedge.resources.codec import JsonObject
from kvedge.resources.names import VERSION

POLICIES: Final = "validatingadmissionpolicies"
GROUP_VERSION: Final = "admissionregistration.k8s.io/v1"
_BASE: Final = f"/apis/{GROUP_VERSION}"


@dataclass(frozen=True, slots=True)
class Validation:
    """What must hold of a write, as a CEL expression, and what is said otherwise."""

    expression: str
    message: str


def judged(group: str, *resources: str) -> JsonObject:
    """The rule that names which writes are judged."""
    return {
        "apiGroups": [group],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE", "DELETE"],
        "resources": list(resources),
        "scope": "*",
    }


def unchanged(member: str) -> str:
    """The condition that an update leaves this member of the metadata as it was, absent if it was."""
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
        caller: whose writes: a name for that, and the condition.
        variables: expressions that validations name as `variables.NAME`, in this order.
        validations: what must hold.
    """
    labels = {"app.kubernetes.io/managed-by": "kvedge"}
    named, condition = caller
    judges: JsonObject = {
        "apiVersion": GROUP_VERSION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name, "labels": labels, "annotations": {VERSION: __version__}},
        "spec": {
            # Fail: it cannot be away, and an expression that fails is a write that nobody understood.
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
