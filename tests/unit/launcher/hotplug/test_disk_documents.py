# Tests: kvedge/launcher/disks/handed_over.py, kvedge/launcher/disks/hotplug_sources.py
# Tests: kvedge/launcher/hotplug/document_process.py, kvedge/resources/disks/hotplug_places.py
"""Documents of disks that come while the guest runs: as at a start, each by itself."""

from __future__ import annotations

import os
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import fromstring

import pytest

from kvedge.launcher.disks.hotplug_sources import check_arrival, with_present_volumes
from kvedge.launcher.hotplug import disk_documents
from kvedge.launcher.hotplug.disk_documents import documents, write_documents
from kvedge.launcher.hotplug.document_process import DiskDocument, DocumentProcess, make_documents
from kvedge.launcher.launcher_errors import ClaimUnusable, Unanswered
from kvedge.resources.codec import decode
from kvedge.resources.types.vmi import VirtualMachineInstance


def vmi(disks: list[dict[str, Any]], phase: str = "MountedToPod", **domain: Any) -> dict[str, Any]:
    names = [disk["name"] for disk in disks]
    claims = [{"name": name, "persistentVolumeClaim": {"claimName": name, "hotpluggable": True}} for name in names]
    entries = [{"name": name, "target": "", "phase": phase} for name in names]
    return {
        "metadata": {"name": "v", "namespace": "n", "uid": "u"},
        "spec": {"domain": {"devices": {"disks": disks}, **domain}, "volumes": claims},
        "status": {"volumeStatus": entries},
    }


@pytest.fixture
def root(tmp_path: Path) -> Path:
    directory = tmp_path / "var/run/kubevirt/hotplug-disks"
    directory.mkdir(parents=True)
    for name in ("a", "b", "cd"):
        (directory / f"{name}.img").write_bytes(b"x" * 4096)
    return tmp_path


def question(document: dict[str, Any], root: Path, *names: str, present: dict[str, str] | None = None) -> Any:
    return {
        "vmi": document,
        "names": list(names),
        "present": present or {},
        "root": str(root),
        "libvirtVersion": 9_000_000,
    }


def test_a_disk_gets_a_free_name_its_serial_as_written_and_its_place_on_the_controller(root: Path) -> None:
    document = vmi([{"name": "a", "disk": {"bus": "scsi"}, "serial": "AbC"}, {"name": "b", "disk": {"bus": "scsi"}}])
    # A disk that the guest has not released yet still has its name.
    made = documents(question(document, root, "b", "a", present={"b": "sdc", "gone": "sda"}))
    first = fromstring(made["a"]["xml"])
    assert first.find("target").attrib == {"dev": "sdb", "bus": "scsi"}  # type: ignore[union-attr]
    assert first.findtext("serial") == "AbC"
    assert first.find("address").get("unit") == "1"  # type: ignore[union-attr]
    assert first.find("alias").get("name") == "ua-a"  # type: ignore[union-attr]
    assert first.find("source").get("file") == f"{root}/var/run/kubevirt/hotplug-disks/a.img"  # type: ignore[union-attr]
    assert first.find("backingStore") is not None
    assert fromstring(made["b"]["xml"]).find("target").get("dev") == "sdc"  # type: ignore[union-attr]


def test_one_bad_disk_is_an_error_of_its_own(root: Path) -> None:
    document = vmi([{"name": "a", "disk": {"bus": "floppy"}}, {"name": "b", "disk": {"bus": "scsi"}}])
    made = documents(question(document, root, "a", "b"))
    assert "floppy is no bus" in made["a"]["error"]
    assert "error" not in made["b"]


def test_a_vmi_that_cannot_be_read_is_an_error_of_all_its_disks(root: Path) -> None:
    assert set(documents(question({"spec": 3}, root, "a", "b"))) == {"a", "b"}


def test_a_dedicated_io_thread_is_asked_for(root: Path) -> None:
    document = vmi([{"name": "a", "disk": {"bus": "virtio"}, "dedicatedIOThread": True}])
    assert documents(question(document, root, "a"))["a"]["ioThread"] == 1


def test_the_process_answers_as_the_function_does(root: Path) -> None:
    asked = question(vmi([{"name": "a", "disk": {"bus": "scsi"}}]), root, "a")
    assert make_documents(asked) == {"a": DiskDocument(documents(asked)["a"]["xml"])}


def test_a_process_that_was_loaded_ahead_answers_the_same(root: Path) -> None:
    asked = question(vmi([{"name": "a", "disk": {"bus": "scsi"}}]), root, "a")
    process = DocumentProcess()
    process.expect()
    process.expect()
    waiting = process._waiting
    assert waiting is not None
    assert process.make(asked) == make_documents(asked)
    assert (process._waiting, waiting.returncode) == (None, 0)


def test_a_process_that_has_waited_too_long_is_replaced(root: Path) -> None:
    asked = question(vmi([{"name": "a", "disk": {"bus": "scsi"}}]), root, "a")
    process = DocumentProcess()
    process.expect()
    assert process._waiting is not None
    process._waiting.kill()
    process._waiting.wait()
    assert process.make(asked) == make_documents(asked)


def test_a_process_that_has_ended_unasked_is_forgotten_with_its_pipes_and_one_that_waits_is_not(root: Path) -> None:
    process = DocumentProcess()
    process.forget_ended()
    process.expect()
    waiting = process._waiting
    assert waiting is not None
    process.forget_ended()
    assert process._waiting is waiting
    assert waiting.returncode is None
    waiting.kill()
    # It stays a zombie.
    os.waitid(os.P_PID, waiting.pid, os.WEXITED | os.WNOWAIT)
    process.forget_ended()
    assert process._waiting is None
    assert [pipe.closed for pipe in (waiting.stdin, waiting.stdout, waiting.stderr) if pipe is not None] == [True] * 3
    with pytest.raises(ChildProcessError):
        os.waitid(os.P_PID, waiting.pid, os.WEXITED | os.WNOHANG)
    asked = question(vmi([{"name": "a", "disk": {"bus": "scsi"}}]), root, "a")
    assert process.make(asked) == make_documents(asked)


def test_a_process_that_nobody_asks_ends() -> None:
    process = DocumentProcess()
    process.expect()
    waiting = process._waiting
    assert waiting is not None
    process.rest()
    assert waiting.returncode is not None
    process.rest()
    assert write_documents(StringIO(), StringIO()) == 0


def test_a_process_does_not_wait_for_ever_for_its_question(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reading, writing = os.pipe()
    monkeypatch.setattr(disk_documents, "WAIT_SECONDS", 0.0)
    with open(reading) as silent, open(writing, "w"):
        monkeypatch.setattr("sys.stdin", silent)
        assert disk_documents.main() == 0
    assert capsys.readouterr().out == ""


def test_the_kernel_ends_this_process_before_qemu_and_knows_so_before_anything_is_loaded() -> None:
    program = """
import sys
from kvedge.launcher.command import launcher_command
class Loaded:
    def __getattr__(self, name):
        print(name, open("/proc/self/oom_score_adj").read().strip())
        return lambda: 7
sys.modules["kvedge.launcher.hotplug.disk_documents"] = Loaded()
sys.exit(launcher_command(["--disk-documents"]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (7, "")
    assert "main 1000" in done.stdout.splitlines()


def test_a_question_without_sense_is_an_error_that_says_so() -> None:
    with pytest.raises(Unanswered, match="documents were not made"):
        make_documents({})


def test_a_guest_starts_with_the_volumes_that_are_there_and_an_empty_drive(root: Path) -> None:
    disks = [{"name": "a", "disk": {}}, {"name": "missing", "disk": {}}, {"name": "cd", "cdrom": {}}]
    whole = decode(VirtualMachineInstance, vmi(disks))
    found, sources = with_present_volumes(whole, str(root))
    assert sources.keys() == {"a", "cd"}
    assert [disk.name for disk in found.spec.domain.devices.disks] == ["a", "cd"]
    early = decode(VirtualMachineInstance, vmi(disks, phase="Bound"))
    found, sources = with_present_volumes(early, str(root))
    assert not sources
    assert [disk.name for disk in found.spec.domain.devices.disks] == ["cd"]
    # A drive that names a volume is not meant to be empty, so that name goes too.
    assert found.spec.volumes == []


def test_a_guest_that_is_to_come_is_refused_without_a_volume_that_it_has() -> None:
    ready = decode(VirtualMachineInstance, vmi([{"name": "a", "disk": {}}, {"name": "b", "disk": {}}]))
    check_arrival(ready, {"a", "b"})
    with pytest.raises(ClaimUnusable, match=r"volume b: PVC .*the guest that is to come has it"):
        check_arrival(ready, {"a"})
    # What has not come to the guest is not awaited.
    check_arrival(decode(VirtualMachineInstance, vmi([{"name": "a", "disk": {}}], phase="Bound")), ())


@pytest.mark.parametrize(("number", "there"), [(0, ["a"]), (16, [])], ids=["free", "in use elsewhere"])
def test_a_guest_starts_with_a_device_only_when_nobody_else_has_it(
    root: Path, monkeypatch: pytest.MonkeyPatch, number: int, there: list[str]
) -> None:
    place, held = "kvedge.launcher.disks.hotplug_sources", []

    def hold(directory: str, path: str) -> int:
        held.append((directory, path))
        return number

    monkeypatch.setattr(f"{place}.hold_device", hold)
    monkeypatch.setattr(f"{place}.is_handed_over", lambda path, block: True)
    monkeypatch.setattr(f"{place}.find_hotplug_source", lambda vmi, name, root: name)
    document = vmi([{"name": "a", "disk": {}}])
    document["status"]["volumeStatus"][0]["persistentVolumeClaimInfo"] = {"claimName": "a", "volumeMode": "Block"}
    found, _ = with_present_volumes(decode(VirtualMachineInstance, document), str(root))
    assert [disk.name for disk in found.spec.domain.devices.disks] == there
    assert held == [(f"{root}/var/run/kubevirt", f"{root}/var/run/kubevirt/hotplug-disks/a")]
