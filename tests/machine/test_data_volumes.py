"""A DataVolume on one box: its claim, its worker, and the disk that is there in the end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kvedge.resources.types.data_volumes import DataVolume
from tests.support.box import Box
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(200)]


@pytest.fixture
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    found = Box(tmp_path_factory.mktemp("box") / "data", "10.98.52.0/24")
    found.data_dir.mkdir()
    found.start()
    yield found
    found.remove()


def test_a_blank_disk_is_made_in_a_claim(box: Box) -> None:
    box.apply(
        {
            "apiVersion": "cdi.kubevirt.io/v1beta1",
            "kind": "DataVolume",
            "metadata": {"name": "disk", "annotations": {"cdi.kubevirt.io/storage.bind.immediate.requested": ""}},
            "spec": {"source": {"blank": {}}, "storage": {"resources": {"requests": {"storage": "64Mi"}}}},
        }
    )

    def is_done() -> bool:
        said = box.client.get(DataVolume, "default", "disk").status
        assert said.phase != "Failed", said
        assert said.restart_count == 0, said
        return said.phase == "Succeeded"

    wait_until(is_done, "the disk is made", 90)
    (image,) = box.data_dir.glob("volumes/**/disk.img")
    assert image.stat().st_size == 64 << 20
