"""Tenancy on one box: what `view`, `edit` and `admin` in one namespace, and a quota, really allow.

Two tables, both asked of the running server with certificates of such users. RIGHTS says for everything that the API
serves who may do it; a kind or subresource that is not in it fails the test. ACTIONS says what comes of requests, where
not the rights alone decide.
"""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kvedge.api.api_service import ApiRole
from kvedge.resources.role_users import API_GROUP, API_USER
from kvedge.standalone.apiserver.access.pki import Subject
from kvedge.standalone.apiserver.api_server import ApiServerConfig, EmbeddedApi
from tests.contract.apiserver.test_pod_security import FORBIDDEN, pod
from tests.contract.apiserver.test_quotas import asking, named
from tests.support.api_client import JSON_PATCH, MERGE, Answer, ApiClient, eventually
from tests.support.builders import small_vmi, vm_of

pytestmark = pytest.mark.contract

RBAC = "/apis/rbac.authorization.k8s.io/v1"
HERE, THERE = "shop", "other"
# Who has which ClusterRole in HERE; a stranger is known and has none, the owner is a cluster administrator.
VIEW, EDIT, ADMIN, STRANGER, OWNER = USERS = ("view", "edit", "admin", "stranger", "owner")
ROLES = (VIEW, EDIT, ADMIN)

READ = "get list watch"
CHANGE = "create delete patch update"
# By what is served: verbs of view, further ones of edit, further ones of admin. What is not here, nobody of them may.
RIGHTS: dict[str, tuple[str, str, str]] = {
    "core/configmaps": (READ, f"{CHANGE} deletecollection", ""),
    "core/endpoints": (READ, "", ""),
    "core/events": (READ, f"{CHANGE} deletecollection", ""),
    "core/limitranges": (READ, "", ""),
    "core/namespaces": (READ, "", ""),
    "core/namespaces/finalize": ("", "", ""),
    "core/namespaces/status": ("get", "", ""),
    "core/nodes": ("", "", ""),
    "core/nodes/status": ("", "", ""),
    "core/persistentvolumeclaims": (READ, f"{CHANGE} deletecollection", ""),
    "core/persistentvolumeclaims/status": ("get", "", ""),
    "core/persistentvolumes": ("", "", ""),
    "core/persistentvolumes/status": ("", "", ""),
    "core/pods": (READ, f"{CHANGE} deletecollection", ""),
    "core/pods/attach": ("", "create get", ""),
    "core/pods/binding": ("", "", ""),
    "core/pods/eviction": ("", "create", ""),
    "core/pods/exec": ("", "create get", ""),
    "core/pods/log": ("get", "", ""),
    "core/pods/portforward": ("", "create get", ""),
    "core/pods/resize": ("", "", ""),
    "core/pods/status": ("get", "", ""),
    "core/resourcequotas": (READ, "", ""),
    "core/resourcequotas/status": ("get", "", ""),
    "core/secrets": ("", f"{READ} {CHANGE} deletecollection", ""),
    "core/serviceaccounts": (READ, f"{CHANGE} deletecollection", ""),
    "core/serviceaccounts/token": ("", "create", ""),
    "core/services": (READ, f"{CHANGE} deletecollection", ""),
    "core/services/status": ("get", "", ""),
    "admissionregistration.k8s.io/mutatingwebhookconfigurations": ("", "", ""),
    "admissionregistration.k8s.io/validatingwebhookconfigurations": ("", "", ""),
    "apiextensions.k8s.io/customresourcedefinitions": ("", "", ""),
    "apiextensions.k8s.io/customresourcedefinitions/status": ("", "", ""),
    "apiregistration.k8s.io/apiservices": ("", "", ""),
    "apiregistration.k8s.io/apiservices/status": ("", "", ""),
    "apps/controllerrevisions": (READ, "", ""),
    "authentication.k8s.io/selfsubjectreviews": ("create", "", ""),
    "authentication.k8s.io/tokenreviews": ("", "", ""),
    "authorization.k8s.io/localsubjectaccessreviews": ("", "", "create"),
    "authorization.k8s.io/selfsubjectaccessreviews": ("create", "", ""),
    "authorization.k8s.io/selfsubjectrulesreviews": ("create", "", ""),
    "authorization.k8s.io/subjectaccessreviews": ("", "", ""),
    "cdi.kubevirt.io/cdiconfigs": (READ, "", ""),
    "cdi.kubevirt.io/dataimportcrons": (READ, CHANGE, "deletecollection"),
    "cdi.kubevirt.io/datasources": (READ, CHANGE, "deletecollection"),
    "cdi.kubevirt.io/datavolumes": (READ, CHANGE, "deletecollection"),
    "cdi.kubevirt.io/datavolumes/status": ("", "", ""),
    "cdi.kubevirt.io/storageprofiles": (READ, "", ""),
    "cdi.kubevirt.io/storageprofiles/status": ("", "", ""),
    "certificates.k8s.io/certificatesigningrequests": ("", "", ""),
    "certificates.k8s.io/certificatesigningrequests/approval": ("", "", ""),
    "certificates.k8s.io/certificatesigningrequests/status": ("", "", ""),
    "coordination.k8s.io/leases": ("", f"{READ} {CHANGE} deletecollection", ""),
    "discovery.k8s.io/endpointslices": (READ, "", ""),
    "events.k8s.io/events": ("", "", ""),
    # Whose networks these are may put VMs onto the host's bridges.
    "k8s.cni.cncf.io/network-attachment-definitions": ("", "", ""),
    "export.kubevirt.io/virtualmachineexports": (READ, CHANGE, "deletecollection"),
    "export.kubevirt.io/virtualmachineexports/status": ("", "", ""),
    "instancetype.kubevirt.io/virtualmachineclusterinstancetypes": (READ, CHANGE, "deletecollection"),
    "instancetype.kubevirt.io/virtualmachineclusterpreferences": (READ, CHANGE, "deletecollection"),
    "instancetype.kubevirt.io/virtualmachineinstancetypes": (READ, CHANGE, "deletecollection"),
    "instancetype.kubevirt.io/virtualmachinepreferences": (READ, CHANGE, "deletecollection"),
    "kubevirt.io/kubevirts": ("get list", "", ""),
    "kubevirt.io/kubevirts/status": ("", "", ""),
    "kubevirt.io/virtualmachineinstancemigrations": (READ, "", ""),
    "kubevirt.io/virtualmachineinstancemigrations/status": ("", "", ""),
    "kubevirt.io/virtualmachineinstancepresets": (READ, CHANGE, "deletecollection"),
    "kubevirt.io/virtualmachineinstancereplicasets": (READ, CHANGE, "deletecollection"),
    "kubevirt.io/virtualmachineinstancereplicasets/scale": ("", "get update patch", ""),
    "kubevirt.io/virtualmachineinstancereplicasets/status": ("", "", ""),
    "kubevirt.io/virtualmachineinstances": (READ, CHANGE, "deletecollection"),
    "kubevirt.io/virtualmachines": (READ, CHANGE, "deletecollection"),
    "kubevirt.io/virtualmachines/status": ("", "", ""),
    "metrics.k8s.io/nodes": ("get list", "", ""),
    "metrics.k8s.io/pods": ("get list", "", ""),
    "migrations.kubevirt.io/migrationpolicies": (READ, "", ""),
    "migrations.kubevirt.io/migrationpolicies/status": ("", "", ""),
    "networking.k8s.io/ipaddresses": ("", "", ""),
    "networking.k8s.io/networkpolicies": (READ, f"{CHANGE} deletecollection", ""),
    "pool.kubevirt.io/virtualmachinepools": (READ, CHANGE, "deletecollection"),
    "pool.kubevirt.io/virtualmachinepools/scale": ("", "get update patch", ""),
    "pool.kubevirt.io/virtualmachinepools/status": ("", "", ""),
    "backup.kvedge.io/backuprepositories": (READ, CHANGE, "deletecollection"),
    "backup.kvedge.io/backuprepositories/status": ("", "", ""),
    "backup.kvedge.io/backupschedules": (READ, CHANGE, "deletecollection"),
    "backup.kvedge.io/backupschedules/status": ("", "", ""),
    "backup.kvedge.io/backuptests": (READ, CHANGE, "deletecollection"),
    "backup.kvedge.io/backuptests/status": ("", "", ""),
    "backup.kvedge.io/backuptasks": (READ, CHANGE, "deletecollection"),
    "backup.kvedge.io/backuptasks/status": ("", "", ""),
    "backup.kvedge.io/backupruns": (READ, CHANGE, "deletecollection"),
    "backup.kvedge.io/backupruns/status": ("", "", ""),
    "backup.kvedge.io/backuprestores": (READ, CHANGE, "deletecollection"),
    "backup.kvedge.io/backuprestores/status": ("", "", ""),
    "backup.kubevirt.io/virtualmachinebackups": (READ, CHANGE, "deletecollection"),
    "backup.kubevirt.io/virtualmachinebackups/status": ("", "", ""),
    "backup.kubevirt.io/virtualmachinebackuptrackers": (READ, CHANGE, "deletecollection"),
    "backup.kubevirt.io/virtualmachinebackuptrackers/status": ("", "", ""),
    "clone.kubevirt.io/virtualmachineclones": (READ, CHANGE, "deletecollection"),
    "clone.kubevirt.io/virtualmachineclones/status": ("", "", ""),
    "snapshot.kvedge.io/virtualmachinesnapshotschedules": (READ, CHANGE, "deletecollection"),
    "snapshot.kvedge.io/virtualmachinesnapshotschedules/status": ("", "", ""),
    "snapshot.kubevirt.io/virtualmachinerestores": (READ, CHANGE, "deletecollection"),
    "snapshot.kubevirt.io/virtualmachinerestores/status": ("", "", ""),
    "snapshot.kubevirt.io/virtualmachinesnapshotcontents": (READ, CHANGE, "deletecollection"),
    "snapshot.kubevirt.io/virtualmachinesnapshotcontents/status": ("", "", ""),
    "snapshot.kubevirt.io/virtualmachinesnapshots": (READ, CHANGE, "deletecollection"),
    "snapshot.kubevirt.io/virtualmachinesnapshots/status": ("", "", ""),
    "policy/poddisruptionbudgets": (READ, f"{CHANGE} deletecollection", ""),
    "policy/poddisruptionbudgets/status": ("get", "", ""),
    "rbac.authorization.k8s.io/clusterrolebindings": ("", "", ""),
    "rbac.authorization.k8s.io/clusterroles": ("", "", ""),
    "rbac.authorization.k8s.io/rolebindings": ("", "", f"{READ} {CHANGE} deletecollection"),
    "rbac.authorization.k8s.io/roles": ("", "", f"{READ} {CHANGE} deletecollection"),
    "scheduling.k8s.io/priorityclasses": ("", "", ""),
    "snapshot.storage.k8s.io/volumesnapshotclasses": ("", "", ""),
    "snapshot.storage.k8s.io/volumesnapshotcontents": ("", "", ""),
    "snapshot.storage.k8s.io/volumesnapshotcontents/status": ("", "", ""),
    "snapshot.storage.k8s.io/volumesnapshots": (READ, f"{CHANGE} deletecollection", ""),
    "snapshot.storage.k8s.io/volumesnapshots/status": ("get", "", ""),
    "storage.k8s.io/storageclasses": ("", "", ""),
    "upload.cdi.kubevirt.io/uploadtokenrequests": ("", "create", ""),
}
# Everybody who is known may this, wherever they are.
OF_EVERYBODY = {
    "authentication.k8s.io/selfsubjectreviews",
    "authorization.k8s.io/selfsubjectaccessreviews",
    "authorization.k8s.io/selfsubjectrulesreviews",
    "cdi.kubevirt.io/cdiconfigs",
    "cdi.kubevirt.io/storageprofiles",
    "instancetype.kubevirt.io/virtualmachineclusterinstancetypes",
    "instancetype.kubevirt.io/virtualmachineclusterpreferences",
    "kubevirt.io/kubevirts",
}


def core(plural: str, name: str = "", namespace: str = HERE) -> str:
    return f"/api/v1/namespaces/{namespace}/{plural}{f'/{name}' if name else ''}"


def vms(name: str = "", namespace: str = HERE) -> str:
    return f"/apis/kubevirt.io/v1/namespaces/{namespace}/virtualmachines{f'/{name}' if name else ''}"


def sub(kind: str, name: str, verb: str, namespace: str = HERE) -> str:
    return f"/apis/subresources.kubevirt.io/v1/namespaces/{namespace}/{kind}/{name}/{verb}"


def vm(name: str = "v", **volume: Any) -> dict[str, Any]:
    """A VM that does not run, with one more volume where one is given."""
    document: dict[str, Any] = vm_of(small_vmi(), runStrategy="Halted")
    document["metadata"] = {"name": name}
    if volume:
        spec = document["spec"]["template"]["spec"]
        spec.setdefault("volumes", []).append({"name": "more", **volume})
        spec["domain"]["devices"].setdefault("disks", []).append({"name": "more", "disk": {"bus": "virtio"}})
    return document


def role(*rules: dict[str, Any]) -> dict[str, Any]:
    return {**named("r"), "rules": list(rules)}


def bound(kind: str, name: str) -> dict[str, Any]:
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
    return {**named("b"), "roleRef": reference, "subjects": [{"kind": "User", "name": "friend"}]}


def rule(verbs: list[str], groups: list[str], resources: list[str]) -> dict[str, Any]:
    return {"verbs": verbs, "apiGroups": groups, "resources": resources}


@dataclass(frozen=True)
class Action:
    """A request, and what comes of it for view, edit, admin, a stranger and the owner.

    `+` it is done, `-` they have no right to, `~` they have, and the box refuses what they want. `reached` takes
    anything that the part behind the rights has to say for done: that there is no such VM, say.
    """

    method: str
    path: str
    body: Any
    wanted: str
    reached: bool = False
    content_type: str = ""


def make(plural: str, body: Any, wanted: str, namespace: str = HERE) -> Action:
    return Action("POST", f"{core(plural, namespace=namespace)}?dryRun=All", body, wanted)


_PRIVILEGED = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}
_NO_QUOTA = {"spec": {"hard": {"configmaps": "1000"}}}
_OPTIONS = {"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"]}

ACTIONS: dict[str, Action] = {
    # Pods: only such as reach nothing of the host, for whoever does not own the box.
    **{f"a Pod with {case}": make("pods", document, "- ~ ~ - +") for case, (document, _) in FORBIDDEN.items()},
    "a Pod that asks for nothing": make("pods", pod(), "- + + - +"),
    "a Pod of user 0": make("pods", pod(context={"runAsUser": 0}), "- + + - +"),
    "a Pod in another namespace": make("pods", pod(), "- - - - +", THERE),
    "deleting a launcher": Action("DELETE", f"{core('pods', 'launcher')}?dryRun=All", None, "- + + - +"),
    "another image in a launcher": Action(
        "PATCH",
        f"{core('pods', 'launcher')}?dryRun=All",
        [{"op": "replace", "path": "/spec/containers/0/image", "value": "mine"}],
        "- ~ ~ - +",
        content_type=JSON_PATCH,
    ),
    "a debugging container in a launcher": Action(
        "PATCH", core("pods", "launcher/ephemeralcontainers"), {}, "- - - - +", reached=True
    ),
    "evicting a launcher": Action(
        "POST",
        core("pods", "launcher/eviction"),
        {"apiVersion": "policy/v1", "kind": "Eviction", **named("launcher"), "deleteOptions": _OPTIONS},
        "- + + - +",
        reached=True,
    ),
    "putting a Pod on a node": Action(
        "POST", core("pods", "launcher/binding"), {"target": {"name": "n"}}, "- - - - +", reached=True
    ),
    "a status that a Pod does not have": Action(
        "PATCH", f"{core('pods', 'launcher/status')}?dryRun=All", {"status": {"phase": "Failed"}}, "- - - - +"
    ),
    "a command in a launcher": Action(
        "POST", f"{core('pods', 'launcher/exec')}?command=id&stdout=true", None, "- + + - +", reached=True
    ),
    "a command in a launcher by a GET": Action(
        "GET", f"{core('pods', 'launcher/exec')}?command=id&stdout=true", None, "- + + - +", reached=True
    ),
    "what a launcher prints": Action("GET", core("pods", "launcher/log"), None, "+ + + - +", reached=True),
    "a command elsewhere": Action(
        "POST", f"{core('pods', 'p/exec', THERE)}?command=id&stdout=true", None, "- - - - +", reached=True
    ),
    # VMs
    "a VM": Action("POST", f"{vms()}?dryRun=All", vm(), "- + + - +"),
    "a VM with a disk of the host": Action(
        "POST", f"{vms()}?dryRun=All", vm(hostDisk={"path": "/etc/shadow", "type": "Disk"}), "- ~ ~ - ~"
    ),
    "a VM with a device of the host": Action(
        "POST",
        f"{vms()}?dryRun=All",
        {
            **vm(),
            "spec": {
                "runStrategy": "Halted",
                "template": {
                    "spec": {
                        "domain": {
                            "memory": {"guest": "64Mi"},
                            "devices": {"hostDevices": [{"name": "d", "deviceName": "x/y"}]},
                        }
                    }
                },
            },
        },
        "- ~ ~ - ~",
    ),
    "a VM in another namespace": Action("POST", f"{vms(namespace=THERE)}?dryRun=All", vm(), "- - - - +"),
    "starting a VM": Action("PUT", sub("virtualmachines", "none", "start"), {}, "- + + - +", reached=True),
    "stopping a VM": Action("PUT", sub("virtualmachines", "none", "stop"), {}, "- + + - +", reached=True),
    "restarting a VM": Action("PUT", sub("virtualmachines", "none", "restart"), {}, "- + + - +", reached=True),
    "pausing a VM": Action("PUT", sub("virtualmachineinstances", "none", "pause"), {}, "- + + - +", reached=True),
    "a console": Action("GET", sub("virtualmachineinstances", "none", "console"), None, "- + + - +", reached=True),
    "a screen by SPICE": Action(
        "GET", sub("virtualmachineinstances", "none", "spice"), None, "- + + - +", reached=True
    ),
    "a screen": Action("GET", sub("virtualmachineinstances", "none", "vnc"), None, "- + + - +", reached=True),
    "what a guest says of itself": Action(
        "GET", sub("virtualmachineinstances", "none", "guestosinfo"), None, "+ + + - +", reached=True
    ),
    "what a guest has used": Action(
        "GET", sub("virtualmachineinstances", "none", "usage"), None, "+ + + - +", reached=True
    ),
    "how a VM's start went": Action(
        "GET", sub("virtualmachineinstances", "none", "trace"), None, "+ + + - +", reached=True
    ),
    "starting a VM elsewhere": Action(
        "PUT", sub("virtualmachines", "none", "start", THERE), {}, "- - - - +", reached=True
    ),
    # Secrets and identities
    "reading Secrets": Action("GET", core("secrets"), None, "- + + - +"),
    "reading Secrets elsewhere": Action("GET", core("secrets", namespace=THERE), None, "- - - - +"),
    "reading kvedge's authority": Action("GET", core("secrets", "kvedge-ca", "kvedge-system"), None, "- - - - +"),
    "a token of an account": Action("POST", core("serviceaccounts", "robot/token"), {"spec": {}}, "- + + - +"),
    "a token of an account elsewhere": Action(
        "POST", core("serviceaccounts", "robot/token", THERE), {"spec": {}}, "- - - - +"
    ),
    "a certificate": Action("POST", "/apis/certificates.k8s.io/v1/certificatesigningrequests", {}, "- - - - ~"),
    # Quotas and what bounds a namespace
    "raising one's quota": Action("PATCH", f"{core('resourcequotas', 'q')}?dryRun=All", _NO_QUOTA, "- - - - +"),
    "deleting one's quota": Action("DELETE", f"{core('resourcequotas', 'q')}?dryRun=All", None, "- - - - +"),
    "saying that nothing is used": Action(
        "PATCH", f"{core('resourcequotas', 'q/status')}?dryRun=All", {"status": {"used": {}}}, "- - - - +"
    ),
    "a limit range": make("limitranges", {**named("l"), "spec": {"limits": [{"type": "Pod"}]}}, "- - - - +"),
    "more than the quota's Secrets": make("secrets", named("s"), "- ~ ~ - ~"),
    "more than the quota's memory": make("pods", pod(resources=asking(memory="2Ti")), "- ~ ~ - ~"),
    # Namespaces, nodes, the cluster
    "opening one's namespace to the host": Action(
        "PATCH", f"/api/v1/namespaces/{HERE}?dryRun=All", _PRIVILEGED, "- - - - +"
    ),
    "a namespace": Action("POST", "/api/v1/namespaces?dryRun=All", named("mine"), "- - - - +"),
    "deleting one's namespace": Action("DELETE", f"/api/v1/namespaces/{HERE}?dryRun=All", None, "- - - - +"),
    "seeing all namespaces": Action("GET", "/api/v1/namespaces", None, "- - - - +"),
    "seeing nodes": Action("GET", "/api/v1/nodes", None, "- - - - +"),
    "changing a node": Action("PATCH", "/api/v1/nodes/box?dryRun=All", {}, "- - - - +", reached=True),
    "a volume of the host": Action(
        "POST",
        "/api/v1/persistentvolumes?dryRun=All",
        {
            **named("pv"),
            "spec": {
                "hostPath": {"path": "/"},
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
            },
        },
        "- - - - +",
    ),
    "a webhook": Action(
        "POST",
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations?dryRun=All",
        {**named("w"), "webhooks": []},
        "- - - - +",
    ),
    "kvedge's configuration": Action(
        "PATCH",
        "/apis/kubevirt.io/v1/namespaces/kvedge-system/kubevirts/kubevirt?dryRun=All",
        {"spec": {}},
        "- - - - +",
        reached=True,
    ),
    "an Event": make(
        "events", {**named("e"), "involvedObject": {"namespace": HERE}, "reason": "R", "type": "Normal"}, "- + + - +"
    ),
    # Roles
    "handing on what one has": Action(
        "POST", f"{RBAC}/namespaces/{HERE}/rolebindings?dryRun=All", bound("ClusterRole", "edit"), "- - + - +"
    ),
    "handing on everything": Action(
        "POST", f"{RBAC}/namespaces/{HERE}/rolebindings?dryRun=All", bound("ClusterRole", "cluster-admin"), "- - ~ - +"
    ),
    "a role of what one has": Action(
        "POST", f"{RBAC}/namespaces/{HERE}/roles?dryRun=All", role(rule(["get"], [""], ["pods"])), "- - + - +"
    ),
    "a role that changes quotas": Action(
        "POST",
        f"{RBAC}/namespaces/{HERE}/roles?dryRun=All",
        role(rule(["update"], [""], ["resourcequotas"])),
        "- - ~ - +",
    ),
    "a role in all namespaces": Action("POST", f"{RBAC}/clusterroles?dryRun=All", role(), "- - - - +"),
}


@dataclass(frozen=True)
class OneBox:
    """The API with its admission, and its users."""

    clients: dict[str, ApiClient]

    @property
    def owner(self) -> ApiClient:
        return self.clients[OWNER]


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneBox]:
    directory = tmp_path_factory.mktemp("tenancy")
    api = EmbeddedApi(ApiServerConfig(directory, port=0, node_name="box"))
    api.start()
    api.write_kubeconfig(directory / "api", API_USER, [API_GROUP])
    roles = ApiRole(directory / "api", "127.0.0.1:0")
    roles.start()
    clients = {user: _log_in(api, directory, user) for user in USERS}
    controller = _log_in(api, directory, "kvedge:controller", "kvedge:controllers")
    try:
        _furnish(clients[OWNER], controller)
        yield OneBox(clients)
    finally:
        for client in (*clients.values(), controller):
            client.close()
        roles.stop()
        api.stop()


def _log_in(api: EmbeddedApi, directory: Path, user: str, group: str = "") -> ApiClient:
    context = ssl.create_default_context(cadata=api.pki.servers.certificate_pem.decode())
    groups = (group,) if group else ("system:masters",) if user == OWNER else ()
    pair = api.pki.clients.issue_client(Subject(user, groups))
    with tempfile.NamedTemporaryFile(dir=directory) as file:
        file.write(pair.certificate + pair.key)
        file.flush()
        context.load_cert_chain(file.name)
    return ApiClient(api.address, context)


def _furnish(owner: ApiClient, controller: ApiClient) -> None:
    """Two namespaces, one with tenants, a quota and a launcher, and something of everybody's in each."""
    for namespace in (HERE, THERE):
        owner.made("/api/v1/namespaces", named(namespace))
        owner.made(core("serviceaccounts", namespace=namespace), named("robot"))
    for name in ROLES:
        body = {**bound("ClusterRole", name), **named(name), "subjects": [{"kind": "User", "name": name}]}
        owner.made(f"{RBAC}/namespaces/{HERE}/rolebindings", body)
    hard = {"secrets": "0", "memory": "1Ti"}
    # Only such Pods count as say what they need: the others are let in as before.
    scopes = ["NotBestEffort"]
    owner.made(core("resourcequotas"), {**named("q"), "spec": {"hard": {"memory": "1Ti"}, "scopes": scopes}})
    owner.made(core("resourcequotas"), {**named("s"), "spec": {"hard": {"secrets": hard["secrets"]}}})
    launcher = FORBIDDEN["hostPath"][0]
    made = controller.post(core("pods"), {**launcher, "metadata": {"name": "launcher"}})
    assert made.status == 201, made.body
    eventually(lambda: owner.post(f"{vms()}?dryRun=All", vm()).status == 201)
    eventually(lambda: owner.get("/apis/subresources.kubevirt.io/v1/version").status == 200)


def outcome(answer: Answer, action: Action) -> str:
    """`-`, `~` or `+`; see `Action`."""
    if answer.status == 403 and "cannot" in answer.message:
        return "-"
    if answer.status in (403, 422) and not (action.reached and answer.status == 422):
        return "~"
    assert action.reached or answer.status in (200, 201), (answer.status, answer.body)
    return "+"


@pytest.mark.parametrize("name", ACTIONS)
def test_what_comes_of_a_request(box: OneBox, name: str) -> None:
    action = ACTIONS[name]
    kind = action.content_type or (MERGE if action.method == "PATCH" else "application/json")
    found = {
        user: outcome(client.ask(action.method, action.path, action.body, kind), action)
        for user, client in box.clients.items()
    }
    assert found == dict(zip(USERS, action.wanted.split(), strict=True))


def served(box: OneBox) -> Iterator[tuple[str, str]]:
    """Everything that the box serves itself, as `group/resource`, and a verb of it."""
    groups = [("core", "/api/v1")]
    for group in box.owner.get("/apis").json["groups"]:
        if group["name"] != "subresources.kubevirt.io":
            groups += [(group["name"], f"/apis/{version['groupVersion']}") for version in group["versions"]]
    for group, path in groups:
        for resource in box.owner.get(path).json["resources"]:
            for verb in resource["verbs"]:
                yield f"{group}/{resource['name']}", verb


def allowed(box: OneBox, user: str, resource: str, verb: str, namespace: str) -> bool:
    group, plural, *part = resource.split("/", 2)
    attributes = {"verb": verb, "group": "" if group == "core" else group, "resource": plural}
    attributes |= {"namespace": namespace, "subresource": part[0] if part else ""}
    review = {"spec": {"resourceAttributes": attributes}}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    answer: bool = box.clients[user].made(path, review)["status"]["allowed"]
    return answer


def _expected(user: str, resource: str, verb: str) -> bool:
    given = RIGHTS[resource][: ROLES.index(user) + 1]
    return verb in " ".join(given).split()


def test_the_table_says_of_everything_that_is_served_who_may_do_it(box: OneBox) -> None:
    assert {resource for resource, _ in served(box)} == RIGHTS.keys()


@pytest.mark.parametrize("user", ROLES)
def test_a_role_in_one_namespace_gives_these_rights_there(box: OneBox, user: str) -> None:
    wrong = [
        (resource, verb)
        for resource, verb in served(box)
        if allowed(box, user, resource, verb, HERE) != _expected(user, resource, verb)
    ]
    assert wrong == []


@pytest.mark.parametrize("user", [*ROLES, STRANGER])
@pytest.mark.parametrize("namespace", [THERE, "kvedge-system", ""])
def test_a_role_in_one_namespace_gives_nothing_elsewhere(box: OneBox, user: str, namespace: str) -> None:
    wrong = [
        (resource, verb)
        for resource, verb in served(box)
        if resource not in OF_EVERYBODY and allowed(box, user, resource, verb, namespace)
    ]
    assert wrong == []
