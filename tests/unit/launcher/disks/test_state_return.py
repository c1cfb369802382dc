"""State that a restore has brought is in place before the guest starts, once, whenever a preparation is killed."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from kvedge.launcher.disks import state_return
from kvedge.launcher.disks.state_return import return_state
from kvedge.storage.state_archive import NVRAM, TPM, BadState, pack

WRITES = ("mkdir", "makedirs", "rename", "unlink", "rmdir", "fsync", "open")


class Killed(Exception):
    """Here the process ended."""


@pytest.fixture
def claim(tmp_path: Path) -> Path:
    """A claim with an archive."""
    made = tmp_path / "claim"
    made.mkdir()
    files = {}
    for name, content in ((NVRAM, b"variables"), (TPM, b"secrets")):
        (tmp_path / name).write_bytes(content)
        files[name] = os.open(tmp_path / name, os.O_RDONLY)
    with (made / "disk.img").open("wb") as archive:
        pack(files, archive.fileno())
    for file in files.values():
        os.close(file)
    return made


def content(claim: Path) -> dict[str, bytes]:
    return {str(path.relative_to(claim)): path.read_bytes() for path in sorted(claim.rglob("*")) if path.is_file()}


BACK = {"nvram/web_VARS.fd": b"variables", "swtpm/tpm2/tpm2-00.permall": b"secrets"}


def test_it_comes_back_once_and_stays_as_the_guest_changes_it(claim: Path) -> None:
    return_state(str(claim), "web")
    assert content(claim) == BACK
    assert (claim / "swtpm/tpm2").stat().st_mode & 0o777 == 0o700
    (claim / "nvram/web_VARS.fd").write_bytes(b"later")
    return_state(str(claim), "web")
    assert content(claim) == {**BACK, "nvram/web_VARS.fd": b"later"}


def test_what_lay_there_goes(claim: Path) -> None:
    for name in ("nvram/old_VARS.fd", "swtpm-uid/tpm2/tpm2-00.permall", "swtpm/tpm2/tpm2-00.permall"):
        (claim / name).parent.mkdir(parents=True, exist_ok=True)
        (claim / name).write_bytes(b"older")
        os.utime(claim / name, (1, 1))
    (claim / "swtpm.current").write_bytes(b"swtpm-uid")
    return_state(str(claim), "web")
    assert content(claim) == BACK


def test_a_state_of_after_the_restore_stays_and_the_archive_goes(claim: Path) -> None:
    """A launcher of an earlier version has started the guest, which has sealed its keys since."""
    os.utime(claim / "disk.img", (1, 1))
    (claim / "swtpm/tpm2").mkdir(parents=True)
    (claim / "swtpm/tpm2/tpm2-00.permall").write_bytes(b"sealed since")
    return_state(str(claim), "web")
    assert content(claim) == {"swtpm/tpm2/tpm2-00.permall": b"sealed since"}


@pytest.mark.parametrize("step", range(40))
def test_one_that_was_killed_at_any_step_is_made_again(claim: Path, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    done = 0

    def counted(name: str) -> None:
        real = getattr(os, name)

        def call(*arguments: object, **more: object) -> object:
            nonlocal done
            done += 1
            if done > step:
                raise Killed
            return real(*arguments, **more)

        monkeypatch.setattr(state_return.os, name, call)

    with monkeypatch.context() as patched:
        monkeypatch = patched
        for name in WRITES:
            counted(name)
        with contextlib.suppress(Killed):
            return_state(str(claim), "web")
    return_state(str(claim), "web")
    assert content(claim) == BACK


def test_a_damaged_one_changes_nothing(claim: Path) -> None:
    with (claim / "disk.img").open("r+b") as archive:
        archive.seek(4100)
        archive.write(b"xxxx")
    (claim / "nvram").mkdir()
    (claim / "nvram/web_VARS.fd").write_bytes(b"older")
    os.utime(claim / "nvram/web_VARS.fd", (1, 1))
    with pytest.raises(BadState):
        return_state(str(claim), "web")
    assert (claim / "nvram/web_VARS.fd").read_bytes() == b"older"
    assert (claim / "disk.img").exists()


def test_a_link_is_no_archive(claim: Path, tmp_path: Path) -> None:
    (claim / "disk.img").rename(tmp_path / "elsewhere")
    (claim / "disk.img").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        return_state(str(claim), "web")
