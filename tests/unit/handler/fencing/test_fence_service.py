"""The fencer waits for nobody: it feeds, or ends guests, while no API answers."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from kvedge.handler.fencing import fence_service
from kvedge.handler.fencing.fence_plan import Promise
from kvedge.handler.fencing.fence_service import FenceConfig, FenceService
from kvedge.handler.fencing.promise_record import PromiseRecord
from kvedge.resources.node_loss.fence_terms import FenceTerms
from kvedge.runtime.linux.boot import read_boot_id
from tests.support.played_leases import PlayedWatchdog
from tests.support.waiting import wait_until

TERMS = FenceTerms(silence=3600, watchdog=4, renew=1, check=1, margin=75)
UID = "22222222-2222-2222-2222-222222222222"


@dataclass
class Node:
    """One without an API."""

    directory: Path
    watchdogs: list[PlayedWatchdog] = field(default_factory=list)

    def arm(self, seconds: int) -> PlayedWatchdog:
        self.watchdogs.append(PlayedWatchdog(seconds))
        return self.watchdogs[-1]

    def has_promised(self, t_ok: float) -> None:
        PromiseRecord(self.directory / "fence.json").save(Promise(read_boot_id(), t_ok, TERMS, {UID: ""}))

    def start(self) -> FenceService:
        nowhere = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
            "users": [{"name": "c", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        }
        (self.directory / "kubeconfig").write_text(yaml.safe_dump(nowhere))
        service = FenceService(FenceConfig(self.directory / "kubeconfig", "n", self.directory / "fence.json"))
        service.start()
        return service


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    node = Node(tmp_path)
    monkeypatch.setattr(fence_service, "arm_device", node.arm)
    # No process of this host is one of the guest.
    monkeypatch.setattr(fence_service, "kill_left", lambda guests: 0)
    monkeypatch.setattr(fence_service, "runs_here", lambda uid, pod: False)
    return node


def now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def test_what_an_earlier_handler_has_promised_is_kept_without_an_api(node: Node) -> None:
    node.has_promised(now())
    service = node.start()
    wait_until(lambda: node.watchdogs and node.watchdogs[0].fed > 1, "it is fed")
    assert service.failure() is None
    assert service.refuse_start(UID) == ""
    service.stop()
    # Nobody could be told that the promise is taken back.
    assert (node.watchdogs[0].is_open, node.watchdogs[0].is_running) == (False, True)


def test_a_promise_that_is_over_lets_nothing_begin(node: Node) -> None:
    node.has_promised(now() - TERMS.silence - 1)
    service = node.start()
    assert "cannot reach the API server" in service.refuse_start(UID)
    service.stop()


def test_a_node_that_has_promised_nothing_arms_nothing(node: Node) -> None:
    service = node.start()
    assert service.refuse_start(UID) == ""
    service.stop()
    assert node.watchdogs == []


def test_a_service_that_was_not_started_refuses_nothing(tmp_path: Path) -> None:
    assert FenceService(FenceConfig(tmp_path, "n", tmp_path)).refuse_start(UID) == ""
