"""The embedded API and the storage service of one box, on a data directory of a test's own."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kvedge.kube.errors import NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.core import Event, Node
from kvedge.resources.types.storage import PersistentVolume, PersistentVolumeClaim
from kvedge.standalone.apiserver.access.authorizer_rules import VOLUMES
from kvedge.standalone.apiserver.api_server import ApiServerConfig, EmbeddedApi
from kvedge.standalone.volumes.box_places import BoxPlaces, directory_place
from kvedge.standalone.volumes.volume_service import VolumeConfig, VolumeService
from kvedge.storage.volumes.volume_driver import VolumeDriver
from tests.support.waiting import wait_until

NODE = "box"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUME_PATH = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"


class BoxStorage:
    """What a test of the storage works with."""

    def __init__(
        self, data: Path, api: EmbeddedApi | None = None, more: Mapping[str, VolumeDriver] | None = None
    ) -> None:
        """`more` are further places by the names of their classes."""
        self.data, self.more = data, more or {}
        self.place = data / "volumes"
        self._own = EmbeddedApi(ApiServerConfig(data, port=0, node_name=NODE)) if api is None else None
        self._api = api or self._own
        assert self._api is not None
        if self._own is not None:
            self._own.start()
        self._api.write_kubeconfig(data / "admin.kubeconfig", "admin", ["system:masters"])
        self._api.write_kubeconfig(data / "volumes.kubeconfig", "kvedge:volumes", [VOLUMES])
        self.client = KubeClient.from_kubeconfig(data / "admin.kubeconfig")
        try:
            self.client.get(Node, "", NODE)
        except NotFound:
            if self._own is not None:
                labels = {"kubernetes.io/hostname": NODE}
                self.client.create(Node(metadata=ObjectMeta(name=NODE, labels=labels)))
        self.service: VolumeService | None = None
        self.start()

    def start(self) -> None:
        """Start the storage service, as at the start of the box."""
        own = directory_place(self.place, self.data / "memory", made_here=True)
        places = BoxPlaces({"kvedge": own, **self.more})
        client = KubeClient.from_kubeconfig(self.data / "volumes.kubeconfig")
        self.service = VolumeService(VolumeConfig(NODE, places), client)
        self.service.start()

    def stop(self) -> None:
        """Stop the storage service."""
        if self.service is not None:
            self.service.stop()
        self.service = None

    def close(self) -> None:
        """Stop everything, and detach what is left of devices."""
        self.stop()
        os.system(f"losetup -n -O NAME,BACK-FILE | grep {self.place} | cut -d' ' -f1 | xargs -r -n1 losetup -d")
        self.client.close()
        if self._own is not None:
            self._own.stop()

    def make(self, name: str, size: str = "1Gi", **spec: Any) -> PersistentVolumeClaim:
        """A claim of the default class, unless `spec` says otherwise."""
        wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec}
        self.client.request("POST", CLAIMS, {"metadata": {"name": name}, "spec": wanted})
        return self.claim(name)

    def claim(self, name: str) -> PersistentVolumeClaim:
        """The claim as it is."""
        return self.client.get(PersistentVolumeClaim, "default", name)

    def bound(self, name: str) -> PersistentVolume:
        """The volume of a claim, once both name each other."""
        wait_until(lambda: self.claim(name).status.phase == "Bound", f"{name} bound")
        return self.volume(self.claim(name).spec.volume_name)

    def volume(self, name: str) -> PersistentVolume:
        """The volume as it is."""
        return self.client.get(PersistentVolume, "", name)

    def resize(self, name: str, size: str) -> None:
        """Have a claim ask for another size."""
        change = MergePatch({"spec": {"resources": {"requests": {"storage": size}}}})
        self.client.patch(PersistentVolumeClaim, "default", name, change)

    def volume_in(self, name: str, phase: str) -> PersistentVolume:
        """The volume, once it is in that phase."""
        wait_until(lambda: self.volume(name).status.phase == phase, f"{name} {phase}")
        return self.volume(name)

    def delete_claim(self, name: str) -> None:
        """Delete a claim."""
        self.client.delete(PersistentVolumeClaim, "default", name)

    def gone(self, name: str) -> None:
        """Until a volume's object is gone."""

        def is_gone() -> bool:
            try:
                self.volume(name)
            except NotFound:
                return True
            return False

        wait_until(is_gone, f"volume {name} gone")

    def says(self, name: str, reason: str) -> str:
        """The message of a claim's event of that reason, once there is one."""

        def look() -> str:
            found = (e.message for e in self.client.list(Event) if (e.involved_object.name, e.reason) == (name, reason))
            return next(found, "")

        return wait_until(look, f"event {reason} of {name}")


@contextmanager
def box_storage(data: Path) -> Iterator[BoxStorage]:
    """For the duration of a test."""
    made = BoxStorage(data)
    try:
        yield made
    finally:
        made.close()
