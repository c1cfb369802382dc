"""CRDs are made and read as a whole only when one of them has changed since all were as they should be."""

from __future__ import annotations

import copy
from typing import Any, cast

import pytest

from kvedge.api.registration.crd_versions import CRDS, read_crd_versions
from kvedge.api.registration.registration_loop import Registration
from kvedge.api.registration.registration_manifest import Endpoint
from kvedge.kube.errors import Forbidden, NotFound
from kvedge.kube.kube_client import KubeClient


class Server:
    """An API server with CRDs; it counts those that were read one by one."""

    def __init__(self, *, lists: bool = True) -> None:
        self._lists = lists
        self.documents: dict[str, Any] = {}
        self.written = 0
        self.read = 0
        self._registration: Registration | None = None

    def hurry(self, _: float) -> Server:
        return self

    def request(self, verb: str, path: str, body: Any = None, *_: object, **options: str) -> Any:
        if verb == "GET" and path == CRDS:
            if not self._lists:
                raise Forbidden(403, "Forbidden", "customresourcedefinitions may not be listed")
            assert "PartialObjectMetadataList" in options["accept"]
            return {"items": [{"metadata": each["metadata"]} for each in self.documents.values()]}
        if verb == "GET":
            self.read += 1
            name = path.rpartition("/")[2]
            if name not in self.documents:
                raise NotFound(404, "NotFound", name)
            return copy.deepcopy(self.documents[name])
        self.written += 1
        made = copy.deepcopy(body)
        made["metadata"]["resourceVersion"] = str(self.written)
        self.documents[made["metadata"]["name"]] = made
        return made

    def rounds(self, number: int) -> int:
        """How many CRDs are read in so many rounds of the role."""
        before = self.read
        for _ in range(number):
            self.registration.write_crds()
        return self.read - before

    @property
    def registration(self) -> Registration:
        """That of one role."""
        if self._registration is None:
            self._registration = Registration(cast("KubeClient", self), Endpoint("192.0.2.1", 8443, "one"))
        return self._registration


def test_rounds_in_which_nothing_has_changed_read_none() -> None:
    server = Server()
    server.rounds(2)
    assert server.documents
    assert server.rounds(5) == 0


@pytest.mark.parametrize("change", ["edited", "deleted", "made by others"])
def test_a_round_after_a_change_mends_it(change: str) -> None:
    server = Server()
    server.rounds(3)
    name = "virtualmachines.kubevirt.io"
    was = copy.deepcopy(server.documents[name]["spec"])
    if change == "edited":
        server.documents[name]["spec"]["names"]["shortNames"] = ["other"]
        server.documents[name]["metadata"]["resourceVersion"] = "edited"
    elif change == "deleted":
        del server.documents[name]
    else:
        server.documents["others.example.com"] = {"metadata": {"name": "others.example.com", "resourceVersion": "1"}}
    assert server.rounds(1) > 0
    assert server.documents[name]["spec"] == was
    server.rounds(1)
    assert server.rounds(3) == 0


def test_a_role_that_may_not_list_them_reads_each() -> None:
    server = Server(lists=False)
    assert read_crd_versions(cast("KubeClient", server)) is None
    server.rounds(2)
    assert server.rounds(1) >= len(server.documents)
