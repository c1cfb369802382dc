"""Whose Pod it is that has a worker's name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kvedge.controller.datavolumes.workers.foreign_workers import foreign_worker
from kvedge.kube.errors import NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import decode
from kvedge.resources.types.core import Pod


def pod(*owners: str) -> Pod:
    references = [{"apiVersion": "a/v1", "kind": "DataVolume", "name": "d", "uid": uid} for uid in owners]
    return decode(Pod, {"metadata": {"name": "importer-d", "namespace": "ns", "ownerReferences": references}})


def client_with(there: Pod | None) -> KubeClient:
    def get(kind: Any, namespace: str, name: str) -> Pod:
        assert (namespace, name) == ("ns", "importer-d")
        if there is None:
            raise NotFound(404, "NotFound", "no such Pod")
        return there

    return cast("KubeClient", SimpleNamespace(get=get))


@pytest.mark.parametrize("there", [None, pod("ours"), pod("other", "ours")], ids=["gone", "ours", "ours too"])
def test_a_worker_that_the_cache_does_not_show_yet_is_waited_for(there: Pod | None) -> None:
    assert foreign_worker(client_with(there), pod("ours")) is None


@pytest.mark.parametrize("there", [pod(), pod("other")], ids=["nobody's", "another one's"])
def test_a_foreign_pod_in_the_way_is_named(there: Pod) -> None:
    problem = foreign_worker(client_with(there), pod("ours"))
    assert problem is not None
    assert problem.reason == "ErrResourceExists"
    assert "Pod importer-d exists" in problem.message
    assert "delete that Pod" in problem.message
