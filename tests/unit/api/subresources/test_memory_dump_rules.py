"""Which dumps of memory may be asked for; words and codes are KubeVirt's."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.api.subresources.memory_dump_rules import check_dump, choose_claim, dump_request, removal_request
from kvedge.api.subresources.status_message import Refusal
from kvedge.resources.codec import decode
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import MemoryDumpRequest, VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance


def vm(request: dict[str, Any] | None = None, *volumes: dict[str, Any]) -> VirtualMachine:
    status = {} if request is None else {"memoryDumpRequest": request}
    spec = {"template": {"spec": {"domain": {}, "volumes": list(volumes)}}}
    return decode(VirtualMachine, {"metadata": {"name": "web"}, "spec": spec, "status": status})


def vmi(phase: str = "Running", **spec: Any) -> VirtualMachineInstance:
    document = {"metadata": {"name": "web"}, "spec": {"domain": {"memory": {"guest": "1Gi"}}, **spec}}
    return decode(VirtualMachineInstance, {**document, "status": {"phase": phase}})


def claim(size: Any = "2Gi", modes: tuple[str, ...] = ("ReadWriteOnce",), **spec: Any) -> PersistentVolumeClaim:
    asked = {"accessModes": list(modes), "resources": {"requests": {"storage": size}}, **spec}
    return decode(PersistentVolumeClaim, {"metadata": {"name": "dumps"}, "spec": asked})


@pytest.mark.parametrize(
    ("known", "asked", "chosen"),
    [(None, "dumps", "dumps"), ("dumps", "", "dumps"), ("dumps", "dumps", "dumps")],
    ids=["the first one", "the last one again", "named again"],
)
def test_a_dump_goes_into_the_claim_of_the_last_one_unless_another_is_named(
    known: str | None, asked: str, chosen: str
) -> None:
    assert choose_claim(vm(None if known is None else {"claimName": known, "phase": "Completed"}), asked) == chosen


@pytest.mark.parametrize(
    ("known", "asked", "code", "words"),
    [
        (None, "", 400, "Memory dump requires claim name to be set"),
        (
            {"claimName": "old", "phase": "Completed"},
            "new",
            409,
            "can't request memory dump for pvc [new] while pvc [old] is still associated as the memory dump pvc",
        ),
        (None, "a.dotted.name", 400, "must consist of lower case letters"),
    ],
    ids=["none", "another one", "no volume's name"],
)
def test_a_claim_that_cannot_be_chosen(known: Any, asked: str, code: int, words: str) -> None:
    with pytest.raises(Refusal) as refusal:
        choose_claim(vm(known), asked)
    assert refusal.value.code == code
    assert words in refusal.value.message


@pytest.mark.parametrize(
    ("guest", "into", "words"),
    [
        (vmi("Succeeded"), claim(), "VMI is not running"),
        (vmi(), claim(volumeMode="Block"), "pvc should be filesystem pvc"),
        (vmi(), claim(modes=("ReadOnlyMany",)), "pvc access mode can't be read only"),
        (vmi(), claim("1Gi"), "pvc size [1073742k] should be bigger then [1243611136]"),
        (vmi(), claim("nonsense"), "its size:"),
    ],
    ids=["no guest", "a device", "read only", "too small", "no size"],
)
def test_a_dump_that_cannot_be_made(guest: VirtualMachineInstance, into: PersistentVolumeClaim, words: str) -> None:
    with pytest.raises(Refusal) as refusal:
        check_dump(guest, into, None)
    assert refusal.value.code == 409
    assert words in refusal.value.message


def test_a_claim_of_the_least_size_will_do() -> None:
    check_dump(vmi(), claim(1243611136), None)
    check_dump(vmi(), claim(modes=("ReadWriteMany", "ReadOnlyMany")), None)


@pytest.mark.parametrize("phase", ["Completed", "Failed"])
def test_a_dump_that_is_over_may_be_repeated(phase: str) -> None:
    known = {"claimName": "dumps", "phase": phase, "fileName": "old", "message": "old"}
    assert dump_request(vm(known), vmi(), "dumps") == MemoryDumpRequest(claim_name="dumps", phase="Associating")


@pytest.mark.parametrize(
    ("phase", "words"),
    [
        ("Associating", "memory dump request for pvc [dumps] already in progress"),
        ("InProgress", "memory dump request for pvc [dumps] already in progress"),
        ("Unmounting", "memory dump request for pvc [dumps] already in progress"),
        ("Dissociating", "can't dump memory for pvc [dumps] a remove memory dump request is in progress"),
    ],
)
def test_one_dump_at_a_time(phase: str, words: str) -> None:
    with pytest.raises(Refusal) as refusal:
        dump_request(vm({"claimName": "dumps", "phase": phase}), vmi(), "dumps")
    assert words in refusal.value.message


def test_a_disk_keeps_its_name() -> None:
    disk = {"name": "dumps", "persistentVolumeClaim": {"claimName": "dumps"}}
    for asked, guest in ((vm(None, disk), vmi()), (vm(), vmi(volumes=[disk]))):
        with pytest.raises(Refusal, match="volume with that name already exists"):
            dump_request(asked, guest, "dumps")
    own = {"name": "dumps", "memoryDump": {"claimName": "dumps", "hotpluggable": True}}
    assert dump_request(vm(None, own), vmi(), "dumps").phase == "Associating"


def test_a_claim_is_let_go_once() -> None:
    with pytest.raises(Refusal, match="can't remove memory dump association for vm web, no association found"):
        removal_request(vm())
    with pytest.raises(Refusal, match=r"memory dump remove request for pvc \[dumps\] already exists"):
        removal_request(vm({"claimName": "dumps", "phase": "Dissociating", "remove": True}))
    made = removal_request(vm({"claimName": "dumps", "phase": "InProgress"}))
    assert made == MemoryDumpRequest(claim_name="dumps", phase="Dissociating", remove=True)
