"""A box loses its store and keeps its disks: these alone give claims and VMs back. API and storage are real."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from kvedge.resources.types.storage import PersistentVolume, PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from tests.machine.volumes.box_snapshots import SNAPSHOTS, BoxSnapshots, source_of
from tests.machine.volumes.box_storage import BoxStorage
from tests.support.either_server import install_kinds
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(200)]

VMS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines"
SHOP = """
metadata: {name: shop, labels: {tier: shop}}
spec:
  runStrategy: Always
  dataVolumeTemplates: [{metadata: {name: shop-root}, spec: {source: {blank: {}}}}]
  template:
    spec:
      domain: {devices: {}, memory: {guest: 64Mi}}
      volumes:
        - {name: root, dataVolume: {name: shop-root}}
        - {name: data, persistentVolumeClaim: {claimName: shop-data}}
"""
NOBODYS = "0f5c0000-0000-4000-8000-00000000000a"


def recover(data: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kvedge", "recover", "--kubeconfig", str(data / "admin.kubeconfig")]
    asked = [*command, "--data-dir", str(data), "-n", "default", *more]
    return subprocess.run(asked, capture_output=True, text=True, check=False, cwd="/", timeout=100)


def claims(box: BoxStorage) -> dict[str, str]:
    found = box.client.list(PersistentVolumeClaim, "default")
    return {each.metadata.name: each.spec.volume_name or "" for each in found if each.status.phase == "Bound"}


def test_disks_alone_give_claims_and_vms_back_once(tmp_path: Path) -> None:
    volumes = lose_the_store(tmp_path)
    box = BoxStorage(tmp_path)
    try:
        install_kinds(box.client)
        told = recover(tmp_path, "--dry-run")
        assert "would make virtualmachine default/shop" in told.stdout, told.stderr
        assert box.client.list(PersistentVolume) == []

        told = recover(tmp_path)
        assert "virtualmachine default/shop made" in told.stdout, told.stderr
        again = wait_until(lambda: found if len(found := claims(box)) == 3 else None, "all claims are bound", 60)
        assert {name: again[name] for name in volumes} == volumes
        assert again[f"recovered-{NOBODYS}"] == f"pvc-{NOBODYS}"
        vm = box.client.get(VirtualMachine, "default", "shop")
        assert (vm.spec.run_strategy, vm.metadata.labels) == ("Halted", {"tier": "shop"})
        assert vm.spec.data_volume_templates == []
        assert {each.spec.persistent_volume_reclaim_policy for each in box.client.list(PersistentVolume)} == {"Retain"}
        with (Path("/dev/kvedge") / volumes["shop-data"].removeprefix("pvc-")).open("rb") as device:
            assert device.read(8) == b"kept too"
        assert (box.place / volumes["shop-root"].removeprefix("pvc-") / "disk.img").read_bytes() == b"kept"
        snapshots = BoxSnapshots(box)
        assert snapshots.ready("first").metadata.labels == {"kept": "yes"}
        assert snapshots.content("first").spec.deletion_policy == "Retain"
        box.make("back", "16Mi", **source_of("first"))
        back = box.bound("back").spec.local
        assert back is not None
        assert (Path(back.path) / "disk.img").read_bytes() == b"before"
        assert "nothing is lost" in recover(tmp_path).stderr
    finally:
        box.close()


def lose_the_store(data: Path) -> dict[str, str]:
    """A box with a VM, ended; of it are left the disks, and what lies beside them. Its claims and their volumes."""
    box = BoxStorage(data)
    try:
        install_kinds(box.client)
        box.make("shop-root", "16Mi")
        box.make("shop-data", "8Mi", volumeMode="Block")
        shop = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", **yaml.safe_load(SHOP)}
        box.client.request("POST", VMS, shop)
        for name in ("shop-root", "shop-data"):
            box.bound(name)
        volumes = claims(box)
        notes = box.place / ".manifests"
        wait_until(lambda: notes.is_dir() and len(list(notes.glob("*-*-*"))) == 3, "all is noted beside the disks", 60)
        root = box.place / volumes["shop-root"].removeprefix("pvc-") / "disk.img"
        root.write_bytes(b"before")
        source = {"source": {"persistentVolumeClaimName": "shop-root"}}
        metadata = {"name": "first", "labels": {"kept": "yes"}}
        box.client.request("POST", SNAPSHOTS, {"metadata": metadata, "spec": source})
        BoxSnapshots(box).ready("first")
        wait_until(lambda: list(notes.glob("snapshot-*")), "the snapshot is noted beside it", 60)
        root.write_bytes(b"kept")
        with (box.place / volumes["shop-data"].removeprefix("pvc-") / "block.img").open("r+b") as device:
            device.write(b"kept too")
        (box.place / NOBODYS).mkdir()
        (box.place / NOBODYS / "disk.img").write_bytes(bytes(4 << 20))
        # A VM that is deleted is not brought back.
        box.client.request("POST", VMS, {**shop, "metadata": {"name": "gone"}})
        wait_until(lambda: len(list(notes.glob("*-*-*"))) == 5, "the other VM is noted", 60)
        box.client.request("DELETE", f"{VMS}/gone")
        wait_until(lambda: len(list(notes.glob("*-*-*"))) == 4, "its note goes with it", 60)
    finally:
        box.close()
    shutil.rmtree(data / "state")
    shutil.rmtree(data / "backup", ignore_errors=True)
    return volumes
