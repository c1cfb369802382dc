"""What caches say of claims that running VMs' volumes are to get."""

from __future__ import annotations

import copy
from typing import Any
from unittest.mock import MagicMock

import pytest

from kvedge.controller.vm.claim_sights import ClaimWatch
from kvedge.kube.work_queue import Key
from kvedge.resources.disks.moved_volumes import MOVE_IN_PLACE
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.core import Node
from kvedge.resources.types.data_volumes import CdiConfig
from kvedge.resources.types.vm import VolumeMigrationState, VolumeUpdateState
from kvedge.resources.types.vmi import ClaimInfo, MigratedVolume
from tests.support.builders import a_claim
from tests.unit.controller.vm.claim_pairs import a_pair


class Listed:
    """An informer's cache, in a list."""

    def __init__(self, *items: Any) -> None:
        self.items, self.indexes = list(items), {}  # type: ignore[var-annotated]

    def add_index(self, name: str, values: Any) -> None:
        self.indexes[name] = values

    def find_indexed(self, name: str, value: str) -> list[Any]:
        return [item for item in self.items if value in self.indexes[name](item)]

    def list(self) -> list[Any]:
        return self.items

    def get(self, namespace: str, name: str) -> Any:
        found = (item for item in self.items if (item.metadata.namespace, item.metadata.name) == (namespace, name))
        return next(found, None)


def a_node(name: str) -> Node:
    return Node(metadata=ObjectMeta(name=name))


class World:
    """A VM whose volume is to get the claim `new`, and its run."""

    def __init__(self) -> None:
        self.vm, self.vmi = a_pair({"root": "new"})
        self.vms, self.vmis = Listed(self.vm), Listed(self.vmi)
        self.claims = Listed(a_claim("new"), a_claim("root-old"), a_claim("other"))
        self.nodes = Listed(a_node("node-1"), a_node("node-2"))
        self.watch = ClaimWatch(self.vms, self.vmis, self.claims, self.nodes, CdiConfig)  # type: ignore[arg-type]

    def others(self) -> dict[str, str]:
        return dict(self.watch.view(self.vm, self.vmi).others)


@pytest.fixture
def world() -> World:
    return World()


def test_both_claims_are_seen_with_the_copies_that_statuses_keep(world: World) -> None:
    seen = world.watch.view(world.vm, world.vmi)
    assert set(seen.found) == set(seen.copies) == {"new", "root-old"}
    assert seen.copies["new"].filesystem_overhead == "0.06"
    assert seen.others == {}


def test_nothing_is_looked_up_while_nothing_is_to_be_exchanged(world: World) -> None:
    world.vm.spec.update_volumes_strategy = None
    assert world.watch.view(world.vm, world.vmi).found == {}
    world.vm.spec.update_volumes_strategy = "Migration"
    assert world.watch.view(world.vm, None).found == {}
    world.vmi.spec.volumes = world.vm.spec.template.spec.volumes  # type: ignore[union-attr]
    world.nodes.list = MagicMock()  # type: ignore[method-assign]
    assert world.watch.view(world.vm, world.vmi).found == {}
    world.nodes.list.assert_not_called()


@pytest.mark.parametrize("is_there", [True, False])
def test_the_claims_of_a_change_that_ended_with_its_run_are_seen(world: World, is_there: bool) -> None:
    world.vmi.status.phase = "Failed"
    moved = MigratedVolume(volume_name="root", destination_pvc_info=ClaimInfo(claim_name="new"))
    state = VolumeMigrationState(migrated_volumes=[moved])
    world.vm.status.volume_update_state = VolumeUpdateState(volume_migration_state=state)
    assert set(world.watch.view(world.vm, world.vmi if is_there else None).found) == {"new"}


def test_a_vm_that_names_the_claim_has_it_although_it_is_stopped(world: World) -> None:
    other = copy.deepcopy(world.vm)
    other.metadata.name, other.metadata.uid = "db", "another"
    world.vms.items.append(other)
    assert world.others() == {"new": "VM db"}


def test_a_run_that_has_the_claim_or_takes_its_data_there_has_it(world: World) -> None:
    run = copy.deepcopy(world.vmi)
    run.metadata.name, run.metadata.uid = "alone", "another"
    run.spec.volumes[0].persistent_volume_claim.claim_name = "elsewhere"  # type: ignore[union-attr]
    world.vmis.items.append(run)
    assert world.others() == {}
    moved = MigratedVolume(
        volume_name="root",
        source_pvc_info=ClaimInfo(claim_name="elsewhere"),
        destination_pvc_info=ClaimInfo(claim_name="new"),
    )
    run.status.migrated_volumes = [moved]
    assert world.others() == {"new": "VMI alone"}
    run.status.phase = "Succeeded"
    assert world.others() == {}


def test_a_guest_may_have_no_other_node_to_go_to(world: World) -> None:
    world.vmi.status.node_name = "node-1"
    assert not world.watch.view(world.vm, world.vmi).is_alone
    assert not world.watch.view(world.vm, world.vmi).is_in_place
    world.vm.metadata.annotations[MOVE_IN_PLACE] = "true"
    assert world.watch.view(world.vm, world.vmi).is_in_place
    del world.nodes.items[1]
    assert world.watch.view(world.vm, world.vmi).is_alone


def test_a_change_of_a_claim_concerns_the_vms_that_name_it(world: World) -> None:
    assert world.watch.users_of(a_claim("new")) == {Key("default", "web")}
    assert world.watch.users_of(a_claim("other")) == set()
