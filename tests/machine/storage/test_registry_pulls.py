"""Pulling from a real registry, and from peers that mean harm."""

from __future__ import annotations

import base64
import hashlib
import http.server
import json
import os
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kvedge.storage.image_errors import BadImage, ImageError, RegistryError
from kvedge.storage.images import registry_client
from kvedge.storage.images.image_pull import pull_image
from kvedge.storage.images.image_store import ImageStore
from kvedge.storage.images.registry_door import RegistryDoor
from kvedge.storage.images.registry_logins import docker_credentials
from tests.machine.storage.conftest import left_over
from tests.machine.storage.real_registry import (
    PASSWORD,
    USER,
    Registry,
    basic_auth,
    registry,
    serving,
    token_service,
)
from tests.support.ports import free_port
from tests.support.small_images import busybox_archive, file, layer, oci_archive


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """A registry with two images in it."""
    folder = tmp_path_factory.mktemp("registry")
    busybox_archive(folder / "busybox.tar")
    oci_archive(folder / "large.tar", [layer([file("disk/disk.img", os.urandom(6 << 20))])], {}, zipped=False)
    with registry(folder) as running:
        running.push(folder / "busybox.tar", "tools/busybox:1")
        running.push(folder / "large.tar", "disks/large:1")
        yield running


def test_an_image_is_pulled_from_a_registry_on_loopback(store: ImageStore, shelf: Registry) -> None:
    told: list[tuple[int, int]] = []
    image = pull_image(
        store, f"{shelf.address}/tools/busybox:1", progress=lambda done, total: told.append((done, total))
    )

    assert os.readlink(image.tree / "bin/sh") == "busybox"
    assert (image.origin, image.digest[:7]) == ("pulled", "sha256:")
    assert image.image_id == f"{shelf.address}/tools/busybox@{image.digest}"
    assert told[-1][0] == told[-1][1] > 0
    assert left_over(store) == []
    assert [path.name for path in (store.root / "partial").iterdir() if path.suffix != ".lock"] == []


def test_a_pull_by_digest_gets_that_very_image_and_finds_it_again(store: ImageStore, shelf: Registry) -> None:
    tagged = pull_image(store, f"{shelf.address}/tools/busybox:1")
    fixed = f"{shelf.address}/tools/busybox@{tagged.digest}"

    assert store.resolve(fixed).id == tagged.id
    assert pull_image(store, fixed).id == tagged.id


def test_a_second_pull_downloads_nothing(store: ImageStore, shelf: Registry) -> None:
    pull_image(store, f"{shelf.address}/tools/busybox:1")
    before = shelf.log.read_text().count("GET /v2/tools/busybox/blobs/")
    pull_image(store, f"{shelf.address}/tools/busybox:1")

    assert shelf.log.read_text().count("GET /v2/tools/busybox/blobs/") == before


def _layer_of(shelf: Registry, name: str) -> tuple[str, bytes]:
    """The largest blob of the registry's storage that belongs to `name`."""
    client = registry_client.RegistryClient(registry_client.ImageName(shelf.address, name, "1", ""), insecure=True)
    digest = json.loads(client.manifest("1").data)["layers"][0]["digest"]
    value = digest.removeprefix("sha256:")
    folder = shelf.log.parent / "blobs/docker/registry/v2/blobs/sha256"
    return digest, (folder / value[:2] / value / "data").read_bytes()


def test_a_download_goes_on_where_it_was_cut_off(store: ImageStore, shelf: Registry) -> None:
    digest, content = _layer_of(shelf, "disks/large")
    name = f"{shelf.address}_disks_large".replace(":", "_")
    partial = store.root / "partial" / f"{name}-{digest.removeprefix('sha256:')}"
    partial.parent.mkdir(parents=True)
    partial.write_bytes(content[: 4 << 20])

    image = pull_image(store, f"{shelf.address}/disks/large:1")

    assert (image.tree / "disk/disk.img").stat().st_size == 6 << 20
    (line,) = [line for line in shelf.log.read_text().splitlines() if f"blobs/{digest}" in line and " 206 " in line]
    assert int(line.split(" 206 ")[1].split()[0]) == len(content) - (4 << 20)


def test_a_cut_off_download_that_holds_something_else_is_thrown_away(store: ImageStore, shelf: Registry) -> None:
    digest, _ = _layer_of(shelf, "disks/large")
    name = f"{shelf.address}_disks_large".replace(":", "_")
    partial = store.root / "partial" / f"{name}-{digest.removeprefix('sha256:')}"
    partial.parent.mkdir(parents=True)
    partial.write_bytes(b"x" * 1000)

    with pytest.raises(BadImage, match="damaged"):
        pull_image(store, f"{shelf.address}/disks/large:1")
    assert not partial.exists()
    assert pull_image(store, f"{shelf.address}/disks/large:1").tree.exists()


def test_two_pulls_of_one_image_at_once_end_in_one_image(store: ImageStore, shelf: Registry) -> None:
    failures: list[Exception] = []

    def pull() -> None:
        try:
            pull_image(store, f"{shelf.address}/disks/large:1")
        except ImageError as error:
            failures.append(error)

    threads = [threading.Thread(target=pull) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    assert len(list((store.root / "images").iterdir())) == 1


def test_a_tag_that_is_not_there_is_no_reason_to_try_again(store: ImageStore, shelf: Registry) -> None:
    with pytest.raises(RegistryError, match="not found") as refused:
        pull_image(store, f"{shelf.address}/tools/busybox:2")

    assert not refused.value.temporary


def test_a_registry_that_does_not_answer_is_a_reason_to_try_again_or_to_import(store: ImageStore) -> None:
    with pytest.raises(RegistryError, match="kvedge image import") as refused:
        pull_image(store, f"127.0.0.1:{free_port()}/x:1")

    assert refused.value.temporary


@pytest.mark.parametrize("kind", ["basic", "token"])
def test_a_registry_with_a_login_gives_the_image_to_those_who_have_one(
    store: ImageStore, tmp_path: Path, kind: str
) -> None:
    busybox_archive(tmp_path / "busybox.tar")
    with token_service(tmp_path) as token_auth:
        auth = basic_auth(tmp_path) if kind == "basic" else token_auth
        with registry(tmp_path, auth) as running:
            running.push(tmp_path / "busybox.tar", "a/b:1", "--dest-creds", f"{USER}:{PASSWORD}")
            reference = f"{running.address}/a/b:1"
            document = {"auths": {running.address: {"auth": base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()}}}

            for wrong in ({}, {running.address: (USER, "wrong")}):
                with pytest.raises(RegistryError) as refused:
                    pull_image(store, reference, wrong)
                assert not refused.value.temporary
                assert PASSWORD not in str(refused.value)
            assert pull_image(store, reference, docker_credentials(json.dumps(document).encode())).tree.exists()


def test_logins_of_a_docker_config_are_found_by_registry() -> None:
    document = {
        "auths": {
            "https://index.docker.io/v1/": {"username": "a", "password": "b"},
            "quay.io": {"auth": base64.b64encode(b"c:d:e").decode()},
        }
    }

    assert docker_credentials(json.dumps(document).encode()) == {"docker.io": ("a", "b"), "quay.io": ("c", "d:e")}


@pytest.mark.parametrize("document", [b"", b"[]", b'{"auths": []}', b'{"auths": {"x": {"auth": "%%"}}}'])
def test_a_broken_docker_config_is_refused_without_showing_it(document: bytes) -> None:
    with pytest.raises(ImageError, match=r"no \.dockerconfigjson"):
        docker_credentials(document)


_Answer = Callable[[http.server.BaseHTTPRequestHandler], None]


def _handler(answer: _Answer) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def log_message(self, *_: object) -> None:
            """Silent."""

    return Handler


def _reply(handler: http.server.BaseHTTPRequestHandler, status: int, body: bytes = b"", **headers: str) -> None:
    handler.send_response(status)
    for key, value in headers.items():
        handler.send_header(key.replace("_", "-"), value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def _manifest(config: bytes, blob: bytes, *, size: int | None = None) -> bytes:
    def descriptor(data: bytes) -> dict[str, object]:
        return {"digest": f"sha256:{hashlib.sha256(data).hexdigest()}", "size": len(data)}

    described = descriptor(blob)
    if size is not None:
        described["size"] = size
    return json.dumps({"schemaVersion": 2, "config": descriptor(config), "layers": [described]}).encode()


_CONFIG = json.dumps({"rootfs": {"diff_ids": ["sha256:" + "0" * 64]}}).encode()


def test_a_blob_that_never_ends_is_cut_off_at_the_size_it_was_announced_with(store: ImageStore) -> None:
    sent: list[int] = []

    def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
        if "/manifests/" in handler.path:
            _reply(handler, 200, _manifest(_CONFIG, b"x", size=1000))
            return
        if hashlib.sha256(_CONFIG).hexdigest() in handler.path:
            _reply(handler, 200, _CONFIG)
            return
        handler.send_response(200)
        handler.end_headers()
        try:
            for _ in range(10_000):
                handler.wfile.write(b"x" * 65536)
                sent.append(65536)
        except OSError:
            return

    with serving(_handler(answer)) as port, pytest.raises(BadImage, match="larger than"):
        pull_image(store, f"127.0.0.1:{port}/evil:1")
    assert sum(sent) < 64 << 20
    assert all(path.stat().st_size <= 1000 for path in (store.root / "partial").iterdir())


def test_a_manifest_that_never_ends_is_cut_off(store: ImageStore) -> None:
    endless = _handler(lambda handler: _reply(handler, 200, b" " * (5 << 20)))
    with serving(endless) as port, pytest.raises(BadImage, match="larger than any manifest"):
        pull_image(store, f"127.0.0.1:{port}/evil:1")


def test_a_connection_that_breaks_is_taken_up_again(store: ImageStore) -> None:
    content = layer([file("disk/disk.img", os.urandom(300_000))])
    config = json.dumps({"rootfs": {"diff_ids": [f"sha256:{hashlib.sha256(content).hexdigest()}"]}}).encode()
    asked: list[str] = []

    def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
        if "/manifests/" in handler.path:
            _reply(handler, 200, _manifest(config, content))
        elif hashlib.sha256(config).hexdigest() in handler.path:
            _reply(handler, 200, config)
        else:
            begin = int(handler.headers.get("Range", "bytes=0-")[6:-1])
            asked.append(str(begin))
            part = content[begin : begin + 150_000]
            handler.send_response(206 if begin else 200)
            handler.send_header("Content-Length", str(len(content) - begin))
            handler.end_headers()
            handler.wfile.write(part)

    with serving(_handler(answer)) as port:
        image = pull_image(store, f"127.0.0.1:{port}/shaky:1")

    assert (image.tree / "disk/disk.img").stat().st_size == 300_000
    assert asked == ["0", "150000", "300000"][: len(asked)]
    assert len(asked) >= 2


def test_a_login_is_not_sent_along_to_where_a_redirect_leads(store: ImageStore) -> None:
    seen: list[str | None] = []

    def elsewhere(handler: http.server.BaseHTTPRequestHandler) -> None:
        seen.append(handler.headers.get("Authorization"))
        _reply(handler, 404)

    with serving(_handler(elsewhere)) as other:

        def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
            if handler.headers.get("Authorization") is None:
                _reply(handler, 401, WWW_Authenticate='Basic realm="x"')
            else:
                _reply(handler, 307, Location=f"http://127.0.0.1:{other}/away")

        with serving(_handler(answer)) as port, pytest.raises(RegistryError):
            pull_image(store, f"127.0.0.1:{port}/a:1", {f"127.0.0.1:{port}": (USER, PASSWORD)})

    assert seen == [None]


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/x", "https://169.254.169.254/x", "https://10.0.0.1/x", "https://[::1]/x"]
)
@pytest.mark.parametrize("own_host", [True, False])
def test_a_public_registry_may_not_lead_into_the_local_network(url: str, own_host: bool) -> None:
    door = RegistryDoor("registry.example", own_host=own_host)
    parts = urllib.parse.urlsplit(url)
    with pytest.raises(RegistryError, match=r"local network|this host itself"):
        door.connect(parts.hostname or "", parts.port or 443)


def test_only_loopback_is_spoken_to_without_tls_unless_told_otherwise() -> None:
    assert registry_client.is_loopback("127.0.0.1:5000")
    assert registry_client.is_loopback("localhost:5000")
    assert registry_client.is_loopback("[::1]:5000")
    assert not registry_client.is_loopback("127.0.0.1.evil.example:5000")
    assert not registry_client.is_loopback("192.168.0.2:5000")
    assert not registry_client.is_loopback("localhost.evil.example")


@pytest.mark.parametrize("image", ["kvedge.local/launcher:1", "kvedge.local/disk:1"])
def test_images_of_this_machine_are_never_asked_for(store: ImageStore, image: str) -> None:
    with pytest.raises(RegistryError, match=f"no registry has {image}, as .*: run kvedge image import"):
        pull_image(store, image)
