"""Paths of the host: what is made, and what is refused."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from kvedge.standalone.agent.pod.place.host_paths import HostPathError, prepare_host_path


@pytest.mark.parametrize("kind", ["DirectoryOrCreate", "FileOrCreate"])
def test_what_may_be_made_is_made_and_may_be_asked_for_again(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    prepare_host_path(path, kind)
    prepare_host_path(path, kind)
    assert path.is_dir() == (kind == "DirectoryOrCreate")
    assert path.is_file() == (kind == "FileOrCreate")


def test_what_is_there_is_of_the_type_or_refused(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        prepare_host_path(tmp_path / "s", "Socket")
    prepare_host_path(tmp_path, "")
    with pytest.raises(HostPathError, match="is not a socket"):
        prepare_host_path(tmp_path, "Socket")
    with pytest.raises(HostPathError, match="is not a directory"):
        prepare_host_path(tmp_path / "s", "DirectoryOrCreate")
    with pytest.raises(HostPathError, match="is not a file"):
        prepare_host_path(tmp_path, "FileOrCreate")
    with pytest.raises(HostPathError, match="is not there"):
        prepare_host_path(tmp_path / "nowhere", "")
    with pytest.raises(HostPathError, match="BlockDevice is not supported"):
        prepare_host_path(tmp_path, "BlockDevice")
