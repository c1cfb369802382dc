"""kvedge's roles on a real API server with the rights of k3s/rbac: nothing that they do is refused, and none is idle.

The server's audit log tells what they asked for. The embedded API evaluates the same table; both are asked the same
questions here, right by right.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.api.api_service import ApiRole
from kvedge.controller.controller_service import ControllerRole
from kvedge.handler.launchers.relay_service import RelayConfig, RelayService
from kvedge.kube.errors import KubeError
from kvedge.kube.events import EventRecorder
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch
from kvedge.resources.alarms.node_health import HOST_HEALTH, NodeHealth, health_text
from kvedge.resources.codec import JsonObject
from kvedge.resources.manifests.policy_rules import PolicyRule
from kvedge.resources.manifests.role_rights import ROLE_RIGHTS, Limit
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.names import HANDLER_ADDRESS
from kvedge.resources.role_users import (
    API_GROUP,
    API_USER,
    CONTROLLER_GROUP,
    CONTROLLER_USER,
    HANDLER_GROUP,
    handler_user,
)
from kvedge.resources.types.core import Event, Node
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.contract.controller.played_node import NODE, PlayedNode
from tests.contract.guest_move import move_guest
from tests.support.api_servers import Kubectl
from tests.support.builders import CONFIG, small_vmi, vm_of
from tests.support.echo_door import EchoDoor
from tests.support.either_server import EMBEDDED, REAL, EitherServer, running
from tests.support.kube_apiserver import RealApiServer, RoleCall, reachable_address
from tests.support.role_rights import unused_rights
from tests.support.waiting import wait_until

pytestmark = pytest.mark.contract
_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_START = "/apis/subresources.kubevirt.io/v1/namespaces/{}/virtualmachines/web/{}"
_PAUSE = "/apis/subresources.kubevirt.io/v1/namespaces/{}/virtualmachineinstances/web/pause"
_USERS = {CONTROLLER_GROUP: CONTROLLER_USER, API_GROUP: API_USER, HANDLER_GROUP: handler_user(NODE)}


# What one short life of a VM does not ask for, by the reason.
_USED_ELSEWHERE = {
    "alarms (controller/test_alarms, under these very rights)": (
        "kvedge:controllers: patch configmaps kvedge-alarms in kvedge-system",
    ),
    "VMs that run from their backup (machine/volumes/test_live_restores, on one box)": (
        "kvedge:controllers: patch backuprestores.backup.kvedge.io",
    ),
    "guests that grow (controller/test_pod_resizes, under these very rights)": (
        "kvedge:controllers: patch pods/resize",
    ),
    "DataImportCrons (test_data_import_crons, under these very rights)": (
        "kvedge:controllers: create datasources.cdi.kubevirt.io",
        "kvedge:controllers: patch dataimportcrons.cdi.kubevirt.io",
    ),
    "snapshots and restores (controller/test_snapshots, under these very rights)": (
        "kvedge:controllers: delete persistentvolumeclaims",
        "kvedge:controllers: patch persistentvolumes",
        "kvedge:controllers: create virtualmachinesnapshotcontents.snapshot.kubevirt.io",
        "kvedge:controllers: delete virtualmachinesnapshotcontents.snapshot.kubevirt.io",
        "kvedge:controllers: patch virtualmachinerestores.snapshot.kubevirt.io",
        "kvedge:controllers: patch virtualmachinerestores/status.snapshot.kubevirt.io",
        "kvedge:controllers: patch virtualmachinesnapshotcontents.snapshot.kubevirt.io",
        "kvedge:controllers: patch virtualmachinesnapshotcontents/status.snapshot.kubevirt.io",
        "kvedge:controllers: patch virtualmachinesnapshots.snapshot.kubevirt.io",
        "kvedge:controllers: patch virtualmachinesnapshots/status.snapshot.kubevirt.io",
        "kvedge:controllers: update virtualmachinesnapshotcontents/finalizers.snapshot.kubevirt.io",
    ),
    "snapshots that a storage driver keeps (controller/test_volume_snapshots, under these very rights)": (
        "kvedge:controllers: create volumesnapshots.snapshot.storage.k8s.io",
        "kvedge:controllers: read volumesnapshotclasses.snapshot.storage.k8s.io",
        "kvedge:controllers: update virtualmachineinstances/freeze.subresources.kubevirt.io",
        "kvedge:controllers: update virtualmachineinstances/unfreeze.subresources.kubevirt.io",
    ),
    "DataVolumes of VolumeSnapshots (machine/volumes/test_volume_snapshots_box, under these very rights)": (
        "kvedge:controllers: read volumesnapshotcontents.snapshot.storage.k8s.io",
    ),
    "exports (controller/test_exports, under these very rights)": (
        "kvedge:apis: read virtualmachineexports.export.kubevirt.io",
        "kvedge:controllers: create services",
        "kvedge:controllers: delete virtualmachineexports.export.kubevirt.io",
        "kvedge:controllers: patch virtualmachineexports/status.export.kubevirt.io",
        "kvedge:controllers: read services",
        "kvedge:controllers: update virtualmachineexports/finalizers.export.kubevirt.io",
    ),
    "clones (controller/test_vm_clones, under these very rights)": (
        "kvedge:controllers: create virtualmachinerestores.snapshot.kubevirt.io",
        "kvedge:controllers: create virtualmachinesnapshots.snapshot.kubevirt.io",
        "kvedge:controllers: delete virtualmachineclones.clone.kubevirt.io",
        "kvedge:controllers: delete virtualmachinerestores.snapshot.kubevirt.io",
        "kvedge:controllers: delete virtualmachinesnapshots.snapshot.kubevirt.io",
        "kvedge:controllers: patch virtualmachineclones/status.clone.kubevirt.io",
        "kvedge:controllers: update virtualmachineclones/finalizers.clone.kubevirt.io",
    ),
    "VMs name types (api/test_instancetypes and controller/test_instancetypes, under these very rights)": (
        "kvedge:apis: read controllerrevisions.apps",
        "kvedge:apis: read datavolumes.cdi.kubevirt.io",
        "kvedge:apis: read virtualmachineclusterinstancetypes.instancetype.kubevirt.io",
        "kvedge:apis: read virtualmachineclusterpreferences.instancetype.kubevirt.io",
        "kvedge:apis: read virtualmachineinstancetypes.instancetype.kubevirt.io",
        "kvedge:apis: read virtualmachinepreferences.instancetype.kubevirt.io",
        "kvedge:apis: read volumesnapshots.snapshot.storage.k8s.io",
        "kvedge:controllers: create virtualmachineclusterinstancetypes.instancetype.kubevirt.io",
        "kvedge:controllers: create virtualmachineclusterpreferences.instancetype.kubevirt.io",
        "kvedge:controllers: delete virtualmachineclusterinstancetypes.instancetype.kubevirt.io",
        "kvedge:controllers: delete virtualmachineclusterpreferences.instancetype.kubevirt.io",
        "kvedge:controllers: patch virtualmachineclusterinstancetypes.instancetype.kubevirt.io",
        "kvedge:controllers: patch virtualmachineclusterpreferences.instancetype.kubevirt.io",
        "kvedge:controllers: read virtualmachineclusterinstancetypes.instancetype.kubevirt.io",
        "kvedge:controllers: read virtualmachineclusterpreferences.instancetype.kubevirt.io",
        "kvedge:controllers: read virtualmachineinstancetypes.instancetype.kubevirt.io",
        "kvedge:controllers: read virtualmachinepreferences.instancetype.kubevirt.io",
    ),
    "a dump of a guest's memory needs room (api/test_memory_dumps, under these very rights)": (
        "kvedge:apis: read cdiconfigs.cdi.kubevirt.io",
    ),
    "KubeVirt's backups (controller/test_vm_backups, under these very rights)": (
        "kvedge:controllers: create virtualmachineexports.export.kubevirt.io",
        "kvedge:controllers: patch virtualmachinebackups.backup.kubevirt.io",
        "kvedge:controllers: patch virtualmachinebackups/status.backup.kubevirt.io",
        "kvedge:controllers: patch virtualmachinebackuptrackers/status.backup.kubevirt.io",
        "kvedge:controllers: update virtualmachinebackups/finalizers.backup.kubevirt.io",
    ),
    "backups (controller/test_backups and test_backup_schedules, under these very rights)": (
        "kvedge:controllers: create backupruns.backup.kvedge.io",
        "kvedge:controllers: create backuprestores.backup.kvedge.io",
        "kvedge:controllers: create backuptasks.backup.kvedge.io",
        "kvedge:controllers: create backuptests.backup.kvedge.io",
        "kvedge:controllers: delete backuptests.backup.kvedge.io",
        "kvedge:controllers: delete backuprestores.backup.kvedge.io",
        "kvedge:controllers: patch backuptests/status.backup.kvedge.io",
        "kvedge:controllers: update backuptests/finalizers.backup.kvedge.io",
        "kvedge:controllers: delete backupruns.backup.kvedge.io",
        "kvedge:controllers: delete backuptasks.backup.kvedge.io",
        "kvedge:controllers: patch backuprepositories/status.backup.kvedge.io",
        "kvedge:controllers: patch backupschedules/status.backup.kvedge.io",
        "kvedge:controllers: patch backuptasks/status.backup.kvedge.io",
        "kvedge:controllers: update backupschedules/finalizers.backup.kvedge.io",
        "kvedge:controllers: update backuptasks/finalizers.backup.kvedge.io",
        "kvedge:controllers: patch backuprestores/status.backup.kvedge.io",
        "kvedge:controllers: patch backupruns/status.backup.kvedge.io",
        "kvedge:controllers: update backuprestores/finalizers.backup.kvedge.io",
        "kvedge:controllers: update backupruns/finalizers.backup.kvedge.io",
    ),
    "snapshot schedules (controller/test_snapshot_schedules, under these very rights)": (
        "kvedge:controllers: patch virtualmachinesnapshotschedules/status.snapshot.kvedge.io",
    ),
    "a DataVolume names a DataSource (test_clones, under these very rights)": (
        "kvedge:apis: read datasources.cdi.kubevirt.io",
    ),
    "a later version, or another authority, changes what is registered": (
        "kvedge:apis: update apiservices.apiregistration.k8s.io",
        "kvedge:apis: update configmaps in kvedge-system",
        "kvedge:apis: update mutatingwebhookconfigurations.admissionregistration.k8s.io",
        "kvedge:apis: update secrets kvedge-ca in kvedge-system",
        "kvedge:apis: update services in kvedge-system",
        "kvedge:apis: update validatingadmissionpolicies.admissionregistration.k8s.io",
        "kvedge:apis: update validatingadmissionpolicybindings.admissionregistration.k8s.io",
        "kvedge:apis: update validatingwebhookconfigurations.admissionregistration.k8s.io",
    ),
    "a server comes again at another address, or goes": (
        "kvedge:apis: delete endpointslices.discovery.k8s.io in kvedge-system",
        "kvedge:apis: update endpoints in kvedge-system",
        "kvedge:apis: update endpointslices.discovery.k8s.io in kvedge-system",
    ),
    "a cluster without what this one begins with": (
        "kvedge:apis: create customresourcedefinitions.apiextensions.k8s.io",
        "kvedge:apis: create namespaces",
    ),
    "the API server asks for these itself, when a request is approved and signed": (
        "kvedge:apis: approve signers.certificates.k8s.io kvedge.io/handler-serving",
        "kvedge:apis: sign signers.certificates.k8s.io kvedge.io/handler-serving",
    ),
    "a request for a certificate is left over": ("kvedge:apis: delete certificatesigningrequests.certificates.k8s.io",),
    "a NIC comes while a guest runs (test_nic_hotplug, under these very rights)": ("kvedge:controllers: patch pods",),
    "a VM starts on a network of Multus (the cluster tier, under these very rights)": (
        "kvedge:controllers: read network-attachment-definitions.k8s.cni.cncf.io",
    ),
    "a VM starts on a network that kvedge joins it to (test_lan of the cluster tier, under these very rights)": (
        "kvedge:controllers: patch network-attachment-definitions.k8s.cni.cncf.io",
        "kvedge:handlers: read network-attachment-definitions.k8s.cni.cncf.io",
    ),
    "the API server asks for these itself, when a VMI and its Pod are made (it is switched on here)": (
        "kvedge:controllers: update virtualmachineinstances/finalizers.kubevirt.io",
        "kvedge:controllers: update virtualmachines/finalizers.kubevirt.io",
    ),
    "somebody deletes the KubeVirt object (test_kubevirt_object, under these very rights)": (
        "kvedge:apis: read virtualmachineinstancereplicasets.kubevirt.io",
    ),
    "somebody forwards a port to a guest": ("kvedge:apis: read pods",),
    "a node is lost, and an event counted up": ("kvedge:controllers: patch events", "kvedge:controllers: patch nodes"),
    "somebody uploads, and the authority of uploads is renewed": (
        "kvedge:apis: read persistentvolumeclaims",
        "kvedge:apis: update secrets kvedge-upload-ca in kvedge-system",
        "kvedge:controllers: create secrets",
        "kvedge:controllers: read secrets kvedge-upload-ca in kvedge-system",
    ),
    "DataVolumes, and storage classes with their profiles (test_data_volumes, under these very rights)": (
        "kvedge:controllers: create datavolumes.cdi.kubevirt.io",
        "kvedge:controllers: create persistentvolumeclaims",
        "kvedge:controllers: create storageprofiles.cdi.kubevirt.io",
        "kvedge:controllers: delete datavolumes.cdi.kubevirt.io",
        "kvedge:controllers: patch datasources.cdi.kubevirt.io",
        "kvedge:controllers: patch datavolumes/status.cdi.kubevirt.io",
        "kvedge:controllers: patch persistentvolumeclaims",
        "kvedge:controllers: patch storageprofiles/status.cdi.kubevirt.io",
        "kvedge:controllers: update datavolumes/finalizers.cdi.kubevirt.io",
    ),
    "a pool is kept (test_pools, under these very rights)": (
        "kvedge:controllers: create virtualmachines.kubevirt.io",
        "kvedge:controllers: delete virtualmachines.kubevirt.io",
        "kvedge:controllers: patch datavolumes.cdi.kubevirt.io",
        "kvedge:controllers: patch virtualmachinepools.pool.kubevirt.io",
        "kvedge:controllers: patch virtualmachinepools/status.pool.kubevirt.io",
        "kvedge:controllers: update virtualmachinepools/finalizers.pool.kubevirt.io",
    ),
    "a ReplicaSet is kept (test_replica_sets, under these very rights)": (
        "kvedge:controllers: patch virtualmachineinstancereplicasets/status.kubevirt.io",
        "kvedge:controllers: update virtualmachineinstancereplicasets/finalizers.kubevirt.io",
    ),
    "a node is emptied, and a VMI has moved often (test_evacuation and test_migrations, under these very rights)": (
        "kvedge:controllers: create virtualmachineinstancemigrations.kubevirt.io",
        "kvedge:controllers: delete virtualmachineinstancemigrations.kubevirt.io",
    ),
    "a launcher of another release is evicted (test_workload_updates, under these very rights)": (
        "kvedge:controllers: create pods/eviction",
    ),
    "a VM starts with a hotplugged volume (the cluster tier, under these very rights)": (
        "kvedge:controllers: read persistentvolumes",
    ),
    "a node fences itself (test_fencing of the cluster tier, under these very rights)": (
        "kvedge:controllers: patch configmaps in kvedge-nodes",
        "kvedge:handlers: create configmaps in kvedge-nodes",
        "kvedge:handlers: patch configmaps in kvedge-nodes",
        "kvedge:handlers: read configmaps in kvedge-nodes",
    ),
    "a guest leaves for another box (controller/test_two_boxes, under these very rights)": (
        "kvedge:handlers: read secrets in kvedge-crossings",
    ),
    "a VM starts again from a changed spec": ("kvedge:controllers: delete controllerrevisions.apps",),
    "the handler is played here: its own loops need a kubelet and QEMU": (
        "kvedge:handlers: read kubevirts.kubevirt.io",
        "kvedge:handlers: read nodes",
        "kvedge:handlers: read virtualmachineinstances.kubevirt.io",
    ),
}


@pytest.fixture(scope="module", params=[EMBEDDED, REAL])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EitherServer]:
    # As OpenShift has it: only those block an owner's deletion that may write its finalizers.
    enforced = "--enable-admission-plugins=OwnerReferencesPermissionEnforcement"
    with running(request.param, tmp_path_factory.mktemp(request.param), enforced) as server:
        yield server


@pytest.fixture(scope="module")
def api(server: EitherServer) -> Iterator[ApiRole]:
    host = reachable_address() if server.kind == REAL else "127.0.0.1"
    role = ApiRole(server.kubeconfig_of(API_USER, API_GROUP), f"{host}:0")
    role.start()
    yield role
    role.stop()


@pytest.fixture(scope="module")
def controller(server: EitherServer, api: ApiRole) -> Iterator[ControllerRole]:
    role = ControllerRole(server.kubeconfig_of(CONTROLLER_USER, CONTROLLER_GROUP), CONFIG, leader_election=True)
    role.start()
    wait_until(lambda: role.ready, "the controller leads")
    yield role
    role.stop()


@pytest.fixture(scope="module")
def handler(server: EitherServer) -> Iterator[KubeClient]:
    client = KubeClient.from_kubeconfig(server.kubeconfig_of(handler_user(NODE), HANDLER_GROUP))
    yield client
    client.close()


@pytest.fixture(scope="module")
def calls(server: EitherServer, api: ApiRole, controller: ControllerRole, handler: KubeClient) -> list[RoleCall]:
    """What the roles have asked of a real server while a VM lived; nothing is told by the embedded one."""
    server.admin.create(Node(metadata=ObjectMeta(name=NODE)))
    relay = RelayService(handler, RelayConfig(NODE), EchoDoor())
    relay.start()
    wait_until(lambda: relay.address, "the relay serves")
    # A disk that is full is an alarm, which the controller shows on the Node.
    health = health_text(NodeHealth(disks={"/": 99}))
    annotations = {HANDLER_ADDRESS: relay.address, HOST_HEALTH: health}
    handler.patch(Node, "", NODE, MergePatch({"metadata": {"annotations": annotations}}))
    _live_a_life(server, handler)
    relay.stop()
    assert controller.failure() is None
    assert api.failure() is None
    if not isinstance(server.server, RealApiServer):
        return []
    real = server.server
    # A short life may end before the controller has to say again that it leads, or has looked at the KubeVirt object.
    elsewhere = {each for rights in _USED_ELSEWHERE.values() for each in rights}
    with contextlib.suppress(AssertionError):
        wait_until(lambda: unused_rights(real.role_calls()) <= elsewhere, "all rights are used", 60, 1.0)
    return real.role_calls()


def test_no_role_is_refused_what_it_does(server: EitherServer, calls: list[RoleCall]) -> None:
    if server.kind == REAL:
        assert {call.group for call in calls} == set(ROLE_RIGHTS)
    assert [call for call in calls if call.code in (401, 403)] == []


def test_no_role_has_a_right_that_it_never_uses(server: EitherServer, calls: list[RoleCall]) -> None:
    elsewhere = {each for rights in _USED_ELSEWHERE.values() for each in rights}
    assert elsewhere <= unused_rights([]), "the list names what is no right any more"
    if server.kind == REAL:
        idle = unused_rights(calls) - elsewhere
        assert not idle, "\n".join(sorted(idle))


def _live_a_life(server: EitherServer, handler: KubeClient) -> None:
    """One VM from its start to its end, with what each role does for it."""
    namespace = server.new_namespace()
    node = PlayedNode(server, namespace)
    vm = vm_of(small_vmi())
    vm["metadata"] |= {"name": "web", "namespace": namespace}
    vm["spec"] |= {"runStrategy": "Manual"}
    wait_until(lambda: _answers(server), "the aggregated API answers")
    # From now on the api role follows what series are made of.
    server.admin.content("/apis/subresources.kubevirt.io/v1/metrics")
    server.admin.request("POST", VirtualMachine.KIND.path(namespace), vm)
    _call(server, namespace, "start")
    pod = node.pod()
    node.starts(pod)
    wait_until(lambda: node.vmi().status.phase == "Scheduled", "the VMI is handed over")
    handler.patch(VirtualMachineInstance, namespace, "web", MergePatch({"status": {"phase": "Running"}}))
    events = EventRecorder(handler, "kvedge-handler", NODE)
    events.start()
    for count in (1, 2):
        # The second of its kind counts the first one up, once that has been sent.
        events.record(node.vmi(), "Normal", "Started", "the guest runs")
        wait_until(lambda count=count: _is_told(server, namespace, count), "the handler's Event is there")
    events.stop()
    node.becomes_ready(pod)
    server.admin.request("PUT", _PAUSE.format(namespace), {})
    pod, handler = move_guest(server, node, handler)
    _call(server, namespace, "stop", {"gracePeriod": 5})
    wait_until(lambda: node.pods() == [] or node.pods()[0].metadata.deletion_timestamp, "the Pod ends")
    node.ends(pod)
    handler.patch(VirtualMachineInstance, namespace, "web", MergePatch({"status": {"phase": "Succeeded"}}))
    node.removes(pod)
    wait_until(lambda: not server.admin.list(VirtualMachineInstance, namespace), "the run ends")
    server.admin.delete(VirtualMachine, namespace, "web")
    wait_until(lambda: not server.admin.list(VirtualMachine, namespace), "the VM is gone")
    vm["spec"]["runStrategy"] = "Halted"
    server.admin.request("POST", VirtualMachine.KIND.path(namespace), vm)
    _call(server, namespace, "start")
    server.admin.delete(VirtualMachine, namespace, "web")


def _answers(server: EitherServer) -> bool:
    try:
        server.admin.request("GET", "/apis/subresources.kubevirt.io/v1/version")
    except KubeError:
        return False
    return True


def _call(server: EitherServer, namespace: str, verb: str, options: JsonObject | None = None) -> None:
    server.admin.request("PUT", _START.format(namespace, verb), options or {})


def _is_told(server: EitherServer, namespace: str, count: int) -> bool:
    return any(event.reason == "Started" and event.count == count for event in server.admin.list(Event, namespace))


def _allowed(server: EitherServer, group: str, rule: PolicyRule, namespace: str) -> list[str]:
    """What of a rule, part by part, the server says that the role may not do."""
    refused = []
    for verb in rule.verbs:
        for api_group in rule.groups:
            for resource in rule.resources:
                plural, _, part = resource.partition("/")
                attributes = {"verb": verb, "group": api_group, "resource": plural, "subresource": part}
                attributes |= {"namespace": namespace, "name": rule.names[0] if rule.names else ""}
                spec = {
                    "user": _USERS[group],
                    "groups": [group, "system:authenticated"],
                    "resourceAttributes": {key: value for key, value in attributes.items() if value},
                }
                answer = server.admin.request("POST", _REVIEWS, {"spec": spec})
                if not answer["status"]["allowed"]:
                    refused.append(f"{verb} {resource}.{api_group} {namespace}")
    return refused


@pytest.mark.parametrize("group", list(ROLE_RIGHTS))
def test_both_servers_give_a_role_the_rights_of_the_table(server: EitherServer, group: str) -> None:
    for right in ROLE_RIGHTS[group]:
        if right.limit is Limit.NONE:
            assert _allowed(server, group, right.rule, right.namespace) == []


_NOBODYS = [
    PolicyRule(("get", "list", "update", "patch", "delete"), ("",), ("secrets",)),
    PolicyRule(("create",), ("",), ("secrets",)),
    PolicyRule(("get", "update", "patch", "delete"), ("",), ("secrets",), ("kvedge-ca",)),
    PolicyRule(("create", "update", "patch", "delete"), ("",), ("configmaps", "pods/exec")),
    PolicyRule(("update", "patch", "delete"), ("",), ("services",)),
    PolicyRule(("create",), ("",), ("services",)),
    PolicyRule(("create", "update", "delete"), ("",), ("nodes", "nodes/status")),
    PolicyRule(("create", "update", "patch", "bind", "escalate"), ("rbac.authorization.k8s.io",), ("clusterroles",)),
    PolicyRule(("create",), ("rbac.authorization.k8s.io",), ("rolebindings", "clusterrolebindings")),
    PolicyRule(("impersonate",), ("",), ("users", "groups", "serviceaccounts")),
    PolicyRule(("create",), ("",), ("serviceaccounts/token",)),
    PolicyRule(("approve", "sign"), ("certificates.k8s.io",), ("signers",), ("kubernetes.io/kube-apiserver-client",)),
    PolicyRule(("get",), ("subresources.kubevirt.io",), ("virtualmachineinstances/console",)),
    PolicyRule(("*",), ("*",), ("*",)),
]


@pytest.mark.parametrize("group", list(ROLE_RIGHTS))
def test_both_servers_refuse_a_role_what_it_could_grow_by(server: EitherServer, group: str) -> None:
    for rule in _NOBODYS:
        if group == HANDLER_GROUP and "nodes" in rule.resources:
            # In a cluster a handler's own Node is kept apart from others by admission.
            continue
        if group == CONTROLLER_GROUP and rule.verbs == ("create",) and rule.resources in (("secrets",), ("services",)):
            # A policy keeps it to certificates, tokens of exports, and Services of exports.
            continue
        everything = sum(len(rule.verbs) * len(rule.resources) for _ in rule.groups)
        assert len(_allowed(server, group, rule, "default")) == everything, rule


def test_only_the_api_role_sees_the_authority(server: EitherServer) -> None:
    read = PolicyRule(("get",), ("",), ("secrets",), ("kvedge-ca",))
    refused = {group: _allowed(server, group, read, "kvedge-system") for group in ROLE_RIGHTS}
    assert refused[API_GROUP] == []
    assert refused[CONTROLLER_GROUP] != []
    assert refused[HANDLER_GROUP] != []


def test_kubectl_applies_the_manifests_and_finds_nothing_to_change_the_second_time(server: EitherServer) -> None:
    kubectl = Kubectl(server.kubeconfig)
    folder = str(Path(__file__).parents[2] / "k3s" / "rbac")
    kubectl.run("apply", "--server-side", "--force-conflicts", "-f", folder)
    again = kubectl.run("apply", "--server-side", "-f", folder).splitlines()
    assert len(again) > 20
    assert [line for line in again if not line.endswith("serverside-applied")] == []
    assert kubectl.try_run("diff", "--server-side", "-f", folder).returncode == 0
