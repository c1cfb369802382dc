"""A node whose handler is too far from the control plane's version takes no VM, says why, and takes them again."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

from kvedge import __version__
from kvedge.handler.guest.version_gate import VersionGate
from kvedge.handler.node.kvm_check import Accelerator
from kvedge.handler.node.node_manifest import NodeCapabilities, node_patch
from kvedge.kube.informer import Informer
from kvedge.resources.codec import JsonObject, decode
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.kubevirt import KubeVirt

NOW = datetime(2026, 5, 1, tzinfo=UTC)


class Known:
    """What an informer has listed."""

    def __init__(self) -> None:
        self.items: list[KubeVirt] = []
        self.callbacks: list[Any] = []

    def list(self) -> list[KubeVirt]:
        return self.items

    def on_change(self, callback: Any) -> None:
        self.callbacks.append(callback)

    def say(self, *versions: str) -> None:
        self.items = [
            decode(KubeVirt, {"metadata": {"name": f"k{number}"}, "status": {"operatorVersion": version}})
            for number, version in enumerate(versions)
        ]
        for callback in self.callbacks:
            callback(None, self.items[0])


def gate(own: str) -> tuple[VersionGate, Known, list[str]]:
    known, told = Known(), list[str]()
    made = VersionGate(cast("Informer[KubeVirt]", known), own)
    made.on_change(lambda: told.append(made.refusal))
    return made, known, told


def test_nothing_is_refused_while_no_control_plane_has_told() -> None:
    made, known, told = gate("0.1.0")
    assert made.refusal == ""
    known.say("")
    assert (made.refusal, told) == ("", [])


def test_a_change_of_the_answer_is_told_once() -> None:
    _, known, told = gate("0.1.0")
    known.say("v0.2.0")
    assert told == []
    known.say("v0.3.0")
    known.say("v0.3.0")
    assert [text[:46] for text in told] == ["kvedge 0.1.0 here and 0.3.0 on the servers are"]
    known.say("v0.2.1")
    assert told[1:] == [""]


def test_an_object_that_does_not_count_is_left_out() -> None:
    made, known, _ = gate("0.1.0")
    known.say("", "v0.3.0")
    assert made.refusal


def patch(refusal: str) -> JsonObject:
    found = node_patch(
        ObjectMeta(),
        NodeCapabilities(),
        Accelerator(True, "as the test has it"),
        "a:1",
        NOW,
        schedulable=True,
        refusal=refusal,
    )
    return cast("JsonObject", found["metadata"])


def test_the_node_tells_its_version_and_why_it_takes_no_vm() -> None:
    taking, refusing = patch(""), patch("too old")
    assert taking["annotations"]["kvedge.io/version"] == __version__
    assert taking["annotations"]["kvedge.io/takes-no-vm"] is None
    assert taking["labels"]["kubevirt.io/schedulable"] == "true"
    assert refusing["annotations"]["kvedge.io/takes-no-vm"] == "too old"
    assert refusing["labels"]["kubevirt.io/schedulable"] == "false"
