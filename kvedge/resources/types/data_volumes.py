"""DataVolumes: claims that come filled, and what belongs to them (cdi.kubevirt.io/v1beta1).

Read by the controller, which fills claims where CDI is not installed, and by the clients. Touches nothing.
Names on the wire are CDI's, so that `virtctl`, manifests and other tools find here what they know.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from msgspec import Meta, field

from kvedge.resources.codec import JsonObject, KubeStruct
from kvedge.resources.data_volume_names import CDI_GROUP
from kvedge.resources.kinds import Kind
from kvedge.resources.meta import LocalObjectReference, ObjectMeta
from kvedge.resources.types.storage import PersistentVolumeClaimSpec

CDI_VERSION: Final = "v1beta1"
# The one CDIConfig.
CONFIG_NAME: Final = "config"
# A part of 1, with three decimals: CDI's own pattern.
Fraction = Annotated[str, Meta(pattern=r"^(0(?:\.\d{1,3})?|1)$")]


class CdiCondition(KubeStruct, kw_only=True):
    """One condition; the heartbeat is when its reason or message changed."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    last_heartbeat_time: str | None = None


class ObjectName(KubeStruct, kw_only=True):
    """A claim or a snapshot; without a namespace it is in that of the object that names it."""

    name: str = ""
    namespace: str = ""


class DataVolumeSourceHttp(KubeStruct, kw_only=True):
    """A disk image or an archive at an http or https URL."""

    url: str = ""
    secret_ref: str = ""
    cert_config_map: str = ""
    extra_headers: list[str] = []
    secret_extra_headers: list[str] = []
    checksum: str = ""
    insecure_skip_verify: bool | None = None


class DataVolumeSourceS3(KubeStruct, kw_only=True):
    """A disk image in a store that speaks S3."""

    url: str = ""
    secret_ref: str = ""
    cert_config_map: str = ""


class DataVolumeSourceGcs(KubeStruct, kw_only=True):
    """A disk image in Google's store."""

    url: str = ""
    secret_ref: str = ""


class RegistryPlatform(KubeStruct, kw_only=True):
    """Which image of an index is meant."""

    architecture: str = ""


class DataVolumeSourceRegistry(KubeStruct, kw_only=True):
    """A container disk in a registry."""

    url: str | None = None
    image_stream: str | None = None
    pull_method: str | None = None
    secret_ref: str | None = None
    cert_config_map: str | None = None
    platform: RegistryPlatform | None = None


class DataVolumeBlankImage(KubeStruct, kw_only=True):
    """An empty disk."""


class DataVolumeSourceUpload(KubeStruct, kw_only=True):
    """A disk image that a client sends."""


class DataVolumeOrigin(KubeStruct, kw_only=True):
    """Where the data comes from; exactly one is set."""

    http: DataVolumeSourceHttp | None = None
    s3: DataVolumeSourceS3 | None = None
    gcs: DataVolumeSourceGcs | None = None
    registry: DataVolumeSourceRegistry | None = None
    pvc: ObjectName | None = None
    upload: DataVolumeSourceUpload | None = None
    blank: DataVolumeBlankImage | None = None
    snapshot: ObjectName | None = None
    imageio: JsonObject | None = None
    vddk: JsonObject | None = None


class DataVolumeSourceRef(KubeStruct, kw_only=True):
    """A DataSource, which says where the data comes from."""

    kind: str = ""
    name: str = ""
    namespace: str | None = None


class StorageSpec(PersistentVolumeClaimSpec, kw_only=True):
    """The claim, by what the disk needs: what is left out comes from the StorageProfile of the class."""


class DataVolumeSpec(KubeStruct, kw_only=True):
    """What is wanted. A change has no effect on a claim that is made, nor on data that is there."""

    source: DataVolumeOrigin | None = None
    source_ref: DataVolumeSourceRef | None = None
    pvc: PersistentVolumeClaimSpec | None = None
    storage: StorageSpec | None = None
    content_type: str = ""
    preallocation: bool | None = None
    priority_class_name: str = ""
    service_account_name: str | None = None
    checkpoints: list[JsonObject] = []
    final_checkpoint: bool | None = None


class DataVolumeStatus(KubeStruct, kw_only=True):
    """What became of it."""

    claim_name: str = ""
    phase: str = ""
    progress: str = ""
    restart_count: int = 0
    conditions: list[CdiCondition] = []


class DataVolume(KubeStruct, kw_only=True):
    """cdi.kubevirt.io/v1beta1 DataVolume: a claim of its name, and the data in it."""

    KIND: ClassVar[Kind] = Kind(CDI_GROUP, CDI_VERSION, "DataVolume", "datavolumes")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: DataVolumeSpec = field(default_factory=DataVolumeSpec)
    status: DataVolumeStatus = field(default_factory=DataVolumeStatus)


class DataVolumeTemplate(KubeStruct, kw_only=True):
    """A DataVolume that is made with its VM, and goes with it."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: DataVolumeSpec = field(default_factory=DataVolumeSpec)
    status: JsonObject | None = None


class DataSourceName(KubeStruct, kw_only=True):
    """Another DataSource of the same namespace."""

    name: str = ""
    namespace: str = ""


class DataSourceSource(KubeStruct, kw_only=True):
    """What to clone; exactly one is set."""

    pvc: ObjectName | None = None
    snapshot: ObjectName | None = None
    data_source: DataSourceName | None = None


class DataSourceSpec(KubeStruct, kw_only=True):
    """Where it points."""

    source: DataSourceSource = field(default_factory=DataSourceSource)


class DataSourceStatus(KubeStruct, kw_only=True):
    """What it points at in the end."""

    source: DataSourceSource = field(default_factory=DataSourceSource)
    conditions: list[CdiCondition] = []


class DataSource(KubeStruct, kw_only=True):
    """cdi.kubevirt.io/v1beta1 DataSource: a name for what is cloned, which may point elsewhere tomorrow."""

    KIND: ClassVar[Kind] = Kind(CDI_GROUP, CDI_VERSION, "DataSource", "datasources")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: DataSourceSpec = field(default_factory=DataSourceSpec)
    status: DataSourceStatus = field(default_factory=DataSourceStatus)


class ClaimPropertySet(KubeStruct, kw_only=True):
    """Access modes that go with a volume mode; the first set of a profile is the default."""

    access_modes: list[str] = []
    volume_mode: str | None = None


class StorageProfileSpec(KubeStruct, kw_only=True):
    """What somebody knows better than kvedge does."""

    claim_property_sets: list[ClaimPropertySet] = []
    clone_strategy: str | None = None
    data_import_cron_source_format: str | None = None
    snapshot_class: str | None = None


class StorageProfileStatus(KubeStruct, kw_only=True):
    """What holds for the class."""

    storage_class: str | None = None
    provisioner: str | None = None
    claim_property_sets: list[ClaimPropertySet] = []
    clone_strategy: str | None = None
    data_import_cron_source_format: str | None = None
    snapshot_class: str | None = None
    conditions: list[CdiCondition] = []


class StorageProfile(KubeStruct, kw_only=True):
    """cdi.kubevirt.io/v1beta1 StorageProfile: what claims of the class of its name can be."""

    KIND: ClassVar[Kind] = Kind(CDI_GROUP, CDI_VERSION, "StorageProfile", "storageprofiles", namespaced=False)
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: StorageProfileSpec = field(default_factory=StorageProfileSpec)
    status: StorageProfileStatus = field(default_factory=StorageProfileStatus)


class FilesystemOverhead(KubeStruct, kw_only=True):
    """The part of a claim that its file system itself may take, by storage class."""

    global_: Fraction | None = field(default=None, name="global")
    storage_class: dict[str, Fraction] = {}


class ImportProxy(KubeStruct, kw_only=True):
    """A proxy between importers and the network."""

    http_proxy: str | None = field(default=None, name="HTTPProxy")
    https_proxy: str | None = field(default=None, name="HTTPSProxy")
    no_proxy: str | None = None
    trusted_ca_proxy: str | None = field(default=None, name="trustedCAProxy")


class CdiConfigSpec(KubeStruct, kw_only=True):
    """What somebody has set."""

    upload_proxy_url_override: str | None = field(default=None, name="uploadProxyURLOverride")
    filesystem_overhead: FilesystemOverhead | None = None
    preallocation: bool | None = None
    insecure_registries: list[str] = []
    image_pull_secrets: list[LocalObjectReference] = []
    pod_resource_requirements: JsonObject | None = None
    import_proxy: ImportProxy | None = None
    scratch_space_storage_class: str | None = None
    feature_gates: list[str] = []
    data_volume_ttl_seconds: int | None = field(default=None, name="dataVolumeTTLSeconds")
    tls_security_profile: JsonObject | None = None
    log_verbosity: int | None = None


class CdiConfigStatus(KubeStruct, kw_only=True):
    """What holds."""

    upload_proxy_url: str | None = field(default=None, name="uploadProxyURL")
    upload_proxy_ca: str | None = field(default=None, name="uploadProxyCA")
    filesystem_overhead: FilesystemOverhead | None = None
    preallocation: bool | None = None
    default_pod_resource_requirements: JsonObject | None = None
    import_proxy: ImportProxy | None = None
    scratch_space_storage_class: str | None = None
    image_pull_secrets: list[LocalObjectReference] = []


class CdiConfig(KubeStruct, kw_only=True):
    """cdi.kubevirt.io/v1beta1 CDIConfig; the one that counts is called `config`."""

    KIND: ClassVar[Kind] = Kind(CDI_GROUP, CDI_VERSION, "CDIConfig", "cdiconfigs", namespaced=False)
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: CdiConfigSpec = field(default_factory=CdiConfigSpec)
    status: CdiConfigStatus = field(default_factory=CdiConfigStatus)


def data_volume_condition(conditions: list[CdiCondition], type_: str) -> CdiCondition | None:
    """The condition of that type, or None."""
    return next((item for item in conditions if item.type == type_), None)
