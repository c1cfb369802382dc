"""Registries that are slow, lead elsewhere, or are no registries: what a pull does, and what it gives away."""

from __future__ import annotations

import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kvedge.storage.image_errors import BadImage, RegistryError
from kvedge.storage.images import registry_door
from kvedge.storage.images.image_names import parse_image_name
from kvedge.storage.images.image_pull import pull_image
from kvedge.storage.images.image_store import ImageStore
from kvedge.storage.images.registry_client import RegistryClient
from kvedge.storage.images.registry_door import RegistryDoor
from kvedge.storage.images.registry_pace import Pace, PaceLimits
from tests.support.ports import free_port
from tests.support.slow_registry import played_registry

_SLOW_PARTS = ["header", "manifests", "blobs", "token", "redirect"]


@pytest.mark.parametrize("slow_at", _SLOW_PARTS)
def test_a_registry_that_sends_a_byte_now_and_then_is_given_up(tmp_path: Path, slow_at: str) -> None:
    store = ImageStore(tmp_path / "images", pace=PaceLimits(window=0.5, window_bytes=1000))
    with played_registry(slow_at) as registry, pytest.raises(RegistryError, match="too slow") as refused:
        pull_image(store, registry.reference)

    assert refused.value.temporary


@pytest.mark.parametrize("slow_at", _SLOW_PARTS)
def test_a_pull_that_takes_too_long_on_the_whole_is_given_up(tmp_path: Path, slow_at: str) -> None:
    store = ImageStore(tmp_path / "images", pace=PaceLimits(window=60, window_bytes=1, total=0.5))
    with played_registry(slow_at) as registry, pytest.raises(RegistryError, match="whole image") as refused:
        pull_image(store, registry.reference)

    assert refused.value.temporary


def test_downloads_are_roots_alone_also_those_that_an_older_version_left(tmp_path: Path) -> None:
    store = ImageStore(tmp_path / "images", pace=PaceLimits(window=0.5, window_bytes=10_000))
    partial = store.root / "partial"
    partial.mkdir(parents=True, mode=0o755)
    with played_registry("blobs") as registry:
        config = next(key for key in registry.bodies() if key.startswith("sha256:"))
        left = partial / f"127.0.0.1_{registry.port}_a_b-{config.removeprefix('sha256:')}"
        left.write_bytes(b"{")
        left.chmod(0o644)
        with pytest.raises(RegistryError):
            pull_image(store, registry.reference)

    assert stat.S_IMODE(partial.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in partial.iterdir()} == {0o600}


@contextmanager
def _listening(host: str = "127.0.0.1") -> Iterator[tuple[int, list[bool]]]:
    """A port at which somebody listens; whether anybody has come is known at the end."""
    with socket.create_server((host, 0)) as server:
        came: list[bool] = []
        yield server.getsockname()[1], came
        server.settimeout(0.05)
        try:
            connection, _ = server.accept()
        except TimeoutError:
            came.append(False)
        else:
            connection.close()
            came.append(True)


def _own_address() -> str:
    """An address of this host that is not on loopback, or one that is when it has no other."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            # Sends nothing.
            asked.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.2"
        return str(asked.getsockname()[0])


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "localhost", "0.0.0.0", "own"])
def test_a_pods_image_does_not_tell_which_ports_of_this_host_are_open(tmp_path: Path, host: str) -> None:
    store, named = ImageStore(tmp_path / "images"), _own_address() if host == "own" else host
    words = []
    with _listening("0.0.0.0") as (port, came):
        for asked in (port, free_port()):
            with pytest.raises(RegistryError, match="this host itself") as refused:
                pull_image(store, f"{named}:{asked}/x/y:1", own_host=False)
            assert not refused.value.temporary
            words.append(str(refused.value).replace(str(asked), "PORT"))

    assert came == [False]
    assert words[0] == words[1]


@pytest.mark.parametrize("address", ["169.254.169.254", "::1", "::", "::ffff:127.0.0.1", "fe80::1", "224.0.0.1"])
def test_addresses_that_mean_this_host_or_its_links_are_its_own(address: str) -> None:
    assert registry_door.is_own(registry_door.plain_address(address))


def test_an_address_of_another_host_is_not_our_own() -> None:
    assert not registry_door.is_own(registry_door.plain_address("192.0.2.7"))


def test_a_registry_on_this_host_serves_pods_when_the_administrator_lists_it(tmp_path: Path) -> None:
    store = ImageStore(tmp_path / "images")
    with played_registry() as registry:
        listed = frozenset({f"127.0.0.1:{registry.port}"})
        assert pull_image(store, registry.reference, insecure=listed, own_host=False).tree.exists()


class _Rebinding:
    """A name that means a public address when it is asked first, and this host from then on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.resolved = 0
        self.connected: list[str] = []
        rebinding = self
        real = socket.getaddrinfo

        def resolve(host: str, port: Any, *rest: Any, **options: Any) -> Any:
            if not host.endswith(".example"):
                return real(host, port, *rest, **options)
            rebinding.resolved += 1
            address = "8.8.8.8" if rebinding.resolved == 1 else "127.0.0.1"
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

        class Recorded(socket.socket):
            def connect(self, address: Any) -> None:
                """Goes nowhere but to loopback."""
                if self.type == socket.SOCK_STREAM:
                    rebinding.connected.append(address[0])
                if not address[0].startswith("127."):
                    raise ConnectionRefusedError(111, "refused")
                super().connect(address)

        monkeypatch.setattr(socket, "getaddrinfo", resolve)
        monkeypatch.setattr(registry_door.socket, "socket", Recorded)


def test_a_name_is_connected_to_at_the_very_address_that_was_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    rebinding = _Rebinding(monkeypatch)
    door = RegistryDoor("public.registry", own_host=False)

    with _listening() as (port, came), pytest.raises(ConnectionRefusedError):
        door.connect("rebind.example", port)

    assert rebinding.resolved == 1
    assert rebinding.connected == ["8.8.8.8"]
    assert came == [False]


def test_a_token_service_whose_name_is_rebound_is_not_asked_on_this_host(monkeypatch: pytest.MonkeyPatch) -> None:
    rebinding = _Rebinding(monkeypatch)
    name = parse_image_name("public.registry/x:1")
    client = RegistryClient(name, door=RegistryDoor("public.registry", own_host=True), pace=Pace("x", PaceLimits()))
    client._scheme = "http"

    with _listening() as (port, came):
        for _ in range(2):
            with pytest.raises(RegistryError):
                client._token(f"http://rebind.example:{port}/token", {}, {})

    # The second time the name means this host, and is refused for that.
    assert rebinding.connected == ["8.8.8.8"]
    assert came == [False]


@pytest.mark.parametrize("target", ["ftp://127.0.0.1:{port}/x", "file:///etc/passwd"])
def test_a_redirect_past_the_door_is_refused(tmp_path: Path, target: str) -> None:
    with _listening() as (port, came), played_registry("redirect") as registry:
        registry.slow_at = ""

        def answer(handler: Any) -> None:
            handler.send_response(307)
            handler.send_header("Location", target.format(port=port))
            handler.send_header("Content-Length", "0")
            handler.end_headers()

        registry.answer = answer  # type: ignore[method-assign]
        with pytest.raises((RegistryError, BadImage)):
            pull_image(ImageStore(tmp_path / "images"), registry.reference)
    assert came == [False]
