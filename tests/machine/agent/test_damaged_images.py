"""A box whose image records a power cut has spoilt: it starts, what ran runs on, and the Node says what happened."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.resources.names import LAUNCHER_IMAGE
from kvedge.resources.types.core import Node
from kvedge.storage.images.image_import import import_file
from tests.machine.agent.box import NODE, Box, box, marks
from tests.machine.agent.containers import is_alive
from tests.support.waiting import wait_until


@pytest.fixture
def made(tmp_path: Path, busybox: Path) -> Iterator[Box]:
    (tmp_path / "data").mkdir()
    with box(tmp_path / "data", busybox, "10.243.23.0/24") as one:
        yield one
    assert marks(one.config) == []


@pytest.mark.parametrize("files", ["names/*.json", "images/*/image.json"])
def test_the_agent_starts_with_every_record_of_the_image_store_cut(made: Box, busybox: Path, files: str) -> None:
    made.start_agent()
    made.create("runs", "while true; do sleep 0.1; done")
    pid = made.pid(made.in_phase("runs", "Running"))
    made.stop_agent()
    for path in made.store.root.glob(files):
        path.write_bytes(path.read_bytes()[:-10])

    made.start_agent()
    assert is_alive(pid)
    assert made.store.resolve(LAUNCHER_IMAGE).tree.is_dir()

    def told() -> bool:
        node = made.client.get(Node, "", NODE)
        return any("put aside" in condition["message"] for condition in node.status.conditions)

    wait_until(told, "the Node's condition")
    import_file(made.store, busybox, "busybox")
    assert is_alive(pid)
    made.create("again", "exit 0")
    made.in_phase("again", "Succeeded")
