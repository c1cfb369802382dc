"""From a Service to an address that answers."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.standalone.apiserver.aggregation.service_resolver import Backend, NoBackend, resolve
from kvedge.standalone.apiserver.store.object_cache import ObjectCache
from kvedge.standalone.apiserver.store.stored import Stored
from tests.unit.standalone.apiserver.stored_objects import stored


def service(**spec: Any) -> Stored:
    """A Service with one port."""
    return stored("s", resource="services", spec={"ports": [{"name": "https", "port": 443}], **spec})


def endpoints(*addresses: str, port_name: str = "https") -> Stored:
    """Its Endpoints."""
    subset = {"addresses": [{"ip": ip} for ip in addresses], "ports": [{"name": port_name, "port": 8443}]}
    return stored("s", resource="endpoints", subsets=[subset])


def slices(address: str, ready: bool | None = None, label: str = "s") -> Stored:
    """An EndpointSlice of it."""
    conditions = {} if ready is None else {"ready": ready}
    return stored(
        "s-1",
        resource="endpointslices.discovery.k8s.io",
        metadata={"labels": {"kubernetes.io/service-name": label}},
        endpoints=[{"addresses": [address], "conditions": conditions}],
        ports=[{"name": "https", "port": 9443}],
    )


def found(*objects: Stored, port: int = 443) -> Backend:
    """What the Service leads to."""
    return resolve(ObjectCache(objects, 1), "n", "s", port)


def test_endpoints_are_where_a_service_leads() -> None:
    backend = found(service(), endpoints("10.0.0.1", "10.0.0.2"))
    assert backend == Backend("10.0.0.1", 8443, "s.n.svc")
    assert backend.authority == "10.0.0.1:8443"


def test_slices_do_where_there_are_no_endpoints() -> None:
    assert found(service(), slices("10.0.0.3")) == Backend("10.0.0.3", 9443, "s.n.svc")
    assert found(service(), endpoints(), slices("fd00::3")).authority == "[fd00::3]:9443"


def test_an_external_name_is_asked_for_by_name() -> None:
    assert found(service(type="ExternalName", externalName="api.example.com")).host == "api.example.com"


def test_the_only_port_may_be_unnamed() -> None:
    assert found(service(ports=[{"port": 443}]), endpoints("10.0.0.1")).port == 8443


@pytest.mark.parametrize(
    ("objects", "port", "message"),
    [
        ([], 443, 'service "s" not found'),
        ([service()], 80, 'service port 80 not found on service "s"'),
        ([service()], 443, 'no endpoints available for service "s"'),
        ([service(), endpoints()], 443, 'no endpoints available for service "s"'),
        ([service(), endpoints("10.0.0.1", port_name="http")], 443, "no endpoints"),
        ([service(), slices("10.0.0.3", ready=False)], 443, "no endpoints"),
        ([service(), slices("10.0.0.3", label="other")], 443, "no endpoints"),
    ],
    ids=["no service", "no port", "no endpoints", "empty", "another port", "not ready", "another service"],
)
def test_what_is_missing_is_said(objects: list[Stored], port: int, message: str) -> None:
    with pytest.raises(NoBackend, match=message):
        found(*objects, port=port)
