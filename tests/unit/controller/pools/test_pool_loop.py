# Tests: kvedge/controller/pools/pool_loop.py, kvedge/controller/pools/pool_writes.py
"""Answers that get lost and calls that are refused: a pool has its number in the end, and never one more."""

from __future__ import annotations

import copy
import random
from typing import Any
from unittest.mock import MagicMock

import pytest

from kvedge.controller.pools.pool_loop import PoolLoop, PoolSources
from kvedge.kube.errors import AlreadyExists, Forbidden, KubeError, NotFound, Unavailable
from kvedge.kube.reconcile_loop import Again
from kvedge.kube.work_queue import Key
from kvedge.resources.codec import decode, encode
from kvedge.resources.types.scaling.pools import POOL_FINALIZER, VirtualMachinePool
from kvedge.resources.types.vm import VirtualMachine
from tests.support.builders import owned_by, patched
from tests.support.clocks import FakeClock
from tests.unit.controller.pools.test_pool_plan import a_guest, a_pool
from tests.unit.controller.replicas.late_server import LateCache

KEY = Key("default", "web")


class PoolServer:
    """One pool and its VMs; with `moods`, answers get lost. The watch of VMs comes when the test says so."""

    def __init__(self, replicas: int, moods: random.Random | None = None) -> None:
        self.moods = moods
        self.refusal: KubeError | None = None
        self.version = 100
        self.pools, self.vms, self.vmis, self.revisions = LateCache(), LateCache(), LateCache(), LateCache()
        self.pool = a_pool(replicas)
        self.pool.metadata.finalizers = [POOL_FINALIZER]
        self.live: dict[str, VirtualMachine] = {}
        self.ended: list[tuple[str, str]] = []
        self.clock, self.events = FakeClock(), MagicMock()
        self._changed(self.pools, self.pool)
        self.pools.deliver()
        sources = PoolSources(self, self.pools, self.vms, self.vmis, self.revisions, self.events, self.clock)  # type: ignore[arg-type]
        self.loop = PoolLoop(sources)

    def turn(self) -> KubeError | None:
        self.clock.seconds += 120
        try:
            self.loop.reconcile(KEY)
        except KubeError as error:
            return error
        return None

    def create(self, item: Any) -> Any:
        if not isinstance(item, VirtualMachine):
            return self._changed(self.revisions, copy.deepcopy(item))
        if self.refusal is not None:
            raise self.refusal
        if item.metadata.name in self.live:
            raise AlreadyExists(409, "AlreadyExists", item.metadata.name)
        assert len(self.live) < self.pool.replicas, "one too many"
        made = copy.deepcopy(item)
        made.metadata.uid = f"uid-{item.metadata.name}"
        self.live[item.metadata.name] = made
        answer = self._changed(self.vms, made)
        self._be_moody()
        return answer

    def list(self, cls: type, namespace: str) -> list[Any]:
        return copy.deepcopy(list(self.live.values()))

    def get(self, cls: type, namespace: str, name: str) -> Any:
        return copy.deepcopy(self._found(name))

    def delete(self, cls: type, namespace: str, name: str, as_seen: Any, propagation: str = "") -> Any:
        self.ended.append((cls.__name__, name))
        if cls is not VirtualMachine:
            return None
        self._found(name).metadata.deletion_timestamp = "2026-01-02T03:00:00Z"
        answer = self._changed(self.vms, self.live[name])
        self._be_moody()
        return answer

    def patch(self, cls: type, namespace: str, name: str, patch: Any, subresource: str = "") -> Any:
        if cls is VirtualMachinePool:
            self.pool = decode(VirtualMachinePool, patched(encode(self.pool), patch.body))
            return self._changed(self.pools, self.pool)
        vm = decode(VirtualMachine, patched(encode(self._found(name)), patch.body))
        if vm.metadata.deletion_timestamp is None or vm.metadata.finalizers:
            self.live[name] = vm
            return self._changed(self.vms, vm)
        del self.live[name]
        gone = self._changed(self.vms, vm)
        self.vms.pending[-1] = (gone, True)
        return gone

    def scale(self, replicas: int) -> None:
        self.pool.spec.replicas = replicas
        self._changed(self.pools, self.pool)
        self.pools.deliver()

    def _found(self, name: str) -> VirtualMachine:
        if name not in self.live:
            raise NotFound(404, "NotFound", name)
        return self.live[name]

    def _changed(self, cache: LateCache, item: Any) -> Any:
        self.version += 1
        item.metadata.resource_version = str(self.version)
        cache.pending.append((copy.deepcopy(item), False))
        return copy.deepcopy(item)

    def _be_moody(self) -> None:
        if self.moods is not None and self.moods.random() < 0.4:
            raise Unavailable(0, "", "no answer")


@pytest.mark.parametrize("seed", range(30))
def test_the_wanted_number_is_reached_and_never_exceeded(seed: int) -> None:
    fate = random.Random(seed)
    server = PoolServer(4, fate)
    for _ in range(12):
        server.turn()
        server.vms.deliver(fate.randrange(3))
    server.moods = None
    server.vms.deliver()
    server.turn()
    assert server.live.keys() == {"web-0", "web-1", "web-2", "web-3"}
    server.moods = fate
    server.scale(1)
    for _ in range(12):
        server.turn()
        server.vms.deliver(fate.randrange(3))
    server.moods = None
    for _ in range(6):
        server.vms.deliver()
        server.turn()
    assert len(server.live) == 1
    assert server.pool.status.replicas == 1


def test_a_refused_vm_is_a_condition_and_is_tried_again_after_a_while_or_a_change() -> None:
    server = PoolServer(1)
    server.refusal = Forbidden(403, "Forbidden", "exceeded quota")
    again = server.loop.reconcile(KEY)
    assert isinstance(again, Again)
    (failure,) = server.pool.status.conditions
    assert (failure.type, failure.reason, failure.message) == ("ReplicaFailure", "FailedScaleOut", "exceeded quota")
    told = [call.args[1:] for call in server.events.record.call_args_list]
    assert told == [("Warning", "FailedScaleOut", "exceeded quota")]
    server.refusal = None
    server.loop.reconcile(KEY)
    assert server.live == {}
    server.clock.seconds += again.after
    server.loop.reconcile(KEY)
    assert server.live.keys() == {"web-0"}
    assert server.pool.status.conditions == []


def test_a_guest_of_a_vms_name_that_is_another_owners_is_not_restarted() -> None:
    server = PoolServer(1)
    server.turn()
    theirs = a_guest(0, "of-another-pool", ready=False, ownerReferences=[owned_by("VirtualMachine", "web-0", "other")])
    server._changed(server.vmis, theirs)
    server.vmis.deliver()
    server.turn()
    assert server.ended == []
    own = a_guest(0, "web-0", ready=False, ownerReferences=[owned_by("VirtualMachine", "web-0", "uid-web-0")])
    server._changed(server.vmis, own)
    server.vmis.deliver()
    server.turn()
    assert set(server.ended) == {("VirtualMachineInstance", "web-0")}


def test_a_pool_that_goes_lets_its_vms_go() -> None:
    server = PoolServer(2)
    server.turn()
    assert all(POOL_FINALIZER in vm.metadata.finalizers for vm in server.live.values())
    server.pool.metadata.deletion_timestamp = "2026-01-02T03:00:00Z"
    server.pool.metadata.finalizers = [POOL_FINALIZER, "orphan"]
    server._changed(server.pools, server.pool)
    server.pools.deliver()
    server.vms.deliver()
    server.turn()
    assert not any(POOL_FINALIZER in vm.metadata.finalizers for vm in server.live.values())
    assert server.pool.metadata.finalizers == ["orphan"]
