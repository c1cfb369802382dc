"""Files that come into one box and go out of it: drop-in directories, and the state in a file.

One box for the whole module; the tests stand in the order of its life.
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from kvedge.kube.errors import NotFound
from kvedge.resources.codec import JsonObject
from kvedge.resources.names import CREATED_BY
from kvedge.resources.types.core import Event, Pod
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.box import Box, small_vm
from tests.support.guest import build_guest
from tests.support.small_images import oci_archive
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    found = Box(tmp_path_factory.mktemp("box") / "data", "10.96.7.0/24")
    for name in ("images", "manifests/site"):
        (found.data_dir / name).mkdir(parents=True)
    # The VM's Namespace comes from a file that is read after it.
    vm = small_vm("web", "local/guest-1")
    vm["metadata"]["namespace"] = "shop"
    (found.data_dir / "manifests/a-vm.yaml").write_text(yaml.safe_dump(vm))
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    (found.data_dir / "manifests/site/namespace.json").write_text(json.dumps(namespace))
    shutil.copyfile(build_guest().disk, found.data_dir / "images/guest-1.qcow2")
    found.start()
    yield found
    found.remove()


def images(box: Box) -> list[str]:
    rows = box.cli("image", "list", "--data-dir", str(box.data_dir)).stdout.splitlines()[1:]
    return [row.split()[0] for row in rows]


def told(box: Box, reason: str, part: str) -> list[str]:
    """Messages of the Node's Events with this reason that say this."""
    events = box.client.list(Event, "default", field_selector="involvedObject.kind=Node")
    return [event.message for event in events if event.reason == reason and part in event.message]


def drop(box: Box, name: str, document: JsonObject | str) -> Path:
    path = box.data_dir / "manifests" / name
    path.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
    return path


def config_map(name: str, **data: str) -> JsonObject:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def data_of(box: Box, name: str) -> JsonObject | None:
    try:
        found: JsonObject = box.client.request("GET", f"/api/v1/namespaces/default/configmaps/{name}")
    except NotFound:
        return None
    return found


def web_status(box: Box) -> str:
    try:
        return box.client.get(VirtualMachine, "shop", "web").status.printable_status
    except NotFound:
        return ""


def running_vmi(box: Box) -> str:
    """The UID of the VM's run, while it runs."""
    try:
        vmi = box.client.get(VirtualMachineInstance, "shop", "web")
    except NotFound:
        return ""
    return vmi.metadata.uid if vmi.status.phase == "Running" else ""


def test_what_was_there_before_the_start_runs(box: Box) -> None:
    wait_until(lambda: web_status(box) == "Running", "the dropped VM runs from the dropped image", 90)
    assert "docker.io/local/guest-1:latest" in images(box)
    wait_until(lambda: told(box, "ImageDroppedIn", "was imported as docker.io/local/guest-1:latest"), "it was told")


def test_archives_bring_names_removed_files_remove_nothing_and_bad_files_are_told_once(
    box: Box, tmp_path: Path
) -> None:
    folder = box.data_dir / "images"
    oci_archive(folder / "tools.tar", [], {}, "registry.example/tools:7")
    (folder / "broken.qcow2").write_bytes(b"not a disk")
    (folder / "my disk.img").write_bytes(bytes(1024))
    (tmp_path / "outside.img").write_bytes(bytes(1024))
    (folder / "link.img").symlink_to(tmp_path / "outside.img")
    wait_until(lambda: "registry.example/tools:7" in images(box), "the archive is imported")
    for part in ("broken.qcow2 is called qcow2", "rename the file", "a symbolic link"):
        wait_until(lambda part=part: told(box, "ImageDropInFailed", part), f"{part} is told")
    # Another content under the same name is looked at again.
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", folder / "broken.qcow2", "1M"], check=True)
    for name in ("tools.tar", "guest-1.qcow2", "my disk.img"):
        (folder / name).unlink()
    wait_until(lambda: "docker.io/local/broken:latest" in images(box), "the mended disk is imported")
    record = box.data_dir / "state" / "image-drop-ins.json"
    wait_until(lambda: set(json.loads(record.read_bytes())) == {"broken.qcow2"}, "the others are seen to be gone")
    assert {"registry.example/tools:7", "docker.io/local/guest-1:latest"} <= set(images(box))
    assert not any("outside" in name or "link" in name for name in images(box))
    assert box.log.read_text().count("broken.qcow2 is called qcow2") == 1


def test_changed_manifests_are_applied_removed_ones_delete_nothing_and_bad_ones_are_told(box: Box) -> None:
    path = drop(box, "settings.yaml", config_map("settings", a="1", b="2"))
    drop(box, "bad.yaml", "a: 1\nb: [\n")
    drop(box, "unknown.yaml", "\napiVersion: v1\nkind: Nothing\nmetadata: {name: a}\n")
    first = wait_until(lambda: data_of(box, "settings"), "the manifest is applied")
    assert first["metadata"]["managedFields"][0]["manager"] == "kvedge-manifests"
    said = ["manifests/bad.yaml:3: it is not YAML", "unknown.yaml:2: Nothing a was not applied: no matches"]
    for part in said:
        wait_until(lambda part=part: told(box, "ManifestFailed", part), f"{part} is told")
    drop(box, "bad.yaml", config_map("good"))
    drop(box, "settings.yaml", config_map("settings", a="9"))
    wait_until(lambda: (data_of(box, "settings") or {})["data"] == {"a": "9"}, "the change is applied")
    wait_until(lambda: data_of(box, "good"), "the mended file is applied")
    path.unlink()
    record = "/api/v1/namespaces/kvedge-system/configmaps/kvedge-manifests"
    wait_until(lambda: "settings" not in box.client.request("GET", record)["data"]["files.json"], "it is seen to go")
    assert data_of(box, "settings") is not None


def test_after_a_restart_nothing_is_applied_or_imported_again(box: Box) -> None:
    box.client.request("DELETE", "/api/v1/namespaces/default/configmaps/good")
    box.cli("image", "rm", "local/broken", "--data-dir", str(box.data_dir))
    box.end()
    mark = len(box.log.read_text())
    box.start()
    drop(box, "later.yaml", config_map("later"))
    wait_until(lambda: data_of(box, "later"), "what is new is applied")
    assert data_of(box, "good") is None
    assert "docker.io/local/broken:latest" not in images(box)
    assert "was imported as" not in box.log.read_text()[mark:]


def report_of(box: Box, path: Path) -> dict[str, str]:
    """The texts of a new report, by their names."""
    said = box.cli("report", str(path), "--data-dir", str(box.data_dir)).stdout
    assert "look through it" in said
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.stat().st_size < 8 << 20
    with tarfile.open(path) as archive:
        texts = {info.name.partition("/")[2]: archive.extractfile(info) for info in archive}
        return {name: stream.read().decode() for name, stream in texts.items() if stream is not None}


def test_a_report_tells_what_helps_and_no_secret_with_the_api_and_without(box: Box, tmp_path: Path) -> None:
    planted = ["pl4nted-in-a-secret", "pl4nted-user-data", "pl4nted-last-applied"]
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}, "stringData": {"p": planted[0]}}
    vm = small_vm("sleeper", "local/guest-1", "Halted")
    spec = vm["spec"]["template"]["spec"]
    spec["volumes"].append(
        {"name": "init", "cloudInitNoCloud": {"userData": f"#cloud-config\npassword: {planted[1]}\n"}}
    )
    spec["domain"]["devices"]["disks"].append({"name": "init", "disk": {"bus": "virtio"}})
    applied = {"spec": {"userData": planted[2]}}
    vm["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(applied)}
    box.apply(secret)
    box.apply(vm)
    drop(box, "broken-secret.yaml", f"a: b\npassword: {planted[0]}: [\n")
    wait_until(lambda: told(box, "ManifestFailed", "broken-secret.yaml"), "a line of the log comes near a secret")
    hidden = [*planted, *(base64.b64encode(text.encode()).decode() for text in planted)]
    texts = report_of(box, tmp_path / "up.tar.gz")
    assert "name: sleeper" in texts["objects/virtualmachines.kubevirt.io.yaml"]
    assert "name: login" in texts["objects/secrets.yaml"]
    assert json.loads(texts["status.json"])["nodes"] == 1
    assert {finding["check"] for finding in json.loads(texts["doctor.json"])} >= {"libvirt", "QEMU"}
    assert str(box.data_dir) in texts["settings.txt"]
    assert "kvedge" in texts["host/processes.txt"]
    assert any(name.startswith("pods/") and text for name, text in texts.items())
    assert [(name, text) for name, whole in texts.items() for text in hidden if text in whole] == []
    assert not any("PRIVATE KEY" in text for text in texts.values())
    box.end()
    texts = report_of(box, tmp_path / "down.tar.gz")
    assert "name: sleeper" in texts["objects/virtualmachines.kubevirt.io.yaml"]
    assert "the API does not answer" in texts["status.json"]
    assert [(name, text) for name, whole in texts.items() for text in hidden if text in whole] == []
    (box.data_dir / "state" / "kvedge.db").write_bytes(b"rubbish" * 100)
    texts = report_of(box, tmp_path / "damaged.tar.gz")
    assert "objects: StoreCorrupt" in texts["notes.txt"]
    assert "is damaged" in texts["state.txt"]
    # The next start puts a copy back.
    box.start()


def test_the_state_goes_into_a_file_while_it_runs_and_comes_back_with_its_authority(box: Box, tmp_path: Path) -> None:
    here = ("--data-dir", str(box.data_dir))
    file = tmp_path / "state.tar.gz"
    box.client.request("POST", "/api/v1/namespaces/default/configmaps", config_map("kept"))
    assert "it holds private keys" in box.cli("state", "backup", str(file), *here).stdout
    checked = box.cli("state", "check", *here).stdout
    assert "bad" not in checked
    assert "ok   certificate" in checked
    box.client.request("DELETE", "/api/v1/namespaces/default/configmaps/kept")
    version = int(box.client.request("GET", "/api/v1/namespaces/default")["metadata"]["resourceVersion"])
    kubeconfig, run = yaml.safe_load(box.kubeconfig.read_text()), running_vmi(box)
    refused = box.cli("state", "restore", str(file), *here, check=False)
    assert refused.returncode == 5
    assert "still run (shop/virt-launcher-web-" in refused.stderr
    box.end()
    box.cli("killall", *here, "--pod-cidr", box.pod_cidr, "--grace", "0")
    # As on another box: nothing of the old authority is there.
    shutil.rmtree(box.data_dir / "state" / "pki")
    assert "what was there is in" in box.cli("state", "restore", str(file), *here).stdout
    box.start()
    kept = data_of(box, "kept")
    assert kept is not None
    again = yaml.safe_load(box.kubeconfig.read_text())
    authority = [doc["clusters"][0]["cluster"]["certificate-authority-data"] for doc in (kubeconfig, again)]
    assert authority[0] == authority[1]
    changed = box.client.request(
        "PATCH",
        "/api/v1/namespaces/default/configmaps/kept",
        {"data": {"a": "1"}},
        media_type="application/merge-patch+json",
    )
    assert int(changed["metadata"]["resourceVersion"]) > version
    # What the store says of the VM is of the run before; the agent knows better, and from there on it is as after a
    # power cut.
    pods = [pod for pod in box.client.list(Pod, "shop") if pod.metadata.labels.get(CREATED_BY) == run]
    assert [pod.metadata.labels["kubevirt.io"] for pod in pods] == ["virt-launcher"]
    wait_until(lambda: box.client.get(Pod, "shop", pods[0].metadata.name).status.phase == "Failed", "its Pod has ended")
