"""What the two halves of a migration between boxes must say."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.api.admission.migrations.crossing_rules import crossing_causes, is_host_and_port
from kvedge.resources.codec import decode
from kvedge.resources.types.migrations import VirtualMachineInstanceMigration

ID = "5f0c2a1e-0000-4000-8000-000000000001"
SEND = {"migrationID": ID, "connectURL": "192.0.2.1:9185"}


def fields(**spec: Any) -> list[str]:
    migration = decode(VirtualMachineInstanceMigration, {"metadata": {}, "spec": {"vmiName": "web", **spec}})
    return [str(cause.field) for cause in crossing_causes(migration)]


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        pytest.param({}, [], id="one within the cluster"),
        pytest.param({"sendTo": SEND}, [], id="the source's half"),
        pytest.param({"receive": {"migrationID": ID}}, [], id="the target's half"),
        pytest.param({"receive": {"migrationID": ID}, "addedNodeSelector": {"a": "b"}}, [], id="to one of its nodes"),
        pytest.param({"sendTo": SEND, "receive": {"migrationID": ID}}, ["spec.receive"], id="both"),
        pytest.param({"sendTo": {**SEND, "migrationID": "../x"}}, ["spec.sendTo.migrationID"], id="a path"),
        pytest.param({"receive": {}}, ["spec.receive.migrationID"], id="no name"),
        pytest.param({"sendTo": {"migrationID": ID}}, ["spec.sendTo.connectURL"], id="no address"),
        pytest.param({"sendTo": {**SEND, "connectURL": "h/x:1"}}, ["spec.sendTo.connectURL"], id="no host"),
        pytest.param({"sendTo": SEND, "addedNodeSelector": {"a": "b"}}, ["spec.addedNodeSelector"], id="nodes there"),
    ],
)
def test_the_halves_are_judged_by_field(spec: dict[str, Any], wrong: list[str]) -> None:
    assert fields(**spec) == wrong


@pytest.mark.parametrize("text", ["box.example:9185", "192.0.2.1:1", "[2001:db8::1]:65535", "box:9185"])
def test_an_address_is_a_host_and_a_port(text: str) -> None:
    assert is_host_and_port(text)


@pytest.mark.parametrize(
    "text",
    ["", "box", ":1", "box:", "box:0", "box:65536", "a b:1", "user@box:1", "box/x:1", "[::1:1", "-a:1", "a..b:1"],
)
def test_nothing_else_is(text: str) -> None:
    assert not is_host_and_port(text)
