"""The policy by which an API server itself keeps a handler to its own node, whether or not we are there to be asked.

Called by registration_loop.py. Touches nothing. If handlers' writes depended on a webhook, an absent webhook would stop
their reports; if they did not, it would let them do anything meanwhile. A ValidatingAdmissionPolicy is neither: the
server decides alone. The embedded API has no such policies, and keeps handlers to their node by its own authorization.
A handler that speaks as its node is judged here for VMIs only: to its own Node object the API server's NodeRestriction
keeps it, and no fault of ours may stand between a kubelet and its Node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvedge.api.registration.document import Document
from kvedge.api.registration.policy_manifest import Validation, is_unchanged, match_writes, policy
from kvedge.resources.disks.moved_volumes import IN_PLACE, VOLUMES_CHANGE
from kvedge.resources.names import MIGRATION_TARGET_NODE, NODE_NAME, OLD_CPU_MANAGER, RESERVED_LABELS
from kvedge.resources.node_loss.node_lease import LEASE_PREFIX, NODES_NAMESPACE
from kvedge.resources.role_users import (
    HANDLER_ACCOUNT,
    HANDLER_GROUP,
    HANDLER_PREFIX,
    NODE_EXTRA,
    NODE_PREFIX,
    NODES_GROUP,
)
from kvedge.resources.types.migrations import CONTROLLERS_PART, ENDS_PART, SOURCE_IS_GONE, SOURCES_PART, TARGETS_PART

NAME: Final = "kvedge-node-restriction"
_VMI: Final = "request.resource.resource == 'virtualmachineinstances'"
_NODE: Final = "request.resource.resource == 'nodes'"
_OUR_LEASE: Final = (
    f"(request.resource.resource == 'configmaps' && has(request.namespace) && request.namespace == '{NODES_NAMESPACE}')"
)
_UPDATE: Final = "request.operation == 'UPDATE'"
_BY_NODES: Final = (
    f"'{NODES_GROUP}' in request.userInfo.groups && request.userInfo.username.startsWith('{NODE_PREFIX}')"
)
# All ConfigMaps of the cluster pass by this condition: it must not fail for anybody.
_BY_HANDLERS: Final = (
    f"request.userInfo.username == '{HANDLER_ACCOUNT}' || (has(request.userInfo.groups)"
    f" && ('{HANDLER_GROUP}' in request.userInfo.groups"
    # A user with a node's rights, but without a node's name, owns nothing.
    f" || (({_VMI} || {_OUR_LEASE}) && '{NODES_GROUP}' in request.userInfo.groups)))"
)
# The node that the certificate's name, or the service account's token, speaks for.
_OWN_NODE: Final = (
    f"'{HANDLER_GROUP}' in request.userInfo.groups && request.userInfo.username.startsWith('{HANDLER_PREFIX}')"
    f" ? request.userInfo.username.substring({len(HANDLER_PREFIX)})"
    f" : ({_BY_NODES} ? request.userInfo.username.substring({len(NODE_PREFIX)})"
    f" : (has(request.userInfo.extra) && '{NODE_EXTRA}' in request.userInfo.extra"
    f" ? request.userInfo.extra['{NODE_EXTRA}'][0] : ''))"
)
_OWN_LEASE: Final = (
    f"request.operation != 'DELETE' && variables.node != '' && {_OUR_LEASE}"
    f" && object.metadata.name == '{LEASE_PREFIX}' + variables.node"
)
_LABELS: Final = "has({0}.metadata.labels) ? {0}.metadata.labels : {{}}"


_STATUS: Final = "{0} == null || !has({0}.status) ? {{}} : {0}.status"
_STATE: Final = "'migrationState' in variables.{0} ? variables.{0}.migrationState : {{}}"
_IS_TRUE: Final = "('{1}' in variables.{0} && variables.{0}.{1})"
_IS_OPEN: Final = (
    "'migrationUid' in variables.oldState && variables.oldState.migrationUid != ''"
    f" && !{_IS_TRUE.format('oldState', 'completed')} && !{_IS_TRUE.format('oldState', 'failed')}"
)
_IS_TARGET: Final = (
    "variables.isOpen && 'targetNode' in variables.oldState && variables.oldState.targetNode == variables.node"
)
_SOURCE_IS_GONE: Final = " || ".join(f"'{name}' in variables.oldState" for name in SOURCE_IS_GONE)
_TAKES_OVER: Final = (
    f"{_UPDATE} && variables.isTarget && variables.sourceIsGone"
    " && variables.oldNodeName != variables.node && variables.nodeName == variables.node"
    f" && {_IS_TRUE.format('state', 'completed')} && !{_IS_TRUE.format('state', 'failed')}"
)


# Before its guest runs there, the target names the claims that its disks were copied to, and changes nothing else.
_CLAIM_OF: Final = (
    "('persistentVolumeClaim' in o ? o.persistentVolumeClaim.claimName : ('dataVolume' in o ? o.dataVolume.name : ''))"
)
# Disks that move in place: the guest's own node names their claims, and those of before when it came to nothing.
_IN_PLACE: Final = (
    "variables.node != '' && variables.oldNodeName == variables.node && !variables.isOpen"
    " && 'conditions' in variables.oldStatus && variables.oldStatus.conditions.exists(c,"
    f" c.type == '{VOLUMES_CHANGE}' && c.status == 'True' && 'reason' in c && c.reason == '{IN_PLACE}')"
)
_IS_EXCHANGED: Final = (
    "m.volumeName == v.name && v.all(k, k == 'name' || k == 'persistentVolumeClaim')"
    " && v.persistentVolumeClaim.all(k, k == 'claimName' || k == 'hotpluggable')"
    " && oldObject.spec.volumes.exists(o, o.name == v.name"
    f" && (({_CLAIM_OF} == m.sourcePVCInfo.claimName"
    " && v.persistentVolumeClaim.claimName == m.destinationPVCInfo.claimName)"
    f" || (variables.inPlace && {_CLAIM_OF} == m.destinationPVCInfo.claimName"
    " && v.persistentVolumeClaim.claimName == m.sourcePVCInfo.claimName)))"
)
_EXCHANGES_CLAIMS: Final = (
    "(variables.inPlace || (variables.isTarget && variables.sourceIsGone)) && variables.moved.size() > 0"
    " && object.spec.all(k, k == 'volumes' || (k in oldObject.spec && object.spec[k] == oldObject.spec[k]))"
    " && oldObject.spec.all(k, k in object.spec)"
    " && object.spec.volumes.map(v, v.name) == oldObject.spec.volumes.map(v, v.name)"
    f" && object.spec.volumes.all(v, v in oldObject.spec.volumes || variables.moved.exists(m, {_IS_EXCHANGED}))"
)


def node_restriction() -> list[Document]:
    """The policy, and the binding that puts it into force."""
    variables = {
        "node": _OWN_NODE,
        "labels": f"object == null ? {{}} : ({_LABELS.format('object')})",
        "oldLabels": f"oldObject == null ? {{}} : ({_LABELS.format('oldObject')})",
        "status": _STATUS.format("object"),
        "oldStatus": _STATUS.format("oldObject"),
        "nodeName": "'nodeName' in variables.status ? variables.status.nodeName : ''",
        "oldNodeName": "'nodeName' in variables.oldStatus ? variables.oldStatus.nodeName : ''",
        "state": _STATE.format("status"),
        "oldState": _STATE.format("oldStatus"),
        "isOpen": _IS_OPEN,
        "isTarget": _IS_TARGET,
        "sourceIsGone": _SOURCE_IS_GONE,
        "inPlace": _IN_PLACE,
        "takesOver": _TAKES_OVER,
        "moved": "'migratedVolumes' in variables.oldStatus ? variables.oldStatus.migratedVolumes : []",
    }
    rules = [
        match_writes("kubevirt.io", "virtualmachineinstances"),
        match_writes("", "nodes"),
        match_writes("", "configmaps"),
    ]
    validations = [
        *(_validation(_VMI, expression, text) for expression, text in _VMI_RULES),
        *(_validation(_NODE, expression, text) for expression, text in _NODE_RULES),
        _validation(
            "request.resource.resource == 'configmaps'", _OWN_LEASE, "is only allowed to write its node's lease"
        ),
    ]
    return policy(NAME, rules, ("by-handlers", _BY_HANDLERS), variables, validations)


def _is_same(key: str, new: str, old: str) -> str:
    """Whether two maps have the same below a key, or both nothing."""
    return f"({key} in {new}) == ({key} in {old}) && (!({key} in {new}) || {new}[{key}] == {old}[{key}])"


def _are_unchanged(fields: Sequence[str]) -> str:
    names = ", ".join(f"'{name}'" for name in fields)
    return f"[{names}].all(k, {_is_same('k', 'variables.state', 'variables.oldState')})"


def _is_at(end: str) -> str:
    """Whether the handler's node is that end of the migration."""
    return f"'{end}' in variables.oldState && variables.oldState.{end} == variables.node"


def _validation(applies: str, expression: str, text: str) -> Validation:
    return Validation(f"!({applies}) || ({expression})", f"Node restriction, virt-handler {text}")


# Each is: what must hold of an update, and what is said otherwise.
# KubeVirt has one label without a domain.
_OURS: Final = f"(k == '{OLD_CPU_MANAGER}' || k.matches('^([a-z0-9.-]+[.])?(kubevirt|kvedge)[.]io/'))"
_TAKEN: Final = "targetTakenTimestamp"
_MOVES: Final = "'migratedVolumes'"
_NEW_STATUS: Final = "variables.status"
_OLD_STATUS: Final = "variables.oldStatus"
_NEW_LABELS: Final = "variables.labels"
_OLD_LABELS: Final = "variables.oldLabels"
# Between two boxes a handler also writes what the other box's has told it.
_PEERS: Final = "['sourceState', 'targetState']"
_HEARS_SOURCE: Final = f"('sourceState' in variables.oldState && ({_is_at('targetNode')}))"
_HEARS_TARGET: Final = f"('targetState' in variables.oldState && ({_is_at('sourceNode')}))"
# What the write changes that takes a VMI over; which values they get, the last rule says.
_MOVED: Final = f"['{NODE_NAME}', '{MIGRATION_TARGET_NODE}']"
_RESERVED: Final = "[" + ", ".join(f"'{label}'" for label in sorted(RESERVED_LABELS)) + "]"
_VMI_RULES: Final = (
    (_UPDATE, "is not allowed to make or delete VMIs"),
    (
        f"!({_UPDATE}) || (variables.node != '' && (variables.oldNodeName == variables.node || variables.isTarget))",
        "is only allowed to modify VMIs it owns",
    ),
    (
        f"!({_UPDATE}) || variables.nodeName == variables.oldNodeName || variables.takesOver",
        "is not allowed to give a VMI to another node",
    ),
    (
        f"!({_UPDATE}) || variables.oldNodeName == variables.node || variables.sourceIsGone"
        f" || (variables.status.all(k, k == 'migrationState' || ({_is_same('k', _NEW_STATUS, _OLD_STATUS)}))"
        " && variables.oldStatus.all(k, k == 'migrationState' || k in variables.status))",
        "is not allowed to report on a VMI before its source is gone",
    ),
    (
        f"!({_UPDATE}) || ({_are_unchanged(CONTROLLERS_PART)})",
        "is not allowed to set target node, nor what else the controller says of a migration",
    ),
    (
        f"!({_UPDATE}) || ({_is_at('sourceNode')}) || {_HEARS_SOURCE} || ({_are_unchanged(SOURCES_PART)})",
        "is not allowed to speak for the source of a migration",
    ),
    (
        f"!({_UPDATE}) || ({_is_at('targetNode')}) || {_HEARS_TARGET} || ({_are_unchanged(TARGETS_PART)})",
        "is not allowed to speak for the target of a migration",
    ),
    # By this word VM and VMI name another claim.
    (
        f"!({_UPDATE}) || ({_are_unchanged((_TAKEN,))})"
        f" || (variables.sourceIsGone && !('{_TAKEN}' in variables.oldState))",
        "is not allowed to say that a guest is taken before its source is gone, nor to take that back",
    ),
    (
        f"!({_UPDATE}) || variables.takesOver || ({_are_unchanged(ENDS_PART)})"
        f" || (variables.isOpen && {_IS_TRUE.format('state', 'failed')}"
        f" && (({_is_at('sourceNode')}) || (variables.isTarget && (variables.sourceIsGone || {_HEARS_SOURCE}))))"
        f" || (variables.isOpen && {_HEARS_TARGET} && variables.sourceIsGone"
        f" && '{_TAKEN}' in variables.oldState)",
        "is not allowed to end a migration whose guest it does not know of",
    ),
    (
        f"!({_UPDATE}) || {_PEERS}.all(k, (k in variables.state) == (k in variables.oldState))",
        "is not allowed to say that a guest moves between boxes",
    ),
    (
        f"!({_UPDATE}) || object.spec == oldObject.spec || ({_EXCHANGES_CLAIMS})",
        "is not allowed to change what should run",
    ),
    (
        f"!({_UPDATE}) || variables.oldNodeName == variables.node || (({is_unchanged('annotations')})"
        f" && variables.labels.all(k, k in {_MOVED} || ({_is_same('k', _NEW_LABELS, _OLD_LABELS)}))"
        f" && variables.oldLabels.all(k, k in {_MOVED} || k in variables.labels))",
        "is not allowed to change labels and annotations of a VMI it does not own",
    ),
    # A guest gets the claims that the controller has judged: another one's disk would come along otherwise.
    (
        f"!({_UPDATE}) || ({_is_same(_MOVES, _NEW_STATUS, _OLD_STATUS)})"
        f" || (variables.takesOver && !({_MOVES} in variables.status))",
        "is not allowed to say which claims volumes move to",
    ),
    (f"!({_UPDATE}) || ({is_unchanged('finalizers')})", "is not allowed to change finalizers"),
    (f"!({_UPDATE}) || ({is_unchanged('ownerReferences')})", "is not allowed to change ownerReferences"),
    (
        f"!({_UPDATE}) || {_RESERVED}.all(k, ({_is_same('k', 'variables.labels', 'variables.oldLabels')})"
        f" || (variables.takesOver && ((k == '{NODE_NAME}' && k in variables.labels && variables.labels[k]"
        f" == variables.node) || (k == '{MIGRATION_TARGET_NODE}' && !(k in variables.labels)))))",
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
        f"is not allowed to change other labels of a Node than kubevirt.io/'s, kvedge.io/'s and {OLD_CPU_MANAGER}",
    ),
)
