"""DataVolumes of VMs: made once, found by their VMs, and their failures told once."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest

from kvedge.controller.vm.vm_data_volumes import VmDataVolumes
from kvedge.kube.errors import AlreadyExists, Forbidden, KubeError, Unavailable
from kvedge.kube.object_cache import ObjectCache
from kvedge.kube.work_queue import Key
from kvedge.resources.codec import decode, encode
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.vm import VirtualMachine
from tests.support.builders import a_vm

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
        self.vms, self.volumes, self.events = Cache(), Cache(), MagicMock()
        self.disks = VmDataVolumes(self, self.vms, self.volumes, self.events)  # type: ignore[arg-type]

    def create(self, made: DataVolume) -> DataVolume:
        if self.refusal is not None:
            raise self.refusal
        made.metadata.uid = f"uid-of-{made.metadata.name}"
        made.metadata.resource_version = str(len(self.made) + 1)
        self.made.append(made)
        return made

    def told(self) -> list[tuple[str, str, str]]:
        return [call.args[1:] for call in self.events.record.call_args_list]


def a_vm_with_a_template() -> VirtualMachine:
    document = encode(a_vm())
    document["spec"]["dataVolumeTemplates"] = [TEMPLATE]
    document["spec"]["template"] = {"spec": {"domain": {}, "volumes": [{"name": "r", "dataVolume": {"name": "root"}}]}}
    return decode(VirtualMachine, document)


def test_a_template_is_applied_once() -> None:
    server, vm = Server(), a_vm_with_a_template()
    assert not server.disks.make(KEY, vm)
    assert not server.disks.make(KEY, vm)
    assert [dv.metadata.name for dv in server.made] == ["root"]
    assert server.told() == [("Normal", "SuccessfulDataVolumeCreate", "Created DataVolume root")]


@pytest.mark.parametrize(
    ("refusal", "told", "unmade"),
    [
        (Forbidden(403, "Forbidden", "exceeded quota"), True, True),
        (Unavailable(503, "", "later"), False, True),
        (AlreadyExists(409, "AlreadyExists", "there"), False, False),
    ],
    ids=["a quota", "a server that is away", "one that is there"],
)
def test_a_refusal_that_lasts_is_told_once_and_tried_again(refusal: KubeError, told: bool, unmade: bool) -> None:
    server, vm = Server(), a_vm_with_a_template()
    server.refusal = refusal
    assert [server.disks.make(KEY, vm), server.disks.make(KEY, vm)] == [unmade, unmade]
    reasons = [reason for _, reason, _ in server.told()]
    assert reasons == (["FailedDataVolumeCreate"] if told else [])


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
