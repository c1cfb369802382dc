"""By whose kubeconfig, and for which node, `kvedge status` looks at what runs here."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.appliance.layout import Role
from kvedge.cli.installed import health_source
from kvedge.runtime.settings import Settings


def test_one_box_is_seen_as_its_users_see_it(tmp_path: Path) -> None:
    settings = Settings(data_dir=str(tmp_path), node_name="edge")
    for role in ("standalone", None):
        assert health_source(settings, role) == (tmp_path / "kubeconfig", "")
    # What names a cluster for other roles is none of a box's business.
    named = Settings(data_dir=str(tmp_path), kubeconfig=str(tmp_path))
    assert health_source(named, "standalone") == (tmp_path / "kubeconfig", "")


@pytest.mark.parametrize("role", ["server", "agent", None])
def test_a_clusters_node_is_seen_as_its_handler_sees_it(tmp_path: Path, role: Role | None) -> None:
    (tmp_path / "roles").mkdir()
    (tmp_path / "roles/handler").write_text("{}")
    (tmp_path / "kubelet").write_text("{}")
    own = Settings(kubeconfig=str(tmp_path / "roles"), node_name="edge")
    assert health_source(own, role) == (tmp_path / "roles/handler", "edge")
    file = Settings(kubeconfig=str(tmp_path / "roles/handler"), node_name="edge")
    assert health_source(file, role) == (tmp_path / "roles/handler", "edge")
    (tmp_path / "none").mkdir()
    names = {"kubeconfig": str(tmp_path / "none"), "node_kubeconfig": str(tmp_path / "kubelet")}
    as_node = Settings(**names, node_name="edge")
    assert health_source(as_node, role) == (tmp_path / "kubelet", "edge")
