"""`kvedge launch --disk` without a network: VMs whose own disk lasts, of an image in the box's store or of a file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.resources.types.data_volumes import DataVolume
from tests.support.box import Box
from tests.support.guest import build_guest
from tests.support.guest_box import guest_box
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(900)]

IMAGE = "local/guest:1"
# Behind the image, where nothing but the guest writes.
KEEPER = """#!/bin/sh
if dd if=/dev/vda bs=1M skip=200 count=1 2>/dev/null | grep -q "kept by the guest"; then
    echo "found what was kept" >/dev/ttyS0
else
    echo "kept by the guest" | dd of=/dev/vda bs=1M seek=200 conv=sync,fsync 2>/dev/null
    echo "kept it now" >/dev/ttyS0
fi
"""


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    with guest_box(tmp_path_factory.mktemp("box"), "10.98.74.0/24", IMAGE) as found:
        yield found


@pytest.mark.parametrize("source", ["an image of the store", "a file"])
def test_the_disk_of_a_launched_vm_is_there_after_its_restart(box: Box, tmp_path: Path, source: str) -> None:
    image, name = (IMAGE, "stored") if source == "an image of the store" else (str(build_guest().disk), "uploaded")
    (tmp_path / "user-data").write_text(KEEPER)
    told = box.cli(
        *("launch", image, name, "--disk", "256Mi", "--memory", "128Mi"),
        *("--user-data", str(tmp_path / "user-data"), "--wait", "--timeout", "100"),
    ).stdout
    assert told.splitlines()[0] == f"VM {name} was created"
    assert told.splitlines()[1].startswith(f"VM {name} is running")
    wait_until(lambda: "kept it now" in console(box, name), "the guest has written", 120)

    (row,) = json.loads(box.cli("list", name, "-o", "json").stdout)
    assert (row["image"], row["disks"][0]["source"]) == (f"dv/{name}-disk", f"dv/{name}-disk")
    assert row["disks"][0]["size"]

    box.cli("restart", name, "--wait", "--timeout", "100")
    wait_until(lambda: "found what was kept" in console(box, name), "the guest finds it again", 120)

    box.cli("delete", "vm", name)
    wait_until(lambda: images(box) == [], "the disk goes with its VM", 60)


def test_an_imported_image_is_cloned_by_its_data_source(box: Box) -> None:
    disk = str(build_guest().disk)
    told = box.cli(
        *("image", "import", disk, "--name", "local/golden:1", "--datasource", "golden"),
        *("--data-dir", str(box.data_dir), "--timeout", "100"),
    ).stdout
    assert told.splitlines()[-1] == "DataSource default/golden leads to it"
    box.apply(
        {
            "apiVersion": "cdi.kubevirt.io/v1beta1",
            "kind": "DataVolume",
            "metadata": {"name": "copy", "annotations": {"cdi.kubevirt.io/storage.bind.immediate.requested": ""}},
            "spec": {
                "sourceRef": {"kind": "DataSource", "name": "golden"},
                "storage": {"resources": {"requests": {"storage": "512Mi"}}},
            },
        }
    )
    wait_until(lambda: box.client.get(DataVolume, "default", "copy").status.phase == "Succeeded", "it is cloned", 100)
    first, second = (path.read_bytes()[: 1 << 20] for path in images(box))
    assert first == second


def console(box: Box, name: str) -> str:
    """What the guest of the present run has written to its console."""
    vmi = box.vmi(name)
    pods = box.pods(vmi) if vmi is not None else []
    logs = [
        path for pod in pods for path in (box.data_dir / "kubelet/pods" / pod.metadata.uid).rglob("virt-serial0-log")
    ]
    return "".join(path.read_text(errors="replace") for path in logs)


def images(box: Box) -> list[Path]:
    return list((box.data_dir / "volumes").rglob("disk.img"))
