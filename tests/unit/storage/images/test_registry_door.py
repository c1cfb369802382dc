"""Which names count as the registry's own."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from kvedge.storage.image_errors import RegistryError
from kvedge.storage.images import registry_door
from kvedge.storage.images.registry_door import RegistryDoor


@pytest.fixture
def _local(monkeypatch: pytest.MonkeyPatch) -> None:
    """All names are in the local network, and connections lead nowhere."""

    def resolve(host: str, port: int, **options: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.168.77.5", port))]

    monkeypatch.setattr(registry_door.socket, "getaddrinfo", resolve)
    monkeypatch.setattr(registry_door, "connect_to_first", lambda found: found)


@pytest.mark.usefixtures("_local")
@pytest.mark.parametrize("registry", ["nas.lan:5000", "NAS.lan:5000", "Registry"])
def test_a_registry_in_the_local_network_is_reached_whatever_its_letters(registry: str) -> None:
    door = RegistryDoor(registry, own_host=True)
    assert door.connect(registry.partition(":")[0], 5000)
    assert door.leads_locally


@pytest.mark.usefixtures("_local")
def test_another_name_there_is_not_the_registry_s() -> None:
    with pytest.raises(RegistryError, match="local network"):
        RegistryDoor("Registry", own_host=True).connect("other", 443)
