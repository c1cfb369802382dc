"""Claims of images and the DataSources that lead to them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kvedge.client.session import Session
from kvedge.client.uploads.golden_image import claim_name, golden_volume, lead_data_source, make_golden_volume
from kvedge.kube.errors import AlreadyExists
from kvedge.resources.codec import decode
from kvedge.resources.disks.data_volume_checks import data_volume_problems
from kvedge.resources.types.data_volumes import DataVolume


class PlayedServer:
    """Keeps the requests; answers a POST of what it has with AlreadyExists."""

    def __init__(self, *there: str) -> None:
        self.asked: list[tuple[str, str, Any]] = []
        self._there = there

    def request(self, method: str, path: str, body: Any, *more: Any) -> Any:
        self.asked.append((method, path, body))
        if method == "POST" and body["metadata"]["name"] in self._there:
            raise AlreadyExists(409, "AlreadyExists", "it is there")
        return body

    def session(self) -> Session:
        return cast("Session", SimpleNamespace(client=self, namespace="images"))


def test_each_image_has_a_claim_of_its_own_in_whole_mebibytes() -> None:
    name = claim_name("fedora", "sha256:1")
    assert name != claim_name("fedora", "sha256:2")
    dv = decode(DataVolume, golden_volume(name, "local/fedora:43", (3 << 20) + 1, "fast"))
    assert list(data_volume_problems(dv.spec)) == []
    assert dv.spec.source is not None
    assert dv.spec.source.registry is not None
    assert (dv.spec.source.registry.url, dv.spec.source.registry.pull_method) == ("docker://local/fedora:43", "node")
    assert dv.spec.storage is not None
    assert dv.spec.storage.resources.requests == {"storage": str(4 << 20)}
    assert dv.spec.storage.storage_class_name == "fast"


@pytest.mark.parametrize(("there", "made"), [((), True), (("d",), False)], ids=["new", "there"])
def test_an_image_that_has_its_claim_gets_no_second_one(there: tuple[str, ...], made: bool) -> None:
    assert make_golden_volume(PlayedServer(*there).session(), golden_volume("d", "local/a:1", 1, "")) is made


def test_a_data_source_that_is_there_is_led_to_the_new_claim_alone() -> None:
    server = PlayedServer("fedora")
    lead_data_source(server.session(), "fedora", "fedora-2")
    (_, _, new), (method, path, body) = server.asked
    source = {"pvc": {"name": "fedora-2", "namespace": "images"}}
    assert new["spec"] == {"source": source}
    assert (method, path.rpartition("/")[2]) == ("PATCH", "fedora")
    assert body == {"spec": {"source": {"snapshot": None, "dataSource": None, **source}}}
