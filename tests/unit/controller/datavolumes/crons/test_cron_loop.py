"""What the loop over DataImportCrons sees of others' objects."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from kvedge.controller.datavolumes.crons.cron_loop import CronLoop, CronSources
from kvedge.controller.datavolumes.crons.cron_plan import CronView
from kvedge.kube.errors import AlreadyExists
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.reconcile_loop import Again
from kvedge.kube.work_queue import Key
from kvedge.resources.codec import decode
from kvedge.resources.data_volume_names import DESIRED_DIGEST
from kvedge.resources.types.core import Pod
from kvedge.resources.types.data_import_cron import DataImportCron
from kvedge.resources.types.data_volumes import CdiConfig, DataSource, DataVolume
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import rfc3339
from tests.support.builders import NOW
from tests.support.clocks import FakeClock
from tests.unit.controller.datavolumes.crons.test_cron_plan import FIRST, a_cron, an_import
from tests.unit.controller.datavolumes.test_data_volume_plan import CLUSTER


def versioned(item: Any, **metadata: Any) -> Any:
    meta = msgspec.structs.replace(item.metadata, resource_version="1", **metadata)
    return msgspec.structs.replace(item, metadata=meta)


class Seen:
    """The loop with informers that nobody feeds but the test."""

    def __init__(self, cron: DataImportCron, server: Any = None) -> None:
        client = cast("KubeClient", server)
        self.cron = versioned(cron)
        self.told: list[str] = []
        self.sources = CronSources(
            client=client,
            crons=Informer(client, DataImportCron),
            data_volumes=Informer(client, DataVolume),
            data_sources=Informer(client, DataSource),
            workers=Informer(client, Pod),
            configs=Informer(client, CdiConfig),
            vms=Informer(client, VirtualMachine),
            vmis=Informer(client, VirtualMachineInstance),
            events=cast("Any", SimpleNamespace(record=lambda *told: self.told.append(told[-1]))),
            clock=FakeClock(),
        )
        self.loop = CronLoop(self.sources, lambda: CLUSTER)
        self.sources.crons.observe(self.cron)

    @property
    def view(self) -> CronView:
        return self.loop._view(self.cron)


def a_poll(namespace: str) -> Pod:
    owner = {"apiVersion": "v1", "kind": "DataImportCron", "name": "nightly", "uid": "cron", "controller": True}
    meta = {"name": "a", "namespace": namespace, "uid": "u", "resourceVersion": "1", "ownerReferences": [owner]}
    return decode(Pod, {"metadata": meta, "spec": {}})


def test_a_pod_of_another_namespace_that_names_the_cron_as_its_owner_is_no_poll() -> None:
    seen = Seen(a_cron())
    seen.sources.workers.observe(a_poll("evil"))
    assert seen.view.poll is None
    seen.sources.workers.observe(a_poll("golden"))
    assert seen.view.poll is not None
    assert seen.view.poll.metadata.namespace == "golden"


def test_those_who_manage_the_same_data_source_are_rivals() -> None:
    seen = Seen(a_cron())
    seen.sources.crons.observe(versioned(a_cron(), name="weekly", uid="weekly"))
    seen.sources.crons.observe(versioned(a_cron(), name="nightly", namespace="elsewhere"))
    seen.sources.crons.observe(versioned(a_cron({"managedDataSource": "bsd"}), name="other"))
    seen.sources.crons.observe(versioned(a_cron(), name="ending", deletion_timestamp=rfc3339(NOW)))
    assert [rival.metadata.name for rival in seen.view.rivals] == ["weekly"]


@pytest.mark.parametrize("kind", [VirtualMachine, VirtualMachineInstance], ids=["a VM", "a guest"])
def test_claims_of_vms_are_used(kind: type[Any]) -> None:
    seen = Seen(a_cron())
    made = an_import(FIRST)
    seen.sources.data_volumes.observe(versioned(made))
    assert seen.view.used == set()
    spec: dict[str, Any] = {"domain": {"devices": {}}, "volumes": []}
    spec["volumes"] = [{"name": "root", "dataVolume": {"name": made.metadata.name}}]
    if kind is VirtualMachine:
        spec = {"runStrategy": "Halted", "template": {"spec": spec}}
    meta = {"name": "vm", "namespace": "golden", "resourceVersion": "1"}
    users = seen.sources.vms if kind is VirtualMachine else seen.sources.vmis
    cast("Any", users).observe(decode(kind, {"metadata": meta, "spec": spec}))
    assert seen.view.used == {made.metadata.name}


@pytest.mark.parametrize(
    ("labels", "in_the_way"), [(None, False), ({}, True)], ids=["its own import", "somebody else's"]
)
def test_a_data_volume_of_somebody_else_with_the_name_of_an_import_is_in_the_way(
    labels: dict[str, str] | None, in_the_way: bool
) -> None:
    seen = Seen(a_cron(**{DESIRED_DIGEST: FIRST}))
    made = an_import(FIRST)
    assert not seen.view.in_the_way
    seen.sources.data_volumes.observe(versioned(made, labels=made.metadata.labels if labels is None else labels))
    assert seen.view.in_the_way == in_the_way


def test_with_the_end_of_one_its_rivals_are_looked_at() -> None:
    seen = Seen(a_cron())
    gone = versioned(a_cron(), name="weekly", uid="weekly")
    seen.loop._on_cron(gone, None)
    assert {seen.loop.loop.queue.take(0), seen.loop.loop.queue.take(0)} == {
        Key("golden", "weekly"),
        Key("golden", "nightly"),
    }


@pytest.mark.parametrize(
    ("owner", "seconds", "told"),
    [("somebody", 30.0, ["Pod poll-nightly exists"]), ("cron", 1.0, [])],
    ids=["somebody else's", "its own, which the cache does not show yet"],
)
def test_a_pod_with_the_name_of_a_poll_is_told_of_and_waited_for(owner: str, seconds: float, told: list[str]) -> None:
    def create(item: Any) -> Any:
        raise AlreadyExists(409, "AlreadyExists", item.metadata.name)

    there = a_poll("golden")
    there.metadata.owner_references[0].uid = owner
    seen = Seen(a_cron(), SimpleNamespace(create=create, get=lambda *named: there))
    assert seen.loop.reconcile(Key("golden", "nightly")) == Again(seconds)
    assert len(seen.told) == len(told)
    assert all(start in text for start, text in zip(told, seen.told, strict=True))
