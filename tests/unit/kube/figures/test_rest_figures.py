"""Calls are counted by what they ask for, not by objects; and there is an end of kinds of calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.kube import rest_edge
from kvedge.kube.errors import Unavailable
from kvedge.kube.figures.rest_figures import RestFigures, What, describe
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.types.core import ConfigMap
from tests.support.scripted_api import refusing, scripted_api

VMS = "/apis/kubevirt.io/v1/namespaces/{namespace}/virtualmachines"


@pytest.mark.parametrize(
    ("method", "path", "what"),
    [
        ("GET", "/api/v1/nodes", What("nodes", "list", "/api/v1/nodes")),
        ("GET", "/api/v1/nodes/n1", What("nodes", "get", "/api/v1/nodes/{name}")),
        ("GET", "/api/v1/namespaces/shop", What("namespaces", "get", "/api/v1/namespaces/{name}")),
        ("POST", "/apis/kubevirt.io/v1/namespaces/shop/virtualmachines", What("virtualmachines", "create", VMS)),
        (
            "PATCH",
            "/apis/kubevirt.io/v1/namespaces/shop/virtualmachines/web/status?x=y",
            What("virtualmachines", "patch", f"{VMS}/{{name}}/status"),
        ),
        ("PUT", "/api/v1/nodes/n1", What("nodes", "update", "/api/v1/nodes/{name}")),
        ("DELETE", "/api/v1/nodes", What("nodes", "deletecollection", "/api/v1/nodes")),
        ("DELETE", "/api/v1/nodes/n1", What("nodes", "delete", "/api/v1/nodes/{name}")),
        ("GET", "/version", What("", "list", "/version")),
    ],
)
def test_a_call_is_told_by_its_resource_and_a_path_without_names(method: str, path: str, what: What) -> None:
    assert describe(method, path, watches=False) == what


def test_a_list_that_goes_on_is_a_watch() -> None:
    assert describe("GET", "/api/v1/nodes", watches=True).verb == "watch"


def test_calls_are_counted_with_their_outcome_and_their_times() -> None:
    figures, what = RestFigures(), describe("GET", "/api/v1/nodes", watches=False)
    for code, seconds in (("200", 0.01), ("200", 0.02), ("<error>", 5.0)):
        figures.note("GET", "https://box:6443", what, code, seconds)
    told = [(call.code, call.method, call.host, call.resource, call.verb, call.count) for call in figures.tell_calls()]
    assert told == [("200", "GET", "box:6443", "nodes", "list", 2), ("<error>", "GET", "box:6443", "nodes", "list", 1)]
    (latency,) = figures.tell_latencies()
    assert (latency.verb, latency.url, sum(latency.times.counts)) == ("list", "/api/v1/nodes", 3)


def test_kinds_of_calls_have_an_end() -> None:
    figures = RestFigures()
    for number in range(2000):
        figures.note("GET", "https://box", What(f"r{number}", "list", f"/{number}"), "200", 0.1)
    assert len(figures.tell_calls()) == len(figures.tell_latencies()) == 513
    assert sum(call.count for call in figures.tell_calls()) == 2000


def ask(path: Path) -> None:
    """One call, which fails."""
    client = KubeClient.from_kubeconfig(path)
    with pytest.raises(Unavailable):
        client.hurry(5.0).get(ConfigMap, "shop", "web")
    client.close()


def test_a_client_counts_each_of_its_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Those of the process may be full of other tests' calls.
    figures = RestFigures()
    monkeypatch.setattr(rest_edge, "REST_FIGURES", figures)

    def count(code: str, host: str) -> int:
        found = (call for call in figures.tell_calls() if (call.code, call.host) == (code, host))
        return sum(call.count for call in found)

    with scripted_api(refusing(503, "ServiceUnavailable")) as api:
        host = api.url.removeprefix("http://")
        path = api.write_kubeconfig(tmp_path / "kubeconfig")
        ask(path)
        assert count("503", host) == 1
    ask(path)
    assert count("<error>", host) == 1
