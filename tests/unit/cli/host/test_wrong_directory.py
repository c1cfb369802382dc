# Tests: kvedge/cli/host/install_verbs.py, kvedge/cli/host/killall_verb.py
"""Verbs that end or remove things, sent to a directory of somebody else's: they refuse, and leave no sign of kvedge."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.host import install_verbs, killall_verb
from kvedge.cli.host.install_verbs import uninstall
from kvedge.cli.host.killall_verb import killall

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the verbs are root's")


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "disk/images").mkdir(parents=True)
    (tmp_path / "disk/images/holiday.jpg").write_text("precious")
    for module in (install_verbs, killall_verb):
        monkeypatch.setattr(module, "role_here", lambda _: None)
    return tmp_path / "disk"


@pytest.mark.parametrize("purge", [["--purge"], []], ids=["purge", "uninstall"])
def test_a_directory_without_a_sign_of_kvedge_is_not_uninstalled(disk: Path, purge: list[str]) -> None:
    # Also when it is tried again: what a call makes must not look like a box at the next one.
    for _ in range(2):
        done = CliRunner().invoke(uninstall, ["--data-dir", str(disk), *purge], standalone_mode=False)
        assert isinstance(done.exception, Refused)
        assert done.exception.text.startswith(f"{disk} is no data directory of kvedge's, and not empty: images; name")
        assert done.exception.code == Exit.USAGE
        assert sorted(path.name for path in disk.rglob("*")) == ["holiday.jpg", "images"]


def test_killall_does_nothing_there(disk: Path) -> None:
    done = CliRunner().invoke(killall, ["--data-dir", str(disk)], standalone_mode=False)
    assert (done.exception, done.output) == (None, f"no kvedge standalone has run in {disk}: nothing to end\n")
    assert [path.name for path in disk.iterdir()] == ["images"]


def test_the_directory_that_is_installed_may_hold_anything(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install_verbs, "role_here", lambda _: "standalone")
    monkeypatch.setattr(install_verbs, "load_settings", lambda *_: install_verbs.Settings(data_dir=str(disk)))
    done = CliRunner().invoke(uninstall, ["--data-dir", str(disk)], standalone_mode=False)
    assert isinstance(done.exception, Refused)
    assert "this is a checkout" in done.exception.text
