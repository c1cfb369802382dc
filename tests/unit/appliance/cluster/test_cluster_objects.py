"""What is taken out of a cluster, against all that the api role writes into it."""

from __future__ import annotations

from typing import Any, cast

from kvedge.api.registration.policy_manifest import GROUP_VERSION, POLICIES
from kvedge.api.registration.registration_loop import Registration
from kvedge.api.registration.registration_manifest import Endpoint
from kvedge.api.registration.upload_manifest import upload_api_service
from kvedge.appliance.cluster.cluster_objects import remove_registration
from kvedge.appliance.cluster.cluster_servers import remove_calls
from kvedge.kube.errors import NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.names import SYSTEM_NAMESPACE
from tests.support.clocks import FakeClock

_KEPT = f"/namespaces/{SYSTEM_NAMESPACE}"


class KeptDocuments:
    """A server that keeps what is written by its path."""

    def __init__(self) -> None:
        self.documents: dict[str, Any] = {}

    def hurry(self, seconds: float) -> KeptDocuments:
        return self

    def request(self, method: str, path: str, body: Any = None, query: Any = None, content: str = "") -> Any:
        if path == f"/apis/{GROUP_VERSION}":
            return {"resources": [{"name": POLICIES}]}
        if method == "POST":
            path = f"{path}/{body['metadata']['name']}"
        if method in ("POST", "PUT"):
            self.documents[path] = body
        elif method == "GET" and query is not None:
            return {"items": [item for key, item in self.documents.items() if key.startswith(f"{path}/")]}
        elif path not in self.documents:
            raise NotFound(404, "NotFound", path)
        elif method == "DELETE":
            return self.documents.pop(path)
        return self.documents[path]


def written() -> KeptDocuments:
    server = KeptDocuments()
    Registration(cast("KubeClient", server), Endpoint("192.0.2.7", 8443, "node1"), FakeClock()).write(b"CA", "secret")
    return server


def taken_out_of(server: KeptDocuments) -> set[str]:
    """The paths of what is left."""
    client = cast("KubeClient", server)
    for steps in (remove_calls(client), remove_registration(client)):
        assert len(list(steps)) > 2
    return set(server.documents)


def test_all_that_the_api_role_writes_goes_but_for_the_namespace_and_what_is_in_it() -> None:
    server = written()
    assert any("kvedge-clones" in path for path in server.documents)
    assert [path for path in taken_out_of(server) if _KEPT not in path] == []


def test_the_api_of_upload_tokens_stays_where_it_is_cdis() -> None:
    server = written()
    path = upload_api_service(b"").path
    server.documents[path] = {"spec": {"service": {"namespace": "cdi", "name": "cdi-api"}}}
    assert [path for path in taken_out_of(server) if _KEPT not in path] == [path]
