"""Which kubeconfig each role gets when it runs apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.host.role_services import node_services, role_kubeconfig
from kvedge.runtime.settings import Settings


def test_a_file_is_the_roles_own_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text("x")
    assert role_kubeconfig(Settings(kubeconfig=str(path)), "handler") == path


def test_in_a_directory_each_role_has_its_own(tmp_path: Path) -> None:
    for role in ("controller", "api", "handler"):
        (tmp_path / role).write_text("x")
        assert role_kubeconfig(Settings(kubeconfig=str(tmp_path)), role) == tmp_path / role


def test_a_role_without_one_is_told_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="kvedge user role handler") as caught:
        role_kubeconfig(Settings(kubeconfig=str(tmp_path)), "handler")
    assert caught.value.code is Exit.USAGE


def test_a_handler_without_one_speaks_as_its_node_and_no_other_role_does(tmp_path: Path) -> None:
    settings = Settings(kubeconfig=str(tmp_path), node_kubeconfig="/kubelet.conf")
    assert role_kubeconfig(settings, "handler") == Path("/kubelet.conf")
    with pytest.raises(Refused, match="kvedge user role controller"):
        role_kubeconfig(settings, "controller")
    (tmp_path / "handler").write_text("x")
    assert role_kubeconfig(settings, "handler") == tmp_path / "handler"


def test_without_any_the_setting_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with pytest.raises(Refused, match="--kubeconfig"):
        role_kubeconfig(Settings(), "api")


def test_the_environment_counts_when_nothing_is_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/a:{tmp_path}/b")
    assert role_kubeconfig(Settings(), "api") == tmp_path / "a"


def test_the_environments_administrator_is_not_whom_a_handler_speaks_as(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    administrator = tmp_path / "admin.conf"
    administrator.write_text("x")
    monkeypatch.setenv("KUBECONFIG", str(administrator))
    node = str(tmp_path / "kubelet.conf")
    assert role_kubeconfig(Settings(node_kubeconfig=node), "handler") == Path(node)
    # Given by name, one that is a handler's own counts first.
    named = Settings(kubeconfig=str(administrator), node_kubeconfig=node)
    assert role_kubeconfig(named, "handler") == administrator


def test_a_node_runs_what_it_is_told_to_and_api_before_those_who_need_it(tmp_path: Path) -> None:
    for role in ("controller", "api", "handler"):
        (tmp_path / role).write_text("x")
    settings = Settings(kubeconfig=str(tmp_path), emulation="tcg")
    assert [service.name for service in node_services(settings)] == [
        # It waits for nobody, and is there until all others have stopped.
        "fencing",
        "api",
        "controller",
        "launcher program",
        "handler",
        "launcher image",
        "old versions",
    ]


def test_an_agent_needs_the_kubeconfig_of_its_handler_only(tmp_path: Path) -> None:
    (tmp_path / "handler").write_text("x")
    settings = Settings(kubeconfig=str(tmp_path), emulation="tcg", node_roles="handler")
    assert [service.name for service in node_services(settings)] == [
        # Apart from the handler, and there until that has stopped.
        "fencing",
        "launcher program",
        "handler",
        "launcher image",
        "old versions",
    ]
