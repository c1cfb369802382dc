# Tests: kvedge/cli/tidy_end.py
# Tests: kvedge/cli/machines/file_verbs.py, kvedge/client/vm_files/open_export.py
# Tests: kvedge/client/vm_files/archive_export.py, kvedge/client/vm_files/machine_file.py
# Tests: kvedge/client/vm_files/made_objects.py
"""A VM goes into a file and comes out of it, by the verbs; what is in the way is told before anything is made."""

from __future__ import annotations

import copy
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kvedge.cli import group
from kvedge.cli.exits import Exit
from kvedge.client.exports import export_calls
from kvedge.client.exports.remote_disk import CHUNK
from kvedge.client.vm_files import host_room
from tests.support.played_exports import PlayedExports, played_exports
from tests.support.played_vm_api import (
    CLAIMS,
    DVS,
    EXPORTS,
    NAMESPACE,
    SECRETS,
    SNAPSHOTS,
    VMIS,
    VMS,
    PlayedApi,
    disk_of,
    played_proxy,
)
from tests.support.scripted_api import ScriptedApi, scripted_api
from tests.unit.client.vm_files.archives import VM, read, write

ROOT = bytes(CHUNK) + os.urandom(5120) + bytes(2 * CHUNK)
DATA = os.urandom(70_000)
CLASS = "/apis/storage.k8s.io/v1/storageclasses"


@pytest.fixture
def exports(tmp_path: Path) -> Iterator[PlayedExports]:
    with played_exports(tmp_path) as found:
        for name, content in (("web-root", ROOT), ("data", DATA)):
            (tmp_path / name).write_bytes(content)
            found.files[f"/volumes/{name}/disk.img"] = tmp_path / name
        yield found


@pytest.fixture
def api(tmp_path: Path, exports: PlayedExports, monkeypatch: pytest.MonkeyPatch) -> Iterator[PlayedApi]:
    monkeypatch.setattr("kvedge.client.exports.export_calls.secrets.choice", lambda letters: "t")
    exports.token = "t" * 20
    found = PlayedApi(exports)
    found.objects[f"{VMS}/web"] = copy.deepcopy(VM)
    for claim in ("web-root", "data"):
        found.objects[f"{CLAIMS}/{claim}"] = {"spec": {"storageClassName": "fast", "accessModes": ["ReadWriteOnce"]}}
    with played_proxy(tmp_path, found):
        yield found


@pytest.fixture
def server(api: PlayedApi) -> Iterator[ScriptedApi]:
    with scripted_api(api.answer) as found:
        yield found


@pytest.fixture
def run(server: ScriptedApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    kubeconfig = server.write_kubeconfig(tmp_path / "kubeconfig")

    def call(*arguments: str | Path) -> tuple[int, str]:
        code = group.run([*map(str, arguments), "--kubeconfig", str(kubeconfig)])
        told = capsys.readouterr()
        return code, told.out + told.err

    return call


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "web.kvedge"


def objects_of(api: PlayedApi, kinds: str) -> list[str]:
    return [path.rpartition("/")[2] for path in api.objects if path.rpartition("/")[0] == kinds]


def test_a_stopped_vm_goes_into_a_file_with_its_disks(run: Any, api: PlayedApi, file: Path) -> None:
    code, text = run("export", "web", file)
    assert code == 0, text
    assert read(file) == [ROOT, DATA]
    assert f"VM web is in {file}: " in text
    # The export and its token are gone again.
    assert [path.rpartition("/")[0] for path in api.deleted] == [EXPORTS]
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_vm_that_runs_is_read_from_a_snapshot(run: Any, api: PlayedApi, file: Path) -> None:
    api.objects[f"{VMIS}/web"] = {"metadata": {"name": "web"}, "spec": {}, "status": {"phase": "Running"}}
    code, text = run("export", "web", file)
    assert code == 0, text
    assert "which is removed afterwards" in text
    assert read(file) == [ROOT, DATA]
    assert objects_of(api, SNAPSHOTS) == objects_of(api, EXPORTS) == []


def test_the_snapshot_of_an_export_that_is_killed_goes_with_it(run: Any, api: PlayedApi, file: Path) -> None:
    api.objects[f"{VMIS}/web"] = {"metadata": {"name": "web"}, "spec": {}, "status": {"phase": "Running"}}
    owners: list[Any] = []
    hand_over = export_calls.ExportCalls.hand_over

    def note(calls: Any, snapshot: str, export: Any) -> None:
        hand_over(calls, snapshot, export)
        owners.extend(api.objects[snapshot]["metadata"]["ownerReferences"])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export_calls.ExportCalls, "hand_over", note)
        code, text = run("export", "web", file)
    assert code == 0, text
    (owner,) = owners
    assert (owner["kind"], owner["uid"]) == ("VirtualMachineExport", f"uid-of-{owner['name']}")


def test_what_the_vm_needs_is_named_when_it_is_left_out(run: Any, api: PlayedApi, file: Path) -> None:
    volumes = api.objects[f"{VMS}/web"]["spec"]["template"]["spec"]["volumes"]
    volumes += [
        {"name": "init", "cloudInitNoCloud": {"secretRef": {"name": "keys"}}},
        {"name": "scratch", "emptyDisk": {"capacity": "1Gi"}},
    ]
    api.objects[f"{SECRETS}/keys"] = {"type": "Opaque", "metadata": {"name": "keys"}, "data": {"userdata": "eA=="}}
    code, text = run("export", "web", file)
    assert code == 0, text
    assert "not in the file: Secret keys: --with-secrets takes it along" in text
    assert "not in the file: volume scratch: an emptyDisk begins empty" in text
    assert b"eA==" not in file.read_bytes()
    code, text = run("export", "web", f"{file}2", "--with-secrets")
    assert code == 0, text
    assert b"eA==" in Path(f"{file}2").read_bytes()


def test_no_file_is_left_of_an_export_that_failed(run: Any, api: PlayedApi, file: Path) -> None:
    api.exports.statuses = [200, 403, 403, 403]
    code, _ = run("export", "web", file)
    assert code == Exit.FAILED
    assert not list(file.parent.glob("*kvedge*"))
    assert objects_of(api, EXPORTS) == []


def test_a_vm_that_is_started_meanwhile_is_told_as_the_reason(run: Any, api: PlayedApi, file: Path) -> None:
    api.starts_when_exported = True
    api.exports.statuses = [403]
    code, text = run("export", "web", file)
    assert code == Exit.FAILED
    assert "VM web was started while its disks were read" in text


def test_an_export_without_disks_says_why(run: Any, api: PlayedApi, file: Path) -> None:
    api.export_status = {
        "phase": "Skipped",
        "conditions": [{"type": "Ready", "status": "False", "reason": "VMNoVolumes", "message": "it has none"}],
    }
    code, text = run("export", "web", file)
    assert code == Exit.FAILED
    assert "no disk that can be exported: Skipped - VMNoVolumes: it has none" in text


def test_a_file_that_is_there_is_told_before_anything_is_asked(run: Any, api: PlayedApi, file: Path) -> None:
    file.write_bytes(b"something else")
    code, text = run("export", "web", file)
    assert (code, api.posts) == (Exit.USAGE, [])
    assert "is there already" in text


@pytest.fixture
def archive(api: PlayedApi, file: Path) -> Path:
    """The VM in a file, and a server without it."""
    api.objects.clear()
    return write(file, ROOT, DATA)


def test_a_vm_comes_out_of_a_file_as_it_was(run: Any, api: PlayedApi, archive: Path) -> None:
    code, text = run("import", archive, "--start")
    assert code == 0, text
    assert disk_of(api.images["web-root"]) == ROOT
    # A disk has whole sectors.
    assert disk_of(api.images["data"]).rstrip(b"\0") == DATA.rstrip(b"\0")
    vm = api.objects[f"{VMS}/web"]
    assert vm["spec"]["runStrategy"] == "Always"
    assert vm["spec"]["template"]["spec"]["volumes"] == [
        {"name": "root", "dataVolume": {"name": "web-root"}},
        {"name": "data", "dataVolume": {"name": "data"}},
    ]
    assert vm["spec"]["template"]["spec"]["domain"]["devices"]["interfaces"][0]["macAddress"] == "52:54:00:12:34:56"
    # The disk that was the VM's own goes with it, the other one stays.
    assert api.objects[f"{DVS}/web-root"]["metadata"]["ownerReferences"][0]["uid"] == "uid-of-web"
    assert "ownerReferences" not in api.objects[f"{DVS}/data"]["metadata"]
    assert api.dry_runs == [VMS]


def test_it_gets_another_name_and_other_macs(run: Any, api: PlayedApi, archive: Path) -> None:
    code, text = run("import", archive, "--name", "copy", "--new-macs")
    assert code == 0, text
    vm = api.objects[f"{VMS}/copy"]
    assert vm["spec"]["runStrategy"] == "Halted"
    assert "dataVolumeTemplates" not in vm["spec"]
    assert vm["metadata"]["labels"] == {"kubevirt.io/vm": "copy"}
    assert sorted(objects_of(api, DVS)) == ["copy-data", "copy-root"]
    assert "macAddress" not in vm["spec"]["template"]["spec"]["domain"]["devices"]["interfaces"][0]


@pytest.mark.parametrize("path", [f"{VMS}/web", f"{DVS}/web-root", f"{CLAIMS}/data"])
def test_what_is_there_already_is_refused_first(run: Any, api: PlayedApi, archive: Path, path: str) -> None:
    api.objects[path] = {"metadata": {"name": path.rpartition("/")[2]}, "spec": {}}
    code, text = run("import", archive)
    assert (code, api.posts, api.deleted) == (Exit.FAILED, [], [])
    assert "there already; delete what is not needed, or import under another --name" in text


def test_a_mac_that_another_vm_has_is_refused_first(run: Any, api: PlayedApi, archive: Path) -> None:
    other = copy.deepcopy(VM)
    other["metadata"] = {"name": "other", "namespace": "default"}
    api.objects[f"{VMS}/other"] = other
    code, text = run("import", archive)
    assert (code, api.posts) == (Exit.FAILED, [])
    assert "VM default/other has the MAC address 52:54:00:12:34:56 of this VM: --new-macs" in text


def test_what_a_quota_does_not_leave_is_refused_first(run: Any, api: PlayedApi, archive: Path) -> None:
    status = {"hard": {"requests.storage": "20Mi"}, "used": {"requests.storage": "10Mi"}}
    api.objects[f"/api/v1{NAMESPACE}/resourcequotas/disks"] = {"metadata": {"name": "disks"}, "status": status}
    code, text = run("import", archive)
    assert (code, api.posts) == (Exit.FAILED, [])
    assert "quota disks leaves 10 MiB" in text


def test_what_the_hosts_disk_has_no_room_for_is_refused_first(
    run: Any, api: PlayedApi, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume = {"metadata": {"name": "pv"}, "spec": {"local": {"path": str(archive.parent)}}}
    api.objects["/api/v1/persistentvolumes/pv"] = volume
    monkeypatch.setattr(host_room.os, "statvfs", lambda path: SimpleNamespace(f_bavail=3, f_frsize=1 << 20))
    code, text = run("import", archive)
    assert (code, api.posts) == (Exit.FAILED, [])
    assert "and 3.0 MiB are free where their volumes lie" in text


def test_a_class_that_there_is_not_is_refused_first(run: Any, api: PlayedApi, archive: Path) -> None:
    code, text = run("import", archive, "--storage-class", "gold")
    assert (code, api.posts) == (Exit.NOT_FOUND, [])
    assert "--storage-class gold: there is no such class" in text


def test_the_disks_get_the_class_that_is_named(run: Any, api: PlayedApi, archive: Path) -> None:
    api.objects[f"{CLASS}/gold"] = {"metadata": {"name": "gold"}}
    assert run("import", archive, "--storage-class", "gold")[0] == 0
    assert api.objects[f"{DVS}/data"]["spec"]["storage"] == {
        "resources": {"requests": {"storage": "1Mi"}},
        "storageClassName": "gold",
    }


def test_an_import_that_fails_leaves_nothing(run: Any, api: PlayedApi, archive: Path) -> None:
    take = api.take

    def take_one(claim: str, image: bytes) -> None:
        take(claim, image)
        if claim == "data":
            api.objects[f"{CLAIMS}/data"]["metadata"]["annotations"] = {"cdi.kubevirt.io/storage.pod.phase": "Failed"}

    api.take = take_one  # type: ignore[method-assign]
    code, text = run("import", archive)
    assert code == Exit.FAILED
    assert "cannot be the disk of data" in text
    assert objects_of(api, DVS) == objects_of(api, CLAIMS) == objects_of(api, VMS) == []


def test_a_disk_that_somebody_else_makes_meanwhile_is_left_alone(run: Any, api: PlayedApi, archive: Path) -> None:
    take = api.take
    other = {"metadata": {"name": "data", "uid": "of-another-import"}, "spec": {}}

    def take_and_make(claim: str, image: bytes) -> None:
        take(claim, image)
        api.objects[f"{DVS}/data"] = other

    api.take = take_and_make  # type: ignore[method-assign]
    code, text = run("import", archive)
    assert code == Exit.FAILED
    assert "DataVolume data was made by somebody else meanwhile: it is left as it is" in text
    assert (api.objects[f"{DVS}/data"], list(api.images)) == (other, ["web-root"])
    assert objects_of(api, DVS) == ["data"]


def test_what_the_server_would_refuse_is_known_before_disks_are_sent(run: Any, api: PlayedApi, archive: Path) -> None:
    api.refused.add(VMS)
    code, _ = run("import", archive)
    assert (code, api.posts, api.images) == (Exit.FAILED, [], {})


def test_an_image_that_changes_while_it_is_sent_makes_no_vm(run: Any, api: PlayedApi, tmp_path: Path) -> None:
    api.objects.clear()
    image = tmp_path / "press.img"
    image.write_bytes(bytes(1 << 20))
    domain = tmp_path / "press.xml"
    domain.write_text(
        "<domain type='kvm'><name>press</name><memory>1048576</memory><vcpu>1</vcpu><os><type>hvm</type></os><devices>"
        f"<disk type='file'><source file='{image}'/><target dev='vda'/></disk></devices></domain>"
    )
    take = api.take

    def take_and_write(claim: str, content: bytes) -> None:
        take(claim, content)
        os.utime(image, (1, 1))

    api.take = take_and_write  # type: ignore[method-assign]
    code, text = run("import", domain)
    assert code == Exit.FAILED
    assert f"disk vda is sent from {image}" in text
    assert "has changed while it was sent" in text
    assert objects_of(api, DVS) == objects_of(api, VMS) == []


def test_an_import_that_is_told_to_end_leaves_nothing(run: Any, api: PlayedApi, archive: Path) -> None:
    take = api.take

    def take_and_end(claim: str, image: bytes) -> None:
        take(claim, image)
        os.kill(os.getpid(), signal.SIGTERM)

    api.take = take_and_end  # type: ignore[method-assign]
    before = signal.getsignal(signal.SIGTERM)
    code, _ = run("import", archive)
    assert code
    assert signal.getsignal(signal.SIGTERM) is before
    assert objects_of(api, DVS) == objects_of(api, CLAIMS) == objects_of(api, VMS) == []


def test_words_of_a_file_move_no_cursor(run: Any, api: PlayedApi, tmp_path: Path) -> None:
    domain = tmp_path / "press.xml"
    domain.write_text("<domain type='xen2J‮'><name>press</name></domain>")
    code, text = run("import", domain)
    assert code == Exit.FAILED
    assert "\\x9b2J\\u202e" in text


def test_a_damaged_file_makes_nothing(run: Any, api: PlayedApi, archive: Path) -> None:
    content = bytearray(archive.read_bytes())
    content[-3000] ^= 1
    archive.write_bytes(content)
    code, text = run("import", archive)
    assert (code, api.posts) == (Exit.FAILED, [])
    assert "the archive is damaged" in text
