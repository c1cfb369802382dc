# Tests: kvedge/standalone/agent/pod/pod_addresses.py
"""Whose address is given back, and which are not given to another Pod."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.kube.errors import NotFound
from kvedge.network.errors import AddressesExhaustedError
from kvedge.resources.types.cluster import IpAddress
from kvedge.standalone.agent.pod.pod_addresses import AddressOwner, PodAddresses, VirtualMachineHead

# Of the two addresses the first is the gateway's.
ONE_FREE = "10.99.0.0/30"


class Api:
    """Keeps the IPAddress objects, and says that no owner exists."""

    def __init__(self) -> None:
        self.kept: dict[str, IpAddress] = {}

    def create(self, made: IpAddress) -> IpAddress:
        made.metadata.uid, made.metadata.resource_version = made.metadata.name, str(len(self.kept) + 1)
        self.kept[made.metadata.name] = made
        return made

    def delete(self, _kind: object, _namespace: str, name: str, _preconditions: object) -> None:
        del self.kept[name]

    def list(self, _kind: object) -> list[IpAddress]:
        return list(self.kept.values())

    def request(self, _method: str, path: str) -> Any:
        raise NotFound(404, "NotFound", path)


class Scene:
    """Addresses of a node with Pods that have some."""

    def __init__(self, cidr: str) -> None:
        self.api = Api()
        self.in_use: set[str] = set()
        self.addresses = PodAddresses(self.api, cidr, lambda: self.in_use)  # type: ignore[arg-type]

    def give(self, uid: str) -> str:
        """An address for the VM with that UID, whose Pod has it from now on."""
        address = self.addresses.address_for(AddressOwner("VirtualMachine", "shop", f"vm-{uid}", uid))
        self.in_use.add(address)
        return address

    def delete_vm(self, uid: str) -> None:
        """The VM goes, as its informer tells."""
        gone = VirtualMachineHead()
        gone.metadata.uid = uid
        self.addresses._note_owner_change(gone, None)
        assert self.addresses.release_next(1)


def test_a_guest_that_its_deleted_vm_has_left_behind_keeps_its_address() -> None:
    scene = Scene("10.99.0.0/24")
    address = scene.give("orphaned")
    scene.delete_vm("orphaned")
    assert list(scene.api.kept) == [address]
    assert scene.give("next") != address


def test_an_address_is_given_back_with_its_vm_when_no_pod_has_it() -> None:
    scene = Scene("10.99.0.0/24")
    scene.in_use.discard(scene.give("gone"))
    scene.delete_vm("gone")
    assert scene.api.kept == {}


def test_the_sweep_leaves_what_a_pod_has_and_takes_it_when_the_pod_has_gone() -> None:
    scene = Scene("10.99.0.0/24")
    address = scene.give("orphaned")
    scene.addresses.sweep()
    assert list(scene.api.kept) == [address]
    scene.in_use.clear()
    scene.addresses.sweep()
    assert scene.api.kept == {}


def test_an_address_whose_object_was_given_back_already_is_not_given_while_a_pod_has_it() -> None:
    scene = Scene(ONE_FREE)
    scene.in_use.add("10.99.0.2")
    with pytest.raises(AddressesExhaustedError):
        scene.give("next")


def test_a_range_that_is_used_up_by_guests_of_deleted_vms_is_said() -> None:
    scene = Scene(ONE_FREE)
    scene.give("orphaned")
    with pytest.raises(AddressesExhaustedError):
        scene.give("next")
