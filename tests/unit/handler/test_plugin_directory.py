# Tests: kvedge/handler/handler_service.py
"""Where device plugins meet the kubelet."""

from __future__ import annotations

from pathlib import Path

from kvedge.handler.handler_service import plugin_directory


def test_a_kubelet_that_takes_plugins_beside_its_pods_is_met_there(tmp_path: Path) -> None:
    (tmp_path / "device-plugins").mkdir()
    assert plugin_directory(tmp_path) == tmp_path / "device-plugins"


def test_a_directory_that_no_kubelet_uses_any_more_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "device-plugins").mkdir()
    (tmp_path / "fixed").mkdir()
    (tmp_path / "fixed/kubelet.sock").touch()
    assert plugin_directory(tmp_path, tmp_path / "fixed") == tmp_path / "fixed"


def test_a_kubelet_with_another_root_directory_is_met_at_the_fixed_place(tmp_path: Path) -> None:
    assert plugin_directory(tmp_path / "root", tmp_path / "fixed") == tmp_path / "fixed"
