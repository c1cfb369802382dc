# Tests: kvedge/controller/datavolumes/data_volume_loop.py, kvedge/controller/datavolumes/bare_uploads.py
"""One pass over a DataVolume and the claim of its name, without a server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import msgspec

from kvedge.controller.datavolumes.data_volume_loop import DataVolumeLoop, DataVolumeSources
from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch
from kvedge.kube.work_queue import Key
from kvedge.resources import data_volume_names as names
from kvedge.resources.codec import decode, encode
from kvedge.resources.types.core import Pod
from kvedge.resources.types.data_volumes import CdiConfig, DataSource, DataVolume, StorageProfile
from kvedge.resources.types.storage import PersistentVolumeClaim, StorageClass
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.standalone.apiserver.patch import merge_patch
from tests.support.clocks import FakeClock
from tests.unit.controller.datavolumes.test_bare_uploads import claim
from tests.unit.controller.datavolumes.test_data_volume_plan import CLUSTER, LATE, data_volume, worker


class PlayedClient:
    """Keeps what is patched and deleted; each answer is newer than all before."""

    def __init__(self) -> None:
        self.version = 10
        self.deleted: list[str] = []
        self.kept: dict[tuple[str, str], Any] = {}

    def keep(self, item: Any) -> Any:
        self.version += 1
        metadata = msgspec.structs.replace(item.metadata, resource_version=str(self.version))
        kept = msgspec.structs.replace(item, metadata=metadata)
        self.kept[type(item).__name__, item.metadata.name] = kept
        return kept

    def patch(self, kind: type[Any], namespace: str, name: str, patch: MergePatch, subresource: str = "") -> Any:
        document = encode(self.kept[kind.__name__, name])
        return self.keep(decode(kind, merge_patch.apply(document, patch.body)))

    def delete(self, kind: type[Any], namespace: str, name: str, preconditions: Any) -> Any:
        self.deleted.append(name)
        going = self.kept[kind.__name__, name]
        metadata = msgspec.structs.replace(going.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
        return self.keep(msgspec.structs.replace(going, metadata=metadata))


class World:
    """The loop, with informers that show what the played server keeps."""

    def __init__(self) -> None:
        self.client = PlayedClient()
        client = cast("KubeClient", self.client)
        self.claims, self.volumes = Informer(client, PersistentVolumeClaim), Informer(client, DataVolume)
        self.workers, self.classes = Informer(client, Pod), Informer(client, StorageClass)
        sources = DataVolumeSources(
            client=client,
            data_volumes=self.volumes,
            claims=self.claims,
            workers=self.workers,
            classes=self.classes,
            profiles=Informer(client, StorageProfile),
            configs=Informer(client, CdiConfig),
            data_sources=Informer(client, DataSource),
            vmis=Informer(client, VirtualMachineInstance),
            events=cast("EventRecorder", SimpleNamespace(record=lambda *told: None)),
            clock=FakeClock(),
        )
        self.loop = DataVolumeLoop(sources, lambda: CLUSTER, lambda address: "")
        self.classes.observe(self.client.keep(LATE))

    def settled(self) -> tuple[PersistentVolumeClaim, DataVolume]:
        self.loop.reconcile(Key("ns", "disk"))
        found, dv = self.claims.get("ns", "disk"), self.volumes.get("ns", "disk")
        assert found is not None
        assert dv is not None
        return found, dv


def uploader(phase: str, state: dict[str, Any], **status: Any) -> Pod:
    pod = worker(phase, state, **status)
    owner = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": "disk", "uid": "claim-uid"}
    document = encode(pod)
    document["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    return decode(Pod, document)


def test_an_upload_into_a_claim_goes_on_where_a_data_volume_waits_to_take_that_over() -> None:
    world = World()
    world.claims.observe(world.client.keep(claim()))
    world.volumes.observe(world.client.keep(data_volume(annotations={names.ALLOW_ADOPTION: "true"})))
    ready = uploader("Running", {"running": {}}, conditions=[{"type": "Ready", "status": "True"}])
    world.workers.observe(world.client.keep(ready))

    found, dv = world.settled()
    assert found.metadata.annotations[names.POD_READY] == "true", "the upload can begin"
    assert found.metadata.owner_references == []
    assert (dv.status.phase, world.client.deleted) == ("Pending", [])

    outcome = {"exitCode": 0, "reason": "Completed", "message": '{"message": "Upload Complete"}'}
    world.workers.observe(world.client.keep(uploader("Succeeded", {"terminated": outcome})))
    found, dv = world.settled()
    (owner,) = found.metadata.owner_references
    assert (owner.uid, found.metadata.annotations[names.POD_PHASE]) == ("dv-uid", "Succeeded")
    assert (dv.status.phase, world.client.deleted) == ("Succeeded", ["importer-disk"])


def test_a_claim_from_which_the_mark_is_taken_loses_the_worker_that_would_write_it() -> None:
    world = World()
    unmarked = claim()
    unmarked.metadata.annotations = {}
    world.claims.observe(world.client.keep(unmarked))
    world.workers.observe(world.client.keep(uploader("Running", {"running": {}})))
    world.loop.reconcile(Key("ns", "disk"))
    assert world.client.deleted == ["importer-disk"]
