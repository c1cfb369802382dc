"""The controller and the KubeVirt object, on both servers: it is made, its status is kept, and Pods follow it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from kvedge.controller.controller_service import ControllerRole
from kvedge.kube.errors import AlreadyExists, NotFound
from kvedge.kube.patches import MergePatch
from kvedge.resources.meta import ObjectMeta, condition
from kvedge.resources.names import HEARTBEAT, SCHEDULABLE, SYSTEM_NAMESPACE
from kvedge.resources.types.core import Event, Namespace, Node
from kvedge.resources.types.kubevirt import KubeVirt
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import rfc3339
from tests.contract.controller.played_node import PlayedNode
from tests.support.builders import CONFIG
from tests.support.either_server import EitherServer
from tests.support.waiting import wait_until


@pytest.fixture
def controller(either_server: EitherServer) -> Iterator[ControllerRole]:
    with contextlib.suppress(AlreadyExists):
        either_server.admin.create(Namespace(metadata=ObjectMeta(name=SYSTEM_NAMESPACE)))
    remove(either_server)
    role = ControllerRole(either_server.kubeconfig, CONFIG, leader_election=False)
    role.start()
    yield role
    role.stop()
    remove(either_server)


@pytest.fixture
def node(either_server: EitherServer) -> Iterator[str]:
    """A node whose handler has just said that it is ready."""
    metadata = ObjectMeta(
        name="ready", labels={SCHEDULABLE: "true"}, annotations={HEARTBEAT: rfc3339(datetime.now(UTC))}
    )
    either_server.admin.create(Node(metadata=metadata))
    yield "ready"
    either_server.admin.delete(Node, "", "ready")


def remove(server: EitherServer) -> None:
    for item in server.admin.list(KubeVirt):
        server.admin.delete(KubeVirt, item.metadata.namespace, item.metadata.name)


def found(server: EitherServer, name: str = "kubevirt") -> KubeVirt | None:
    try:
        return server.admin.get(KubeVirt, SYSTEM_NAMESPACE, name)
    except NotFound:
        return None


def says(server: EitherServer, type_: str, status: str, name: str = "kubevirt") -> str:
    """The message of a condition, once it has that status."""

    def message() -> str | None:
        item = found(server, name)
        there = None if item is None else condition(item.status.conditions, type_)
        return there.message if there is not None and there.status == status else None

    return wait_until(message, f"{type_} is {status}")


def configure(server: EitherServer, **configuration: Any) -> KubeVirt:
    body = {"spec": {"configuration": None}}
    server.admin.patch(KubeVirt, SYSTEM_NAMESPACE, "kubevirt", MergePatch(body))
    body = {"spec": {"configuration": configuration}}
    return server.admin.patch(KubeVirt, SYSTEM_NAMESPACE, "kubevirt", MergePatch(body))


def test_an_object_is_made_when_there_is_none_and_tells_what_is_missing(
    either_server: EitherServer, controller: ControllerRole
) -> None:
    message = says(either_server, "Available", "False")
    assert "the api role does not answer" in message
    item = found(either_server)
    assert item is not None
    assert (item.status.phase, item.spec) == ("Deploying", {"configuration": {}})


def test_an_object_that_is_there_is_never_overwritten(either_server: EitherServer, controller: ControllerRole) -> None:
    says(either_server, "Created", "True")
    made = configure(either_server, cpuModel="Nehalem")
    controller.stop()
    again = ControllerRole(either_server.kubeconfig, CONFIG, leader_election=False)
    again.start()
    try:
        wait_until(
            lambda: (item := found(either_server)) and item.status.observed_generation == made.metadata.generation,
            "the next controller has seen it",
        )
        item = found(either_server)
        assert item is not None
        assert (item.metadata.uid, item.spec) == (made.metadata.uid, made.spec)
    finally:
        again.stop()


def test_an_object_that_is_deleted_comes_back(
    either_server: EitherServer, controller: ControllerRole, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvedge.controller.kubevirt.kubevirt_loop._REPLACE_SECONDS", 0.5)
    says(either_server, "Created", "True")
    configure(either_server, cpuModel="Nehalem")
    before = found(either_server)
    assert before is not None
    remove(either_server)
    again = wait_until(lambda: found(either_server), "another is made")
    assert again.metadata.uid != before.metadata.uid
    assert again.spec == {"configuration": {}}
    says(either_server, "Created", "True")


def test_an_object_that_is_replaced_is_not_made_beside_the_other(
    either_server: EitherServer, controller: ControllerRole
) -> None:
    says(either_server, "Created", "True")
    remove(either_server)
    either_server.admin.create(
        KubeVirt(metadata=ObjectMeta(name="mine", namespace=SYSTEM_NAMESPACE), spec={"infra": {}})
    )
    says(either_server, "Created", "True", "mine")
    assert found(either_server) is None


def test_conditions_follow_what_is_written(either_server: EitherServer, controller: ControllerRole) -> None:
    says(either_server, "ConfigurationValid", "True")
    # No webhook stands before this server: a bad value gets in.
    configure(either_server, cpuModell="x", machineType="abacus", selinuxLauncherType="t")
    message = says(either_server, "ConfigurationValid", "False")
    assert 'unknown field "spec.configuration.cpuModell"; did you mean "cpuModel"?' in message
    assert "spec.configuration.machineType: abacus is not supported" in message
    assert "selinuxLauncherType does not apply" in says(either_server, "ConfigurationApplied", "False")

    def reasons() -> set[str]:
        events = either_server.admin.list(Event, SYSTEM_NAMESPACE)
        return {event.reason for event in events if event.involved_object.kind == "KubeVirt"}

    wait_until(lambda: {"ConfigurationInvalid", "KeysWithoutEffect"} <= reasons(), "events tell of it")
    written = configure(either_server, machineType="q35")
    wait_until(
        lambda: (item := found(either_server)) and item.status.observed_generation == written.metadata.generation,
        "the last of them has been seen",
    )
    says(either_server, "ConfigurationValid", "True")
    says(either_server, "ConfigurationApplied", "True")


def test_of_two_objects_the_older_counts(either_server: EitherServer, controller: ControllerRole) -> None:
    says(either_server, "Created", "True")
    metadata = ObjectMeta(name="zweites", namespace=SYSTEM_NAMESPACE)
    either_server.admin.create(KubeVirt(metadata=metadata, spec={"configuration": {"cpuModel": "B"}}))
    assert says(either_server, "Synchronized", "False", "zweites") == "There is an active KubeVirt deployment"
    either_server.admin.delete(KubeVirt, SYSTEM_NAMESPACE, "kubevirt")
    says(either_server, "Created", "True", "zweites")
    item = found(either_server, "zweites")
    assert item is not None
    assert condition(item.status.conditions, "Synchronized") is None


def test_the_next_launcher_pod_follows_the_object_without_a_restart(
    either_server: EitherServer, controller: ControllerRole, namespace: str
) -> None:
    says(either_server, "Created", "True")
    written = configure(
        either_server, developerConfiguration={"cpuAllocationRatio": 2, "nodeSelectors": {"shelf": "left"}}
    )
    wait_until(
        lambda: (item := found(either_server)) and item.status.observed_generation == written.metadata.generation,
        "the controller follows",
    )
    either_server.admin.create(VirtualMachineInstance(metadata=ObjectMeta(name="web", namespace=namespace)))
    pod = PlayedNode(either_server, namespace).pod()
    assert pod.spec.node_selector["shelf"] == "left"
    requests = pod.spec.containers[0].resources.requests
    assert requests["cpu"] == "500m"


def test_without_an_api_role_a_ready_node_is_not_enough(
    either_server: EitherServer, controller: ControllerRole, node: str
) -> None:
    def message() -> bool:
        return "no node" not in says(either_server, "Available", "False")

    wait_until(message, "the node is seen")
    assert "the api role does not answer" in says(either_server, "Available", "False")
