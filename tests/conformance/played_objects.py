"""The objects that KubeVirt's tests expect on a server, which a box does not have or not yet.

Called by the conformance run once the box is ready. After each spec the tests list or delete objects of every kind
that KubeVirt knows; a kind that the box does not serve is played by a CRD without a schema, so that there is nothing
to list.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from kvedge.kube.errors import NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from tests.conformance.played_jobs import Ask


@dataclass(frozen=True)
class PlayedKind:
    """A kind of KubeVirt's by the group and version in which its tests ask for it."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def manifest(self) -> dict[str, Any]:
        """Its CRD."""
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version = {"name": self.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{self.plural}.{self.group}"},
            "spec": {
                "group": self.group,
                "names": {"kind": self.kind, "plural": self.plural, "singular": self.kind.lower()},
                "scope": "Namespaced" if self.namespaced else "Cluster",
                "versions": [version],
            },
        }


_INSTANCE_TYPES: Final = "instancetype.kubevirt.io"
_SNAPSHOTS: Final = "snapshot.kubevirt.io"
_BACKUPS: Final = "backup.kubevirt.io"
KINDS: Final = (
    PlayedKind(
        _INSTANCE_TYPES, "v1beta1", "VirtualMachineClusterInstancetype", "virtualmachineclusterinstancetypes", False
    ),
    PlayedKind(_INSTANCE_TYPES, "v1beta1", "VirtualMachineInstancetype", "virtualmachineinstancetypes"),
    PlayedKind(
        _INSTANCE_TYPES, "v1beta1", "VirtualMachineClusterPreference", "virtualmachineclusterpreferences", False
    ),
    PlayedKind(_INSTANCE_TYPES, "v1beta1", "VirtualMachinePreference", "virtualmachinepreferences"),
    PlayedKind("clone.kubevirt.io", "v1beta1", "VirtualMachineClone", "virtualmachineclones"),
    PlayedKind(_SNAPSHOTS, "v1beta1", "VirtualMachineSnapshot", "virtualmachinesnapshots"),
    PlayedKind(_SNAPSHOTS, "v1beta1", "VirtualMachineSnapshotContent", "virtualmachinesnapshotcontents"),
    PlayedKind(_SNAPSHOTS, "v1beta1", "VirtualMachineRestore", "virtualmachinerestores"),
    PlayedKind("export.kubevirt.io", "v1", "VirtualMachineExport", "virtualmachineexports"),
    PlayedKind(_BACKUPS, "v1alpha1", "VirtualMachineBackup", "virtualmachinebackups"),
    PlayedKind(_BACKUPS, "v1alpha1", "VirtualMachineBackupTracker", "virtualmachinebackuptrackers"),
)
# The Service by whose address the tests learn the cluster's DNS server, to give it to guests.
_DNS: Final[dict[str, Any]] = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "kube-dns", "namespace": "kube-system"},
    "spec": {"ports": [{"name": "dns", "port": 53, "protocol": "UDP"}]},
}
# Which gates the clusters have open on which these tests are run upstream, as far as kvedge knows them; specs open
# others by themselves.
_GATES: Final = (
    "ContainerPathVolumes",
    "DeclarativeHotplugVolumes",
    "DownwardMetrics",
    "ExperimentalIgnitionSupport",
    "HostDisk",
    "IncrementalBackup",
    "ObjectGraph",
    "Sidecar",
    "UtilityVolumes",
)
# The label by which those clusters have the changed blocks of a VM, or of a namespace's VMs, tracked.
_TRACKED: Final[JsonObject] = {"matchLabels": {"changedBlockTracking": "true"}}
# Specs want the exporters' CPU and memory that KubeVirt has by default; those of kvedge's are less.
_EXPORTERS: Final[JsonObject] = {
    "type": "vmexport",
    "resources": {"requests": {"cpu": "100m", "memory": "200Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
}
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def set_up(client: KubeClient, name_server: str, *, shares: bool) -> str:
    """Make what is missing, and have guests emulated without a word; the namespace of the KubeVirt object.

    `name_server` is the address at which the box's own one is. `shares` says that nodes share a directory of this
    machine: libvirt does not know that they do, and is told to move guests all the same.
    """
    for kind in KINDS:
        name = kind.manifest["metadata"]["name"]
        if not _exists(client, f"{_CRDS}/{name}"):
            client.request("POST", _CRDS, kind.manifest)
    services = "/api/v1/namespaces/kube-system/services"
    if not _exists(client, f"{services}/kube-dns"):
        client.request("POST", services, _DNS)
        slices = "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices"
        client.request("POST", slices, _dns_endpoints(name_server))
    configuration: JsonObject = {
        "developerConfiguration": {"useEmulation": True, "featureGates": [*_GATES]},
        "changedBlockTrackingLabelSelectors": {
            "virtualMachineLabelSelector": _TRACKED,
            "namespaceLabelSelector": _TRACKED,
        },
        "supportContainerResources": [_EXPORTERS],
    }
    if shares:
        configuration["migrations"] = {"unsafeMigrationOverride": True}
    return _configure(client, configuration)


def asking(client: KubeClient) -> Ask:
    """How the Jobs' player asks a server."""

    def ask(method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any] | None:
        try:
            answer = client.request(method, path, body)
        except NotFound:
            return None
        return answer if isinstance(answer, dict) else None

    return ask


def node_addresses(client: KubeClient) -> list[tuple[str, str]]:
    """The nodes and the address of each."""
    listed = client.request("GET", "/api/v1/nodes")
    assert isinstance(listed, dict)
    found = []
    for node in listed["items"]:
        addresses = {entry["type"]: entry["address"] for entry in node["status"]["addresses"]}
        found.append((node["metadata"]["name"], addresses["InternalIP"]))
    return found


def _dns_endpoints(address: str) -> dict[str, Any]:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "kube-dns-box", "labels": {"kubernetes.io/service-name": "kube-dns"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address]}],
        "ports": [{"name": "dns", "port": 53, "protocol": "UDP"}],
    }


def _exists(client: KubeClient, path: str) -> bool:
    try:
        client.request("GET", path)
    except NotFound:
        return False
    return True


def _configure(client: KubeClient, configuration: JsonObject) -> str:
    listed = client.request("GET", "/apis/kubevirt.io/v1/kubevirts")
    assert isinstance(listed, dict)
    (found,) = listed["items"]
    metadata = found["metadata"]
    path = f"/apis/kubevirt.io/v1/namespaces/{metadata['namespace']}/kubevirts/{metadata['name']}"
    change: JsonObject = {"spec": {"configuration": configuration}}
    client.request("PATCH", path, change, media_type="application/merge-patch+json")
    return str(metadata["namespace"])
