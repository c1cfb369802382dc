"""What the loop over DataVolumes makes of Pods that strangers have made, and of a server that refuses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import pytest

from kvedge.controller.datavolumes.data_volume_loop import DataVolumeLoop, DataVolumeSources
from kvedge.kube.errors import Forbidden, KubeError, NotFound
from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.reconcile_loop import Again
from kvedge.kube.work_queue import Key
from kvedge.resources.codec import decode, encode
from kvedge.resources.data_volume_names import CLONE_TARGET, UPLOAD_TARGET
from kvedge.resources.types.core import Pod
from kvedge.resources.types.data_volumes import CdiConfig, DataSource, DataVolume, StorageProfile
from kvedge.resources.types.storage import PersistentVolumeClaim, StorageClass
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import patched
from tests.support.clocks import FakeClock
from tests.unit.controller.datavolumes.test_data_volume_plan import CLUSTER, LATE, PROFILE, data_volume

DISK = Key("ns", "disk")


def versioned(item: Any) -> Any:
    meta = msgspec.structs.replace(item.metadata, resource_version="1")
    return msgspec.structs.replace(item, metadata=meta)


@dataclass
class PlayedServer:
    """Makes and changes what it is asked for; deletes, unless it refuses that."""

    objects: dict[tuple[str, str, str], Any] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    refuses_creates: KubeError | None = None
    refuses_deletes: KubeError | None = None
    version: int = 1

    def hurry(self, seconds: float) -> PlayedServer:
        return self

    def get(self, kind: Any, namespace: str, name: str) -> Any:
        raise self.refuses_creates or NotFound(404, "NotFound", name)

    def create(self, item: Any) -> Any:
        if self.refuses_creates is not None:
            raise self.refuses_creates
        self.version += 1
        made = msgspec.structs.replace(
            item,
            metadata=msgspec.structs.replace(
                item.metadata, uid=f"uid-{self.version}", resource_version=str(self.version)
            ),
        )
        self.objects[type(item).__name__, item.metadata.namespace, item.metadata.name] = made
        return made

    def patch(self, kind: Any, namespace: str, name: str, patch: Any, subresource: str = "") -> Any:
        self.version += 1
        document = patched(encode(self.objects[kind.__name__, namespace, name]), patch.body)
        document["metadata"]["resourceVersion"] = str(self.version)
        made = self.objects[kind.__name__, namespace, name] = decode(kind, document)
        return made

    def delete(self, kind: Any, namespace: str, name: str, preconditions: Any = None) -> None:
        if self.refuses_deletes is not None:
            raise self.refuses_deletes
        self.deleted.append(f"{namespace}/{name}")


class Box:
    """The loop, its informers and its server."""

    def __init__(self, *pods: Pod, dv: DataVolume | None = None) -> None:
        self.server, self.clock = PlayedServer(), FakeClock()
        client = cast("KubeClient", self.server)
        self.sources = DataVolumeSources(
            client=client,
            data_volumes=Informer(client, DataVolume),
            claims=Informer(client, PersistentVolumeClaim),
            workers=Informer(client, Pod),
            classes=Informer(client, StorageClass),
            profiles=Informer(client, StorageProfile),
            configs=Informer(client, CdiConfig),
            data_sources=Informer(client, DataSource),
            vmis=Informer(client, VirtualMachineInstance),
            events=EventRecorder(client, "test", clock=self.clock),
            clock=self.clock,
        )
        self.loop = DataVolumeLoop(self.sources, lambda: CLUSTER, lambda address: "")
        self.sources.classes.observe(versioned(LATE))
        self.sources.profiles.observe(versioned(PROFILE))
        for pod in pods:
            self.sources.workers.observe(pod)
        if dv is not None:
            dv.metadata.resource_version = "1"
            self.server.objects["DataVolume", "ns", "disk"] = dv
            self.sources.data_volumes.observe(dv)

    @property
    def made(self) -> list[str]:
        return sorted(kind for kind, _, _ in self.server.objects)


def a_pod(name: str, owner: str = "PersistentVolumeClaim", uid: str = "of-the-tenant", **more: Any) -> Pod:
    owners = [{"apiVersion": "v1", "kind": owner, "name": "mine", "uid": uid, "controller": True}]
    marks = {"labels": {CLONE_TARGET: "another-uid"}, "annotations": {CLONE_TARGET: "ns/disk"}}
    meta = {"name": name, "namespace": "tenant", "uid": f"pod-{name}", "resourceVersion": "1", **marks, **more}
    return decode(Pod, {"metadata": {**meta, "ownerReferences": owners}, "spec": {}, "status": {"phase": "Running"}})


STRANGERS = {
    "no sender's name": a_pod("web"),
    "no claim's": a_pod("cdi-upload-source-x", owner="ReplicaSet"),
}


@pytest.mark.parametrize("case", STRANGERS)
def test_a_pod_that_only_says_that_it_sends_is_left_alone(case: str) -> None:
    box = Box(STRANGERS[case], dv=data_volume())
    box.loop.reconcile(DISK)
    assert box.server.deleted == []
    assert "PersistentVolumeClaim" in box.made


def test_a_sender_whose_data_volume_is_gone_is_ended() -> None:
    box = Box(a_pod("cdi-upload-source-x"))
    assert box.loop.reconcile(DISK) is None
    assert box.server.deleted == ["tenant/cdi-upload-source-x"]


def test_a_data_volume_does_not_wait_for_a_strangers_pod_that_cannot_be_ended() -> None:
    box = Box(a_pod("cdi-upload-source-x"), dv=data_volume())
    box.server.refuses_deletes = Forbidden(403, "Forbidden", "not yours")
    box.loop.reconcile(DISK)
    assert "PersistentVolumeClaim" in box.made


def test_a_sender_that_could_not_be_ended_is_ended_later() -> None:
    box = Box(a_pod("cdi-upload-source-x"))
    box.server.refuses_deletes = KubeError(500, "InternalError", "not now")
    assert box.loop.reconcile(DISK) == Again(60.0)
    box.server.refuses_deletes = None
    assert box.loop.reconcile(DISK) is None
    assert box.server.deleted == ["tenant/cdi-upload-source-x"]


def test_a_pod_of_another_namespace_that_names_the_data_volume_as_its_owner_is_no_worker() -> None:
    dv = data_volume(deletionTimestamp="2026-01-01T00:00:00Z")
    theirs = a_pod("mine", owner="DataVolume", uid=dv.metadata.uid, annotations={})
    ours = a_pod("importer-disk", owner="DataVolume", uid=dv.metadata.uid, namespace="ns", annotations={})
    ours.metadata.resource_version = "2"
    box = Box(theirs, ours, dv=dv)
    box.loop.reconcile(DISK)
    assert set(box.server.deleted) == {"ns/importer-disk"}


def test_a_refusal_is_forgotten_with_the_claim_that_it_was_about() -> None:
    meta = {"name": "disk", "namespace": "ns", "uid": "claim-uid", "resourceVersion": "1"}
    marks = {"annotations": {UPLOAD_TARGET: ""}}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    document = {"metadata": {**meta, **marks}, "spec": spec, "status": {"phase": "Bound"}}
    claim = decode(PersistentVolumeClaim, document)
    box = Box()
    box.server.refuses_creates = Forbidden(403, "Forbidden", "exceeded quota")
    box.server.objects["PersistentVolumeClaim", "ns", "disk"] = claim
    box.sources.claims.observe(claim)
    box.loop.reconcile(DISK)
    assert box.loop._creations.refusal("claim-uid") is not None
    box.loop._on_claim(claim, None)
    assert box.loop._creations.refusal("claim-uid") is None
