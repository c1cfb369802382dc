"""What the client sends; all else of it is tested against servers, in the contract tier."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.kube.errors import Invalid, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.controller_revision import ControllerRevision
from kvedge.resources.types.core import ConfigMap
from tests.support.scripted_api import listing, scripted_api


def test_an_object_is_sent_in_the_bytes_in_which_a_server_would_write_it(tmp_path: Path) -> None:
    data = {"spec": {"userData": "a && b <c>\u2028\u00e9", "autostart": 1}}
    revision = ControllerRevision(metadata=ObjectMeta(name="r", namespace="n"), data=data, revision=1)
    with scripted_api(lambda exchange: exchange.answer(201, {"metadata": {"name": "r"}, "revision": 1})) as api:
        KubeClient.from_kubeconfig(api.write_kubeconfig(tmp_path / "kubeconfig")).create(revision)
    written = r'"data":{"spec":{"autostart":1,"userData":"a \u0026\u0026 b \u003cc\u003e\u2028' + "\u00e9" + '"}},'
    assert written.encode() in api.requests[0].body


def test_a_patch_that_is_tried_is_not_stored(tmp_path: Path) -> None:
    answer = {"metadata": {"name": "a"}, "data": {"kept": "yes"}}
    with scripted_api(lambda exchange: exchange.answer(200, answer)) as api:
        client = KubeClient.from_kubeconfig(api.write_kubeconfig(tmp_path / "kubeconfig"))
        patch = MergePatch({"data": {"kept": "yes", "lost": "no"}})
        assert client.try_patch(ConfigMap, "default", "a", patch).data == {"kept": "yes"}
    (request,) = api.requests
    assert (request.method, request.query.get("dryRun")) == ("PATCH", "All")
    assert b'"lost"' in request.body


def test_objects_that_nobody_keeps_come_by_small_pages_when_they_are_asked_for(tmp_path: Path) -> None:
    with scripted_api(listing("a", "b", next_page="more"), listing("c", next_page="rest"), listing()) as api:
        found = KubeClient.from_kubeconfig(api.write_kubeconfig(tmp_path / "kubeconfig")).each(ConfigMap, "default")
        assert [next(found).metadata.name, next(found).metadata.name] == ["a", "b"]
        # The next page is fetched once somebody wants it.
        assert [request.query.get("continue") for request in api.requests] == [None]
        assert [each.metadata.name for each in found] == ["c"]
    assert [request.query.get("continue") for request in api.requests] == [None, "more", "rest"]
    assert {request.query["limit"] for request in api.requests} == {"100"}


ELSEWHERE = "../../victim/configmaps/a"


@pytest.mark.parametrize("name", [ELSEWHERE, "..", ""], ids=["elsewhere", "dots", "nameless"])
def test_a_name_that_no_object_can_have_is_not_there_and_nothing_is_asked(tmp_path: Path, name: str) -> None:
    with scripted_api(listing("a")) as api:
        client = KubeClient.from_kubeconfig(api.write_kubeconfig(tmp_path / "kubeconfig"))
        with pytest.raises(NotFound):
            client.get(ConfigMap, "default", name)
        with pytest.raises(NotFound):
            client.patch(ConfigMap, "default", name, MergePatch({}))
        with pytest.raises(NotFound):
            client.delete(ConfigMap, "default", name)
        with pytest.raises(NotFound):
            client.replace(ConfigMap(metadata=ObjectMeta(name=name, namespace="default")))
        assert api.requests == []


def test_a_namespace_that_there_cannot_be_is_refused(tmp_path: Path) -> None:
    with scripted_api(listing("a")) as api:
        client = KubeClient.from_kubeconfig(api.write_kubeconfig(tmp_path / "kubeconfig"))
        with pytest.raises(Invalid):
            client.list(ConfigMap, "../x")
        with pytest.raises(Invalid):
            client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="../x")))
        assert api.requests == []


@pytest.mark.parametrize(
    "path",
    ["/api/v1/namespaces/a/../b", "/api/v1/pods/..", "/api/v1/%2E%2e/b", "/api/v1/a%2f..%2fb", "/api/v1/./b", "/a\\b"],
)
def test_a_path_that_leads_away_is_not_asked_for_whoever_made_it(tmp_path: Path, path: str) -> None:
    with scripted_api(listing("a")) as api:
        client = KubeClient.from_kubeconfig(api.write_kubeconfig(tmp_path / "kubeconfig"))
        with pytest.raises(Invalid, match="not sent"):
            client.request("GET", path)
        with pytest.raises(Invalid, match="not sent"):
            client.lines(path, {})
        assert api.requests == []
        client.request("GET", "/api/v1/..a/b..?labelSelector=a/../b")
        assert len(api.requests) == 1
