"""What start, stop and restart do when the API server refuses a write in the middle."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvedge.api.subresources.call_options import RestartOptions, StartOptions, StopOptions
from kvedge.api.subresources.power_calls import PowerCalls
from kvedge.api.subresources.status_message import Refusal
from kvedge.kube.kube_client import KubeClient
from tests.support.builders import small_vmi, vm_of
from tests.support.scripted_api import Exchange, Script, refusing, scripted_api


def document(value: dict[str, Any]) -> Script:
    return lambda exchange: exchange.answer(200, value)


def vm() -> dict[str, Any]:
    found = vm_of(small_vmi(), runStrategy="Manual")
    found["metadata"] |= {"uid": "vm-uid", "resourceVersion": "7"}
    return found


def vmi(grace: int | None = 60) -> dict[str, Any]:
    found = small_vmi(terminationGracePeriodSeconds=grace)
    owner = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "small", "uid": "vm-uid"}
    found["metadata"] |= {"uid": "vmi-uid", "ownerReferences": [{**owner, "controller": True}]}
    found["status"] = {"phase": "Running"}
    return found


def called(
    path: Path, call: Callable[[PowerCalls], None], *scripts: Script
) -> tuple[Refusal | None, list[tuple[str, str, Any]]]:
    """The refusal, and what was written: method, the path's end, body."""
    refusal = None
    with scripted_api(*scripts) as api:
        client = KubeClient.from_kubeconfig(api.write_kubeconfig(path / "kubeconfig"))
        try:
            call(PowerCalls(client))
        except Refusal as error:
            refusal = error
        client.close()
    written = [(r.method, r.path.split("/default/")[1], json.loads(r.body)) for r in api.requests if r.method != "GET"]
    return refusal, written


def grace_of(body: dict[str, Any]) -> int | None:
    assert body["metadata"]["uid"] == "vmi-uid"
    value: int | None = body["spec"]["terminationGracePeriodSeconds"]
    return value


@pytest.mark.parametrize("before", [60, None], ids=["its own", "the usual"])
def test_a_grace_period_is_put_back_when_the_request_is_refused(tmp_path: Path, before: int | None) -> None:
    refusal, written = called(
        tmp_path,
        lambda power: power.restart("default", "small", RestartOptions(grace_period_seconds=0)),
        document(vm()),
        document(vmi(before)),
        document(vmi(1)),
        refusing(403, "Forbidden", "no"),
        document(vmi(before)),
    )
    assert refusal is not None
    assert (refusal.code, refusal.message) == (500, "no")
    assert [path for _, path, _ in written] == [
        "virtualmachineinstances/small",
        "virtualmachines/small/status",
        "virtualmachineinstances/small",
    ]
    assert [grace_of(written[0][2]), grace_of(written[2][2])] == [1, before]


def test_a_run_that_is_gone_by_then_needs_none(tmp_path: Path) -> None:
    refusal, written = called(
        tmp_path,
        lambda power: power.stop("default", "small", StopOptions(grace_period=0)),
        document(vm()),
        document(vmi()),
        document(vmi(0)),
        refusing(403, "Forbidden", "no"),
        refusing(404, "NotFound"),
    )
    assert refusal is not None
    assert refusal.code == 500
    assert len(written) == 3


def test_a_vm_that_moves_on_is_decided_anew(tmp_path: Path) -> None:
    def meanwhile_ended(exchange: Exchange) -> None:
        exchange.answer(200, vmi() | {"status": {"phase": "Succeeded"}})

    refusal, written = called(
        tmp_path,
        lambda power: power.stop("default", "small", StopOptions()),
        document(vm()),
        document(vmi()),
        refusing(409, "Conflict"),
        document(vm()),
        meanwhile_ended,
    )
    assert refusal is not None
    assert (refusal.code, refusal.message.rpartition(": ")[2]) == (409, "VM is not running")
    assert [path for _, path, _ in written] == ["virtualmachines/small/status"]


def test_a_vm_that_never_rests_is_given_up(tmp_path: Path) -> None:
    scripts = [document(vm()), document(vmi()), refusing(409, "Conflict")] * 5
    refusal, written = called(
        tmp_path, lambda power: power.stop("default", "small", StopOptions()), *scripts, refusing(500, "InternalError")
    )
    assert refusal is not None
    assert (refusal.code, len(written)) == (409, 5)


def test_a_guest_that_is_asked_whether_it_lives_is_not_started_paused(tmp_path: Path) -> None:
    probed = vm()
    probed["spec"]["template"]["spec"]["livenessProbe"] = {"guestAgentPing": {}}
    refusal, written = called(
        tmp_path,
        lambda power: power.start("default", "small", StartOptions(paused=True)),
        document(probed),
        refusing(404, "NotFound"),
    )
    assert refusal is not None
    words = "Pausing VMI with LivenessProbe is not supported"
    assert (refusal.code, refusal.message.rpartition(": ")[2], written) == (409, words, [])
