"""Types that have never come through admission: the VM says why it does not start, and no pass is lost on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvedge.controller.vm.type_keeper import TypeKeeper, TypeSettings
from kvedge.controller.vm.typed_vm import TypedVm
from kvedge.kube.events import EventRecorder
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.vm import Matcher, VirtualMachine, VirtualMachineSpec
from tests.support.scripted_api import scripted_api


@pytest.mark.parametrize(
    ("memory", "words"),
    [
        ({"guest": "1Gi", "overcommitPercent": 10**60}, "the numbers of the instance type"),
        ({"guest": "much", "overcommitPercent": 1}, "'much' is no quantity"),
    ],
    ids=["percent", "amount"],
)
def test_a_type_that_cannot_be_counted_with_is_told(tmp_path: Path, memory: dict[str, Any], words: str) -> None:
    found = {
        "apiVersion": "instancetype.kubevirt.io/v1beta1",
        "kind": "VirtualMachineClusterInstancetype",
        "metadata": {"name": "odd", "uid": "1", "generation": 1},
        "spec": {"cpu": {"guest": 1}, "memory": memory},
    }
    vm = VirtualMachine(
        metadata=ObjectMeta(name="vm", namespace="mine", uid="u"),
        spec=VirtualMachineSpec(instancetype=Matcher(name="odd")),
    )
    with scripted_api(lambda exchange: exchange.answer(200, found)) as api:
        client = KubeClient.from_kubeconfig(api.write_kubeconfig(tmp_path / "kubeconfig"))
        typed = TypeKeeper(client, EventRecorder(client, "test"), TypeSettings).sync(vm)
        assert [each.method for each in api.requests] == ["GET"], "and no copy is made"
    assert isinstance(typed, TypedVm)
    assert typed.failure is not None
    assert words in typed.failure.message
