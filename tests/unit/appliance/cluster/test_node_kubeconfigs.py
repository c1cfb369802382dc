"""By whose kubeconfig, and for which node, `kvedge status` looks at what runs here; and whose are where."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.appliance.cluster.node_kubeconfigs import administrator_kubeconfig, health_source, roles_directory
from kvedge.appliance.host.distributions import of_server
from kvedge.appliance.host.layout import Layout, Role
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


def test_a_directory_that_is_named_holds_the_roles_and_a_file_is_the_administrators(tmp_path: Path) -> None:
    layout = Layout(root=tmp_path)
    named, file = tmp_path / "named", tmp_path / "admin.conf"
    named.mkdir()
    assert roles_directory(Settings(kubeconfig=str(named)), layout) == named
    assert roles_directory(Settings(kubeconfig=str(file)), layout) == layout.roles
    assert roles_directory(Settings(), layout) == layout.roles
    # Also one that is not there: it is told by its name.
    assert administrator_kubeconfig(Settings(kubeconfig=str(file))) == file
    distribution = of_server(Path.exists)
    found = distribution.kubeconfig if distribution else None
    assert administrator_kubeconfig(Settings(kubeconfig=str(named))) == found
    assert administrator_kubeconfig(Settings()) == found
