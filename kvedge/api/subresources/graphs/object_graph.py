"""The objects that a VM or a VMI names, as a tree: for tools that keep a VM with all that belongs to it.

Called by graph_calls. Pure. Shape, labels and order are KubeVirt's ObjectGraphNode's; whether what is named exists, the
tree does not say. Beyond KubeVirt's it has answer files of sysprep, claims below ephemeral disks and of memory dumps,
and the claim of firmware's and TPM's state also before there is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct, field

from kvedge.resources.access_credentials import part_of
from kvedge.resources.codec import JsonObject
from kvedge.resources.disks.state_claims import state_volumes
from kvedge.resources.label_selectors import LabelSelector
from kvedge.resources.types.vm import InstancetypeStatusRef, Matcher, VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance, VirtualMachineInstanceSpec
from kvedge.resources.types.volumes import CloudInit, Volume

DEPENDENCY_LABEL: Final = "kubevirt.io/dependency-type"
_STORAGE: Final = "storage"
_NETWORK: Final = "network"
_COMPUTE: Final = "compute"
_CONFIG: Final = "config"
_TYPES: Final = "instancetype.kubevirt.io"
# Group and sort of each kind.
_KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "VirtualMachine": ("kubevirt.io", _COMPUTE),
    "VirtualMachineInstance": ("kubevirt.io", _COMPUTE),
    "Pod": ("", _COMPUTE),
    "DataVolume": ("cdi.kubevirt.io", _STORAGE),
    "PersistentVolumeClaim": ("", _STORAGE),
    "ConfigMap": ("", _CONFIG),
    "Secret": ("", _CONFIG),
    "ServiceAccount": ("", _CONFIG),
    "ControllerRevision": ("apps", _CONFIG),
    "VirtualMachineInstancetype": (_TYPES, _CONFIG),
    "VirtualMachineClusterInstancetype": (_TYPES, _CONFIG),
    "VirtualMachinePreference": (_TYPES, _CONFIG),
    "VirtualMachineClusterPreference": (_TYPES, _CONFIG),
    "NetworkAttachmentDefinition": ("k8s.cni.cncf.io", _NETWORK),
}
# In any letters, as KubeVirt reads it; without a kind the cluster's is meant.
_MATCHED: Final = {kind.lower(): kind for kind in _KINDS if _KINDS[kind][0] == _TYPES}


class Node(Struct, frozen=True):
    """One object of the tree; `is_optional`: the VM can be made anew without it."""

    kind: str
    namespace: str
    name: str
    children: tuple[Node, ...] = ()
    is_optional: bool = False

    @property
    def labels(self) -> dict[str, str]:
        """By which the tree is filtered."""
        return {DEPENDENCY_LABEL: _KINDS[self.kind][1]}

    def document(self) -> JsonObject:
        """KubeVirt's ObjectGraphNode."""
        found: JsonObject = {
            "objectReference": {
                "apiGroup": _KINDS[self.kind][0],
                "kind": self.kind,
                "name": self.name,
                "namespace": self.namespace,
            },
            "labels": self.labels,
        }
        if self.is_optional:
            found["optional"] = True
        if self.children:
            found["children"] = [child.document() for child in self.children]
        return found


class Wanted(Struct, frozen=True):
    """Which nodes below the first one are told; one that is left out takes what is below it along."""

    optional: bool = True
    selector: LabelSelector = field(default_factory=LabelSelector)

    def of(self, nodes: Iterable[Node]) -> tuple[Node, ...]:
        """Those of them that are wanted."""
        return tuple(
            Node(node.kind, node.namespace, node.name, self.of(node.children), node.is_optional)
            for node in nodes
            if (self.optional or not node.is_optional) and self.selector.matches(node.labels)
        )


def graph_of_vm(vm: VirtualMachine, pod: str | None, wanted: Wanted) -> Node:
    """The tree of a VM; `pod` is its launcher's."""
    namespace, name = vm.metadata.namespace, vm.metadata.name
    spec = vm.spec.template.spec if vm.spec.template is not None else VirtualMachineInstanceSpec()
    children: list[Node] = []
    if vm.status.created:
        children.append(Node("VirtualMachineInstance", namespace, name, _pod_nodes(namespace, pod)))
    children += _find_types(vm.spec.instancetype, vm.status.instancetype_ref, "Instancetype", namespace)
    children += _find_types(vm.spec.preference, vm.status.preference_ref, "Preference", namespace)
    # As the VMI that would be made of it.
    run = VirtualMachineInstance(metadata=vm.metadata, spec=spec)
    children += _list_parts(run)
    return Node("VirtualMachine", namespace, name, wanted.of(children))


def graph_of_vmi(vmi: VirtualMachineInstance, pod: str | None, wanted: Wanted) -> Node:
    """The tree of a VMI; `pod` is its launcher's."""
    namespace, name = vmi.metadata.namespace, vmi.metadata.name
    children = [*_pod_nodes(namespace, pod), *_list_parts(vmi)]
    return Node("VirtualMachineInstance", namespace, name, wanted.of(children))


def _pod_nodes(namespace: str, pod: str | None) -> tuple[Node, ...]:
    return (Node("Pod", namespace, pod),) if pod else ()


def _list_parts(vmi: VirtualMachineInstance) -> Iterator[Node]:
    namespace = vmi.metadata.namespace
    yield from _find_credentials(vmi.spec.access_credentials, namespace)
    for volume in (*vmi.spec.volumes, *state_volumes(vmi)):
        for kind, name in _names_of(volume):
            if not name:
                continue
            claim = (Node("PersistentVolumeClaim", namespace, name),) if kind == "DataVolume" else ()
            yield Node(kind, namespace, name, claim)
    for network in vmi.spec.networks:
        if network.multus is not None and network.multus.network_name:
            place, _, name = network.multus.network_name.rpartition("/")
            yield Node("NetworkAttachmentDefinition", place or namespace, name, is_optional=True)


def _names_of(volume: Volume) -> Iterator[tuple[str, str]]:
    """Kind and name of what a volume names."""
    if volume.data_volume is not None:
        yield "DataVolume", volume.data_volume.name
    if volume.persistent_volume_claim is not None:
        yield "PersistentVolumeClaim", volume.persistent_volume_claim.claim_name
    if volume.ephemeral is not None and volume.ephemeral.persistent_volume_claim is not None:
        yield "PersistentVolumeClaim", volume.ephemeral.persistent_volume_claim.claim_name
    if volume.memory_dump is not None:
        yield "PersistentVolumeClaim", volume.memory_dump.claim_name
    if volume.config_map is not None:
        yield "ConfigMap", volume.config_map.name
    if volume.secret is not None:
        yield "Secret", volume.secret.secret_name
    if volume.service_account is not None:
        yield "ServiceAccount", volume.service_account.service_account_name
    for data in (volume.cloud_init_no_cloud, volume.cloud_init_config_drive):
        yield from (("Secret", name) for name in _secrets_of(data))
    if volume.sysprep is not None:
        if volume.sysprep.config_map is not None:
            yield "ConfigMap", volume.sysprep.config_map.name
        if volume.sysprep.secret is not None:
            yield "Secret", volume.sysprep.secret.name


def _secrets_of(data: CloudInit | None) -> Iterator[str]:
    if data is not None:
        yield from (each.name for each in (data.secret_ref, data.network_data_secret_ref) if each is not None)


def _find_credentials(credentials: Sequence[JsonObject], namespace: str) -> Iterator[Node]:
    for credential in credentials:
        for sort in ("sshPublicKey", "userPassword"):
            name = part_of(credential, sort, "source", "secret").get("secretName")
            if isinstance(name, str) and name:
                yield Node("Secret", namespace, name)


def _find_types(
    matcher: Matcher | None, status: InstancetypeStatusRef | None, sort: str, namespace: str
) -> Iterator[Node]:
    """An instance type or a preference, and the copy of it that holds."""
    if matcher is None:
        return
    # Where it was inferred from a volume, the status alone has its name.
    name = matcher.name or (status.name if status is not None else "")
    asked = matcher.kind or (status.kind if status is not None else "")
    kind = _MATCHED.get(asked.lower(), f"VirtualMachineCluster{sort}")
    if name:
        place = "" if kind.startswith("VirtualMachineCluster") else namespace
        yield Node(kind, place, name, is_optional=True)
    if status is not None and status.controller_revision_ref is not None:
        yield Node("ControllerRevision", namespace, status.controller_revision_ref.name)
    elif status is None and matcher.revision_name:
        yield Node("ControllerRevision", namespace, matcher.revision_name)
