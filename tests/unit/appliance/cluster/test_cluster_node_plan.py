"""What installing on a node of a cluster finds out, decides and writes down."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from kvedge.appliance.cluster.cluster_node_plan import (
    NodePlace,
    ends_soon,
    handler_kubeconfig,
    node_address,
    node_settings,
    serves_still,
)
from kvedge.appliance.host.distributions import DISTRIBUTIONS, of_node, of_server
from kvedge.appliance.host.layout import Layout, role_units
from kvedge.appliance.host.own_file import OwnFile
from kvedge.appliance.host.unit_files import unit_texts
from kvedge.appliance.install.install_plan import plan_install, plan_uninstall, plan_way_back
from kvedge.appliance.install.install_steps import MakeDirectory, Remove, Step, Systemctl, WriteFile
from kvedge.client.users.user_manifest import NewUser, kubeconfig_manifest
from kvedge.resources.types.core import Node, NodeAddress, NodeStatus
from kvedge.runtime.settings import Settings, load_settings
from kvedge.runtime.tls.certificates import LEAF_LIFE, CertificateAuthority, LeafRequest
from tests.support.values import replace
from tests.unit.appliance.install.test_install_plan import EMPTY

NOW = datetime(2026, 5, 1, tzinfo=UTC)
LAYOUT = Layout()
PLACE = NodePlace(LAYOUT.roles, Path("/var/lib/k0s/kubelet"), "192.0.2.7")
CLUSTER = {"server": "https://192.0.2.1:6443", "certificate-authority-data": "Y2E="}


@pytest.mark.parametrize(
    ("there", "server", "node"),
    [
        pytest.param(["/etc/rancher/k3s/k3s.yaml"], "k3s", "k3s", id="a server of k3s"),
        pytest.param(["/var/lib/rancher/k3s/agent"], "", "k3s", id="an agent of k3s"),
        pytest.param(
            ["/etc/rancher/rke2/rke2.yaml", "/etc/kubernetes/admin.conf"], "RKE2", "RKE2", id="with leftovers"
        ),
        pytest.param(["/var/lib/k0s/pki/admin.conf"], "k0s", "k0s", id="k0s"),
        pytest.param(["/var/snap/microk8s/current/credentials/client.config"], "MicroK8s", "MicroK8s", id="MicroK8s"),
        pytest.param(["/etc/kubernetes/kubelet.conf"], "", "kubeadm", id="a worker of kubeadm"),
        pytest.param(["/var/lib/kubelet"], "", "", id="something else"),
    ],
)
def test_a_distribution_is_known_by_its_files(there: list[str], server: str, node: str) -> None:
    def exists(path: Path) -> bool:
        return str(path) in there

    found = of_server(exists), of_node(exists)
    assert [item.name if item else "" for item in found] == [server, node]


def test_every_distribution_is_told_apart() -> None:
    for places in ([item.kubeconfig for item in DISTRIBUTIONS], [item.sign for item in DISTRIBUTIONS]):
        assert len(set(places)) == len(DISTRIBUTIONS)


def test_a_node_is_reached_at_its_internal_address() -> None:
    addresses = [NodeAddress(type="Hostname", address="n"), NodeAddress(type="ExternalIP", address="203.0.113.1")]
    assert node_address(Node(status=NodeStatus(addresses=addresses))) == "203.0.113.1"
    both = [
        *addresses,
        NodeAddress(type="InternalIP", address="192.0.2.1"),
        NodeAddress(type="InternalIP", address="::1"),
    ]
    assert node_address(Node(status=NodeStatus(addresses=both))) == "192.0.2.1"
    assert node_address(Node()) == ""


def test_a_servers_settings_are_read_back_and_leave_out_what_the_operator_has_decided(tmp_path: Path) -> None:
    path = tmp_path / "10-install.yaml"
    path.write_bytes(node_settings("server", PLACE, set()))
    settings = load_settings(path, {}, {})
    assert settings.kubeconfig == "/etc/kvedge/roles"
    assert settings.kubelet_dir == "/var/lib/k0s/kubelet"
    assert (settings.api_address, settings.relay_address) == ("192.0.2.7:8443", "192.0.2.7:8186")
    assert settings.roles_of_node == ("api", "controller", "handler")
    kept = yaml.safe_load(node_settings("server", PLACE, {"api-address", "kubelet-dir"}))
    assert set(kept) == {"kubeconfig", "relay-address"}


def test_a_handler_speaks_in_its_own_name_where_it_has_one_and_as_its_node_elsewhere(tmp_path: Path) -> None:
    roles, node = tmp_path / "roles", "/var/lib/rancher/k3s/agent/kubelet.kubeconfig"
    settings = Settings(node_kubeconfig=node)
    assert handler_kubeconfig(settings, roles) == Path(node)
    assert handler_kubeconfig(Settings(), roles) == roles / "handler"
    roles.mkdir()
    assert handler_kubeconfig(Settings(kubeconfig=str(roles), node_kubeconfig=node), tmp_path) == Path(node)
    (roles / "handler").write_text("x")
    assert handler_kubeconfig(settings, roles) == roles / "handler"
    named = Settings(kubeconfig=str(roles / "handler"), node_kubeconfig=node)
    assert handler_kubeconfig(named, tmp_path) == roles / "handler"
    # One that is named and is not there is what is missed.
    assert handler_kubeconfig(Settings(kubeconfig="/not/there"), roles) == Path("/not/there")


def test_where_the_node_speaks_for_itself_the_settings_say_by_what() -> None:
    found = yaml.safe_load(node_settings("agent", replace(PLACE, own=Path("/etc/kubernetes/kubelet.conf")), set()))
    assert found["node-kubeconfig"] == "/etc/kubernetes/kubelet.conf"
    assert "node-kubeconfig" not in yaml.safe_load(node_settings("agent", PLACE, set()))


def test_an_agent_runs_a_handler_only_and_ipv6_gets_its_brackets() -> None:
    found = yaml.safe_load(node_settings("agent", replace(PLACE, address="2001:db8::7"), set()))
    assert found["node-roles"] == "handler"
    assert "api-address" not in found
    assert found["relay-address"] == "[2001:db8::7]:8186"


def kubeconfig(name: str = "kvedge:api") -> bytes:
    leaf = CertificateAuthority.create("cluster", NOW).issue(LeafRequest(name), NOW)
    return yaml.safe_dump(kubeconfig_manifest(NewUser(name), CLUSTER, leaf.certificate, leaf.key)).encode()


def test_a_kubeconfig_stays_while_it_is_the_roles_own_for_this_cluster_and_good_for_long() -> None:
    text = kubeconfig()
    assert serves_still(text, "kvedge:api", CLUSTER, NOW)
    assert not serves_still(text, "kvedge:controller", CLUSTER, NOW)
    assert not serves_still(text, "kvedge:api", {**CLUSTER, "server": "https://192.0.2.2:6443"}, NOW)
    assert not serves_still(text, "kvedge:api", CLUSTER, NOW + LEAF_LIFE * 0.8)


@pytest.mark.parametrize(
    "text", [None, b"", b"a: [", b"users: []\nclusters: []\n", b"users: [{name: kvedge:api, user: {token: x}}]\n"]
)
def test_what_is_no_kubeconfig_of_ours_is_replaced(text: bytes | None) -> None:
    assert not serves_still(text, "kvedge:api", CLUSTER, NOW)


def test_a_certificate_that_ends_soon_is_told_with_its_end() -> None:
    text = kubeconfig()
    end = ends_soon(text, NOW + LEAF_LIFE - timedelta(days=20))
    assert end is not None
    assert abs(end - (NOW + LEAF_LIFE)) < timedelta(days=2)
    assert ends_soon(text, NOW) is None
    # With a token, or in files of its own, it is somebody else's to look after.
    assert ends_soon(b"users: [{name: x, user: {token: y}}]\nclusters: []\n", NOW) is None


OWN = (OwnFile(LAYOUT.roles / "handler", b"key", 0o600), OwnFile(LAYOUT.node_settings, b"settings"))
UNITS = unit_texts(role_units("agent"))


def node_in_place() -> list[Step]:
    return plan_install(EMPTY, LAYOUT, "agent", UNITS, b"", OWN)


def test_keys_are_written_into_a_closed_directory_before_the_unit_starts() -> None:
    steps = node_in_place()
    made = steps.index(MakeDirectory(LAYOUT.roles, 0o700))
    written = steps.index(WriteFile(LAYOUT.roles / "handler", b"key", 0o600))
    started = next(at for at, step in enumerate(steps) if isinstance(step, Systemctl) and "start" in step.arguments)
    assert made < written < started


def test_a_changed_file_of_ours_restarts_what_runs_and_an_unchanged_one_does_not() -> None:
    units = {step.path.name: step.content for step in node_in_place() if isinstance(step, WriteFile)}
    facts = replace(
        EMPTY,
        installed_digest="new",
        running="this",
        units={name: text for name, text in units.items() if name in UNITS},
        config_exists=True,
        own={file.path: file.content or b"" for file in OWN},
    )
    same = [step.text for step in plan_install(facts, LAYOUT, "agent", UNITS, b"", OWN)]
    assert "systemctl start kvedge-node.service" in same
    changed = plan_install(facts, LAYOUT, "agent", UNITS, b"", [OWN[0], OwnFile(LAYOUT.node_settings, None)])
    assert Remove(LAYOUT.node_settings) in changed
    assert "systemctl restart kvedge-node.service" in [step.text for step in changed]


def test_an_upgrade_keeps_the_nodes_settings_and_the_way_back_restores_them() -> None:
    facts = replace(EMPTY, installed_digest="old", running="another", own={LAYOUT.node_settings: b"before"})
    kept = WriteFile(LAYOUT.previous / "own/etc/kvedge/config.yaml.d/10-install.yaml", b"before", 0o600)
    assert kept in plan_install(facts, LAYOUT, "agent", UNITS, b"", OWN)
    after = replace(facts, own={LAYOUT.node_settings: b"settings"})
    back = plan_way_back(after, LAYOUT, "agent", {}, "old", {LAYOUT.node_settings: b"before"})
    assert WriteFile(LAYOUT.node_settings, b"before") in back


def test_uninstalling_removes_credentials_and_what_was_found_out() -> None:
    _, last = plan_uninstall(EMPTY, LAYOUT)
    assert {LAYOUT.roles, LAYOUT.node_settings} <= {step.path for step in last if isinstance(step, Remove)}
