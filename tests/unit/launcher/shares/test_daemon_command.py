"""Which virtiofsd a node has, and how it is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.launcher.shares.daemon_command import find_daemon


def install(root: Path, path: str, mode: int = 0o755) -> None:
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    file.chmod(mode)


def test_a_node_without_one_has_none(tmp_path: Path) -> None:
    assert find_daemon(str(tmp_path)) is None


@pytest.mark.parametrize("path", ["/usr/libexec/virtiofsd", "/usr/lib/virtiofsd"])
def test_the_one_in_rust_is_taken_before_qemus(tmp_path: Path, path: str) -> None:
    install(tmp_path, "/usr/lib/qemu/virtiofsd")
    install(tmp_path, path)
    found = find_daemon(str(tmp_path))
    assert found is not None
    assert not found.needs_root
    assert found.arguments("/the/data", 5) == [
        path,
        "--fd=5",
        "--shared-dir=/the/data",
        "--sandbox=none",
        "--cache=auto",
    ]


def test_qemus_makes_the_directory_its_root(tmp_path: Path) -> None:
    install(tmp_path, "/usr/lib/qemu/virtiofsd")
    found = find_daemon(str(tmp_path))
    assert found is not None
    assert found.needs_root
    argv = found.arguments("/the/data", 5)
    assert argv[:3] == ["/usr/lib/qemu/virtiofsd", "--fd=5", "--rlimit-nofile=0"]
    assert "source=/the/data" in argv
    assert "sandbox=chroot" in argv
