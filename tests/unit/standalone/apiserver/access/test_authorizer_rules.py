"""Who may do what: the table, role by role, from both sides."""

from __future__ import annotations

import pytest

from kvedge.resources.role_users import MASTERS
from kvedge.standalone.apiserver.access.authorizer_rules import (
    AGENTS,
    APIS,
    AUTHENTICATED,
    CONTROLLERS,
    HANDLERS,
    Authorizer,
)
from kvedge.standalone.apiserver.requests.request_context import Caller
from kvedge.standalone.apiserver.requests.request_target import RequestTarget

_VMI: dict[str, dict[str, object]] = {
    "here": {"status": {"nodeName": "n1"}},
    "there": {"status": {"nodeName": "n2"}},
    "coming": {"status": {"nodeName": "n2", "migrationState": {"targetNode": "n1"}}},
    "nowhere": {},
}


def lookup(group: str, resource: str, namespace: str, name: str) -> dict[str, object] | None:
    """The VMIs above."""
    return _VMI.get(name) if resource == "virtualmachineinstances" else None


AUTHORIZER = Authorizer(lookup)
ADMIN = Caller("admin", (MASTERS, AUTHENTICATED))
CONTROLLER = Caller("kvedge:controller", (CONTROLLERS, AUTHENTICATED))
HANDLER = Caller("kvedge:handler:n1", (HANDLERS, AUTHENTICATED))
API = Caller("kvedge:api", (APIS, AUTHENTICATED))
AGENT = Caller("system:node:n1", (AGENTS, AUTHENTICATED))
JOE = Caller("joe", (AUTHENTICATED,))


def may(caller: Caller, verb: str, resource: str, name: str = "", namespace: str = "ns") -> bool:
    """Whether the caller may use the verb on `plural[/subresource][.group]`."""
    plural, _, group = resource.partition(".")
    plural, _, subresource = plural.partition("/")
    return AUTHORIZER.allows(caller, RequestTarget(verb, "", group, "v1", namespace, plural, name, subresource))


def test_an_administrator_may_do_everything() -> None:
    assert may(ADMIN, "delete", "anything.example.com")
    assert may(ADMIN, "get", "virtualmachineinstances/vnc.subresources.kubevirt.io")


def test_somebody_without_a_role_may_only_ask_what_they_may() -> None:
    assert may(JOE, "create", "selfsubjectaccessreviews.authorization.k8s.io", namespace="")
    assert not may(JOE, "create", "subjectaccessreviews.authorization.k8s.io", namespace="")
    for resource in ("pods", "secrets", "virtualmachines.kubevirt.io", "nodes"):
        assert not may(JOE, "list", resource), resource


@pytest.mark.parametrize("path", ["/", "/version", "/healthz", "/apis", "/api", "/openapi/v3", "/openapi/v3/api/v1"])
def test_discovery_is_for_everybody_who_is_known(path: str) -> None:
    assert AUTHORIZER.allows(JOE, RequestTarget("get", path))
    assert not AUTHORIZER.allows(JOE, RequestTarget("post", path))
    assert not AUTHORIZER.allows(Caller("nobody"), RequestTarget("get", path))


def test_other_paths_are_for_administrators() -> None:
    assert not AUTHORIZER.allows(JOE, RequestTarget("get", "/metrics"))
    assert AUTHORIZER.allows(ADMIN, RequestTarget("get", "/metrics"))


def test_a_handler_writes_its_own_node_and_no_other() -> None:
    assert may(HANDLER, "patch", "nodes", "n1", "")
    assert not may(HANDLER, "patch", "nodes", "n2", "")
    assert not may(HANDLER, "delete", "nodes", "n1", "")


@pytest.mark.parametrize(
    ("name", "allowed"), [("here", True), ("coming", True), ("there", False), ("nowhere", False), ("none", False)]
)
def test_a_handler_writes_the_vmis_of_its_node_only(name: str, allowed: bool) -> None:
    assert may(HANDLER, "patch", "virtualmachineinstances.kubevirt.io", name) is allowed
    assert may(HANDLER, "get", "virtualmachineinstances.kubevirt.io", name)


def test_a_handler_makes_and_deletes_no_vmis_and_reads_no_secrets() -> None:
    assert not may(HANDLER, "create", "virtualmachineinstances.kubevirt.io")
    assert not may(HANDLER, "delete", "virtualmachineinstances.kubevirt.io", "here")
    assert not may(HANDLER, "get", "secrets", "s")
    assert not may(HANDLER, "create", "pods")


@pytest.mark.parametrize("caller", [CONTROLLER, HANDLER, AGENT], ids=["controller", "handler", "agent"])
@pytest.mark.parametrize("verb", ["get", "list", "watch", "update", "patch", "delete"])
def test_nobody_but_the_api_role_sees_the_authority(caller: Caller, verb: str) -> None:
    assert not may(caller, verb, "secrets", "kvedge-ca", "kvedge-system")
    assert not AUTHORIZER.allows(
        caller, RequestTarget(verb, "", "", "v1", "kvedge-system", "secrets", selected_name="kvedge-ca")
    )


def test_the_api_role_keeps_the_authority_and_sees_no_other_secret() -> None:
    assert may(API, "get", "secrets", "kvedge-ca", "kvedge-system")
    assert may(API, "update", "secrets", "kvedge-ca", "kvedge-system")
    for verb in ("list", "watch", "delete"):
        assert not may(API, verb, "secrets", "kvedge-ca", "kvedge-system"), verb
    assert not may(API, "get", "secrets", "other", "kvedge-system")
    assert not may(API, "get", "secrets", "kvedge-ca", "default")


def test_a_handler_asks_for_a_certificate_and_reads_whom_to_trust() -> None:
    requests = "certificatesigningrequests.certificates.k8s.io"
    assert may(HANDLER, "create", requests, namespace="")
    assert may(HANDLER, "get", requests, "x", "")
    assert may(HANDLER, "get", "configmaps", "kvedge-ca-bundle", "kvedge-system")
    assert not may(HANDLER, "update", "configmaps", "kvedge-ca-bundle", "kvedge-system")
    assert not may(HANDLER, "get", "configmaps", "other", "kvedge-system")
    for subresource in ("approval", "status"):
        assert not may(HANDLER, "update", f"certificatesigningrequests/{subresource}.certificates.k8s.io", "x", "")
    assert not may(HANDLER, "approve", "signers.certificates.k8s.io", "kvedge.io/handler-serving", "")


def test_the_api_role_signs_for_handlers_and_for_nobody_else() -> None:
    for verb in ("approve", "sign"):
        assert may(API, verb, "signers.certificates.k8s.io", "kvedge.io/handler-serving", "")
        assert not may(API, verb, "signers.certificates.k8s.io", "kubernetes.io/kube-apiserver-client", "")
        assert not may(API, verb, "signers.certificates.k8s.io", "kvedge.io/*", "")


def test_the_group_of_handlers_alone_makes_nobody_a_handler() -> None:
    for user in ("joe", "kvedge:handler:", "system:node:n1"):
        somebody = Caller(user, (HANDLERS, AUTHENTICATED))
        assert not may(somebody, "patch", "nodes", "n1", ""), user
        assert not may(somebody, "patch", "nodes", "", ""), user


def test_the_controller_makes_pods_and_everything_of_kubevirt() -> None:
    assert may(CONTROLLER, "create", "pods")
    assert may(CONTROLLER, "patch", "pods/status", "p")
    assert may(CONTROLLER, "delete", "virtualmachineinstances.kubevirt.io", "x")
    assert may(CONTROLLER, "patch", "virtualmachines/status.kubevirt.io", "x")
    assert not may(CONTROLLER, "get", "secrets", "s")
    assert not may(CONTROLLER, "create", "validatingwebhookconfigurations.admissionregistration.k8s.io", namespace="")


def test_the_election_is_held_in_kvedges_own_namespace() -> None:
    assert may(CONTROLLER, "update", "leases.coordination.k8s.io", "x", "kvedge-system")
    assert not may(CONTROLLER, "update", "leases.coordination.k8s.io", "x", "default")


def test_the_api_role_registers_itself_and_carries_out_wishes() -> None:
    assert may(API, "create", "validatingwebhookconfigurations.admissionregistration.k8s.io", namespace="")
    assert may(API, "update", "apiservices.apiregistration.k8s.io", "x", "")
    assert may(API, "create", "subjectaccessreviews.authorization.k8s.io", namespace="")
    assert may(API, "patch", "virtualmachines/status.kubevirt.io", "x")
    assert may(API, "create", "endpoints", namespace="kvedge-system")
    assert may(API, "get", "configmaps", "extension-apiserver-authentication", "kube-system")
    assert not may(API, "get", "secrets", "s")
    assert not may(API, "create", "endpoints", namespace="default")
    assert not may(API, "create", "pods")


def test_the_agent_runs_pods_and_mounts_what_they_need() -> None:
    assert may(AGENT, "create", "pods/binding", "p")
    assert may(AGENT, "patch", "pods/status", "p")
    assert may(AGENT, "get", "secrets", "s")
    assert not may(AGENT, "list", "secrets")
    assert may(AGENT, "create", "serviceaccounts/token", "reader")
    assert not may(AGENT, "create", "serviceaccounts")
    assert may(AGENT, "create", "ipaddresses.networking.k8s.io", namespace="")
    assert not may(AGENT, "update", "secrets", "s")
    assert not may(AGENT, "update", "virtualmachineinstances.kubevirt.io", "x")


@pytest.mark.parametrize("caller", [CONTROLLER, HANDLER, API, AGENT], ids=["controller", "handler", "api", "agent"])
def test_no_role_can_make_itself_more_than_it_is(caller: Caller) -> None:
    for resource in (
        "clusterrolebindings.rbac.authorization.k8s.io",
        "rolebindings.rbac.authorization.k8s.io",
        "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    ):
        if caller is API and resource.startswith("mutating"):
            continue
        assert not may(caller, "create", resource, namespace=""), resource
    assert may(caller, "create", "events") is (caller is not API)
    assert not may(caller, "delete", "namespaces", "default", "")


def test_a_rule_for_an_object_means_not_its_subresources() -> None:
    assert may(API, "patch", "virtualmachineinstances.kubevirt.io", "x")
    assert not may(API, "get", "virtualmachineinstances/vnc.subresources.kubevirt.io", "x")
    assert not may(CONTROLLER, "get", "pods/log", "p")
