"""What is in the way of a VM that is to move to another box, found before anything is made; all of it at once.

Called by `box_move`. Reads both API servers. What only the target can know while the guest comes, such as whether its
CPU suits, libvirt says there, and then the guest stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct, field

from kvedge.client.boxes.moved_vm import Named, find_named, network_names
from kvedge.client.errors import NotFoundError, RefusedError
from kvedge.client.session import Session
from kvedge.client.subresources import VM, get
from kvedge.kube.errors import Forbidden, NotFound
from kvedge.resources.codec import JsonObject
from kvedge.resources.disks.volume_facts import claims as claims_of
from kvedge.resources.moves.crossing import describe_hold
from kvedge.resources.moves.crossing_rules import find_crossing_refusal
from kvedge.resources.names import SCHEDULABLE, VERSION
from kvedge.resources.types.attachments import NetworkAttachmentDefinition
from kvedge.resources.types.core import Namespace, Node
from kvedge.resources.types.storage import PersistentVolumeClaim, StorageClass
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.values.quantities import QuantityError, parse_bytes
from kvedge.resources.vmi_facts import guest_memory_field

_IS_DEFAULT = "storageclass.kubernetes.io/is-default-class"


class MovePlan(Struct, frozen=True):
    """What is to move, and what for: the VM with its types written into it, its run, its claims, and what it names
    besides.
    """

    document: JsonObject
    vm: VirtualMachine
    vmi: VirtualMachineInstance
    node: str
    claims: Sequence[PersistentVolumeClaim] = ()
    # By the claim's name: the class that it gets; None for the target's default one.
    classes: dict[str, str | None] = field(default_factory=dict)
    # Secrets and ConfigMaps that the target has not, as they are stored.
    missing: Sequence[tuple[Named, JsonObject]] = ()


def check_move(source: Session, target: Session, name: str, storage_class: str | None) -> MovePlan:
    """Look at both boxes.

    Raises:
        NotFoundError: when there is no such VM.
        RefusedError: with all that is in the way.
        KubeError: when one of the API servers refuses or does not answer.
    """
    document, vm, vmi = _find(source, name)
    obstacles = []
    if hold := describe_hold(vm):
        obstacles.append(f"VM {name}: {hold}")
    refusal = find_crossing_refusal(vmi)
    if refusal is None:
        refusal = "its node's handler has not said yet whether the guest can move: try again in a moment"
    if refusal:
        obstacles.append(refusal)
    node, found = _find_node(source, target, vmi)
    obstacles += found
    obstacles += _find_names_taken(target, source.namespace, name)
    claims, classes = [], {}
    target_classes = target.client.list(StorageClass)
    for _, claim_name in claims_of(vmi.spec.volumes):
        claim = source.client.get(PersistentVolumeClaim, source.namespace, claim_name)
        claims.append(claim)
        wanted, why = _choose_class(claim, target_classes, storage_class)
        classes[claim_name] = wanted
        obstacles += [why] if why else []
        if _exists(target, PersistentVolumeClaim.KIND.path(source.namespace, claim_name)):
            obstacles.append(f"the target has a claim {claim_name} already, in namespace {source.namespace}")
    obstacles += _find_missing_networks(target, vmi)
    missing, unread = _find_missing(source, target, document)
    obstacles += unread
    if obstacles:
        raise RefusedError("VM {} cannot move there:\n{}".format(name, "\n".join(f"  {each}" for each in obstacles)))
    return MovePlan(document, vm, vmi, node, claims, classes, missing)


def _find(source: Session, name: str) -> tuple[JsonObject, VirtualMachine, VirtualMachineInstance]:
    try:
        vm = source.client.get(VirtualMachine, source.namespace, name)
        if vm.spec.instancetype is None and vm.spec.preference is None:
            document = source.client.request("GET", VirtualMachine.KIND.path(source.namespace, name))
        else:
            # The copies of its types stay here, and others of these names may be on the target: it goes as what it is.
            document = get(source, VM, name, "expand-spec")
    except NotFound as error:
        raise NotFoundError(f"there is no VM {name} in namespace {source.namespace}") from error
    try:
        vmi = source.client.get(VirtualMachineInstance, source.namespace, name)
    except NotFound:
        vmi = None
    if vmi is None or vmi.status.phase != "Running":
        hold = describe_hold(vm)
        raise RefusedError(
            f"VM {name} does not start: {hold}"
            if hold
            else f"VM {name} does not run: `kvedge start {name} --paused` has its guest wait, and then it can move"
        )
    return document, vm, vmi


def _find_node(source: Session, target: Session, vmi: VirtualMachineInstance) -> tuple[str, list[str]]:
    """The target's one node, and what keeps it from taking the guest."""
    nodes = target.client.list(Node)
    if len(nodes) != 1:
        return "", [f"the target has {len(nodes)} nodes: a guest moves to a box that is its own only node"]
    node, found = nodes[0], []
    own = source.client.get(Node, "", vmi.status.node_name)
    versions = [each.metadata.annotations.get(VERSION, "") for each in (own, node)]
    if versions[0] != versions[1]:
        text = f"kvedge here has version {versions[0] or 'unknown'}, the target {versions[1] or 'unknown'}"
        found.append(f"{text}: upgrade one of them")
    if node.metadata.labels.get(SCHEDULABLE) != "true":
        found.append(f"node {node.metadata.name} of the target takes no VM now: `kvedge doctor` there says why")
    kinds = [str(each.status.node_info.get("architecture", "")) for each in (own, node)]
    if kinds[0] != kinds[1]:
        found.append(f"the guest runs on {kinds[0]}, the target's processor is {kinds[1]}")
    if why := _find_lack_of_memory(node, vmi):
        found.append(why)
    return node.metadata.name, found


def _find_lack_of_memory(node: Node, vmi: VirtualMachineInstance) -> str:
    """Whether the node could never hold the guest; what others take of it the scheduler counts."""
    wanted = guest_memory_field(vmi.spec.domain)
    if "memory" not in node.status.allocatable:
        return ""
    try:
        needed = 0 if wanted is None else parse_bytes(wanted[1])
        there = parse_bytes(node.status.allocatable["memory"])
    except QuantityError:
        return ""
    return "" if needed <= there else f"the guest has {needed >> 20} MiB of memory, the target {there >> 20} MiB"


def _find_names_taken(target: Session, namespace: str, name: str) -> Iterator[str]:
    if not _exists(target, Namespace.KIND.path("", namespace)):
        yield f"the target has no namespace {namespace}: `kvedge create namespace {namespace}` there makes it"
        return
    for kind in (VirtualMachine.KIND, VirtualMachineInstance.KIND):
        if _exists(target, kind.path(namespace, name)):
            yield f"the target has a {kind.kind} {name} already, in namespace {namespace}"


def _choose_class(
    claim: PersistentVolumeClaim, there: Sequence[StorageClass], asked: str | None
) -> tuple[str | None, str]:
    """The class of a claim on the target, and what is wrong with it."""
    names = {each.metadata.name for each in there}
    wanted = asked or claim.spec.storage_class_name
    if wanted and wanted in names:
        return wanted, ""
    default = [each for each in there if each.metadata.annotations.get(_IS_DEFAULT) == "true"]
    if default and not asked:
        return None, ""
    known = f"it has {', '.join(sorted(names))}" if names else "it has none"
    return None, f"the target has no storage class {wanted or 'by default'} for claim {claim.metadata.name}: {known}"


def _find_missing_networks(target: Session, vmi: VirtualMachineInstance) -> Iterator[str]:
    for namespace, name in network_names(vmi):
        if not _exists(target, NetworkAttachmentDefinition.KIND.path(namespace, name)):
            yield f"the target has no network {namespace}/{name}: `kvedge network create` there makes it"


def _find_missing(
    source: Session, target: Session, document: JsonObject
) -> tuple[list[tuple[Named, JsonObject]], list[str]]:
    """What the VM names and the target has not; and what cannot be copied there."""
    found, unread = [], []
    for named in find_named(document["spec"]["template"]["spec"]):
        path = f"/api/v1/namespaces/{source.namespace}/{named.resource}/{named.name}"
        if _exists(target, path):
            continue
        try:
            found.append((named, source.client.request("GET", path)))
        except (NotFound, Forbidden) as error:
            unread.append(f"the VM names {named.resource} {named.name}, which the target has not: {error}")
    return found, unread


def _exists(target: Session, path: str) -> bool:
    try:
        target.client.request("GET", path)
    except NotFound:
        return False
    return True
