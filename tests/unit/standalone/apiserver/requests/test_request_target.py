"""Paths and methods, and what they ask for."""

from __future__ import annotations

import pytest

from kvedge.standalone.apiserver.requests.request_target import RequestTarget, is_plain, is_true, request_target

_PODS = "/api/v1/namespaces/n/pods"
_VMS = "/apis/kubevirt.io/v1/namespaces/n/virtualmachines"


@pytest.mark.parametrize(
    ("method", "path", "query", "expected"),
    [
        ("GET", _PODS, {}, ("list", "", "v1", "n", "pods", "", "")),
        ("GET", _PODS, {"watch": "true"}, ("watch", "", "v1", "n", "pods", "", "")),
        ("GET", _PODS, {"watch": "0"}, ("list", "", "v1", "n", "pods", "", "")),
        ("GET", f"{_PODS}/p", {"watch": "1"}, ("get", "", "v1", "n", "pods", "p", "")),
        ("POST", _PODS, {}, ("create", "", "v1", "n", "pods", "", "")),
        ("DELETE", _PODS, {}, ("deletecollection", "", "v1", "n", "pods", "", "")),
        ("DELETE", f"{_PODS}/p", {}, ("delete", "", "v1", "n", "pods", "p", "")),
        ("PUT", f"{_PODS}/p/status", {}, ("update", "", "v1", "n", "pods", "p", "status")),
        ("PATCH", f"{_VMS}/v", {}, ("patch", "kubevirt.io", "v1", "n", "virtualmachines", "v", "")),
        (
            "GET",
            "/apis/kubevirt.io/v1/virtualmachines",
            {},
            ("list", "kubevirt.io", "v1", "", "virtualmachines", "", ""),
        ),
        (
            "GET",
            f"{_VMS}/v/vnc/screenshot",
            {},
            ("get", "kubevirt.io", "v1", "n", "virtualmachines", "v", "vnc/screenshot"),
        ),
        ("GET", "/api/v1/namespaces", {}, ("list", "", "v1", "", "namespaces", "", "")),
        ("GET", "/api/v1/namespaces/n", {}, ("get", "", "v1", "n", "namespaces", "n", "")),
        ("PUT", "/api/v1/namespaces/n/finalize", {}, ("update", "", "v1", "n", "namespaces", "n", "finalize")),
        ("GET", "/api/v1/nodes/x", {}, ("get", "", "v1", "", "nodes", "x", "")),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_path_says_what_is_asked_for(
    method: str, path: str, query: dict[str, str], expected: tuple[str, ...]
) -> None:
    target = request_target(method, path, query)
    found = (
        target.verb,
        target.group,
        target.version,
        target.namespace,
        target.resource,
        target.name,
        target.subresource,
    )
    assert found == expected
    assert target.is_resource


@pytest.mark.parametrize(
    "path", ["/", "/version", "/api", "/apis", "/api/v1", "/apis/kubevirt.io", "/apis/kubevirt.io/v1"]
)
def test_what_names_no_resource_is_none(path: str) -> None:
    target = request_target("GET", path, {})
    assert not target.is_resource
    assert (target.verb, target.path) == ("get", path)


def test_an_unknown_method_is_still_about_the_resource() -> None:
    # Else it would pass as a question for discovery, which everybody may ask.
    assert request_target("TRACE", f"{_PODS}/p", {}) == RequestTarget("trace", f"{_PODS}/p", "", "v1", "n", "pods", "p")
    assert request_target("HEAD", f"{_PODS}/p", {}).verb == "get"
    assert request_target("HEAD", _PODS, {}).verb == "list"
    assert request_target("OPTIONS", "/apis/g/v1/things/a/console", {}).subresource == "console"


@pytest.mark.parametrize(
    ("selector", "name"),
    [
        ("metadata.name=a", "a"),
        ("metadata.name==a", "a"),
        ("status.phase=x,metadata.name=a", "a"),
        ("metadata.name!=a", ""),
        ("metadata.name", ""),
        ("", ""),
    ],
)
def test_a_list_of_one_name_is_about_that_object(selector: str, name: str) -> None:
    target = request_target("GET", _PODS, {"fieldSelector": selector})
    assert (target.name, target.selected_name) == ("", name)
    assert request_target("DELETE", _PODS, {"fieldSelector": selector}).selected_name == ""


@pytest.mark.parametrize(
    "path",
    [
        "/apis/g/v1/namespaces/n/things/a%2Fconsole",
        "/apis/g/v1/namespaces/n/things/a%5cconsole",
        "/apis/g/v1/namespaces/n/../m/things",
        "/apis/g/v1/namespaces/n/%2e%2E/m",
        "/apis/g//v1",
        "//apis",
        "/apis/./g",
    ],
)
def test_a_path_that_others_may_read_differently_is_not_plain(path: str) -> None:
    assert not is_plain(path)


@pytest.mark.parametrize(
    "path", ["/", "/apis/", "/api/v1/namespaces/n/pods/a.b-c", "/api/v1/pods?labelSelector=a%2Fb=.."]
)
def test_an_ordinary_path_is_plain(path: str) -> None:
    assert is_plain(path)


def test_booleans_of_a_query_are_read_as_go_reads_them() -> None:
    assert [is_true(text) for text in ("true", "1", "True", "yes")] == [True] * 4
    assert [is_true(text) for text in ("", "0", "false", "FALSE")] == [False] * 4
