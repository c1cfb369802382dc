"""A box whose store is damaged while it is off: it comes up with the newest copy, and the Node says so."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvedge.resources.types.core import Node
from kvedge.resources.types.vm import VirtualMachine
from tests.support.box import Box
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(180)]

_VM: dict[str, Any] = {
    "apiVersion": "kubevirt.io/v1",
    "kind": "VirtualMachine",
    "metadata": {"name": "kept", "namespace": "default"},
    "spec": {
        "runStrategy": "Halted",
        "template": {"spec": {"domain": {"memory": {"guest": "64Mi"}, "devices": {}}}},
    },
}


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    if os.geteuid() != 0:
        pytest.skip("needs root, as kvedge standalone does")
    made = Box(tmp_path / "data", "10.94.7.0/24", log_level="info")
    yield made
    made.remove()


def conditions(box: Box) -> dict[str, dict[str, Any]]:
    """The Node's conditions by type."""
    (node,) = box.client.list(Node)
    return {str(item["type"]): dict(item) for item in node.status.conditions}


def test_a_box_with_a_damaged_store_comes_up_with_its_newest_copy_and_says_so(box: Box) -> None:
    box.start()
    box.client.request("POST", "/apis/kubevirt.io/v1/namespaces/default/virtualmachines", _VM)
    found = wait_until(lambda: conditions(box).get("StoreCopied"), "the Node tells of the copy")
    assert found["status"] == "True"
    box.end()
    # Each start makes a copy of what the one before it left.
    box.start()
    wait_until(lambda: {"Ready", "StoreCopied"} <= conditions(box).keys(), "both writers' conditions are there")
    wait_until(lambda: len(list((box.data_dir / "backup").glob("*.db"))) >= 2, "the second start made its copy")
    box.end(signal.SIGKILL)
    store = box.data_dir / "state" / "kvedge.db"
    with store.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(store.stat().st_size - 4096))
    box.start()
    assert box.client.get(VirtualMachine, "default", "kept").metadata.name == "kept"
    found = wait_until(lambda: conditions(box).get("StoreRestored"), "the Node tells of what was put back")
    assert found["reason"] == "StoreDamaged"
    aside = next(store.parent.glob("damaged-*"))
    assert str(aside) in found["message"]
    said = box.cli("describe", "node", box.client.list(Node)[0].metadata.name).stdout
    assert "StoreRestored" in said
    # The agent writes its own conditions again and again, and leaves these alone.
    assert {"Ready", "StoreCopied", "StoreRestored"} <= conditions(box).keys()
