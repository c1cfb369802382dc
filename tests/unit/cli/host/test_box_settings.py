"""The verbs of one box work in its own directory and nowhere else, whatever a cluster's settings on its host say."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import click
import pytest
from click.testing import CliRunner

from kvedge.appliance.cluster import cluster_node
from kvedge.appliance.host.layout import Layout, Role
from kvedge.cli.exits import Exit, Refused
from kvedge.cli.host import host_shutdown_verb, install_verbs, killall_verb
from kvedge.cli.host.host_shutdown_verb import host_shutdown
from kvedge.cli.host.install_verbs import install, uninstall
from kvedge.cli.host.killall_verb import killall
from kvedge.cli.host.roles import standalone
from kvedge.cli.host.state_verbs import restore
from kvedge.runtime.settings import Settings
from kvedge.standalone import standalone_services
from kvedge.standalone.agent import agent_removal
from kvedge.standalone.agent import host_shutdown as agent_shutdown
from kvedge.standalone.agent.agent_service import AgentConfig

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the verbs are root's")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host whose settings say what `kvedge install --role agent` has found out; the operator's own file."""
    config, found_out = tmp_path / "config.yaml", tmp_path / "config.yaml.d" / "10-install.yaml"
    found_out.parent.mkdir()
    found_out.write_text("kubelet-dir: /var/lib/kubelet\nkubeconfig: /etc/kvedge/roles\nnode-roles: handler\n")
    config.write_text(f"data-dir: {tmp_path}/data\n")
    (tmp_path / "data/state").mkdir(parents=True)
    (tmp_path / "data/state/layout").write_text("1 0\n")
    monkeypatch.setenv("KVEDGE_CONFIG", str(config))
    monkeypatch.setattr(Layout, "node_settings", property(lambda _: found_out))
    return config


def role_is(role: Role | None, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (killall_verb, install_verbs):
        monkeypatch.setattr(module, "role_here", lambda _: role)


def invoke(verb: click.Command, *words: str) -> Any:
    return CliRunner().invoke(verb, words, standalone_mode=False)


def test_killall_and_the_end_of_the_host_work_in_the_data_directory(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Path] = []
    monkeypatch.setattr(agent_removal, "remove_everything", lambda config, *_, **__: asked.append(config.kubelet))
    monkeypatch.setattr(agent_shutdown, "shut_down_pods", lambda kubelet, *_: asked.append(kubelet) or [])
    monkeypatch.setattr(host_shutdown_verb, "_shut_down_node", lambda *_: [])
    role_is(None, monkeypatch)
    assert (invoke(killall).exception, invoke(host_shutdown).exception) == (None, None)
    assert asked == [installed.parent / "data/kubelet"] * 2


def test_a_nic_stays_a_port_of_its_bridge_at_killall_and_is_itself_again_at_uninstall(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[bool] = []
    made = MagicMock(**{"uninstall.side_effect": lambda end_guests: end_guests()})
    monkeypatch.setattr(agent_removal, "remove_everything", lambda *_, keeps_nics: kept.append(keeps_nics))
    monkeypatch.setattr(install_verbs, "_installation", lambda *_: made)
    monkeypatch.setattr(cluster_node, "find_left_files", lambda *_: [])
    role_is(None, monkeypatch)
    assert (invoke(killall).exception, invoke(uninstall).exception) == (None, None)
    assert kept == [True, False]


def test_a_box_that_is_run_by_hand_keeps_its_pods_in_the_data_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[AgentConfig] = []
    monkeypatch.setattr(standalone_services, "NodeAgent", lambda config, _: asked.append(config))
    monkeypatch.setattr(standalone_services.KubeClient, "from_kubeconfig", lambda *_: None)
    monkeypatch.setattr(standalone_services._Box, "kubeconfig", lambda *_: tmp_path)
    standalone_services._Box(Settings(data_dir=str(tmp_path), kubelet_dir="/var/lib/kubelet")).make_agent()
    assert [config.kubelet for config in asked] == [tmp_path / "kubelet"]


@pytest.mark.parametrize(
    ("verb", "words", "role"),
    [
        pytest.param(standalone, (), None, id="standalone"),
        pytest.param(killall, (), None, id="killall"),
        pytest.param(restore, ("{config}",), None, id="restore"),
        pytest.param(install, (), None, id="install"),
        pytest.param(install, (), "standalone", id="an upgrade"),
        pytest.param(uninstall, (), "standalone", id="uninstall"),
    ],
)
def test_a_kubelets_directory_is_refused_where_the_operator_has_set_it_for_a_box(
    installed: Path, verb: click.Command, words: tuple[str, ...], role: Role | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed.write_text(f"data-dir: {installed.parent}/data\nkubelet-dir: /srv/pods\n")
    role_is(role, monkeypatch)
    refused = invoke(verb, *(word.format(config=installed) for word in words)).exception
    assert isinstance(refused, Refused)
    assert refused.text.startswith(f"{installed}: kubelet-dir: /srv/pods is for nodes of a cluster")
    assert "take the setting out" in refused.text
    assert refused.code == Exit.USAGE


@pytest.mark.parametrize("role", ["server", "agent"])
def test_killall_leaves_a_clusters_node_to_its_kubelet_and_ends_a_box_beside_it(
    installed: Path, role: Role, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ended: list[Path] = []
    monkeypatch.setattr(agent_removal, "remove_everything", lambda config, *_, **__: ended.append(config.kubelet))
    monkeypatch.setattr(killall_verb, "load_settings", lambda *_: Settings(data_dir=f"{tmp_path}/data", node_name="n1"))
    role_is(role, monkeypatch)
    refused = invoke(killall).exception
    assert isinstance(refused, Refused)
    assert (refused.code, f"installed as {role}" in refused.text, "kubectl drain n1" in refused.text) == (5, True, True)
    assert ended == []
    (tmp_path / "trial/state").mkdir(parents=True)
    (tmp_path / "trial/state/layout").write_text("1 0\n")
    assert invoke(killall, "--data-dir", str(tmp_path / "trial")).exception is None
    assert ended == [tmp_path / "trial/kubelet"]
