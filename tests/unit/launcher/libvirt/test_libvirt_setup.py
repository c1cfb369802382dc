"""What libvirt finds before it is opened."""

from __future__ import annotations

import os
from pathlib import Path

from kvedge.launcher.launcher_options import LauncherOptions
from kvedge.launcher.libvirt.libvirt_setup import plant_seed, prepare_environment, prepare_root, qemu_conf


def options(root: Path) -> LauncherOptions:
    return LauncherOptions(namespace="n", name="v", uid="u", root=str(root))


def test_qemu_runs_as_the_launchers_own_user_with_its_sandbox_on() -> None:
    lines = qemu_conf(107, 108).splitlines()
    assert 'user = "+107"' in lines
    assert 'group = "+108"' in lines
    assert "seccomp_sandbox = 1" in lines
    assert "dynamic_ownership = 0" in lines
    assert "max_core = 0" in lines


def test_qemu_never_inherits_the_libraries_of_a_bundled_program(tmp_path: Path) -> None:
    environment = {"LD_LIBRARY_PATH": "/bundle", "LD_PRELOAD": "x.so", "HOME": "/root", "PATH": "/usr/bin"}
    prepare_environment(options(tmp_path), environment)
    assert "LD_LIBRARY_PATH" not in environment
    assert "LD_PRELOAD" not in environment
    assert environment["PATH"] == "/usr/bin"
    assert environment["HOME"] == environment["XDG_CONFIG_HOME"] == f"{tmp_path}/var/run/kubevirt-private"


def test_the_configuration_is_written_below_libvirts_root(tmp_path: Path) -> None:
    prepare_root(options(tmp_path))
    conf = tmp_path / "var/run/kubevirt-private/libvirt/etc/qemu.conf"
    assert conf.read_text() == qemu_conf(os.getuid(), os.getgid())


def test_a_seed_is_copied_and_what_is_there_stays(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    (source / "a.xml").write_text("new")
    (source / "b.xml").write_text("b")
    target.mkdir()
    (target / "a.xml").write_text("own")
    assert plant_seed(str(source), str(target)) == 1
    assert (target / "a.xml").read_text() == "own"
    assert (target / "b.xml").read_text() == "b"


def test_what_is_no_plain_file_of_a_sane_size_is_no_seed(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    (source / "link.xml").symlink_to("/etc/passwd")
    (source / "folder.xml").mkdir()
    os.mkfifo(source / "fifo.xml")
    (source / "capabilities.json").write_text("{}")
    with (source / "huge.xml").open("wb") as file:
        file.truncate(1 << 30)
    assert plant_seed(str(source), str(target)) == 0
    assert list(target.iterdir()) == []


def test_a_node_without_a_seed_is_no_error(tmp_path: Path) -> None:
    assert plant_seed(str(tmp_path / "missing"), str(tmp_path / "target")) == 0
