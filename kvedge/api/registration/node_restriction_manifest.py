"""The policy by which an API server itself keeps a handler to its own node, whether or not we are there to be asked.

Called by registration_loop.py. Touches nothing. If handlers' writes depended on a webhook, an absent webhook would stop
their reports; if they did not, it would let them do anything meanwhile. A ValidatingAdmissionPolicy is neither: the
server decides alone. The embedded API has no such policies, and keeps handlers to their node by its own authorization.
A handler that speaks as its node is judged here for VMIs only: to its own Node object the API server's NodeRestriction
keeps it, and no fault of ours may stand between a kubelet and its Node.
"""

from __future__ import annotations

from typing import Final

from kvedge.api.registration.policy_manifest import Validation, is_unchanged, match_writes, policy
from kvedge.api.registration.registration_manifest import Document
from kvedge.resources.names import RESERVED_LABELS
from kvedge.resources.role_users import (
    HANDLER_ACCOUNT,
    HANDLER_GROUP,
    HANDLER_PREFIX,
    NODE_EXTRA,
    NODE_PREFIX,
    NODES_GROUP,
)

NAME: Final = "kvedge-node-restriction"
_VMI: Final = "request.resource.resource == 'virtualmachineinstances'"
_NODE: Final = "request.resource.resource == 'nodes'"
_UPDATE: Final = "request.operation == 'UPDATE'"
_BY_NODES: Final = (
    f"'{NODES_GROUP}' in request.userInfo.groups && request.userInfo.username.startsWith('{NODE_PREFIX}')"
)
_BY_HANDLERS: Final = (
    f"request.userInfo.username == '{HANDLER_ACCOUNT}' || '{HANDLER_GROUP}' in request.userInfo.groups"
    # A user with a node's rights, but without a node's name, owns nothing.
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
    variables = {
        "node": _OWN_NODE,
        "labels": f"object == null ? {{}} : ({_LABELS.format('object')})",
        "oldLabels": f"oldObject == null ? {{}} : ({_LABELS.format('oldObject')})",
    }
    rules = [match_writes("kubevirt.io", "virtualmachineinstances"), match_writes("", "nodes")]
    validations = [
        *(_validation(_VMI, expression, text) for expression, text in _VMI_RULES),
        *(_validation(_NODE, expression, text) for expression, text in _NODE_RULES),
    ]
    return policy(NAME, rules, ("by-handlers", _BY_HANDLERS), variables, validations)


def _node_name(document: str) -> str:
    return f"(has({document}.status) && has({document}.status.nodeName) ? {document}.status.nodeName : '')"


def _validation(applies: str, expression: str, text: str) -> Validation:
    return Validation(f"!({applies}) || ({expression})", f"Node restriction, virt-handler {text}")


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
    (f"!({_UPDATE}) || ({is_unchanged('finalizers')})", "is not allowed to change finalizers"),
    (f"!({_UPDATE}) || ({is_unchanged('ownerReferences')})", "is not allowed to change ownerReferences"),
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
