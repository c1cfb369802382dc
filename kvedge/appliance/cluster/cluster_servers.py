"""Which servers of a cluster have an api role, as their endpoints tell; and how they are taken out.

Called by uninstalling, with an administrator's client. Connects to the servers, as the endpoints of a dead server stay.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from kvedge.api.registration.presence_plan import is_written, name_of, serves
from kvedge.api.registration.registration_manifest import (
    SLICES,
    api_service,
    endpoints,
    instance_name,
    instance_of,
    slice_names,
    slices_selector,
)
from kvedge.api.registration.upload_manifest import is_our_upload_api, upload_api_service
from kvedge.api.served_paths import SUBRESOURCE_VERSIONS
from kvedge.kube.errors import NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject

_ANSWER_SECONDS: Final = 3.0


@dataclass(frozen=True, slots=True)
class Server:
    """One api role, and where it is reached."""

    name: str
    address: str
    port: int

    def __str__(self) -> str:
        return f"{self.name} ({self.address})"


def other_servers(client: KubeClient, own: str) -> list[Server]:
    """The api roles that calls are sent to, without the one on the node `own`.

    Raises:
        KubeError: when the API server refuses or does not answer.
    """
    names = slice_names(instance_name(own))
    return [server for item in _read(client) if name_of(item) not in names for server in _servers(item)]


def answers(server: Server) -> bool:
    """Whether somebody takes calls there."""
    try:
        socket.create_connection((server.address, server.port), _ANSWER_SECONDS).close()
    except OSError:
        return False
    return True


def remove_endpoint(client: KubeClient, own: str) -> Iterator[str]:
    """Take a node's api role out of the endpoints, where it has not done so itself; yields the path of what was there.

    Raises:
        KubeError: when the API server refuses or does not answer.
    """
    yield from _delete(client, (f"{SLICES}/{name}" for name in sorted(slice_names(instance_name(own)))))


def remove_calls(client: KubeClient) -> Iterator[str]:
    """Take the APIServices out, and all endpoints that api roles have written; yields the path of what was there.

    Calls of webhooks then fail at once. An api role that lives writes all of it anew within seconds.

    Raises:
        KubeError: when the API server refuses or does not answer.
    """
    yield from _delete(client, (api_service(version, b"").path for version in SUBRESOURCE_VERSIONS))
    yield from _delete(client, _token_api(client))
    slices = _read(client)
    written = [item for item in slices if is_written(item)]
    yield from _delete(client, (f"{SLICES}/{name_of(item)}" for item in written))
    if written == slices:
        # The other endpoints are Pods', and the cluster looks after them itself.
        yield from _delete(client, [endpoints([]).path])


def _token_api(client: KubeClient) -> Iterator[str]:
    """The APIService of upload tokens; where CDI is installed it is CDI's."""
    path = upload_api_service(b"").path
    try:
        there = client.request("GET", path)
    except NotFound:
        return
    if is_our_upload_api(there):
        yield path


def _read(client: KubeClient) -> list[JsonObject]:
    return list(client.request("GET", SLICES, query={"labelSelector": slices_selector()}).get("items") or ())


def _servers(item: JsonObject) -> Iterator[Server]:
    if serves(item):
        port = next((int(entry["port"]) for entry in item.get("ports") or ()), 0)
        for entry in item["endpoints"]:
            yield Server(instance_of(name_of(item)), str(entry["addresses"][0]), port)


def _delete(client: KubeClient, paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        try:
            client.request("DELETE", path)
        except NotFound:
            continue
        yield path
