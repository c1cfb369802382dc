"""DataVolumes of VMs: made once, found by their VMs, and their failures told once."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest

from kvedge.controller.vm.vm_data_volumes import Making, VmDataVolumes
from kvedge.kube.errors import AlreadyExists, Forbidden, KubeError, NotFound, Unavailable
from kvedge.kube.object_cache import ObjectCache
from kvedge.kube.patches import document
from kvedge.kube.work_queue import Key
from kvedge.resources.codec import decode, encode
from kvedge.resources.data_volume_names import KEPT_FOR_POOL
from kvedge.resources.meta import owner_reference
from kvedge.resources.names import CREATED_BY
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.vm import VirtualMachine
from tests.support.builders import a_vm, owned_by, patched

KEY = Key("default", "web")
TEMPLATE = {"metadata": {"name": "root"}, "spec": {"source": {"blank": {}}}}


class Cache(ObjectCache[Any]):
    """A cache that takes what is given to it."""

    def observe(self, item: Any) -> None:
        self.take_own(item)


class Server:
    """Takes DataVolumes, or refuses them."""

    def __init__(self) -> None:
        self.refusal: KubeError | None = None
        self.made: list[DataVolume] = []
        # What the server has and the cache does not know.
        self.hidden: DataVolume | None = None
        self.live = of_pool(a_vm_with_a_template(), "pool")
        self.vms, self.volumes, self.events = Cache(), Cache(), MagicMock()
        self.disks = VmDataVolumes(self, self.vms, self.volumes, self.events)  # type: ignore[arg-type]

    def create(self, made: DataVolume) -> DataVolume:
        if self.refusal is not None:
            raise self.refusal
        made.metadata.uid = f"uid-of-{made.metadata.name}"
        made.metadata.resource_version = str(len(self.made) + 1)
        self.made.append(made)
        return made

    def get(self, cls: type, namespace: str, name: str) -> Any:
        if cls is VirtualMachine:
            return self.live
        if self.hidden is None:
            raise NotFound(404, "NotFound", name)
        return self.hidden

    def patch(self, cls: type, namespace: str, name: str, patch: Any) -> DataVolume:
        there = self.volumes.get(namespace, name) or self.hidden
        assert there is not None
        taken = decode(DataVolume, patched(encode(there), document(patch)))
        taken.metadata.resource_version = "100"
        return taken

    def told(self) -> list[tuple[str, str, str]]:
        return [call.args[1:] for call in self.events.record.call_args_list]


def a_vm_with_a_template() -> VirtualMachine:
    changed = encode(a_vm())
    changed["spec"]["dataVolumeTemplates"] = [TEMPLATE]
    changed["spec"]["template"] = {"spec": {"domain": {}, "volumes": [{"name": "r", "dataVolume": {"name": "root"}}]}}
    return decode(VirtualMachine, changed)


def test_a_template_is_applied_once() -> None:
    server, vm = Server(), a_vm_with_a_template()
    assert server.disks.make(KEY, vm) == Making()
    assert server.disks.make(KEY, vm) == Making()
    assert [dv.metadata.name for dv in server.made] == ["root"]
    assert server.told() == [("Normal", "SuccessfulDataVolumeCreate", "Created DataVolume root")]


@pytest.mark.parametrize(
    ("refusal", "told", "unmade"),
    [
        (Forbidden(403, "Forbidden", "exceeded quota"), True, True),
        (Unavailable(503, "", "later"), False, True),
        (AlreadyExists(409, "AlreadyExists", "there"), False, True),
    ],
    ids=["a quota", "a server that is away", "one that is gone again"],
)
def test_a_refusal_that_lasts_is_told_once_and_tried_again(refusal: KubeError, told: bool, unmade: bool) -> None:
    server, vm = Server(), a_vm_with_a_template()
    server.refusal = refusal
    assert [server.disks.make(KEY, vm).unmade, server.disks.make(KEY, vm).unmade] == [unmade, unmade]
    reasons = [reason for _, reason, _ in server.told()]
    assert reasons == (["FailedDataVolumeCreate"] if told else [])


def there(**metadata: Any) -> DataVolume:
    meta = {"name": "root", "namespace": "default", "uid": "dv", "resourceVersion": "7", **metadata}
    return decode(DataVolume, {"metadata": meta, "spec": {}})


def of_pool(vm: VirtualMachine, pool: str) -> VirtualMachine:
    changed = encode(vm)
    changed["metadata"]["ownerReferences"] = [owned_by("VirtualMachinePool", pool, "pool")]
    return decode(VirtualMachine, changed)


@pytest.mark.parametrize("is_seen", [True, False], ids=["in the cache", "on the server alone"])
@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        ({"deletionTimestamp": "2026-01-02T03:00:00Z"}, "is being deleted"),
        ({"ownerReferences": [owned_by("VirtualMachine", "web", "earlier")]}, "belongs to VirtualMachine web"),
        ({"annotations": {KEPT_FOR_POOL: "other"}}, "is kept for VirtualMachinePool other"),
    ],
    ids=["going", "another VM's", "another pool's"],
)
def test_a_vm_waits_for_a_data_volume_that_is_not_its_own(metadata: dict[str, Any], why: str, is_seen: bool) -> None:
    server, vm = Server(), of_pool(a_vm_with_a_template(), "pool")
    if is_seen:
        server.volumes.observe(there(**metadata))
    else:
        server.hidden, server.refusal = there(**metadata), AlreadyExists(409, "AlreadyExists", "there")
    making = server.disks.make(KEY, vm)
    assert making.unmade
    assert why in making.blocked
    assert server.made == []


@pytest.mark.parametrize(
    "metadata",
    [{}, {"ownerReferences": [owned_by("DataImportCron", "c", "c")]}, {"annotations": {KEPT_FOR_POOL: "pool"}}],
    ids=["nobody's", "another kind's", "one that a pool has kept"],
)
def test_a_plain_vm_takes_a_data_volume_of_the_name_as_it_is(metadata: dict[str, Any]) -> None:
    server = Server()
    server.volumes.observe(there(**metadata))
    assert server.disks.make(KEY, a_vm_with_a_template()) == Making()
    assert server.made == []
    assert server.volumes.get("default", "root") == there(**metadata)


def test_the_vm_of_a_pool_owns_again_what_its_pool_has_kept() -> None:
    server, vm = Server(), of_pool(a_vm_with_a_template(), "pool")
    server.volumes.observe(there(labels={CREATED_BY: "before"}, annotations={KEPT_FOR_POOL: "pool", "mine": "x"}))
    assert server.disks.make(KEY, vm) == Making()
    owned = server.volumes.get("default", "root")
    assert owned is not None
    assert owned.metadata.controller_reference() == owner_reference(vm)
    assert owned.metadata.annotations == {"mine": "x"}
    assert owned.metadata.labels == {CREATED_BY: "before"}
    assert server.disks.make(KEY, vm) == Making()


def test_a_vm_that_the_cache_does_not_know_to_be_going_owns_nothing_again() -> None:
    server, vm = Server(), of_pool(a_vm_with_a_template(), "pool")
    server.live.metadata.deletion_timestamp = "2026-01-02T03:00:00Z"
    server.volumes.observe(there(annotations={KEPT_FOR_POOL: "pool"}))
    assert server.disks.make(KEY, vm).blocked
    assert server.volumes.get("default", "root") == there(annotations={KEPT_FOR_POOL: "pool"})


def test_an_import_that_has_failed_is_told_once_for_each_data_volume() -> None:
    server, vm = Server(), a_vm_with_a_template()
    server.disks.make(KEY, vm)
    failed = server.made[0]
    failed.status.phase = "Failed"
    assert list(server.disks.of(KEY, vm)) == [failed]
    server.disks.of(KEY, vm)
    warning = ("Warning", "FailedDataVolumeImport", "DataVolume root failed to import disk image")
    assert server.told()[1:] == [warning]
    failed.metadata.uid = "another"
    server.disks.of(KEY, vm)
    assert server.told()[1:] == [warning, warning]


def test_a_data_volume_wakes_the_vms_that_it_is_a_volume_of() -> None:
    server, vm = Server(), a_vm_with_a_template()
    vm.metadata.owner_references = []
    server.vms.observe(vm)
    server.disks.make(KEY, vm)
    assert server.disks.users_of(server.made[0]) == {KEY}
    server.made[0].metadata.owner_references = []
    assert server.disks.users_of(server.made[0]) == {KEY}
