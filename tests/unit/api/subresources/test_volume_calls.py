"""addvolume and removevolume against an API server: who may be changed, and what becomes of a patch that is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvedge.api.subresources.status_message import Refusal
from kvedge.api.subresources.volume_calls import VolumeCalls
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.configuration.feature_gates import FeatureGates
from kvedge.resources.guest_verbs import GUEST_VERBS, VM_PLURAL, VMI_PLURAL
from tests.support.builders import small_vmi, vm_of
from tests.support.scripted_api import Request, Script, scripted_api

BODY = {"name": "new", "disk": {"disk": {"bus": "scsi"}}, "volumeSource": {"dataVolume": {"name": "new"}}}
LOST = {"kind": "Status", "code": 422, "reason": "Invalid", "message": "a test failed"}
OLD = FeatureGates(enabled=frozenset({"HotplugVolumes"}))
NONE = FeatureGates(disabled=frozenset({"DeclarativeHotplugVolumes"}))
OWNER = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "small", "uid": "u", "controller": True}


def answer(status: int, value: dict[str, Any]) -> Script:
    return lambda exchange: exchange.answer(status, value)


def vm(*more: str) -> dict[str, Any]:
    """A VM that somebody has given these volumes more: another version each time."""
    found = vm_of(small_vmi(), runStrategy="Manual")
    found["metadata"] |= {"resourceVersion": f"7{len(more)}"}
    found["spec"]["template"]["spec"]["volumes"] += [{"name": name, "emptyDisk": {"capacity": "1Gi"}} for name in more]
    return found


def vmi(phase: str = "Running", *owners: dict[str, Any]) -> dict[str, Any]:
    found = small_vmi()
    found["metadata"] |= {"resourceVersion": "7", "ownerReferences": list(owners)}
    found["status"] = {"phase": phase}
    return found


def called(
    path: Path, resource: str, *scripts: Script, body: Any = None, gates: FeatureGates | None = None
) -> tuple[Refusal | None, list[Request]]:
    """The refusal, and the patches."""
    verb = next(verb for verb in GUEST_VERBS if (verb.resource, verb.name) == (resource, "addvolume"))
    refusal = None
    with scripted_api(*scripts) as api:
        client = KubeClient.from_kubeconfig(api.write_kubeconfig(path / "kubeconfig"))
        sent = b"" if body == b"" else json.dumps(body or BODY).encode()
        try:
            VolumeCalls(client, lambda: gates or FeatureGates()).call(verb, "default", "small", sent)
        except Refusal as error:
            refusal = error
        client.close()
    return refusal, [request for request in api.requests if request.method == "PATCH"]


def test_a_vms_template_gets_the_volume_by_a_patch_that_tests_what_was_read(tmp_path: Path) -> None:
    refusal, patches = called(tmp_path, VM_PLURAL, answer(200, vm()), answer(200, vm()))
    assert refusal is None
    (patch,) = patches
    assert patch.headers["Content-Type"] == "application/json-patch+json"
    assert json.loads(patch.body)[0]["op"] == "test"
    assert "dryRun" not in patch.query


def test_a_dry_run_is_the_api_servers(tmp_path: Path) -> None:
    refusal, patches = called(
        tmp_path, VM_PLURAL, answer(200, vm()), answer(200, vm()), body={**BODY, "dryRun": ["All"]}
    )
    assert refusal is None
    assert patches[0].query["dryRun"] == "All"


@pytest.mark.parametrize(
    ("gates", "body", "text"),
    [
        (NONE, b"", "Enable DeclarativeHotplugVolumes or HotplugVolumes feature gate to use this API."),
        (None, b"", "Request with no body, a new name is expected as the request body"),
    ],
    ids=["without a gate", "without a body"],
)
def test_what_cannot_be_is_refused_before_anything_is_read(
    tmp_path: Path, gates: FeatureGates | None, body: bytes, text: str
) -> None:
    refusal, _ = called(tmp_path, VM_PLURAL, body=body, gates=gates)
    assert refusal is not None
    assert (refusal.code, refusal.message) == (400, text)


def test_a_patch_that_lost_is_made_again_from_what_is_there_now(tmp_path: Path) -> None:
    refusal, patches = called(
        tmp_path,
        VM_PLURAL,
        *(answer(200, vm()), answer(422, LOST), answer(200, vm("other"))),
        *(answer(200, vm("other")), answer(200, vm())),
    )
    assert refusal is None
    assert len(patches) == 2
    assert "other" in patches[1].body.decode()


def test_what_admission_says_is_passed_on(tmp_path: Path) -> None:
    said = {**LOST, "message": "denied the request: no"}
    refusal, _ = called(tmp_path, VM_PLURAL, answer(200, vm()), answer(422, said), answer(200, vm()))
    assert refusal is not None
    assert (refusal.code, refusal.message) == (422, "denied the request: no")


def test_who_loses_again_and_again_gets_the_text_on_which_virtctl_tries_again(tmp_path: Path) -> None:
    rounds = [
        script
        for count in range(5)
        for script in (answer(200, vm(*"abcde"[:count])), answer(422, LOST), answer(200, vm(*"abcdef"[: count + 1])))
    ]
    refusal, patches = called(tmp_path, VM_PLURAL, *rounds)
    assert refusal is not None
    assert (refusal.code, len(patches)) == (422, 5)
    assert refusal.message == "the server rejected our request due to an error in our request"


@pytest.mark.parametrize(
    ("found", "code", "text"),
    [
        (vmi("Running", OWNER), 400, "VMI default/small is owned by a VM"),
        (vmi("Scheduled"), 409, "VMI is not running"),
    ],
    ids=["a VM's run", "one that does not run yet"],
)
def test_not_every_vmi_can_be_changed_by_itself(tmp_path: Path, found: dict[str, Any], code: int, text: str) -> None:
    refusal, patches = called(tmp_path, VMI_PLURAL, answer(200, found))
    assert refusal is not None
    assert (refusal.code, patches) == (code, [])
    assert text in refusal.message


def test_under_the_deprecated_gate_a_vms_run_can_be_changed_alone(tmp_path: Path) -> None:
    found = vmi("Running", OWNER)
    refusal, patches = called(tmp_path, VMI_PLURAL, answer(200, found), answer(200, found), gates=OLD)
    assert refusal is None
    assert len(patches) == 1


def test_under_the_deprecated_gate_a_vms_run_is_changed_with_its_vm(tmp_path: Path) -> None:
    found = vmi("Running", OWNER)
    scripts = (answer(200, vm()), answer(200, vm()), answer(200, found), answer(200, found))
    refusal, patches = called(tmp_path, VM_PLURAL, *scripts, gates=OLD)
    assert refusal is None
    assert [patch.path.split("/")[-2] for patch in patches] == ["virtualmachines", "virtualmachineinstances"]


@pytest.mark.parametrize(("resource", "found"), [(VM_PLURAL, vm()), (VMI_PLURAL, vmi())], ids=["a VM", "a VMI"])
def test_a_volume_that_admission_would_refuse_is_never_written(
    tmp_path: Path, resource: str, found: dict[str, Any]
) -> None:
    body = {**BODY, "disk": {"disk": {"bus": "virtio"}, "serial": "a" * 21}}
    refusal, patches = called(tmp_path, resource, answer(200, found), body=body)
    assert refusal is not None
    assert (refusal.code, patches) == (422, [])
    assert "serial has 21 characters" in refusal.message
