"""Which Pods users may make: Kubernetes' levels, judged by a real kube-apiserver, and what one box does by itself."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.apiserver.conftest import Server, new_namespace
from tests.contract.apiserver.test_rbac import bindings, give, role_ref, rule, subject
from tests.support.api_client import APPLY, JSON_PATCH, MERGE, STRATEGIC, Answer, ApiClient, eventually
from tests.support.builders import pod_document

pytestmark = pytest.mark.contract

LABEL = "pod-security.kubernetes.io/enforce"


def pod(spec: dict[str, Any] | None = None, context: dict[str, Any] | None = None, **container: Any) -> dict[str, Any]:
    """A Pod with one container; `context` is that of the container."""
    main = {"name": "main", "image": "x", **container, **({"securityContext": context} if context else {})}
    return pod_document(main, **{"restartPolicy": "Never", **(spec or {})})


def annotated(document: dict[str, Any], **annotations: str) -> dict[str, Any]:
    spelled = {key.replace("__", "/"): value for key, value in annotations.items()}
    return {**document, "metadata": {**document["metadata"], "annotations": spelled}}


def pod_context(**context: Any) -> dict[str, Any]:
    return pod({"securityContext": context})


_HOST_ROOT = {"volumes": [{"name": "host", "hostPath": {"path": "/"}}]}
_BOTH = {
    "initContainers": [{"name": "first", "image": "x", "securityContext": {"procMount": "Unmasked"}}],
    "hostUsers": False,
}
_SETTINGS = ("net.ipv4.ip_unprivileged_port_start", "net.ipv4.tcp_rmem", "kernel.shm_rmid_forced")
_SAFE_CAPABILITIES = (
    *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE"),
    *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
)

# What nobody may ask for where the level is baseline, and the reason of the refusal.
FORBIDDEN: dict[str, tuple[dict[str, Any], str]] = {
    "hostPath": (pod(_HOST_ROOT), 'hostPath volumes (volume "host")'),
    "hostNetwork": (pod({"hostNetwork": True}), "host namespaces (hostNetwork=true)"),
    "hostPID": (pod({"hostPID": True}), "host namespaces (hostPID=true)"),
    "hostIPC": (pod({"hostIPC": True}), "host namespaces (hostIPC=true)"),
    "all namespaces": (
        pod({"hostNetwork": True, "hostPID": True, "hostIPC": True}),
        "host namespaces (hostNetwork=true, hostPID=true, hostIPC=true)",
    ),
    "privileged": (
        pod(context={"privileged": True}),
        'privileged (container "main" must not set securityContext.privileged=true)',
    ),
    "a capability": (
        pod(context={"capabilities": {"add": ["SYS_ADMIN", "CHOWN"]}}),
        'non-default capabilities (container "main" must not include "SYS_ADMIN" in securityContext.capabilities.add)',
    ),
    "all capabilities": (
        pod(context={"capabilities": {"add": ["ALL"]}}),
        'non-default capabilities (container "main" must not include "ALL" in securityContext.capabilities.add)',
    ),
    "hostPort": (
        pod(ports=[{"containerPort": 80, "hostPort": 80}, {"containerPort": 81, "hostPort": 81}]),
        'hostPort (container "main" uses hostPorts 80, 81)',
    ),
    "unsafe sysctl": (
        pod_context(sysctls=[{"name": "kernel.msgmax", "value": "1"}, {"name": "net.ipv4.tcp_rmem", "value": "1"}]),
        "forbidden sysctls (kernel.msgmax)",
    ),
    "seccomp of the Pod": (
        pod_context(seccompProfile={"type": "Unconfined"}),
        'seccompProfile (pod must not set securityContext.seccompProfile.type to "Unconfined")',
    ),
    "seccomp of a container": (
        pod(context={"seccompProfile": {"type": "Unconfined"}}),
        'seccompProfile (container "main" must not set securityContext.seccompProfile.type to "Unconfined")',
    ),
    "procMount": (
        {**pod(context={"procMount": "Unmasked"}), "spec": {**pod(context={"procMount": "Unmasked"})["spec"], **_BOTH}},
        "",
    ),
    "AppArmor": (
        pod(context={"appArmorProfile": {"type": "Unconfined"}}),
        'forbidden AppArmor profile (container "main" must not set AppArmor profile type to "Unconfined")',
    ),
    "AppArmor of the Pod": (
        pod_context(appArmorProfile={"type": "Unconfined"}),
        'forbidden AppArmor profile (pod must not set AppArmor profile type to "Unconfined")',
    ),
    "SELinux": (
        pod_context(seLinuxOptions={"type": "spc_t", "user": "u", "role": "r"}),
        'seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: type "spc_t"; user may not be set;'
        " role may not be set)",
    ),
    "a probe of another host": (
        pod(livenessProbe={"tcpSocket": {"port": 22, "host": "127.0.0.1"}}),
        'probe or lifecycle host (container "main" uses probe or lifecycle host "127.0.0.1")',
    ),
    "a hook of another host": (
        pod(lifecycle={"preStop": {"httpGet": {"port": 22, "host": "10.0.0.1"}}}),
        'probe or lifecycle host (container "main" uses probe or lifecycle host "10.0.0.1")',
    ),
    "Windows": (
        pod(
            {"hostNetwork": True, "securityContext": {"windowsOptions": {"hostProcess": True}}},
            context={"windowsOptions": {"hostProcess": True}},
        ),
        'host namespaces (hostNetwork=true), hostProcess (pod and container "main" must not set'
        " securityContext.windowsOptions.hostProcess=true)",
    ),
    "much at once": (
        pod({**_HOST_ROOT, "hostPID": True}, context={"privileged": True, "runAsUser": 0}),
        'host namespaces (hostPID=true), hostPath volumes (volume "host"), privileged (container "main" must not set'
        " securityContext.privileged=true)",
    ),
    "an init container": (
        pod({"initContainers": [{"name": "first", "image": "x", "securityContext": {"privileged": True}}]}),
        'privileged (container "first" must not set securityContext.privileged=true)',
    ),
}
# Accepted on both servers alike where the level is baseline.
ALLOWED: dict[str, dict[str, Any]] = {
    "nothing": pod(),
    "root": pod(context={"runAsUser": 0}),
    "safe sysctls": pod_context(sysctls=[{"name": name, "value": "0"} for name in _SETTINGS]),
    "safe capabilities": pod(context={"capabilities": {"add": list(_SAFE_CAPABILITIES)}}),
    "a host's profiles": pod_context(seccompProfile={"type": "Localhost", "localhostProfile": "x"}),
    "default profiles": pod_context(seccompProfile={"type": "RuntimeDefault"}),
    "a label of containers": pod_context(seLinuxOptions={"type": "container_t", "level": "s0"}),
    "volumes of its own": pod(
        {"volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "secret": {"secretName": "s"}}]}
    ),
    "a probe of its own": pod(livenessProbe={"tcpSocket": {"port": 22}}),
}
_GOOD_CONTEXT = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
_GOOD = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
RESTRICTED: dict[str, tuple[dict[str, Any], str]] = {
    "nothing said": (
        pod(),
        'allowPrivilegeEscalation != false (container "main" must set securityContext.allowPrivilegeEscalation=false),'
        ' unrestricted capabilities (container "main" must set securityContext.capabilities.drop=["ALL"]),'
        ' runAsNonRoot != true (pod or container "main" must set securityContext.runAsNonRoot=true),'
        ' seccompProfile (pod or container "main" must set securityContext.seccompProfile.type to "RuntimeDefault" or'
        ' "Localhost")',
    ),
    "root": (
        pod({"securityContext": {**_GOOD, "runAsUser": 0}}, context={**_GOOD_CONTEXT, "runAsNonRoot": True}),
        "runAsUser=0 (pod must not set runAsUser=0)",
    ),
    "explicit root": (
        pod({"securityContext": _GOOD}, context={**_GOOD_CONTEXT, "runAsNonRoot": False}),
        'runAsNonRoot != true (container "main" must not set securityContext.runAsNonRoot=false)',
    ),
    "a capability": (
        pod({"securityContext": _GOOD}, context={**_GOOD_CONTEXT, "capabilities": {"add": ["CHOWN"]}}),
        'unrestricted capabilities (container "main" must set securityContext.capabilities.drop=["ALL"];'
        ' container "main" must not include "CHOWN" in securityContext.capabilities.add)',
    ),
    "hostPath": (
        pod({"securityContext": _GOOD, **_HOST_ROOT}, context=_GOOD_CONTEXT),
        'restricted volume types (volume "host" uses restricted volume type "hostPath")',
    ),
    "unconfined": (
        pod({"securityContext": {**_GOOD, "seccompProfile": {"type": "Unconfined"}}}, context=_GOOD_CONTEXT),
        'seccompProfile (pod must not set securityContext.seccompProfile.type to "Unconfined")',
    ),
    "privileged": (
        pod({"securityContext": _GOOD}, context={"capabilities": {"drop": ["ALL"]}, "privileged": True}),
        'privileged (container "main" must not set securityContext.privileged=true), allowPrivilegeEscalation != false'
        ' (container "main" must set securityContext.allowPrivilegeEscalation=false)',
    ),
}


def pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def user_with(server: Server, namespace: str, role: str) -> ApiClient:
    """Somebody who has this ClusterRole in one namespace."""
    name = f"{role}-of-{namespace}"
    # A kube-apiserver alone has nobody who gathers its roles.
    parts = {"view": ["view"], "edit": ["edit", "view"], "admin": ["admin", "edit", "view"]}[role]
    for bound in [f"system:aggregate-to-{part}" for part in parts] if server.is_real else [role]:
        body = {"metadata": {"name": f"{name}-{bound.replace(':', '-')}"}, "roleRef": role_ref("ClusterRole", bound)}
        server.admin.made(bindings(namespace), {**body, "subjects": [subject("User", name)]})
    client = server.log_in(name, [])
    eventually(lambda: client.get(f"/api/v1/namespaces/{namespace}/configmaps").status == 200)
    return client


def set_level(admin: ApiClient, namespace: str, level: str | None) -> Answer:
    return admin.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": {LABEL: level}}})


def _try(client: ApiClient, namespace: str, document: dict[str, Any]) -> Answer:
    return client.post(pods(namespace), document, dryRun="All")


@pytest.fixture(scope="module", params=["baseline", "restricted"])
def labelled(api_server: Server, request: pytest.FixtureRequest) -> tuple[Server, str, str]:
    namespace = new_namespace(api_server.admin)
    assert set_level(api_server.admin, namespace, request.param).status == 200
    return api_server, namespace, request.param


@pytest.mark.parametrize("case", FORBIDDEN)
def test_what_gives_a_pod_the_host_is_refused_where_the_level_says_so(
    labelled: tuple[Server, str, str], case: str
) -> None:
    server, namespace, level = labelled
    document, reason = FORBIDDEN[case]
    if case == "procMount" and server.is_real:
        # It lets Pods with a user namespace of their own have this, which the node agent of one box does not make.
        pytest.skip("differs on purpose")
    answer = _try(server.admin, namespace, document)
    assert answer.status == 403, answer.body
    assert f'pods "p" is forbidden: violates PodSecurity "{level}:latest": ' in answer.message
    if level == "baseline":
        assert answer.message.endswith(reason)


@pytest.mark.parametrize("case", ALLOWED)
def test_what_stays_within_a_pod_is_let_in_at_the_level_baseline(api_server: Server, case: str) -> None:
    namespace = new_namespace(api_server.admin)
    set_level(api_server.admin, namespace, "baseline")
    answer = _try(user_with(api_server, namespace, "edit"), namespace, ALLOWED[case])
    assert answer.status == 201, answer.body


@pytest.mark.parametrize("case", RESTRICTED)
def test_what_the_level_restricted_refuses(api_server: Server, case: str) -> None:
    namespace = new_namespace(api_server.admin)
    set_level(api_server.admin, namespace, "restricted")
    document, reason = RESTRICTED[case]
    answer = _try(api_server.admin, namespace, document)
    assert answer.status == 403, answer.body
    assert answer.message == f'pods "p" is forbidden: violates PodSecurity "restricted:latest": {reason}'
    good = pod({"securityContext": {**_GOOD, "runAsUser": 107}}, context=_GOOD_CONTEXT)
    assert _try(api_server.admin, namespace, good).status == 201


def test_a_level_that_is_none_is_refused(api_server: Server, namespace: str) -> None:
    answer = set_level(api_server.admin, namespace, "strict")
    assert answer.status == 422
    assert f'metadata.labels[{LABEL}]: Invalid value: "strict"' in answer.message
    assert "privileged, baseline, restricted" in answer.message


def test_an_update_that_changes_an_image_is_looked_at_and_one_of_labels_is_not(
    api_server: Server, namespace: str
) -> None:
    set_level(api_server.admin, namespace, "privileged")
    api_server.admin.made(pods(namespace), pod(_HOST_ROOT))
    set_level(api_server.admin, namespace, "baseline")
    editor = user_with(api_server, namespace, "edit")
    path = f"{pods(namespace)}/p"
    assert editor.patch(path, {"metadata": {"labels": {"a": "b"}}}).status == 200
    change = [{"op": "replace", "path": "/spec/containers/0/image", "value": "mine"}]
    answer = editor.patch(path, change, JSON_PATCH)
    assert answer.status == 403
    assert answer.message.endswith('hostPath volumes (volume "host")')


class TestOneBox:
    """Without a label: in a cluster such a namespace takes everything, on one box nothing that reaches the host."""

    @pytest.mark.parametrize("case", FORBIDDEN)
    @pytest.mark.parametrize("role", ["edit", "admin"])
    def test_a_user_makes_no_pod_that_reaches_the_host(self, embedded_server: Server, role: str, case: str) -> None:
        namespace = new_namespace(embedded_server.admin)
        client = user_with(embedded_server, namespace, role)
        answer = client.post(pods(namespace), FORBIDDEN[case][0])
        assert answer.status == 403, answer.body
        assert 'violates PodSecurity "baseline:latest"' in answer.message
        assert client.get(pods(namespace)).json["items"] == []

    @pytest.mark.parametrize("case", FORBIDDEN)
    def test_the_controller_and_those_who_own_the_box_make_every_pod(self, embedded_server: Server, case: str) -> None:
        namespace = new_namespace(embedded_server.admin)
        controller = embedded_server.log_in("kvedge:controller", ["kvedge:controllers"])
        assert _try(controller, namespace, FORBIDDEN[case][0]).status == 201
        assert _try(embedded_server.admin, namespace, FORBIDDEN[case][0]).status == 201
        # The launchers go on whatever the namespace says.
        set_level(embedded_server.admin, namespace, "restricted")
        assert _try(controller, namespace, FORBIDDEN[case][0]).status == 201
        assert _try(embedded_server.admin, namespace, FORBIDDEN[case][0]).status == 403

    def test_a_cluster_admin_by_binding_owns_the_box_like_one_by_certificate(self, embedded_server: Server) -> None:
        namespace = new_namespace(embedded_server.admin)
        everything = [rule("*", "*", "*"), {"verbs": ["*"], "nonResourceURLs": ["*"]}]
        give(embedded_server.admin, "", everything, subject("User", "bound-admin"))
        client = embedded_server.log_in("bound-admin", [])
        assert _try(client, namespace, pod(_HOST_ROOT)).status == 201

    def test_kvedges_service_account_is_no_controller(self, embedded_server: Server) -> None:
        """Who may edit its namespace can speak as its accounts; the roles of one box have certificates."""
        namespace = new_namespace(embedded_server.admin)
        account = "system:serviceaccount:kvedge-system:kvedge-controller"
        give(embedded_server.admin, namespace, [rule("create", "core", "pods")], subject("User", account))
        client = embedded_server.log_in(account, [])
        assert _try(client, namespace, pod(_HOST_ROOT)).status == 403

    def test_only_who_owns_the_box_opens_a_namespace(self, embedded_server: Server) -> None:
        admin = embedded_server.admin
        namespace = new_namespace(admin)
        give(admin, "", [rule("create get list patch update", "core", "namespaces")], subject("User", "landlord"))
        landlord = embedded_server.log_in("landlord", [])
        answer = set_level(landlord, namespace, "privileged")
        assert answer.status == 403
        assert "every right" in answer.message
        labels = {LABEL: "privileged"}
        assert landlord.post("/api/v1/namespaces", {"metadata": {"name": "open", "labels": labels}}).status == 403
        assert set_level(landlord, namespace, "restricted").status == 200
        editor = user_with(embedded_server, namespace, "edit")
        assert set_level(admin, namespace, "privileged").status == 200
        assert _try(editor, namespace, pod(_HOST_ROOT)).status == 201
        # What the administrator has opened stays open when others touch the namespace.
        assert landlord.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": {"a": "b"}}}).status == 200
        assert set_level(landlord, namespace, None).status == 200
        assert _try(editor, namespace, pod(_HOST_ROOT)).status == 403

    @pytest.mark.parametrize("subresource", ["", "/status", "/finalize"])
    @pytest.mark.parametrize("how", ["put", MERGE, STRATEGIC, JSON_PATCH, APPLY])
    def test_no_way_of_writing_a_namespace_opens_it(self, embedded_server: Server, subresource: str, how: str) -> None:
        admin = embedded_server.admin
        namespace = new_namespace(admin)
        words = "get patch update", "core", "namespaces namespaces/status namespaces/finalize"
        give(admin, "", [rule(*words)], subject("User", "caretaker"))
        caretaker = embedded_server.log_in("caretaker", [])
        path = f"/api/v1/namespaces/{namespace}"
        whole = eventually(lambda: (found := caretaker.get(path)).status == 200 and found).json
        change: Any = {"metadata": {"labels": {LABEL: "privileged"}}}
        if how == "put":
            whole["metadata"]["labels"][LABEL] = "privileged"
            answer = caretaker.put(path + subresource, whole)
        elif how == JSON_PATCH:
            key = LABEL.replace("/", "~1")
            change = [{"op": "add", "path": f"/metadata/labels/{key}", "value": "privileged"}]
            answer = caretaker.patch(path + subresource, change, how)
        elif how == APPLY:
            change |= {"apiVersion": "v1", "kind": "Namespace"}
            answer = caretaker.patch(path + subresource, change, how, fieldManager="m", force="true")
        else:
            answer = caretaker.patch(path + subresource, change, how)
        if subresource != "/finalize":
            assert answer.status == 403, answer.body
            assert "every right" in answer.message
        assert LABEL not in admin.get(path).json["metadata"]["labels"]

    @pytest.mark.parametrize("field", ["containers", "initContainers"])
    def test_a_pod_of_thousands_of_containers_is_refused(self, embedded_server: Server, field: str) -> None:
        """What looks at each container does so in the event loop, and again for every write of the Pod."""
        admin, namespace = embedded_server.admin, new_namespace(embedded_server.admin)
        many = [{"name": f"c-{number}", "image": "x"} for number in range(501)]
        answer = _try(admin, namespace, pod({field: many}))
        assert answer.status == 422, answer.body
        assert f"spec.{field}: Too many: 501: must have at most 500 items" in answer.message
        assert _try(admin, namespace, pod({field: many[:500]})).status == 201

    def test_a_refusal_of_hundreds_of_containers_is_short(self, embedded_server: Server) -> None:
        namespace = new_namespace(embedded_server.admin)
        many = [
            {"name": f"c{number}", "image": "x", "securityContext": {"privileged": True, "procMount": "Unmasked"}}
            for number in range(500)
        ]
        editor = user_with(embedded_server, namespace, "edit")
        answer = _try(editor, namespace, pod({"containers": many}))
        assert answer.status == 403
        assert len(answer.body) < 4096
