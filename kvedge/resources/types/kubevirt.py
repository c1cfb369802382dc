"""KubeVirt: the one object by which a cluster's administrator configures kvedge (kubevirt.io/v1).

Read by every role, written by users; its status is the controller's. Touches nothing. The object keeps its spec as it
was written: a value that fits no type must not hide the object from those who have to report it, so that
configuration.py reads it key by key. `KubeVirtSpec` is what may stand there, and what the CRD is made from.
"""

from __future__ import annotations

from typing import ClassVar, Final, Literal

from msgspec import field

from kvedge.resources.codec import JsonObject, KubeStruct
from kvedge.resources.kinds import Kind
from kvedge.resources.meta import Condition, LocalObjectReference, ObjectMeta
from kvedge.resources.types.kubevirt_configuration import KubeVirtConfiguration

BLOCK_UNINSTALL: Final = "BlockUninstallIfWorkloadsExist"
# The object that is made when there is none.
DEFAULT_NAME: Final = "kubevirt"
# A condition of kvedge's own: whether all nodes run the version of the control plane.
ONE_VERSION: Final = "AllNodesOfThisVersion"
# Another one: whether guests of lost nodes are started elsewhere, and which nodes have promised to end theirs.
NODES_FENCE: Final = "NodesFenceThemselves"


class WorkloadUpdateStrategy(KubeStruct, kw_only=True):
    """How running VMs get a launcher of the present release."""

    workload_update_methods: list[str] = []
    batch_eviction_size: int | None = None
    batch_eviction_interval: str | None = None


class CertificateConfig(KubeStruct, kw_only=True):
    """How long a certificate is good, and how long before its end it is renewed."""

    duration: str | None = None
    renew_before: str | None = None


class SelfSignedCertificates(KubeStruct, kw_only=True):
    """The authority and the certificates that it signs."""

    ca_rotate_interval: str | None = None
    cert_rotate_interval: str | None = None
    ca_overlap_interval: str | None = None
    ca: CertificateConfig | None = None
    server: CertificateConfig | None = None


class CertificateRotateStrategy(KubeStruct, kw_only=True):
    """How certificates are renewed."""

    self_signed: SelfSignedCertificates | None = None


class ComponentConfig(KubeStruct, kw_only=True):
    """Where components would run, and how many of each."""

    node_placement: JsonObject | None = None
    replicas: int | None = None


class CustomizePatch(KubeStruct, kw_only=True):
    """One patch of one of KubeVirt's own objects."""

    resource_name: str = ""
    resource_type: str = ""
    patch: str = ""
    type: str = ""


class CustomizeFlags(KubeStruct, kw_only=True):
    """Flags of components."""

    api: dict[str, str] = {}
    controller: dict[str, str] = {}
    handler: dict[str, str] = {}


class CustomizeComponents(KubeStruct, kw_only=True):
    """Changes to how components are deployed."""

    patches: list[CustomizePatch] = []
    flags: CustomizeFlags | None = None


class KubeVirtSpec(KubeStruct, kw_only=True):
    """What the cluster's administrator wants of kvedge."""

    image_tag: str = ""
    image_registry: str = ""
    image_pull_policy: str = ""
    image_pull_secrets: list[LocalObjectReference] = []
    monitor_namespace: str = ""
    service_monitor_namespace: str = ""
    monitor_account: str = ""
    workload_update_strategy: WorkloadUpdateStrategy | None = None
    uninstall_strategy: Literal["", "RemoveWorkloads", "BlockUninstallIfWorkloadsExist"] = ""
    certificate_rotate_strategy: CertificateRotateStrategy | None = None
    product_version: str = ""
    product_name: str = ""
    product_component: str = ""
    synchronization_port: str = ""
    configuration: KubeVirtConfiguration | None = None
    infra: ComponentConfig | None = None
    workloads: ComponentConfig | None = None
    customize_components: CustomizeComponents | None = None


class KubeVirtStatus(KubeStruct, kw_only=True):
    """What became of it."""

    phase: str = ""
    conditions: list[Condition] = []
    operator_version: str = ""
    target_kube_virt_registry: str = ""
    target_kube_virt_version: str = ""
    observed_kube_virt_registry: str = ""
    observed_kube_virt_version: str = ""
    outdated_virtual_machine_instance_workloads: int | None = None
    observed_generation: int | None = None
    default_architecture: str = ""


class KubeVirt(KubeStruct, kw_only=True):
    """kubevirt.io/v1 KubeVirt."""

    KIND: ClassVar[Kind] = Kind("kubevirt.io", "v1", "KubeVirt", "kubevirts")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: JsonObject = {}
    status: KubeVirtStatus = field(default_factory=KubeVirtStatus)

    @property
    def precedence(self) -> tuple[str, str, str]:
        """Of several objects the one with the least of these counts: the oldest."""
        meta = self.metadata
        return (meta.creation_timestamp or "", meta.namespace, meta.name)
