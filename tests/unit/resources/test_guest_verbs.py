"""The table of guest verbs: every row is a right, a discovery entry, a route, a relay path and a gRPC method.

What is served and has no row is found here, too, and what old versions say on the wire is written out once.
"""

from __future__ import annotations

import functools
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest
import yaml

from kvedge.api.served_paths import SUBRESOURCE_GROUP, SUBRESOURCE_VERSIONS
from kvedge.api.subresources import guest_rules
from kvedge.api.subresources.call_options import OPTIONS
from kvedge.api.subresources.discovery_manifest import api_resource_list
from kvedge.api.subresources.evacuation_calls import EVACUATION
from kvedge.api.subresources.guest_calls import FACTS
from kvedge.api.subresources.power_calls import POWER
from kvedge.api.subresources.subresource_server import SubresourceServer
from kvedge.api.subresources.volume_calls import VOLUME
from kvedge.handler.launchers.guest_answer_message import guest_answer
from kvedge.handler.launchers.launcher_door import launcher_request
from kvedge.handler.launchers.relay_server import RelayServer
from kvedge.launcher.launcher_server import LauncherServer
from kvedge.launcher.launcher_service import LauncherService
from kvedge.resources.configuration.feature_gates import STAGES, FeatureGates
from kvedge.resources.guest_verbs import GUEST_VERBS, RELAYED_VERBS, Check, GuestVerb, Way
from kvedge.resources.relay_protocol import (
    CROSSING_ROUTE,
    MIGRATION_ROUTE,
    PROTOCOL,
    REASON_HEADER,
    RELAY_PREFIX,
    ROLE_STATS_ROUTE,
    STATS_ROUTE,
    UNFREEZE_SECONDS,
    relay_path,
)
from kvedge.rpc import launcher_pb2
from tests.support.echo_door import EchoDoor

ROOT = Path(__file__).parents[3]
SERVICE = launcher_pb2.DESCRIPTOR.services_by_name["Launcher"]
# Served by the aggregated API, and no calls of a guest.
DOCUMENTS = {"", "/version", "/healthz", "/guestfs"}
EXPAND = ("PUT", "/namespaces/{namespace}/expand-vm-spec")
# What a relay of protocol 1 serves: releases that know these paths ask for them. A new verb adds a line.
RELAY_PATHS = {
    ("PUT", "pause"),
    ("PUT", "unpause"),
    ("PUT", "reset"),
    ("PUT", "softreboot"),
    ("PUT", "freeze"),
    ("PUT", "unfreeze"),
    ("PUT", "sev/injectlaunchsecret"),
    ("GET", "guestosinfo"),
    ("GET", "userlist"),
    ("GET", "filesystemlist"),
    ("GET", "console"),
    ("GET", "console/log"),
    ("GET", "migration"),
    ("GET", "network"),
    ("GET", "network/capture"),
    ("GET", "sev/fetchcertchain"),
    ("GET", "sev/querylaunchmeasurement"),
    ("GET", "spice"),
    ("GET", "trace"),
    ("GET", "usage"),
    ("GET", "usbredir"),
    ("GET", "vnc"),
    ("GET", "vsock"),
    ("GET", "vnc/screenshot"),
}
# Which ClusterRoles hold a right of each role of the table.
HOLDERS = {
    "view": {"kubevirt.io:view", "kubevirt.io:edit", "kubevirt.io:admin"},
    "edit": {"kubevirt.io:edit", "kubevirt.io:admin"},
    "admin": {"kubevirt.io:admin"},
    "migrate": {"kubevirt.io:migrate"},
    "nobody": set(),
}
each_verb = pytest.mark.parametrize("verb", GUEST_VERBS, ids=lambda verb: f"{verb.resource}/{verb.route}")
each_call = pytest.mark.parametrize(
    "verb", [verb for verb in GUEST_VERBS if verb.rpc], ids=lambda verb: f"{verb.name} by {verb.rpc}"
)


@functools.cache
def rights_in_k3s() -> set[tuple[str, str, str]]:
    """Role, RBAC verb and subresource of every right to the aggregated API in k3s/rbac/users.yaml."""
    return {
        (document["metadata"]["name"], right, resource)
        for document in yaml.safe_load_all((ROOT / "k3s/rbac/users.yaml").read_text())
        for rule in document.get("rules", [])
        if rule["apiGroups"] == [SUBRESOURCE_GROUP]
        for right in rule["verbs"]
        for resource in rule["resources"]
    }


def api_routes(version: str) -> set[tuple[str, str]]:
    """Method and path, below the version, of everything that the aggregated API serves in it."""
    cluster: Any = SimpleNamespace(version=None)
    nothing: Any = SimpleNamespace(call=None)
    base = f"/apis/{SUBRESOURCE_GROUP}/{version}"
    routes = SubresourceServer(cluster, *(nothing,) * 9, lambda: None, lambda: FeatureGates()).routes()
    return {
        (route.method, route.path.removeprefix(base)) for route in routes if f"{route.path}/".startswith(f"{base}/")
    }


def relay_routes() -> set[tuple[str, str]]:
    """Method and path of all that a relay serves for users; what handlers ask each other is no call of theirs."""
    routes = RelayServer(EchoDoor()).application().router.routes()
    paths = {(route.method, route.resource.canonical) for route in routes if route.resource is not None}
    others = (MIGRATION_ROUTE, CROSSING_ROUTE, STATS_ROUTE, ROLE_STATS_ROUTE)
    return {(method, path) for method, path in paths if path not in others}


@each_verb
def test_a_verb_is_the_right_of_those_roles_that_its_row_names(verb: GuestVerb) -> None:
    holders = {role for role, right, resource in rights_in_k3s() if (right, resource) == (verb.rbac_verb, verb.asked)}
    assert holders == HOLDERS[verb.role]


def test_no_role_has_a_right_to_a_call_that_has_no_row() -> None:
    known = {(verb.rbac_verb, verb.asked) for verb in GUEST_VERBS}
    known.add(("update", "expand-vm-spec"))
    known |= {(right, name) for right in ("get", "list") for name in ("version", "guestfs")}
    assert {(right, resource) for _, right, resource in rights_in_k3s()} <= known


@pytest.mark.parametrize("version", SUBRESOURCE_VERSIONS)
def test_discovery_lists_the_rows_that_are_to_be_listed_and_no_others(version: str) -> None:
    listed = [resource["name"] for resource in api_resource_list(version)["resources"]]
    assert set(listed) == {"expand-vm-spec", *(verb.asked for verb in GUEST_VERBS if verb.listed)}
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize("version", SUBRESOURCE_VERSIONS)
def test_the_api_serves_every_row_and_nothing_without_one(version: str) -> None:
    rows = {(verb.method, f"/namespaces/{{namespace}}/{verb.resource}/{{name}}/{verb.route}") for verb in GUEST_VERBS}
    assert len(rows) == len(GUEST_VERBS)
    assert api_routes(version) - {("GET", path) for path in DOCUMENTS} == rows | {EXPAND}


def test_a_relay_serves_every_row_that_goes_to_a_node_and_nothing_without_one() -> None:
    assert relay_routes() == {(verb.method, f"{RELAY_PREFIX}/{verb.name}") for verb in RELAYED_VERBS.values()}


def test_what_versions_say_to_each_other_stays_as_it_is() -> None:
    assert {(verb.method, verb.name) for verb in RELAYED_VERBS.values()} == RELAY_PATHS
    assert relay_path("shop", "till", "vnc/screenshot") == (
        "/v1/namespaces/shop/virtualmachineinstances/till/vnc/screenshot"
    )
    assert (PROTOCOL, REASON_HEADER, UNFREEZE_SECONDS) == (1, "X-Kvedge-Reason", "unfreezeSeconds")


@each_call
def test_a_verbs_grpc_method_is_in_the_protocol_and_in_the_launcher(verb: GuestVerb) -> None:
    method = SERVICE.methods_by_name[verb.rpc]
    assert any(verb.rpc in vars(server) for server in (LauncherServer, LauncherService))
    assert method.input_type.name == f"{verb.rpc}Request"
    if verb.way != "picture":
        assert launcher_request(verb, {UNFREEZE_SECONDS: 1}).DESCRIPTOR is method.input_type


@pytest.mark.parametrize("verb", RELAYED_VERBS.values(), ids=lambda verb: verb.name)
def test_a_verb_that_goes_to_a_node_is_a_grpc_method_or_a_socket_or_the_nodes_own(verb: GuestVerb) -> None:
    expected = {
        "stream": (False, True),
        "log": (False, False),
        "node": (False, False),
        "usage": (False, False),
        "capture": (False, False),
        "vsock": (False, False),
    }.get(verb.way, (True, False))
    assert (bool(verb.rpc), bool(verb.socket)) == expected


@pytest.mark.parametrize("verb", [verb for verb in GUEST_VERBS if verb.way == "facts"], ids=lambda verb: verb.name)
def test_what_a_guest_tells_has_a_shape_for_the_relay_and_one_for_users(verb: GuestVerb) -> None:
    reply = getattr(launcher_pb2, SERVICE.methods_by_name[verb.rpc].output_type.name)()
    assert isinstance(FACTS[verb.name](guest_answer(reply)), dict)
    assert guest_answer(reply)


def test_every_implementation_belongs_to_a_row() -> None:
    by_way: dict[Way, set[str]] = {}
    for verb in GUEST_VERBS:
        by_way.setdefault(verb.way, set()).add(verb.name)
    assert set(get_args(Way)) == by_way.keys()
    assert set(POWER) == by_way["power"]
    assert set(VOLUME) == by_way["volume"]
    assert set(EVACUATION) == by_way["evacuation"]
    assert by_way["migration"] == {"migrate"}
    assert by_way["vsock"] == {"vsock"}
    assert by_way["session"] == {"sev/setupsession"}
    assert set(FACTS) == by_way["facts"]
    assert set(OPTIONS) <= by_way["change"] | by_way["command"]


def test_every_gate_is_one_of_kubevirts() -> None:
    assert {verb.gate for verb in GUEST_VERBS if verb.gate} <= STAGES.keys()


def test_every_check_is_of_some_verb_and_every_verbs_checks_are_there() -> None:
    asked = {check for verb in GUEST_VERBS for check in verb.checks}
    assert asked == set(get_args(Check)) == guest_rules.CHECKS.keys() | guest_rules.OWNER_CHECKS.keys()
