"""Informers on both servers."""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch
from kvedge.resources.meta import ObjectMeta, OwnerReference
from kvedge.resources.types.core import ConfigMap
from kvedge.standalone.apiserver.api_server import ApiServerConfig, EmbeddedApi
from tests.support.either_server import EitherServer
from tests.support.waiting import wait_until

Told = list[tuple[str | None, str | None]]


def a_map(namespace: str, name: str, owner: str = "", **data: str) -> ConfigMap:
    owners = [OwnerReference(api_version="v1", kind="X", name="x", uid=owner, controller=True)] if owner else []
    meta = ObjectMeta(name=name, namespace=namespace, owner_references=owners, labels={"kind": data.get("kind", "")})
    return ConfigMap(metadata=meta, data=data)


@contextlib.contextmanager
def watched(client: KubeClient, namespace: str, selector: str = "") -> Iterator[tuple[Informer[ConfigMap], Told]]:
    informer = Informer(client, ConfigMap, namespace, selector)
    told: Told = []

    def tell(old: ConfigMap | None, new: ConfigMap | None) -> None:
        told.append(tuple(None if item is None else item.data.get("v", "") for item in (old, new)))

    informer.on_change(tell)
    informer.start()
    try:
        assert informer.wait_synced(20)
        yield informer, told
    finally:
        informer.stop()


def mine(told: Told) -> Told:
    """Without the ConfigMap that some servers put into every namespace."""
    return [pair for pair in told if pair != (None, "")]


def test_changes_are_told_with_what_was_there_before(either_server: EitherServer, namespace: str):
    client = either_server.admin
    client.create(a_map(namespace, "a", v="1"))
    with watched(client, namespace) as (informer, told):
        client.patch(ConfigMap, namespace, "a", MergePatch({"data": {"v": "2"}}))
        client.create(a_map(namespace, "b", v="3"))
        client.delete(ConfigMap, namespace, "a")
        wanted = [(None, "1"), ("1", "2"), (None, "3"), ("2", None)]
        wait_until(lambda: mine(told) == wanted, f"{wanted} is told")
        assert informer.get(namespace, "a") is None
        found = informer.get(namespace, "b")
        assert found is not None
        assert found.data == {"v": "3"}


def test_only_what_is_selected_is_told_and_what_falls_out_is_gone(either_server: EitherServer, namespace: str):
    client = either_server.admin
    client.create(a_map(namespace, "in", kind="x", v="1"))
    client.create(a_map(namespace, "out", kind="y", v="2"))
    with watched(client, namespace, "kind=x") as (informer, told):
        assert [item.metadata.name for item in informer.list()] == ["in"]
        client.patch(ConfigMap, namespace, "in", MergePatch({"metadata": {"labels": {"kind": "y"}}}))
        wait_until(lambda: told == [(None, "1"), ("1", None)], "it is gone")


def test_objects_are_found_by_their_owner(either_server: EitherServer, namespace: str):
    client = either_server.admin
    with watched(client, namespace) as (informer, _):
        # The owner does not exist: a garbage collector may take the object away soon.
        created = client.create(a_map(namespace, "a", owner="11111111-2222-3333-4444-555555555555"))
        informer.observe(created)
        owned = informer.find_owned_by("11111111-2222-3333-4444-555555555555")
        assert [item.metadata.name for item in owned] == ["a"]


def test_own_writes_are_seen_at_once_and_told_once(either_server: EitherServer, namespace: str):
    client = either_server.admin
    with watched(client, namespace) as (informer, told):
        for number in range(20):
            created = client.create(a_map(namespace, f"m{number}", v="1"))
            informer.observe(created)
            assert informer.get(namespace, f"m{number}") is not None
            changed = client.patch(ConfigMap, namespace, f"m{number}", MergePatch({"data": {"v": "2"}}))
            informer.observe(changed)
            found = informer.get(namespace, f"m{number}")
            assert found is not None
            assert found.data["v"] == "2"
        client.create(a_map(namespace, "last", v="3"))
        wait_until(lambda: (None, "3") in told, "the watch has caught up")
        assert mine(told)[:-1] == [(None, "1"), ("1", "2")] * 20


def test_a_deleted_object_is_not_brought_back_by_a_late_answer(either_server: EitherServer, namespace: str):
    client = either_server.admin
    with watched(client, namespace) as (informer, told):
        created = client.create(a_map(namespace, "a", v="1"))
        client.delete(ConfigMap, namespace, "a")
        wait_until(lambda: ("1", None) in told, "the deletion is told")
        informer.observe(created)
        assert informer.get(namespace, "a") is None


def test_many_informers_stop_at_once(either_server: EitherServer, namespace: str):
    informers = [Informer(either_server.admin, ConfigMap, namespace) for _ in range(10)]
    for informer in informers:
        informer.start()
    assert all(informer.wait_synced(20) for informer in informers)
    begun = time.monotonic()
    for informer in informers:
        informer.stop()
    assert time.monotonic() - begun < 8


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path


# A server that stops while clients are connected leaves their transports to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_informer_survives_a_restart_of_the_embedded_api_and_tells_what_happened_meanwhile(data_dir: Path):
    api = EmbeddedApi(ApiServerConfig(data_dir, port=0, node_name="box"))
    api.start()
    port = int(api.address.rpartition(":")[2])
    kubeconfig = data_dir / "kubeconfig"
    api.write_kubeconfig(kubeconfig, "admin", ["system:masters"])
    client = KubeClient.from_kubeconfig(kubeconfig)
    client.create(a_map("default", "a", v="1"))
    with watched(client, "default") as (_, told):
        api.stop()
        api = EmbeddedApi(ApiServerConfig(data_dir, port=port, node_name="box"))
        api.start()
        client.patch(ConfigMap, "default", "a", MergePatch({"data": {"v": "2"}}))
        wait_until(lambda: ("1", "2") in told, "the change after the restart is told")
    client.close()
    api.stop()
    gc.collect()
