"""What a VMI's disks are made of, and the networks its interfaces join (kubevirt.io/v1 Volume and Network).

Touches nothing.
"""

from __future__ import annotations

from msgspec import field

from kvedge.resources.codec import JsonObject, KubeStruct
from kvedge.resources.meta import LocalObjectReference
from kvedge.resources.values.quantities import Quantity


class ContainerDisk(KubeStruct, kw_only=True):
    """A disk image in an OCI image: at `path`, or the one file in /disk."""

    image: str
    image_pull_secret: str = ""
    path: str = ""
    image_pull_policy: str = ""


class EmptyDisk(KubeStruct, kw_only=True):
    """A scratch disk that lives as long as the VMI."""

    capacity: Quantity


class CloudInit(KubeStruct, kw_only=True):
    """Data for cloud-init, inline, base64 or from a Secret."""

    secret_ref: LocalObjectReference | None = None
    user_data: str = ""
    user_data_base64: str = ""
    network_data_secret_ref: LocalObjectReference | None = None
    network_data: str = ""
    network_data_base64: str = ""


class PersistentVolumeClaimSource(KubeStruct, kw_only=True):
    """A claim."""

    claim_name: str
    read_only: bool = False
    hotpluggable: bool = False


class MemoryDumpSource(KubeStruct, kw_only=True):
    """The claim that a dump of the guest's memory is written into; no disk of the guest."""

    claim_name: str
    read_only: bool = False
    hotpluggable: bool = False


class DataVolumeSource(KubeStruct, kw_only=True):
    """A DataVolume."""

    name: str
    hotpluggable: bool = False


class EphemeralClaim(KubeStruct, kw_only=True):
    """The claim below the layer."""

    claim_name: str
    read_only: bool = False


class EphemeralSource(KubeStruct, kw_only=True):
    """A copy-on-write layer over a claim, which is not written to; the layer goes with the run."""

    persistent_volume_claim: EphemeralClaim | None = None


class ConfigMapSource(KubeStruct, kw_only=True):
    """A ConfigMap's keys as files of a disk."""

    name: str = ""
    optional: bool | None = None
    volume_label: str = ""


class SecretSource(KubeStruct, kw_only=True):
    """A Secret's keys as files of a disk."""

    secret_name: str = ""
    optional: bool | None = None
    volume_label: str = ""


class ServiceAccountSource(KubeStruct, kw_only=True):
    """A service account's token, certificate and namespace as files of a disk."""

    service_account_name: str = ""


class DownwardApiSource(KubeStruct, kw_only=True):
    """Fields of the launcher Pod as files of a disk; `fields` are core/v1 DownwardAPIVolumeFiles."""

    fields: list[JsonObject] = []
    volume_label: str = ""


class SysprepSource(KubeStruct, kw_only=True):
    """An answer file for Windows: autounattend.xml or unattend.xml of a ConfigMap or a Secret."""

    config_map: LocalObjectReference | None = None
    secret: LocalObjectReference | None = None


class HostDisk(KubeStruct, kw_only=True):
    """A file of the host; `type` is Disk or DiskOrCreate."""

    path: str
    type: str
    capacity: Quantity | None = None
    shared: bool | None = None


class ContainerPath(KubeStruct, kw_only=True):
    """A path in the launcher's container, where somebody else mounts a volume; never written by the guest."""

    path: str
    read_only: bool | None = None


class Volume(KubeStruct, kw_only=True):
    """One volume; exactly one source is set."""

    name: str
    container_disk: ContainerDisk | None = None
    empty_disk: EmptyDisk | None = None
    cloud_init_no_cloud: CloudInit | None = None
    cloud_init_config_drive: CloudInit | None = None
    persistent_volume_claim: PersistentVolumeClaimSource | None = None
    data_volume: DataVolumeSource | None = None
    host_disk: HostDisk | None = None
    ephemeral: EphemeralSource | None = None
    config_map: ConfigMapSource | None = None
    secret: SecretSource | None = None
    downward_api: DownwardApiSource | None = field(default=None, name="downwardAPI")
    service_account: ServiceAccountSource | None = None
    sysprep: SysprepSource | None = None
    downward_metrics: JsonObject | None = None
    memory_dump: MemoryDumpSource | None = None
    container_path: ContainerPath | None = None


class PodNetwork(KubeStruct, kw_only=True):
    """The Pod's own network."""

    vm_network_cidr: str = field(default="", name="vmNetworkCIDR")
    vm_ipv6_network_cidr: str = field(default="", name="vmIPv6NetworkCIDR")


class MultusNetwork(KubeStruct, kw_only=True):
    """A NetworkAttachmentDefinition."""

    network_name: str
    default: bool = False


class ClaimRequest(KubeStruct, kw_only=True):
    """The request of one of the VMI's claims (DRA) whose device a network is."""

    claim_name: str = ""
    request_name: str = ""


class Network(KubeStruct, kw_only=True):
    """One network; exactly one source is set."""

    name: str
    pod: PodNetwork | None = None
    multus: MultusNetwork | None = None
    resource_claim: ClaimRequest | None = None
