"""What is made for a guest that leaves with its disks, what a second try finds, and what is told of what cannot."""

from __future__ import annotations

import copy
from typing import Any
from unittest.mock import MagicMock

import pytest

from kvedge.controller.evacuation.claim_exchange import ClaimExchange
from kvedge.kube.errors import AlreadyExists, Forbidden, KubeError, NotFound, Unavailable
from kvedge.kube.patches import JsonPatch
from kvedge.resources.meta import Condition
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from tests.support.fed_cache import FedCache
from tests.unit.resources.moves.test_disk_moves import CLAIMS, a_run, a_vm


class World:
    """A VM, its claims, and a server that takes writes or refuses them by their kind."""

    def __init__(self) -> None:
        self.vms, self.known, self.events = FedCache(), FedCache(), MagicMock()
        self.there: dict[str, PersistentVolumeClaim] = {}
        self.patches: list[JsonPatch] = []
        self.refuse: dict[type, KubeError] = {}
        self.vms.feed(a_vm())
        for claim in CLAIMS.values():
            self.known.feed(claim)
        self.exchange = ClaimExchange(
            self,  # type: ignore[arg-type]
            self.vms,  # type: ignore[arg-type]
            self.known,  # type: ignore[arg-type]
            self.events,
        )

    def create(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        if (error := self.refuse.get(PersistentVolumeClaim)) is not None:
            raise error
        if claim.metadata.name in self.there:
            raise AlreadyExists(409, "AlreadyExists", "there")
        made = copy.deepcopy(claim)
        made.metadata.uid, made.metadata.resource_version = claim.metadata.name, "1000"
        self.there[claim.metadata.name] = made
        return made

    def get(self, kind: Any, namespace: str, name: str) -> PersistentVolumeClaim:
        return self.there[name]

    def patch(self, kind: Any, namespace: str, name: str, patch: JsonPatch) -> VirtualMachine:
        if (error := self.refuse.get(VirtualMachine)) is not None:
            raise error
        self.patches.append(patch)
        changed: VirtualMachine = copy.deepcopy(self.vms.get(namespace, name))  # type: ignore[attr-defined]
        assert changed.spec.template is not None
        for volume in changed.spec.template.spec.volumes:
            if volume.persistent_volume_claim is not None:
                volume.persistent_volume_claim.claim_name += "-new"
        changed.metadata.resource_version = "1000"
        return changed

    def told(self) -> list[tuple[str, str]]:
        return [(call.args[2], call.args[3]) for call in self.events.record.call_args_list]


@pytest.fixture
def world() -> World:
    return World()


def test_claims_are_made_first_and_then_the_vm_names_them(world: World) -> None:
    assert world.exchange.judge(a_run()) == ""
    assert world.exchange.begin(a_run()) is None
    assert len(world.there) == 2
    (patch,) = world.patches
    named = {each["value"]["persistentVolumeClaim"]["claimName"] for each in patch.ops if each["op"] == "replace"}
    assert named == world.there.keys()
    ((reason, text),) = world.told()
    assert reason == "ClaimsExchanged"
    assert all(name in text for name in named)
    assert world.exchange.judge(a_run()) == "moves"


def test_a_second_try_finds_what_the_first_has_made(world: World) -> None:
    world.refuse = {VirtualMachine: Unavailable(503, "", "busy")}
    assert isinstance(world.exchange.begin(a_run()), Unavailable)
    assert (len(world.there), world.told()) == (2, [])
    world.refuse.clear()
    assert world.exchange.begin(a_run()) is None
    assert (len(world.there), len(world.patches)) == (2, 1)


def test_a_claim_of_somebody_else_is_not_taken(world: World) -> None:
    world.refuse = {VirtualMachine: Unavailable(503, "", "busy")}
    world.exchange.begin(a_run())
    world.refuse.clear()
    for claim in world.there.values():
        claim.metadata.annotations.clear()
    assert isinstance(world.exchange.begin(a_run()), AlreadyExists)
    assert world.patches == []


def test_a_refusal_is_told_once_and_a_namespace_that_goes_is_no_failure(world: World) -> None:
    world.refuse = {PersistentVolumeClaim: Forbidden(403, "Forbidden", "exceeded quota: disks")}
    assert isinstance(world.exchange.begin(a_run()), Forbidden)
    world.exchange.begin(a_run())
    ((reason, text),) = world.told()
    assert reason == "FailedClaimExchange"
    assert "exceeded quota" in text
    world.refuse = {PersistentVolumeClaim: NotFound(404, "NotFound", "namespace")}
    assert world.exchange.begin(a_run()) is None


def test_a_vm_that_waits_for_a_restart_hears_why_its_disks_stay(world: World) -> None:
    vm = a_vm([{"name": "data", "persistentVolumeClaim": {"claimName": "other"}}])
    world.vms.feed(vm)
    assert world.exchange.judge(a_run()) == "moves"
    vm.status.conditions = [Condition(type="RestartRequired", status="True")]
    world.vms.feed(vm)
    assert world.exchange.judge(a_run()) == "refused"
    assert world.exchange.begin(a_run()) is None
    ((_, text),) = world.told()
    assert "waits for a restart" in text
    assert world.there == {}


def test_a_vm_whose_pod_is_too_small_leaves_with_its_disks(world: World) -> None:
    vm = a_vm([{"name": "data", "persistentVolumeClaim": {"claimName": "other"}}])
    vm.status.conditions = [Condition(type="RestartRequired", status="True", reason="PodTooSmall")]
    world.vms.feed(vm)
    assert world.exchange.judge(a_run()) == "moves"


def test_a_run_whose_vm_is_another_one_is_left_alone(world: World) -> None:
    world.vms.feed(a_vm(uid="vm-2"))
    assert world.exchange.begin(a_run()) is None
    assert (world.there, world.told()) == ({}, [])
