"""Addresses of both versions of IP: what Services ask for, what they get, and what is refused. On both servers."""

from __future__ import annotations

import copy
import ipaddress
import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from kvedge.kube.errors import KubeError
from kvedge.kube.kube_client import KubeClient
from kvedge.standalone.apiserver.api_server import ApiServerConfig, EmbeddedApi
from tests.support.either_server import EMBEDDED, REAL
from tests.support.kube_apiserver import RealApiServer

pytestmark = pytest.mark.contract

# The addresses named below are of the first sixteen, which a server hands out last.
RANGES = "10.0.0.0/24,fd00:99::/112"
SERVICES = "/api/v1/namespaces/default/services"
BOTH, TURNED = ["IPv4", "IPv6"], ["IPv6", "IPv4"]
TWO_NEED = (
    "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' "
    "when multiple {} are specified"
)
_numbers = itertools.count(1)


@pytest.fixture(scope="module", params=[EMBEDDED, REAL])
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeClient]:
    """An administrator of a server with a range of each family."""
    directory = tmp_path_factory.mktemp("families")
    server: EmbeddedApi | RealApiServer
    if request.param == REAL:
        server = RealApiServer(directory, more_options=[f"--service-cluster-ip-range={RANGES}"])
        server.start()
        kubeconfig = server.kubeconfig
    else:
        server = EmbeddedApi(ApiServerConfig(directory, port=0, node_name="box", service_cidr=RANGES))
        server.start()
        kubeconfig = directory / "kubeconfig"
        server.write_kubeconfig(kubeconfig, "admin", ["system:masters"])
    try:
        yield KubeClient.from_kubeconfig(kubeconfig, "test")
    finally:
        server.stop()


def create(client: KubeClient, **spec: Any) -> Any:
    whole = {"ports": [{"port": 80}], "selector": {"app": "web"}, **spec}
    body = {"metadata": {"name": f"s{next(_numbers)}"}, "spec": {key: each for key, each in whole.items() if each}}
    return client.request("POST", SERVICES, body)


def update(client: KubeClient, service: Any, **spec: Any) -> Any:
    body = copy.deepcopy(service)
    body["spec"].update(spec)
    body["spec"] = {key: each for key, each in body["spec"].items() if each}
    return client.request("PUT", f"{SERVICES}/{body['metadata']['name']}", body)


def shown(service: Any) -> tuple[list[str], list[str], str]:
    """The families of its addresses, those it names, and its policy."""
    spec = service["spec"]
    assert spec["clusterIPs"][0] == spec["clusterIP"]
    found = [each if each == "None" else f"IPv{ipaddress.ip_address(each).version}" for each in spec["clusterIPs"]]
    return found, spec["ipFamilies"], spec["ipFamilyPolicy"]


@pytest.mark.parametrize(
    ("asked", "got"),
    [
        ({}, (["IPv4"], ["IPv4"], "SingleStack")),
        ({"ipFamilies": ["IPv6"]}, (["IPv6"], ["IPv6"], "SingleStack")),
        ({"ipFamilyPolicy": "PreferDualStack"}, (BOTH, BOTH, "PreferDualStack")),
        ({"ipFamilyPolicy": "RequireDualStack"}, (BOTH, BOTH, "RequireDualStack")),
        ({"ipFamilies": ["IPv6"], "ipFamilyPolicy": "PreferDualStack"}, (TURNED, TURNED, "PreferDualStack")),
        ({"clusterIP": "fd00:99::77"}, (["IPv6"], ["IPv6"], "SingleStack")),
        (
            {"clusterIP": "10.0.0.8", "clusterIPs": ["10.0.0.8"], "ipFamilyPolicy": "PreferDualStack"},
            (BOTH, BOTH, "PreferDualStack"),
        ),
        ({"clusterIP": "None"}, (["None"], ["IPv4"], "SingleStack")),
        ({"clusterIP": "None", "ipFamilies": ["IPv6"]}, (["None"], ["IPv6"], "SingleStack")),
        ({"clusterIP": "None", "ipFamilyPolicy": "PreferDualStack"}, (["None"], BOTH, "PreferDualStack")),
        ({"clusterIP": "None", "selector": None}, (["None"], BOTH, "RequireDualStack")),
        ({"clusterIP": "None", "selector": None, "ipFamilies": ["IPv6"]}, (["None"], TURNED, "RequireDualStack")),
        (
            {"clusterIP": "None", "selector": None, "ipFamilyPolicy": "SingleStack"},
            (["None"], ["IPv4"], "SingleStack"),
        ),
    ],
    ids=str,
)
def test_what_is_left_out_is_filled_in(
    client: KubeClient, asked: dict[str, Any], got: tuple[list[str], list[str], str]
) -> None:
    assert shown(create(client, **asked)) == got


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"ipFamilies": TURNED}, TWO_NEED.format("IP families")),
        ({"ipFamilies": BOTH, "ipFamilyPolicy": "SingleStack"}, TWO_NEED.format("IP families")),
        (
            {"ipFamilyPolicy": "Many"},
            'spec.ipFamilyPolicy: Unsupported value: "Many": supported values: "PreferDualStack", "RequireDualStack", '
            '"SingleStack"',
        ),
        (
            {"ipFamilies": ["IPv4", "IPv4"], "ipFamilyPolicy": "PreferDualStack"},
            'spec.ipFamilies[1]: Duplicate value: "IPv4"',
        ),
        (
            {"ipFamilies": ["IPv4", "IPv5"], "ipFamilyPolicy": "PreferDualStack"},
            'spec.ipFamilies[1]: Unsupported value: "IPv5": supported values: "IPv4", "IPv6"',
        ),
        (
            {"clusterIP": "fd00:99::78", "ipFamilies": ["IPv4"]},
            'spec.clusterIPs[0]: Invalid value: "fd00:99::78": expected an IPv4 value as indicated by `ipFamilies[0]`',
        ),
        (
            {"clusterIPs": ["10.0.0.4", "fd00:99::79"]},
            'spec.clusterIPs: Invalid value: ["10.0.0.4","fd00:99::79"]: must be empty when `clusterIP` is not '
            "specified",
        ),
        (
            {"clusterIP": "10.0.0.5", "clusterIPs": ["10.0.0.5", "fd00:99::7a"]},
            TWO_NEED.format("cluster IPs"),
        ),
        (
            {
                "clusterIP": "10.0.0.8",
                "clusterIPs": ["10.0.0.8", "10.0.0.9"],
                "ipFamilyPolicy": "PreferDualStack",
            },
            'spec.clusterIPs: Invalid value: ["10.0.0.8","10.0.0.9"]: may specify no more than one IP for each IP '
            "family",
        ),
        (
            {
                "clusterIP": "10.0.0.8",
                "clusterIPs": ["10.0.0.8", "fd00:99::1", "fd00:99::2"],
                "ipFamilyPolicy": "PreferDualStack",
            },
            'spec.clusterIPs: Invalid value: ["10.0.0.8","fd00:99::1","fd00:99::2"]: may only hold up to 2 values',
        ),
        (
            {"clusterIP": "10.0.0.11", "clusterIPs": ["10.0.0.11", "x"], "ipFamilyPolicy": "PreferDualStack"},
            'spec.clusterIPs[1]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
        ),
        (
            {"clusterIP": "None", "clusterIPs": ["None", "10.0.0.12"]},
            'spec.clusterIPs: Invalid value: ["None","10.0.0.12"]: \'None\' must be the first and only value',
        ),
        (
            {"type": "ExternalName", "externalName": "a.b", "ports": None, "ipFamilies": ["IPv4"]},
            "spec.ipFamilies: Forbidden: may not be set for ExternalName services",
        ),
        (
            {"type": "ExternalName", "externalName": "a.b", "ports": None, "ipFamilyPolicy": "SingleStack"},
            "spec.ipFamilyPolicy: Forbidden: may not be set for ExternalName services",
        ),
    ],
    ids=str,
)
def test_what_contradicts_itself_is_refused(client: KubeClient, asked: dict[str, Any], words: str) -> None:
    with pytest.raises(KubeError) as refused:
        create(client, **asked)
    assert str(refused.value).partition(" is invalid: ")[2] == words


def test_an_address_outside_of_its_range_is_refused(client: KubeClient) -> None:
    asked = {"clusterIP": "10.0.0.11", "clusterIPs": ["10.0.0.11", "fd01::1"], "ipFamilyPolicy": "PreferDualStack"}
    with pytest.raises(KubeError, match="failed to allocate IP fd01::1"):
        create(client, **asked)


def test_a_second_address_comes_and_goes_with_the_policy(client: KubeClient) -> None:
    one = create(client)
    two = update(client, one, ipFamilyPolicy="PreferDualStack")
    assert shown(two) == (BOTH, BOTH, "PreferDualStack")
    assert two["spec"]["clusterIP"] == one["spec"]["clusterIP"]
    # What an older client leaves out stays.
    same = update(client, two, ipFamilyPolicy=None, ipFamilies=None, clusterIPs=None)
    assert same["spec"] == two["spec"]
    again = update(client, same, ipFamilyPolicy="SingleStack")
    assert shown(again) == (["IPv4"], ["IPv4"], "SingleStack")
    named = update(
        client, again, clusterIPs=[one["spec"]["clusterIP"], "fd00:99::99"], ipFamilyPolicy="RequireDualStack"
    )
    assert named["spec"]["clusterIPs"] == [one["spec"]["clusterIP"], "fd00:99::99"]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            {"ipFamilies": ["IPv4"]},
            "must be 'SingleStack' to release the secondary IP family",
        ),
        (
            {"clusterIPs": ["10.0.0.{}", "fd00:99::98"]},
            "spec.clusterIPs[1]: Invalid value: ",
        ),
        ({"ipFamilies": TURNED}, "as indicated by `ipFamilies[0]`"),
    ],
    ids=str,
)
def test_what_a_service_has_is_changed_by_its_policy_alone(
    client: KubeClient, changed: dict[str, Any], words: str
) -> None:
    made = create(client, ipFamilyPolicy="PreferDualStack")
    if "clusterIPs" in changed:
        changed = {"clusterIPs": [made["spec"]["clusterIP"], "fd00:99::98"]}
    with pytest.raises(KubeError) as refused:
        update(client, made, **changed)
    assert words in str(refused.value)
