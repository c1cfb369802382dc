"""Where the note of a VM lies, as its disks come to lie elsewhere. Places and notes are real."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.work_queue import Key
from kvedge.resources.codec import decode
from kvedge.resources.types.storage import PersistentVolume, PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.standalone.volumes.box_places import BoxPlaces, directory_place
from kvedge.standalone.volumes.manifest_keeper import ManifestKeeper
from kvedge.standalone.volumes.volume_manifest import PLACE_ANNOTATION
from kvedge.standalone.volumes.volume_words import PROVISIONED_BY, PROVISIONER
from kvedge.storage.volumes.directory_driver import DirectoryDriver
from tests.support.builders import small_vmi, vm_of

UID = "0f5c0000-0000-4000-8000-00000000000d"


class World:
    """A VM with one claim, and two places."""

    def __init__(self, path: Path) -> None:
        self.paths = {"kvedge": path / "own", "usb": path / "usb"}
        drivers: dict[str, DirectoryDriver] = {}
        for name, place in self.paths.items():
            place.mkdir()
            drivers[name] = directory_place(place, path / f"{name}.json", made_here=True)
            drivers[name].prepare()
        client = cast("KubeClient", None)
        self.claims = Informer(client, PersistentVolumeClaim)
        self.volumes = Informer(client, PersistentVolume)
        self.vms = Informer(client, VirtualMachine)
        self.keeper = ManifestKeeper(BoxPlaces(drivers), self.claims, self.volumes, self.vms)
        self.version = 0
        for name in self.paths:
            annotations = {PROVISIONED_BY: PROVISIONER, PLACE_ANNOTATION: name}
            self.see(self.volumes, PersistentVolume, {"name": f"pv-{name}", "annotations": annotations}, {})

    def see(self, informer: Any, cls: Any, metadata: dict[str, Any], spec: Any) -> None:
        self.version += 1
        informer.observe(decode(cls, {"metadata": {**metadata, "resourceVersion": str(self.version)}, "spec": spec}))

    def name_claim(self, claim: str) -> list[str]:
        """Let the VM have this claim; where its note lies then."""
        document = vm_of(small_vmi(), runStrategy="Halted")
        volumes = [{"name": "root", "persistentVolumeClaim": {"claimName": claim}}]
        document["spec"]["template"]["spec"]["volumes"] = volumes
        self.see(self.vms, VirtualMachine, {"namespace": "shop", "name": "web", "uid": UID}, document["spec"])
        assert self.keeper.reconcile(Key("shop", "vm/web")) is None
        return [name for name, path in self.paths.items() if (path / ".manifests" / f"vm-{UID}").is_file()]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_note_goes_from_a_place_once_it_lies_with_all_disks_in_another(world: World) -> None:
    for name in world.paths:
        metadata = {"namespace": "shop", "name": f"root-{name}", "uid": name}
        world.see(world.claims, PersistentVolumeClaim, metadata, {"volumeName": f"pv-{name}"})
    assert world.name_claim("root-usb") == ["usb"]
    # Which place its disk is in is not known yet: until then the note stays where it was.
    assert world.name_claim("root-new") == ["kvedge", "usb"]
    assert world.name_claim("root-kvedge") == ["kvedge"]
