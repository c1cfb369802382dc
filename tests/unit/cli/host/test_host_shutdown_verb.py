"""`kvedge host-shutdown` on a node of a cluster: what keeps guests from an orderly end, and what does not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from kvedge.appliance.cluster import node_shutdown
from kvedge.appliance.host import systemctl_client
from kvedge.appliance.host.systemctl_client import SystemdError
from kvedge.cli.exits import Refused
from kvedge.cli.host.host_shutdown_verb import host_shutdown

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the verb is root's")


@pytest.fixture
def ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The kubelet directories whose launchers were told to end; there is a systemd."""
    found: list[Path] = []
    (tmp_path / "config.yaml").write_text(f"data-dir: {tmp_path}\nkubeconfig: {tmp_path}/kubeconfig\n")
    monkeypatch.setattr(node_shutdown, "pod_launchers", lambda _: [])
    monkeypatch.setattr(node_shutdown, "shut_down_launchers", lambda _, kubelet, *rest: found.append(kubelet) or [])
    monkeypatch.setattr(systemctl_client, "systemd_runs", lambda: True)
    return found


def test_while_kvedge_runs_nothing_is_ended_as_it_would_start_it_again(
    ended: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(systemctl_client, "unit_property", lambda *_: "active")
    with pytest.raises(Refused, match="stop it first"):
        CliRunner().invoke(host_shutdown, ["--config", str(tmp_path / "config.yaml")], catch_exceptions=False)
    assert ended == []


def test_guests_are_shut_down_although_systemd_does_not_answer(
    ended: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> str:
        raise SystemdError("systemctl show: Failed to connect to bus")

    monkeypatch.setattr(systemctl_client, "unit_property", fail)
    done = CliRunner().invoke(host_shutdown, ["--config", str(tmp_path / "config.yaml")])
    assert (done.exit_code, ended) == (0, [Path("/var/lib/kubelet")]), done.output
    assert "whether kvedge still runs is not known: systemctl show: Failed to connect to bus" in done.output
