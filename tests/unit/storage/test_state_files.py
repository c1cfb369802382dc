"""The files on a claim that are a VM's state, as it is now."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kvedge.storage.beneath import hold_directory
from kvedge.storage.state_files import has_state, open_state


def found(claim: Path) -> tuple[bytes | None, bytes | None]:
    with hold_directory(claim) as folder, open_state(folder) as opened:
        variables, tpm = (None if each is None else os.read(each, 100) for each in opened)
        return variables, tpm


def put(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_both_are_found(tmp_path: Path) -> None:
    put(tmp_path / "nvram/web_VARS.fd", b"variables")
    put(tmp_path / "swtpm/tpm2/tpm2-00.permall", b"secrets")
    assert found(tmp_path) == (b"variables", b"secrets")


def test_after_a_migration_the_directory_counts_that_is_named(tmp_path: Path) -> None:
    put(tmp_path / "swtpm/tpm2/tpm2-00.permall", b"older")
    put(tmp_path / "swtpm-uid/tpm2/tpm2-00.permall", b"secrets")
    put(tmp_path / "swtpm.current", b"swtpm-uid")
    assert found(tmp_path) == (None, b"secrets")
    put(tmp_path / "swtpm.current", b"../elsewhere")
    with pytest.raises(OSError, match="names no directory"):
        found(tmp_path)


def test_of_two_vms_variables_those_count_that_were_written_last(tmp_path: Path) -> None:
    for age, name in ((100, "new"), (200, "old")):
        os.utime(put(tmp_path / f"nvram/{name}_VARS.fd", name.encode()), (1000 - age, 1000 - age))
    assert found(tmp_path) == (b"new", None)


def test_what_has_not_been_written_yet_is_nothing(tmp_path: Path) -> None:
    assert found(tmp_path) == (None, None)
    (tmp_path / "nvram").mkdir()
    (tmp_path / "swtpm").mkdir()
    assert found(tmp_path) == (None, None)


def test_no_link_is_followed(tmp_path: Path) -> None:
    secret = put(tmp_path / "secret", b"of the node")
    (tmp_path / "claim/nvram").mkdir(parents=True)
    (tmp_path / "claim/nvram/web_VARS.fd").symlink_to(secret)
    with pytest.raises(OSError, match="symbolic links"):
        found(tmp_path / "claim")


@pytest.mark.parametrize("name", ["nvram", "swtpm", "swtpm.current"])
def test_a_claim_with_state_is_known(tmp_path: Path, name: str) -> None:
    with hold_directory(tmp_path) as folder:
        assert not has_state(folder)
        (tmp_path / name).mkdir()
        assert has_state(folder)
