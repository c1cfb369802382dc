"""One request of a size, and what makes it: the words in which the tables of cases are written."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.contract.apiserver.costs.measured import NAMESPACE
from tests.support.api_client import APPLY, JSON, JSON_PATCH, MERGE, STRATEGIC
from tests.support.builders import pod_document

CORE = f"/api/v1/namespaces/{NAMESPACE}"
CONFIG_MAPS = f"{CORE}/configmaps"
PODS = f"{CORE}/pods"
SERVICES = f"{CORE}/services"
SECRETS = f"{CORE}/secrets"
WIDGETS = f"/apis/example.com/v1/namespaces/{NAMESPACE}/widgets"
VMS = f"/apis/kubevirt.io/v1/namespaces/{NAMESPACE}/virtualmachines"
RBAC = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}"
ACCESS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"


@dataclass(frozen=True)
class Request:
    """What is sent. It changes nothing that the next one meets: writes are dry runs."""

    method: str
    path: str
    body: bytes
    content_type: str = JSON
    query: tuple[tuple[str, str], ...] = (("dryRun", "All"),)


@dataclass(frozen=True)
class Case:
    """A request that grows with `n`. `size` is the n to begin with; `there` makes the object that must be there."""

    name: str
    role: str
    make: Callable[[int], Request]
    size: int
    there: Callable[[int], tuple[str, Any]] | None = None


def encoded(document: Any) -> bytes:
    """JSON as a client writes it that saves nothing: a body with blanks is longer than the server's own text."""
    return json.dumps(document).encode()


def create(path: str, document: Any, **query: str) -> Request:
    """POST."""
    return Request("POST", path, encoded(document), query=(("dryRun", "All"), *query.items()))


def review(body: bytes, content_type: str = JSON) -> Request:
    """What everybody may send."""
    return Request("POST", ACCESS, body, content_type, ())


def patch(path: str, document: Any, content_type: str = MERGE, **query: str) -> Request:
    """PATCH."""
    return Request("PATCH", path, encoded(document), content_type, (("dryRun", "All"), *query.items()))


def steps(path: str, operations: list[Any]) -> Request:
    """A JSON patch."""
    return patch(path, operations, JSON_PATCH)


def strategic(path: str, document: Any) -> Request:
    """A strategic merge patch."""
    return patch(path, document, STRATEGIC)


def applied(path: str, document: Any) -> Request:
    """A server-side apply."""
    return patch(path, document, APPLY, fieldManager="budget")


def config_map(name: str = "a", data: Any = None, **metadata: Any) -> dict[str, Any]:
    """A ConfigMap."""
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}
    return document if data is None else {**document, "data": data}


def widget(name: str = "a", spec: Any = None, **metadata: Any) -> dict[str, Any]:
    """A Widget."""
    spec = {"size": 1, **(spec or {})}
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name, **metadata}, "spec": spec}


def vm(spec: Any = None, template: Any = None, **metadata: Any) -> dict[str, Any]:
    """A VirtualMachine whose template's spec is this."""
    inner = {"domain": {"devices": {}, "memory": {"guest": "64Mi"}}, **(template or {})}
    spec = {"runStrategy": "Halted", "template": {"spec": inner}, **(spec or {})}
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {"name": "a", **metadata},
        "spec": spec,
    }


def pod(name: str = "a", **spec: Any) -> dict[str, Any]:
    """A Pod."""
    return pod_document(metadata={"name": name}, **spec)


def many(count: int, make: Callable[[int], Any]) -> list[Any]:
    """So many items."""
    return [make(number) for number in range(count)]


def named(count: int, make: Callable[[int], Any], prefix: str = "k") -> dict[str, Any]:
    """So many members."""
    return {f"{prefix}{number}": make(number) for number in range(count)}


def parts(count: int) -> list[Any]:
    """The parts of a Widget, which are a map by name."""
    return many(count, lambda number: {"name": f"p{number}", "weight": number})
