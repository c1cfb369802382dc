"""Where an import may connect to; names are resolved as a test has it, and nothing is connected."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from kvedge.storage.images import registry_door
from kvedge.storage.imports import import_door
from kvedge.storage.imports.import_door import ImportDoor
from kvedge.storage.imports.import_errors import ImportFailure

NAMES = {
    "public": ["93.184.216.34"],
    "other-public": ["2606:2800:220:1::1"],
    "nas": ["192.168.77.5"],
    "nas2": ["10.0.0.7"],
    "both": ["93.184.216.34", "192.168.77.5"],
    "self": ["127.0.0.1"],
    "self6": ["::1"],
    "mapped": ["::ffff:127.0.0.1"],
    "metadata": ["169.254.169.254"],
    "metadata6": ["fd00:ec2::254"],
    "nat64": ["64:ff9b::a9fe:a9fe"],
    "6to4": ["2002:7f00:1::"],
    "any": ["0.0.0.0"],
    "group": ["224.0.0.1"],
}


@pytest.fixture(autouse=True)
def _names(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(host: str, port: int, **options: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in NAMES[host]]

    monkeypatch.setattr(registry_door.socket, "getaddrinfo", resolve)
    monkeypatch.setattr(import_door, "connect_to_first", lambda found: found)


@pytest.mark.parametrize("host", ["self", "self6", "mapped", "metadata", "metadata6", "nat64", "6to4", "any", "group"])
def test_this_host_and_metadata_services_are_never_reached(host: str) -> None:
    with pytest.raises(ImportFailure, match="never imported from"):
        ImportDoor().connect(host, 80)


@pytest.mark.parametrize("host", ["nas", "public", "both"])
def test_the_server_that_the_url_names_may_be_anywhere_else(host: str) -> None:
    assert ImportDoor().connect(host, 80)


@pytest.mark.parametrize("host", ["nas", "both"])
def test_a_public_server_leads_to_no_private_address(host: str) -> None:
    door = ImportDoor()
    door.connect("public", 443)
    with pytest.raises(ImportFailure, match="private network"):
        door.connect(host, 80)


def test_a_public_server_leads_to_another_public_one() -> None:
    door = ImportDoor()
    door.connect("public", 443)
    assert door.connect("other-public", 443)


def test_a_site_s_server_leads_to_another_one_of_the_site_but_not_to_metadata() -> None:
    door = ImportDoor()
    door.connect("nas", 80)
    assert door.connect("nas2", 80)
    with pytest.raises(ImportFailure, match="never"):
        door.connect("metadata", 80)


def test_a_name_that_means_something_else_a_moment_later_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    door = ImportDoor()
    door.connect("public", 80)
    monkeypatch.setitem(NAMES, "public", ["10.0.0.1"])
    with pytest.raises(ImportFailure, match="private network"):
        door.connect("public", 80)
