"""What the embedded API promises about its disk: an answered write is there after a kill -9, a damaged store says
so.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import ssl
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kvedge.standalone.apiserver.access.pki import Subject
from kvedge.standalone.apiserver.api_server import ApiServerConfig, EmbeddedApi, StartFailed
from kvedge.standalone.apiserver.store import object_store
from kvedge.standalone.apiserver.store.object_store_file import StoreBusy, StoreCorrupt, StoreTooNew
from tests.contract.apiserver.conftest import embedded, load_pair
from tests.support.api_client import ApiClient, eventually, names
from tests.support.widgets import config_map, config_maps, widget, widgets

pytestmark = pytest.mark.contract

_PROGRAM = """
import sys, time
from pathlib import Path
from kvedge.standalone.apiserver.api_server import ApiServerConfig, EmbeddedApi
from kvedge.standalone.apiserver.access.pki import Subject
api = EmbeddedApi(ApiServerConfig(Path(sys.argv[1]), port=0))
api.start()
api.write_kubeconfig(Path(sys.argv[1]) / "kubeconfig", "admin", ["system:masters"])
pair = api.pki.clients.issue_client(Subject("admin", ("system:masters",)))
(Path(sys.argv[1]) / "client.pem").write_bytes(pair.certificate + pair.key)
print(api.address, flush=True)
time.sleep(600)
"""


class Process:
    """The embedded API in a process of its own, which can be killed."""

    def __init__(self, directory: Path) -> None:
        self.popen = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(directory)], stdout=subprocess.PIPE, text=True, env={**os.environ}
        )
        assert self.popen.stdout is not None
        self.url = self.popen.stdout.readline().strip()
        self.directory = directory

    def client(self) -> ApiClient:
        """An administrator."""
        context = ssl.create_default_context(cafile=str(self.directory / "state" / "pki" / "server-ca.crt"))
        context.load_cert_chain(self.directory / "client.pem")
        return ApiClient(self.url, context)

    def kill(self) -> None:
        """kill -9."""
        self.popen.send_signal(signal.SIGKILL)
        self.popen.wait(10)
        assert self.popen.stdout is not None
        self.popen.stdout.close()


@pytest.mark.parametrize("writers", [1, 8], ids=["one writer", "eight writers"])
def test_every_answered_write_survives_a_kill(tmp_path: Path, writers: int) -> None:
    process = Process(tmp_path)
    answered: set[str] = set()
    enough = threading.Event()

    def write(writer: int) -> None:
        admin = process.client()
        number = 0
        while True:
            name = f"w{writer}-{number}"
            try:
                answer = admin.post(config_maps("default"), config_map(name))
            except Exception:  # noqa: BLE001 - the server is killed while it answers: anything may come of that
                return
            if answer.status == 201:
                answered.add(name)
            if len(answered) > 60:
                enough.set()
            number += 1

    threads = [threading.Thread(target=write, args=(number,), name=f"writer-{number}") for number in range(writers)]
    for thread in threads:
        thread.start()
    assert enough.wait(30)
    process.kill()
    for thread in threads:
        thread.join(10)
    server = embedded(tmp_path)
    admin = next(server).admin
    found = set(names(admin.get(config_maps("default"))))
    assert answered <= found
    server.close()


def test_a_restart_keeps_objects_kinds_and_revisions(tmp_path: Path) -> None:
    first = embedded(tmp_path)
    admin = next(first).admin
    made = admin.made(widgets("default"), widget("a", 3))
    admin.made(config_maps("default"), config_map("b"))
    admin.delete(config_maps("default", "b"))
    before = admin.get(widgets("default")).json["metadata"]["resourceVersion"]
    first.close()
    api = EmbeddedApi(ApiServerConfig(tmp_path, port=0))
    api.start()
    api.write_kubeconfig(tmp_path / "kubeconfig", "admin", ["system:masters"])
    api.stop()
    second = Process(tmp_path)
    admin = second.client()
    assert admin.get(widgets("default", "a")).json == made
    listed = admin.get(widgets("default")).json
    assert int(listed["metadata"]["resourceVersion"]) >= int(before)
    newer = admin.patch(widgets("default", "a"), {"spec": {"size": 4}}).json
    assert int(newer["metadata"]["resourceVersion"]) > int(before)
    watch = admin.watch(widgets("default"), resourceVersion=made["metadata"]["resourceVersion"])
    event = watch.wait(1)[0]
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    watch.close()
    second.kill()


def test_what_was_being_deleted_at_a_kill_is_gone_after_the_restart(tmp_path: Path) -> None:
    first = Process(tmp_path)
    admin = first.client()
    admin.made("/api/v1/namespaces", {"metadata": {"name": "full"}})
    owner = admin.made(config_maps("default"), config_map("owner"))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    for number in range(100):
        admin.made(config_maps("full"), config_map(f"c{number}"))
        child = config_map(f"child{number}")
        child["metadata"]["ownerReferences"] = [reference]
        admin.made(config_maps("default"), child)
    admin.delete("/api/v1/namespaces/full")
    admin.delete(config_maps("default", "owner"))
    first.kill()
    second = Process(tmp_path)
    admin = second.client()
    eventually(lambda: admin.get("/api/v1/namespaces/full").status == 404)
    eventually(lambda: names(admin.get(config_maps("default"))) == [])
    assert names(admin.get(config_maps("full"))) == []
    second.kill()


def test_clients_from_before_a_store_that_was_put_back_list_again(tmp_path: Path) -> None:
    server = embedded(tmp_path)
    admin = next(server).admin
    watch = admin.watch(config_maps("default"), resourceVersion="99999")
    event = watch.wait(1)[0]
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    watch.close()
    server.close()


def test_a_second_server_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    first = embedded(tmp_path)
    next(first)
    with pytest.raises(StoreBusy, match="in use by another process"):
        EmbeddedApi(ApiServerConfig(tmp_path, port=0)).start()
    first.close()


def test_a_port_that_is_taken_is_said_and_frees_the_store(tmp_path: Path) -> None:
    first = embedded(tmp_path / "one")
    port = int(next(first).url.rpartition(":")[2])
    with pytest.raises(StartFailed, match=f"cannot listen on 127.0.0.1 port {port}"):
        EmbeddedApi(ApiServerConfig(tmp_path / "two", port=port)).start()
    second = embedded(tmp_path / "two")
    next(second)
    second.close()
    first.close()


def test_a_store_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    server = embedded(tmp_path)
    next(server)
    server.close()
    path = tmp_path / "state" / "kvedge.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    content = path.read_bytes()
    with pytest.raises(StoreTooNew, match="written by a newer kvedge"):
        EmbeddedApi(ApiServerConfig(tmp_path, port=0)).start()
    assert path.read_bytes() == content


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "kvedge.db").write_bytes(b"this is not a database" * 100)
    with pytest.raises(StoreCorrupt):
        EmbeddedApi(ApiServerConfig(tmp_path, port=0)).start()


def test_secrets_on_disk_are_for_their_owner_alone(tmp_path: Path) -> None:
    server = embedded(tmp_path)
    next(server)
    secret = [tmp_path / "kubeconfig", tmp_path / "state" / "kvedge.db", *(tmp_path / "state" / "pki").glob("*.key")]
    assert len(secret) >= 6
    for path in secret:
        assert path.stat().st_mode & 0o077 == 0, path
    assert (tmp_path / "state" / "pki").stat().st_mode & 0o077 == 0
    server.close()


def test_a_restart_keeps_certificates_that_are_good(tmp_path: Path) -> None:
    first = embedded(tmp_path)
    next(first)
    first.close()
    pki = {path.name: path.read_bytes() for path in (tmp_path / "state" / "pki").iterdir()}
    kubeconfig = (tmp_path / "kubeconfig").read_text()
    api = EmbeddedApi(ApiServerConfig(tmp_path, port=0, node_name="box"))
    api.start()
    api.write_kubeconfig(tmp_path / "kubeconfig", "admin", ["system:masters"])
    api.stop()
    assert {path.name: path.read_bytes() for path in (tmp_path / "state" / "pki").iterdir()} == pki
    again = (tmp_path / "kubeconfig").read_text()
    assert [line for line in again.splitlines() if "server:" not in line] == [
        line for line in kubeconfig.splitlines() if "server:" not in line
    ]


def test_a_server_whose_disk_is_full_says_so_at_its_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare = object_store.prepare

    def on_a_full_disk(connection: sqlite3.Connection) -> None:
        prepare(connection)
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")

    monkeypatch.setattr(object_store, "prepare", on_a_full_disk)
    api = EmbeddedApi(ApiServerConfig(tmp_path, port=0))
    with pytest.raises(StartFailed, match=r"the API cannot be served: the object store .* cannot be written"):
        api.start()
    api.stop()
    monkeypatch.undo()
    server = embedded(tmp_path)
    assert names(next(server).admin.get("/api/v1/namespaces"))[0] == "default"
    server.close()


def test_a_full_disk_is_a_507_and_reads_go_on(tmp_path: Path) -> None:
    api = EmbeddedApi(ApiServerConfig(tmp_path, port=0))
    api.start()
    context = ssl.create_default_context(cadata=api.pki.servers.certificate_pem.decode())
    pair = api.pki.clients.issue_client(Subject("admin", ("system:masters",)))
    load_pair(context, tmp_path, pair.certificate, pair.key)
    admin = ApiClient(api.address, context)
    connection = api._store._connection
    assert connection is not None
    connection.execute(f"PRAGMA max_page_count = {connection.execute('PRAGMA page_count').fetchone()[0]}")
    answer = admin.post(config_maps("default"), config_map("big", text="x" * 500_000))
    assert (answer.status, answer.json["reason"]) == (507, "InsufficientStorage")
    assert "full" in answer.message
    assert admin.get(config_maps("default", "big")).status == 404
    assert api.failure() is None
    api._store.copy_to(tmp_path / "copy.db")
    connection.execute("PRAGMA max_page_count = 100000")
    admin.made(config_maps("default"), config_map("big", text="x" * 500_000))
    admin.close()
    api.stop()


def test_a_stop_ends_watches_and_keeps_what_was_written(tmp_path: Path) -> None:
    server = embedded(tmp_path)
    admin = next(server).admin
    watches = [admin.watch(config_maps("default")) for _ in range(5)]
    admin.made(config_maps("default"), config_map("last"))
    for watch in watches:
        watch.wait(1)
    server.close()
    for watch in watches:
        watch.wait_end()
    again = embedded(tmp_path)
    admin = next(again).admin
    eventually(lambda: names(admin.get(config_maps("default"))) == ["last"])
    again.close()
