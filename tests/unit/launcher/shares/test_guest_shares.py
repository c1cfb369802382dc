"""The launcher waits for its guest's directories, and sees which one is lost."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kvedge.launcher.launcher_errors import BadRequest
from kvedge.launcher.libvirt.domain_facts import DomainFacts
from kvedge.launcher.shares.guest_shares import LOST_SECONDS, LostShares, await_shares, hold_launcher_mark
from kvedge.launcher.shares.share_marks import LAUNCHER, hold, is_held, write_reason
from kvedge.resources.names import SHARES_DIRECTORY
from tests.support.builders import small_vmi, vmi_of

RUNS = cast("DomainFacts", SimpleNamespace(is_active=True))


@pytest.fixture
def shares(tmp_path: Path) -> Path:
    found = tmp_path / SHARES_DIRECTORY.lstrip("/")
    found.mkdir(parents=True)
    return found


def serve(shares: Path, name: str) -> int:
    """What a container does that waits for a QEMU; the mark, which ends with the descriptor."""
    (shares / f"{name}.sock").touch()
    return hold(str(shares / f"{name}.lock"))


def sharing(*names: str) -> Any:
    return vmi_of(small_vmi(domain__devices__filesystems=[{"name": name, "virtiofs": {}} for name in names]))


def test_a_guest_starts_when_all_of_its_directories_are_served(tmp_path: Path, shares: Path) -> None:
    marks = [serve(shares, name) for name in ("data", "settings")]
    await_shares(sharing("data", "settings"), str(tmp_path))
    assert all(is_held(str(shares / f"{name}.lock")) for name in ("data", "settings")), marks


def test_a_socket_at_which_nobody_listens_is_none(tmp_path: Path, shares: Path) -> None:
    os.close(serve(shares, "data"))
    with pytest.raises(BadRequest, match=r"filesystems\[0\].*its container is not ready after 0 s"):
        await_shares(sharing("data"), str(tmp_path), seconds=0.0)


def test_a_guest_without_any_needs_no_place_for_them(tmp_path: Path) -> None:
    await_shares(sharing(), str(tmp_path))
    hold_launcher_mark(str(tmp_path))
    assert LostShares(str(tmp_path)).look(RUNS, 0.0) == []
    assert list(tmp_path.iterdir()) == []


def test_a_node_that_cannot_serve_one_says_why(tmp_path: Path, shares: Path) -> None:
    served = serve(shares, "data")
    write_reason(str(shares / "settings.refused"), "this node has no virtiofsd; install it")
    with pytest.raises(BadRequest, match=r"filesystems\[1\].*this node has no virtiofsd; install it"):
        await_shares(sharing("data", "settings"), str(tmp_path))
    os.close(served)


def test_one_that_never_comes_is_told(tmp_path: Path, shares: Path) -> None:
    with pytest.raises(BadRequest, match=r"filesystems\[0\].*its container is not ready after 0 s"):
        await_shares(sharing("data"), str(tmp_path), seconds=0.0)


def test_a_launcher_shows_that_it_is_there(tmp_path: Path, shares: Path) -> None:
    hold_launcher_mark(str(tmp_path))
    assert is_held(str(shares / LAUNCHER))


def test_a_directory_is_lost_when_nothing_has_served_it_for_a_while(tmp_path: Path, shares: Path) -> None:
    served, ended = hold(str(shares / "data.lock")), hold(str(shares / "settings.lock"))
    lost = LostShares(str(tmp_path))
    assert lost.look(RUNS, 0.0) == []
    os.close(ended)
    assert lost.look(RUNS, 1.0) == []
    assert lost.look(RUNS, 1.0 + LOST_SECONDS) == ["settings"]
    os.close(served)
    assert lost.look(RUNS, 2.0 + LOST_SECONDS) == ["settings"]


def test_a_guest_that_has_ended_has_lost_none(tmp_path: Path, shares: Path) -> None:
    (shares / "data.lock").touch()
    lost = LostShares(str(tmp_path))
    for now in (0.0, LOST_SECONDS):
        assert lost.look(None, now) == []
        assert lost.look(cast("DomainFacts", SimpleNamespace(is_active=False)), now) == []


def test_what_is_no_name_of_a_volume_is_not_told(tmp_path: Path, shares: Path) -> None:
    (shares / "not a name!.lock").touch()
    lost = LostShares(str(tmp_path))
    lost.look(RUNS, 0.0)
    assert lost.look(RUNS, LOST_SECONDS) == []
