"""Which api roles are endpoints: what one writes of itself, and whom it takes out."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kvedge.api.registration.presence_plan import (
    HEARTBEAT,
    PresencePlan,
    heartbeat_of,
    is_written,
    name_of,
    plan_presence,
    serves,
)
from kvedge.api.registration.registration_manifest import (
    Endpoint,
    endpoint_slice,
    instance_name,
    instance_of,
    slice_names,
)

OWN = endpoint_slice(Endpoint("192.0.2.1", 8443, "server-1")).body
BEAT = "2026-01-01T00:00:05.000000Z"
Slice = dict[str, Any]


def written(number: int, heartbeat: str = "2026-01-01T00:00:00.000000Z", instance: str = "") -> Slice:
    """The slice of a role as it is in the cluster; without a heartbeat, of a release that gave none."""
    body = copy.deepcopy(endpoint_slice(Endpoint(f"192.0.2.{number}", 8443, instance or f"server-{number}")).body)
    if heartbeat:
        body["metadata"]["annotations"][HEARTBEAT] = heartbeat
    body["metadata"]["resourceVersion"] = "7"
    # As an item of a list.
    del body["apiVersion"], body["kind"]
    return body


def plan(*slices: Slice, silent: dict[str, float | None] | None = None) -> PresencePlan:
    return plan_presence(OWN, slices, lambda name: (silent or {}).get(name, 0.0), BEAT)


def test_a_new_role_writes_its_slice_with_a_heartbeat() -> None:
    own = plan().own
    assert own is not None
    assert own["endpoints"] == OWN["endpoints"]
    assert own["kind"] == "EndpointSlice"
    assert own["metadata"]["annotations"] == {**OWN["metadata"]["annotations"], HEARTBEAT: BEAT}


def test_a_role_that_is_alone_writes_once_and_no_heartbeats() -> None:
    assert plan(written(1)) == PresencePlan(None, [], [])


def test_a_role_that_others_see_writes_its_heartbeat_over_what_it_has_read() -> None:
    found = plan(written(1), written(2))
    assert found.own is not None
    assert heartbeat_of(found.own) == BEAT
    assert found.own["kind"] == "EndpointSlice"
    assert found.own["metadata"]["resourceVersion"] == "7"
    assert (found.gone, [name_of(item) for item in found.others]) == ([], ["kvedge-api-server-2-ipv4"])


@pytest.mark.parametrize(
    ("seconds", "gone"),
    [
        pytest.param(19.0, False, id="for less than it may"),
        pytest.param(21.0, True, id="for too long"),
        pytest.param(None, False, id="as long as we can see"),
    ],
)
def test_another_role_is_taken_out_when_it_was_silent(seconds: float | None, gone: bool) -> None:
    other = written(2)
    found = plan(written(1), other, silent={name_of(other): seconds})
    assert found.gone == ([other] if gone else [])
    assert found.others == ([] if gone else [other])


def test_whoever_has_taken_the_last_other_out_is_alone() -> None:
    assert plan(written(1), written(2), silent={name_of(written(2)): 60.0}).own is None


def test_a_role_never_takes_itself_out() -> None:
    assert plan(written(1), written(2), silent={name_of(OWN): 1000.0}).gone == []


def of_pods(body: Slice) -> Slice:
    """As a cluster writes it for the Pods of a Service."""
    body["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] = "endpointslice-controller.k8s.io"
    return body


def test_a_slice_without_a_heartbeat_is_of_nobody_who_must_be_heard_and_stays() -> None:
    foreign = written(2, heartbeat="")
    assert plan(written(1), foreign, silent={name_of(foreign): 1000.0}).gone == []


def test_our_own_slice_of_another_name_goes_at_once() -> None:
    former = written(1, instance="as-it-was-called")
    assert plan(written(1), former).gone == [former]
    assert plan(written(1), of_pods(written(1, heartbeat="", instance="foreign"))).gone == []


def test_a_slice_for_our_address_of_a_release_without_heartbeats_goes_at_once() -> None:
    former = written(1, heartbeat="", instance="as-it-was-called")
    assert plan(written(1), former).gone == [former]


def test_a_slice_is_a_roles_or_the_clusters() -> None:
    assert is_written(written(1))
    assert is_written(written(1, heartbeat=""))
    assert not is_written(of_pods(written(1, heartbeat="")))


@pytest.mark.parametrize(("address", "tail"), [("192.0.2.1", "ipv4"), ("2001:db8::1", "ipv6")])
def test_a_slice_is_found_by_its_instance_and_the_instance_by_its_slice(address: str, tail: str) -> None:
    name = endpoint_slice(Endpoint(address, 8443, "rack-ipv4")).name
    assert name == f"kvedge-api-rack-ipv4-{tail}"
    assert name in slice_names("rack-ipv4")
    assert instance_of(name) == "rack-ipv4"


def test_what_somebody_has_changed_in_our_slice_is_mended() -> None:
    there = written(1)
    there["endpoints"] = []
    own = plan(there).own
    assert own is not None
    assert own["endpoints"] == OWN["endpoints"]


def test_a_slice_that_is_not_ready_serves_nobody() -> None:
    body = written(1)
    assert serves(body)
    body["endpoints"][0]["conditions"] = {"ready": False}
    assert not serves(body)
    assert not serves({**body, "endpoints": None})
    # Kubernetes: what does not say counts as ready.
    assert serves({**body, "endpoints": [{"addresses": ["192.0.2.1"]}]})


def test_instances_never_share_a_name() -> None:
    long = "server." + "rack-0123456789." * 4
    names = ["server-1", "Server-2", "server.3", "server-3", f"{long}a", f"{long}b", "サーバー", "-"]
    found = [instance_name(name) for name in names]
    assert found[:2] == ["server-1", "server-2"]
    assert len(set(found)) == len(names)
    assert all(name.replace("-", "").isalnum() and name.isascii() and len(name) <= 40 for name in found)
    assert all(name == name.strip("-") for name in found)
