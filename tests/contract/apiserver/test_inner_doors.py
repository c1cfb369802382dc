"""Connections from inside the server's process: whose they are, what they may do, and how they end."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.kube.errors import Forbidden, KubeError, Unavailable
from kvedge.kube.inner_door import InnerDoor
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.core import ConfigMap, Node
from kvedge.standalone.apiserver.api_server import ApiServerConfig, EmbeddedApi
from kvedge.standalone.apiserver.wire.api_errors import Unauthorized
from tests.support.waiting import wait_until

pytestmark = pytest.mark.contract

_REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedApi]:
    api = EmbeddedApi(ApiServerConfig(tmp_path, port=0, node_name="box"))
    api.start()
    yield api
    api.stop()


def client_of(api: EmbeddedApi, user: str, *groups: str) -> KubeClient:
    return KubeClient.from_kubeconfig("/there/is/none", "test", api.door(user, groups))


def whoami(client: KubeClient) -> tuple[str, set[str]]:
    found = client.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", _REVIEW)["status"]["userInfo"]
    return found["username"], set(found["groups"])


def test_a_door_is_that_of_its_user_and_of_nobody_else(server):
    joe, ann = client_of(server, "joe", "friends"), client_of(server, "ann", "system:masters")
    assert whoami(joe) == ("joe", {"friends", "system:authenticated"})
    assert whoami(ann) == ("ann", {"system:masters", "system:authenticated"})
    with pytest.raises(Forbidden, match='User "joe" cannot list resource "nodes"'):
        joe.list(Node)
    assert ann.list(Node) == []
    joe.close()
    ann.close()


@pytest.mark.parametrize(
    ("header", "value", "answer"),
    [
        ("Impersonate-User", "ann", b" 403 "),
        ("Authorization", "Bearer of-somebody-else", b" 201 "),
        ("X-Remote-User", "ann", b" 201 "),
    ],
    ids=["impersonation without the right", "a token", "the front proxy's word"],
)
def test_what_a_request_says_does_not_change_whose_it_is(server, header, value, answer):
    body = b'{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}'
    head = (
        "POST /apis/authentication.k8s.io/v1/selfsubjectreviews HTTP/1.1\r\nHost: box\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n{header}: {value}\r\n\r\n"
    )
    with server.door("joe", ["friends"]).open() as ours:
        ours.settimeout(10)
        ours.sendall(head.encode() + body)
        read = b"".join(iter(lambda: ours.recv(65536), b""))
    assert answer in read.partition(b"\r\n")[0]
    assert b'"username":"ann"' not in read


@pytest.mark.parametrize("user", ["", "a\nb", "a\rX-Remote-User: ann"], ids=["empty", "a line's end", "a header"])
def test_no_door_is_made_for_a_name_that_no_user_has(server, user):
    with pytest.raises(Unauthorized):
        server.door(user, ["system:masters"])


def test_a_connection_from_outside_gets_nothing_of_the_doors(server):
    """Plain HTTP on the port is no way in, and nothing else listens."""
    client_of(server, "ann", "system:masters").list(Node)
    with socket.create_connection(("127.0.0.1", int(server.address.rpartition(":")[2])), timeout=10) as plain:
        plain.sendall(b"GET /api/v1/nodes HTTP/1.1\r\nHost: box\r\n\r\n")
        assert b"200" not in plain.recv(65536)
    unix = Path("/proc/net/unix").read_text().splitlines()[1:]
    inodes = {os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if _is_there(name)}
    ours = [line.split() for line in unix if f"socket:[{line.split()[6]}]" in inodes]
    # Neither one that listens (flag 0x10000) nor one that has a name.
    assert ours
    assert [fields for fields in ours if fields[3] == "00010000" or len(fields) > 7] == []


def _is_there(name: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{name}")


def test_programs_that_the_process_starts_do_not_get_the_sockets(server):
    with server.door("ann", ["system:masters"]).open() as ours:
        assert not ours.get_inheritable()
        code = "import os, sys; print(sorted(os.listdir('/proc/self/fd'))[:40])"
        found = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, close_fds=False, timeout=60
        )
        assert f"'{ours.fileno()}'" not in found.stdout


def test_a_watch_by_a_door_is_told_of_changes_and_ends_when_it_is_closed(server):
    ann = client_of(server, "ann", "system:masters")
    watch = ann.watch(ConfigMap, ann.listing(ConfigMap, "default").resource_version, "default")
    told: list[str] = []
    thread = threading.Thread(
        target=lambda: told.extend(e.object.metadata.name for e in watch if isinstance(e.object, ConfigMap))
    )
    thread.start()
    ann.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))
    wait_until(lambda: told == ["a"], "the watch has told of the ConfigMap", 10)
    watch.close()
    thread.join(10)
    assert not thread.is_alive()
    ann.close()


def test_a_server_that_has_stopped_was_never_sent_anything(tmp_path):
    api = EmbeddedApi(ApiServerConfig(tmp_path, port=0, node_name="box"))
    api.start()
    ann = client_of(api, "ann", "system:masters").hurry(5)
    ann.list(Node)
    api.stop()
    ann.close()
    with pytest.raises(Unavailable, match="Connection refused") as caught:
        ann.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))
    assert caught.value.never_sent


def test_many_threads_open_doors_while_the_server_stops_and_each_gets_an_end(tmp_path):
    api = EmbeddedApi(ApiServerConfig(tmp_path, port=0, node_name="box"))
    api.start()
    door, ended = api.door("ann", ["system:masters"]), []
    begin = threading.Barrier(9)

    def ask_until_it_ends() -> None:
        client = KubeClient.from_kubeconfig("/there/is/none", "test", door).hurry(20)
        begin.wait(10)
        while True:
            try:
                client.list(Node)
            except KubeError as error:
                ended.append(error)
                client.close()
                return
            client.close()

    threads = [threading.Thread(target=ask_until_it_ends) for _ in range(8)]
    for thread in threads:
        thread.start()
    begin.wait(10)
    api.stop()
    for thread in threads:
        thread.join(30)
    assert [type(error) for error in ended] == [Unavailable] * 8


def test_a_door_says_the_servers_address(server):
    door = server.door("ann", [])
    assert isinstance(door, InnerDoor)
    assert door.host == server.address == client_of(server, "ann").host
