"""A claim that cannot be served is tried again with growing pauses, whatever else changes meanwhile."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import MagicMock

from kvedge.kube.reconcile_loop import Again
from kvedge.kube.work_queue import Key
from kvedge.standalone.volumes.claim_loop import ClaimLoop, Followed
from kvedge.storage.volumes.volume_driver import VolumeDriverError
from tests.unit.standalone.volumes.claims import claim, node, ref, storage_class, volume

KEY = Key("default", "data")


class World:
    """A loop whose driver fails, and a clock that is turned by hand."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.claim: Any = claim()
        self.volumes: list[Any] = []
        self.provisioner = MagicMock()
        self.provisioner.provision.side_effect = VolumeDriverError("no room")
        followed = Followed(
            claims=MagicMock(get=lambda *_: self.claim),
            volumes=MagicMock(list=lambda: self.volumes),
            classes=MagicMock(list=lambda: [storage_class()]),
            pods=MagicMock(list=list),
            node=node,
        )
        self.patch = MagicMock(side_effect=lambda *_: self.claim)
        client = MagicMock(patch=self.patch)
        clock = MagicMock(now=lambda: self.now)
        self.loop = ClaimLoop(client, MagicMock(), followed, self.provisioner, clock)

    @property
    def tries(self) -> int:
        return int(self.provisioner.provision.call_count)


def test_a_claim_that_failed_is_left_alone_for_a_while_and_longer_each_time() -> None:
    world = World()
    assert world.loop.reconcile(KEY) == Again(2.0)
    assert world.loop.reconcile(KEY) == Again(2.0)
    assert world.tries == 1
    world.now += timedelta(seconds=2)
    assert world.loop.reconcile(KEY) == Again(4.0)
    assert world.tries == 2


def test_a_new_claim_of_the_same_name_does_not_wait_for_the_old_ones_pause() -> None:
    world = World()
    world.loop.reconcile(KEY)
    world.claim = claim()
    world.claim.metadata.uid = "another"
    world.loop.reconcile(KEY)
    assert world.tries == 2


def test_a_claim_for_which_somebody_makes_a_volume_is_bound_without_a_pause() -> None:
    world = World()
    world.loop.reconcile(KEY)
    world.volumes = [volume(claimRef=ref())]
    world.patch.reset_mock()
    world.loop.reconcile(KEY)
    assert world.tries == 1
    assert {"spec": {"volumeName": "pv"}}.items() <= world.patch.call_args_list[0].args[3].body.items()
