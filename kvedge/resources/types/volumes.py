"""What a VMI's disks are made of, and the networks its interfaces join (kubevirt.io/v1 Volume and Network).

Touches nothing.
"""

from __future__ import annotations

from msgspec import field

from kvedge.resources.codec import JsonObject, KubeStruct
from kvedge.resources.meta import LocalObjectReference
from kvedge.resources.quantities import Quantity


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


class DataVolumeSource(KubeStruct, kw_only=True):
    """A DataVolume."""

    name: str
    hotpluggable: bool = False


class HostDisk(KubeStruct, kw_only=True):
    """A file of the host; `type` is Disk or DiskOrCreate."""

    path: str
    type: str
    capacity: Quantity | None = None
    shared: bool | None = None


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
    ephemeral: JsonObject | None = None
    config_map: JsonObject | None = None
    secret: JsonObject | None = None
    downward_api: JsonObject | None = field(default=None, name="downwardAPI")
    service_account: JsonObject | None = None
    sysprep: JsonObject | None = None
    downward_metrics: JsonObject | None = None
    memory_dump: JsonObject | None = None
    container_path: JsonObject | None = None


class PodNetwork(KubeStruct, kw_only=True):
    """The Pod's own network."""

    vm_network_cidr: str = field(default="", name="vmNetworkCIDR")
    vm_ipv6_network_cidr: str = field(default="", name="vmIPv6NetworkCIDR")


class MultusNetwork(KubeStruct, kw_only=True):
    """A NetworkAttachmentDefinition."""

    network_name: str
    default: bool = False


class Network(KubeStruct, kw_only=True):
    """One network; exactly one source is set."""

    name: str
    pod: PodNetwork | None = None
    multus: MultusNetwork | None = None
    resource_claim: JsonObject | None = None
