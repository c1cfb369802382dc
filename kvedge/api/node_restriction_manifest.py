"""The policy by which an API server itself keeps a handler to its own node, whether or not we are there to be asked.

Called by registration_loop.py. Touches nothing. A webhook that handlers' writes depended on would stop them from
reporting while it is away, and one that they do not depend on lets them do anything for that while. A
ValidatingAdmissionPolicy is neither: the server decides alone. One that has no such policies (the embedded API) keeps
handlers to their node by its own authorization. A handler that speaks as its node is judged here for VMIs only: to
its own Node object the API server's NodeRestriction keeps it, and no fault of ours may stand between a kubelet and its
Node.
"""

from __future__ import annotations

from typing import Final

from kvedge import __version__
from kvedge.api.registration_manifest import Document
from kvedge.api.run_rules import RESERVED_LABELS
from kvedge.resources.codec import JsonObject
from kvedge.resources.role_users import (
    HANDLER_ACCOUNT,
    HANDLER_GROUP,
    HANDLER_PREFIX,
    NODE_EXTRA,
    NODE_PREFIX,
    NODES_GROUP,
)

NAME: Final = "kvedge-node-restriction"
POLICIES: Final = "validatingadmissionpolicies"
GROUP_VERSION: Final = "admissionregistration.k8s.io/v1"
_BASE: Final = f"/apis/{GROUP_VERSION}"
_VMI: Final = "request.resource.resource == 'virtualmachineinstances'"
_NODE: Final = "request.resource.resource == 'nodes'"
_UPDATE: Final = "request.operation == 'UPDATE'"
_BY_NODES: Final = (
    f"'{NODES_GROUP}' in request.userInfo.groups && request.userInfo.username.startsWith('{NODE_PREFIX}')"
)
_BY_HANDLERS: Final = (
    f"request.userInfo.username == '{HANDLER_ACCOUNT}' || '{HANDLER_GROUP}' in request.userInfo.groups"
    # Whoever has a node's rights without a node's name owns nothing.
    f" || ({_VMI} && '{NODES_GROUP}' in request.userInfo.groups)"
)
# The node that the certificate's name, or the service account's token, speaks for.
_OWN_NODE: Final = (
    f"'{HANDLER_GROUP}' in request.userInfo.groups && request.userInfo.username.startsWith('{HANDLER_PREFIX}')"
    f" ? request.userInfo.username.substring({len(HANDLER_PREFIX)})"
    f" : ({_BY_NODES} ? request.userInfo.username.substring({len(NODE_PREFIX)})"
    f" : (has(request.userInfo.extra) && '{NODE_EXTRA}' in request.userInfo.extra"
    f" ? request.userInfo.extra['{NODE_EXTRA}'][0] : ''))"
)
_LABELS: Final = "has({0}.metadata.labels) ? {0}.metadata.labels : {{}}"


def node_restriction() -> list[Document]:
    """The policy, and the binding that puts it into force."""
    labels = {"app.kubernetes.io/managed-by": "kvedge"}
    annotations = {"kvedge.io/version": __version__}
    policy: JsonObject = {
        "apiVersion": GROUP_VERSION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": NAME, "labels": labels, "annotations": annotations},
        "spec": {
            # Fail: it cannot be away, and an expression that fails is a write that nobody understood.
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [_rule("kubevirt.io", "virtualmachineinstances"), _rule("", "nodes")]
            },
            "matchConditions": [{"name": "by-handlers", "expression": _BY_HANDLERS}],
            "variables": [
                {"name": "node", "expression": _OWN_NODE},
                {"name": "labels", "expression": f"object == null ? {{}} : ({_LABELS.format('object')})"},
                {"name": "oldLabels", "expression": f"oldObject == null ? {{}} : ({_LABELS.format('oldObject')})"},
            ],
            "validations": [
                *(_validation(_VMI, expression, text) for expression, text in _VMI_RULES),
                *(_validation(_NODE, expression, text) for expression, text in _NODE_RULES),
            ],
        },
    }
    binding: JsonObject = {
        "apiVersion": GROUP_VERSION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": NAME, "labels": labels},
        "spec": {"policyName": NAME, "validationActions": ["Deny"]},
    }
    return [Document(f"{_BASE}/{POLICIES}", policy), Document(f"{_BASE}/validatingadmissionpolicybindings", binding)]


def _node_name(document: str) -> str:
    return f"(has({document}.status) && has({document}.status.nodeName) ? {document}.status.nodeName : '')"


def _unchanged(member: str) -> str:
    return (
        f"has(object.metadata.{member}) == has(oldObject.metadata.{member})"
        f" && (!has(object.metadata.{member}) || object.metadata.{member} == oldObject.metadata.{member})"
    )


def _rule(group: str, resource: str) -> JsonObject:
    return {
        "apiGroups": [group],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE", "DELETE"],
        "resources": [resource],
        "scope": "*",
    }


def _validation(applies: str, expression: str, text: str) -> JsonObject:
    return {
        "expression": f"!({applies}) || ({expression})",
        "message": f"Node restriction, virt-handler {text}",
        "reason": "Forbidden",
    }


# Each is: what must hold of an update, and what is said otherwise.
_OURS: Final = "k.matches('^([a-z0-9.-]+[.])?(kubevirt|kvedge)[.]io/')"
_RESERVED: Final = "[" + ", ".join(f"'{label}'" for label in sorted(RESERVED_LABELS)) + "]"
_VMI_RULES: Final = (
    (_UPDATE, "is not allowed to make or delete VMIs"),
    (
        f"!({_UPDATE}) || (variables.node != '' && {_node_name('oldObject')} == variables.node)",
        "is only allowed to modify VMIs it owns",
    ),
    (f"!({_UPDATE}) || {_node_name('object')} == variables.node", "is not allowed to give a VMI to another node"),
    (f"!({_UPDATE}) || object.spec == oldObject.spec", "is not allowed to change what should run"),
    (f"!({_UPDATE}) || ({_unchanged('finalizers')})", "is not allowed to change finalizers"),
    (f"!({_UPDATE}) || ({_unchanged('ownerReferences')})", "is not allowed to change ownerReferences"),
    (
        f"!({_UPDATE}) || {_RESERVED}.all(k, (k in variables.labels ? variables.labels[k] : '')"
        " == (k in variables.oldLabels ? variables.oldLabels[k] : ''))",
        "is not allowed to change reserved kubevirt.io/ labels",
    ),
)
_NODE_RULES: Final = (
    (f"{_UPDATE} && variables.node != '' && request.name == variables.node", "is only allowed to modify its own Node"),
    (f"!({_UPDATE}) || object.spec == oldObject.spec", "is not allowed to change a Node's spec"),
    (
        f"!({_UPDATE}) || (variables.labels.all(k, {_OURS} || (k in variables.oldLabels"
        " && variables.oldLabels[k] == variables.labels[k]))"
        f" && variables.oldLabels.all(k, {_OURS} || k in variables.labels))",
        "is not allowed to change other labels of a Node than kubevirt.io/'s and kvedge.io/'s",
    ),
)
