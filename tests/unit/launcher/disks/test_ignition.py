"""Ignition's config comes into a file, and only where a VMI has one."""

from __future__ import annotations

from pathlib import Path

from kvedge.launcher.disks.ignition import write_ignition
from kvedge.launcher.launcher_options import LauncherOptions
from kvedge.resources.codec import decode
from kvedge.resources.names import IGNITION
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import small_vmi


def vmi(**annotations: str) -> VirtualMachineInstance:
    document = small_vmi()
    document["metadata"]["annotations"] = annotations
    return decode(VirtualMachineInstance, document)


def test_a_config_is_written_for_qemu_alone(tmp_path: Path) -> None:
    options = LauncherOptions(namespace="default", name="web", uid="u-1", root=str(tmp_path))
    text = '{"ignition": {"version": "3.4.0"}, "name": "größe"}'
    for _ in range(2):
        path = write_ignition(vmi(**{IGNITION: text}), options)
        assert path is not None
        assert Path(path).read_text(encoding="utf-8") == text
    assert [entry.name for entry in Path(options.run_directory).iterdir()] == ["ignition.json"]


def test_a_vmi_without_a_config_has_no_file(tmp_path: Path) -> None:
    options = LauncherOptions(namespace="default", name="web", uid="u-1", root=str(tmp_path))
    assert write_ignition(vmi(), options) is None
    assert write_ignition(vmi(**{IGNITION: ""}), options) is None
    assert not list(tmp_path.iterdir())
