"""What kvedge's own roles may do: one table, for one box and for a cluster alike.

The embedded API's authorizer reads it as it is; `rbac_manifest` makes the ClusterRoles of it that a cluster gets. Pure
data. A role that calls something new gets the right for it here, and a test that runs the roles against a real
kube-apiserver with exactly these rights tells when one is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from kvedge.resources.alarms.alarm_names import ALARMS_CONFIG, RECEIVERS_SECRET
from kvedge.resources.disks.uploads import UPLOAD_AUTHORITY_SECRET, UPLOAD_PROXY_CONFIG
from kvedge.resources.manifests.policy_rules import PolicyRule
from kvedge.resources.moves.crossing import CREDENTIALS_NAMESPACE
from kvedge.resources.names import SYSTEM_NAMESPACE
from kvedge.resources.node_loss.node_lease import NODES_NAMESPACE
from kvedge.resources.role_users import API_GROUP, CONTROLLER_GROUP, HANDLER_GROUP

READ: Final = ("get", "list", "watch")
CHANGE: Final = ("create", "update", "patch")
WRITE: Final = (*CHANGE, "delete", "deletecollection")
EVERY_VERB: Final = (*READ, *WRITE)

# The api role alone may see this Secret: with it one can speak as any role.
AUTHORITY_SECRET: Final = "kvedge-ca"
# The api role, as the signer of the certificates of handlers' relays.
HANDLER_SIGNER: Final = "kvedge.io/handler-serving"
# The ConfigMap that tells handlers whom to trust, in the system's namespace; only the api role writes it.
CA_BUNDLE_NAME: Final = "kvedge-ca-bundle"
CA_BUNDLE_KEY: Final = "ca.crt"


class Limit(StrEnum):
    """What the embedded API looks at besides the rule; in a cluster the policy `kvedge-node-restriction` does."""

    NONE = ""
    OWN_NODE = "node"
    OWN_VMI = "vmi"
    OWN_LEASE = "lease"


class Right(Struct, frozen=True):
    """A rule, in one namespace only or everywhere, and what else must hold."""

    rule: PolicyRule
    namespace: str = ""
    limit: Limit = Limit.NONE


def right(
    verbs: tuple[str, ...],
    groups: str,
    resources: str,
    *,
    names: tuple[str, ...] = (),
    namespace: str = "",
    limit: Limit = Limit.NONE,
) -> Right:
    """A right, with groups and resources as words; `core` is the group without a name."""
    spelled = tuple("" if group == "core" else group for group in groups.split())
    return Right(PolicyRule(verbs, spelled, tuple(resources.split()), names), namespace, limit)


_EVERYBODY: Final = (
    # All roles follow the KubeVirt object.
    right(READ, "kubevirt.io", "kubevirts"),
)

_CONTROLLER: Final = (
    # It makes VMIs of VMs and launcher Pods of VMIs, and ends them; VMs it makes and ends for pools.
    right((*READ, "create", "patch", "delete"), "kubevirt.io", "virtualmachines"),
    right(("patch",), "kubevirt.io", "virtualmachines/status"),
    right((*READ, "create", "patch", "delete"), "kubevirt.io", "virtualmachineinstances"),
    # VMIs block their VM's deletion, and Pods their VMI's. With OwnerReferencesPermissionEnforcement nobody makes such
    # objects who may not write the owner's finalizers.
    right(("update",), "kubevirt.io", "virtualmachines/finalizers virtualmachineinstances/finalizers"),
    # It keeps the numbers of ReplicaSets, which go after their VMIs where somebody asks for that.
    right(READ, "kubevirt.io", "virtualmachineinstancereplicasets"),
    right(("patch",), "kubevirt.io", "virtualmachineinstancereplicasets/status"),
    right(("update",), "kubevirt.io", "virtualmachineinstancereplicasets/finalizers"),
    right((*READ, "patch"), "pool.kubevirt.io", "virtualmachinepools"),
    right(("patch",), "pool.kubevirt.io", "virtualmachinepools/status"),
    right(("update",), "pool.kubevirt.io", "virtualmachinepools/finalizers"),
    # It carries migrations out, and makes those that drains need; policies are chosen by labels of namespaces, too.
    right((*READ, "create", "patch", "delete"), "kubevirt.io", "virtualmachineinstancemigrations"),
    right(("patch",), "kubevirt.io", "virtualmachineinstancemigrations/status"),
    right(READ, "migrations.kubevirt.io", "migrationpolicies"),
    right(("get",), "core", "namespaces"),
    # Launchers of another release are evicted where the KubeVirt object says so.
    right(("create",), "core", "pods/eviction"),
    # It takes snapshots and puts them back; what holds one is its own.
    # It makes and deletes those of clones.
    right(
        (*READ, "create", "patch", "delete"),
        "snapshot.kubevirt.io",
        "virtualmachinesnapshots virtualmachinerestores",
    ),
    right((*READ, "create", "patch", "delete"), "snapshot.kubevirt.io", "virtualmachinesnapshotcontents"),
    right(
        ("patch",),
        "snapshot.kubevirt.io",
        "virtualmachinesnapshots/status virtualmachinesnapshotcontents/status virtualmachinerestores/status",
    ),
    right(("update",), "snapshot.kubevirt.io", "virtualmachinesnapshotcontents/finalizers"),
    # Where a storage driver takes them, it asks for VolumeSnapshots, which go with their content, and has the guest's
    # file systems frozen meanwhile.
    right((*READ, "create"), "snapshot.storage.k8s.io", "volumesnapshots"),
    right(("list",), "snapshot.storage.k8s.io", "volumesnapshotclasses"),
    # A DataVolume's claim that is made of a snapshot has the mode of its volume.
    right(("get",), "snapshot.storage.k8s.io", "volumesnapshotcontents"),
    right(
        ("update",),
        "subresources.kubevirt.io",
        "virtualmachineinstances/freeze virtualmachineinstances/unfreeze",
    ),
    # It serves exports, each by a Pod and a Service of its own, and deletes those whose time is over.
    right((*READ, "create", "delete"), "export.kubevirt.io", "virtualmachineexports"),
    right(("patch",), "export.kubevirt.io", "virtualmachineexports/status"),
    right(("update",), "export.kubevirt.io", "virtualmachineexports/finalizers"),
    right(("create", "get"), "core", "services"),
    right(READ, "snapshot.kvedge.io", "virtualmachinesnapshotschedules"),
    right(("patch",), "snapshot.kvedge.io", "virtualmachinesnapshotschedules/status"),
    # It carries clones out; one goes with the VM that it has made.
    right((*READ, "delete"), "clone.kubevirt.io", "virtualmachineclones"),
    right(("patch",), "clone.kubevirt.io", "virtualmachineclones/status"),
    right(("update",), "clone.kubevirt.io", "virtualmachineclones/finalizers"),
    # It takes KubeVirt's backups of running VMs, and serves those that somebody comes for.
    right((*READ, "patch"), "backup.kubevirt.io", "virtualmachinebackups"),
    right(READ, "backup.kubevirt.io", "virtualmachinebackuptrackers"),
    right(("patch",), "backup.kubevirt.io", "virtualmachinebackups/status virtualmachinebackuptrackers/status"),
    right(("update",), "backup.kubevirt.io", "virtualmachinebackups/finalizers"),
    # It carries backups away and brings them back, by snapshots of its own, and by schedules; of what it has made by
    # one, old objects go.
    right(READ, "backup.kvedge.io", "backuprepositories backupschedules"),
    right((*READ, "create", "delete"), "backup.kvedge.io", "backupruns backuptasks backuptests backuprestores"),
    # A restore stays for as long as a VM needs its worker.
    right(("patch",), "backup.kvedge.io", "backuprestores"),
    right(
        ("patch",),
        "backup.kvedge.io",
        "backuprepositories/status backupruns/status backuprestores/status backuptasks/status backupschedules/status"
        " backuptests/status",
    ),
    right(
        ("update",),
        "backup.kvedge.io",
        "backupruns/finalizers backuprestores/finalizers backuptasks/finalizers backupschedules/finalizers"
        " backuptests/finalizers",
    ),
    # A launcher whose guest gets a NIC, or has released one, is on other networks by its annotation.
    right((*READ, "create", "patch", "delete"), "core", "pods"),
    # A VM's disks lie on claims, and a VM waits for its claims; the controller makes the claims of DataVolumes.
    # An annotation tells which dump of a guest's memory is in one.
    # A restore in place deletes the claim of the old data, after its volume was told to stay.
    right((*READ, "create", "patch", "delete"), "core", "persistentvolumeclaims"),
    # Where a launcher's hotplugged volumes can come to; a restore in place gives a claim another volume.
    right(("get", "patch"), "core", "persistentvolumes"),
    # On which nodes a launcher's networks are, and which of their addresses is which guest's.
    right(("get", "patch"), "k8s.cni.cncf.io", "network-attachment-definitions"),
    right(READ, "storage.k8s.io", "storageclasses"),
    # It fills claims where CDI is not installed, which it tells by the kinds.
    right((*READ, "create", "patch", "delete"), "cdi.kubevirt.io", "datavolumes"),
    right((*READ, "create"), "cdi.kubevirt.io", "storageprofiles"),
    right((*READ, "create", "patch"), "cdi.kubevirt.io", "cdiconfigs"),
    right((*READ, "create", "patch"), "cdi.kubevirt.io", "datasources"),
    right((*READ, "patch"), "cdi.kubevirt.io", "dataimportcrons"),
    right(("patch",), "cdi.kubevirt.io", "datavolumes/status storageprofiles/status"),
    right(("get",), "apiextensions.k8s.io", "customresourcedefinitions"),
    # Kubernetes lets only those block an owner's deletion that may write its finalizers.
    right(("update",), "cdi.kubevirt.io", "datavolumes/finalizers"),
    # It keeps the spec that a run was started from, until the next run is, and those that VMs of a pool are made of.
    right((*READ, "create", "delete"), "apps", "controllerrevisions"),
    # It keeps what VMs name as their instance type and preference, and brings the ready-made ones.
    right(("get",), "instancetype.kubevirt.io", "virtualmachineinstancetypes virtualmachinepreferences"),
    right(
        ("get", "list", "create", "patch", "delete"),
        "instancetype.kubevirt.io",
        "virtualmachineclusterinstancetypes virtualmachineclusterpreferences",
    ),
    # The readiness gate of a launcher Pod is the controller's to set.
    right(("patch",), "core", "pods/status"),
    # A launcher's Pod grows and shrinks with its guest.
    right(("patch",), "core", "pods/resize"),
    # It keeps the KubeVirt object's status true, and makes the object where there is none.
    right(("create",), "kubevirt.io", "kubevirts"),
    right(("patch",), "kubevirt.io", "kubevirts/status"),
    # It takes the label kubevirt.io/schedulable from a node whose handler says nothing any more.
    right((*READ, "patch"), "core", "nodes"),
    # Medik8s' word of nodes that it has reset.
    right(READ, "self-node-remediation.medik8s.io", "selfnoderemediations"),
    right(("create", "patch"), "core", "events"),
    # Certificates of uploads' workers and of exporters, in the namespaces of their claims, tokens of exports, and the
    # authority that signs.
    right(("create",), "core", "secrets"),
    right(("get",), "core", "secrets", names=(UPLOAD_AUTHORITY_SECRET,), namespace=SYSTEM_NAMESPACE),
    # Where clients upload to, which it copies into CDIConfig.
    right(("get",), "core", "configmaps", names=(UPLOAD_PROXY_CONFIG,), namespace=SYSTEM_NAMESPACE),
    # The election.
    right(("get", "create", "update"), "coordination.k8s.io", "leases", namespace=SYSTEM_NAMESPACE),
    # The leases of nodes that fence themselves.
    right((*READ, "patch"), "core", "configmaps", namespace=NODES_NAMESPACE),
    # It keeps alarms in one ConfigMap, shows them as a condition of nodes, and reads who is to be told of them.
    right(("create",), "core", "configmaps", namespace=SYSTEM_NAMESPACE),
    right(("get", "patch"), "core", "configmaps", names=(ALARMS_CONFIG,), namespace=SYSTEM_NAMESPACE),
    right(("get",), "core", "secrets", names=(RECEIVERS_SECRET,), namespace=SYSTEM_NAMESPACE),
    right(("patch",), "core", "nodes/status"),
)

_HANDLER: Final = (
    right(READ, "kubevirt.io", "virtualmachineinstances"),
    right(("get",), "core", "nodes"),
    right(("create", "patch"), "core", "events"),
    # It speaks for one node: its Node and the VMIs that are on it.
    right(("patch",), "core", "nodes", limit=Limit.OWN_NODE),
    right(("patch",), "kubevirt.io", "virtualmachineinstances", limit=Limit.OWN_VMI),
    # By its lease a node promises to end guests when it is lost.
    right(("get", "create", "patch"), "core", "configmaps", namespace=NODES_NAMESPACE, limit=Limit.OWN_LEASE),
    # The networks that it joins launchers to where there is no Multus.
    right(("get",), "k8s.cni.cncf.io", "network-attachment-definitions"),
    # What users have left there for guests that leave for other boxes.
    right(("get",), "core", "secrets", namespace=CREDENTIALS_NAMESPACE),
    # Its relay's certificate: it asks, and the api role signs for the node that the API server knows it by.
    right(("create", "get"), "certificates.k8s.io", "certificatesigningrequests"),
    right(("get",), "core", "configmaps", names=(CA_BUNDLE_NAME,), namespace=SYSTEM_NAMESPACE),
)

_API: Final = (
    # It carries out what a user asks of a VM.
    right(("get", "list", "patch"), "kubevirt.io", "virtualmachines virtualmachineinstances"),
    right(("patch",), "kubevirt.io", "virtualmachines/status"),
    right(("list",), "core", "pods"),
    # Where a stream goes, and whether a guest has another node to go to.
    right(("get", "list"), "core", "nodes"),
    # Migrations that users ask for, and whether one is under way.
    right(("list", "create"), "kubevirt.io", "virtualmachineinstancemigrations"),
    # While somebody scrapes, it follows what series are made of.
    right(("watch",), "kubevirt.io", "virtualmachines virtualmachineinstances virtualmachineinstancemigrations"),
    right(("list", "watch"), "snapshot.kubevirt.io", "virtualmachinesnapshots"),
    # Which front proxy to believe about the name of a caller, and what callers may do.
    right(("get",), "core", "configmaps", names=("extension-apiserver-authentication",), namespace="kube-system"),
    right(("create",), "authorization.k8s.io", "subjectaccessreviews"),
    # What VMIs get when they are made.
    right(READ, "kubevirt.io", "virtualmachineinstancepresets"),
    # The KubeVirt object may not go before them.
    right(("list",), "kubevirt.io", "virtualmachineinstancereplicasets"),
    # Its own registration.
    right(("get", "create"), "core", "namespaces"),
    right(("get", "list", "create", "update"), "apiextensions.k8s.io", "customresourcedefinitions"),
    right(("get", "create", "update"), "apiregistration.k8s.io", "apiservices"),
    right(
        ("get", "create", "update"),
        "admissionregistration.k8s.io",
        "validatingwebhookconfigurations mutatingwebhookconfigurations"
        " validatingadmissionpolicies validatingadmissionpolicybindings",
    ),
    right(("get", "create", "update"), "core", "services endpoints configmaps", namespace=SYSTEM_NAMESPACE),
    # It deletes its own slice when it ends, and those of other api roles that say nothing any more.
    right(
        ("get", "list", "create", "update", "delete"), "discovery.k8s.io", "endpointslices", namespace=SYSTEM_NAMESPACE
    ),
    # The authority of the roles' certificates, which it alone holds, the requests for one, and uploads' authority.
    right(("create",), "core", "secrets", namespace=SYSTEM_NAMESPACE),
    right(
        ("get", "update"),
        "core",
        "secrets",
        names=(AUTHORITY_SECRET, UPLOAD_AUTHORITY_SECRET),
        namespace=SYSTEM_NAMESPACE,
    ),
    # A DataVolume that names a DataSource copies what that points at: its user needs rights in that namespace.
    right(("get",), "cdi.kubevirt.io", "datasources"),
    # What VMs name as their instance type and preference, their copies of these, and what volumes say of them.
    right(
        ("get",),
        "instancetype.kubevirt.io",
        "virtualmachineinstancetypes virtualmachineclusterinstancetypes"
        " virtualmachinepreferences virtualmachineclusterpreferences",
    ),
    right(("get",), "apps", "controllerrevisions"),
    right(("get",), "cdi.kubevirt.io", "datavolumes"),
    right(("get",), "snapshot.storage.k8s.io", "volumesnapshots"),
    # How large a claim must be for a dump of a guest's memory.
    right(("get",), "cdi.kubevirt.io", "cdiconfigs"),
    # The claim that an upload or a dump goes into, and the worker that takes it; what is exported, and the Pod that
    # serves it.
    right(("get",), "core", "persistentvolumeclaims pods"),
    # How large the disks of VMs are, for those who scrape metrics.
    right(READ, "core", "persistentvolumeclaims"),
    right(("get",), "export.kubevirt.io", "virtualmachineexports"),
    right((*READ, "delete"), "certificates.k8s.io", "certificatesigningrequests"),
    right(("patch",), "certificates.k8s.io", "certificatesigningrequests/approval certificatesigningrequests/status"),
    right(("approve", "sign"), "certificates.k8s.io", "signers", names=(HANDLER_SIGNER,)),
)

ROLE_RIGHTS: Final[Mapping[str, tuple[Right, ...]]] = {
    CONTROLLER_GROUP: (*_EVERYBODY, *_CONTROLLER),
    HANDLER_GROUP: (*_EVERYBODY, *_HANDLER),
    API_GROUP: (*_EVERYBODY, *_API),
}
