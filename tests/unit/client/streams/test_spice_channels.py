"""Where the sockets of SPICE's viewers are: in a directory that nobody else can change."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from kvedge.client.streams.spice_channels import make_private_place


@pytest.mark.parametrize(
    ("mode", "is_used"),
    [(0o700, True), (0o755, True), (0o770, False), (0o702, False)],
    ids=["of the user alone", "others may look", "a group may write", "others may write"],
)
def test_the_users_own_place_is_used_when_nobody_else_may_write_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, is_used: bool
) -> None:
    usual = tmp_path / "run"
    usual.mkdir()
    usual.chmod(mode)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(usual))
    with make_private_place() as made:
        assert (Path(made).parent == usual, stat.S_IMODE(Path(made).stat().st_mode)) == (is_used, 0o700)


@pytest.mark.parametrize("place", ["", ".", "/nowhere/at/all"], ids=["none", "no whole path", "not there"])
def test_a_place_that_is_none_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", place)
    with make_private_place() as made:
        assert Path(made).parent not in (tmp_path, Path())
