# Tests: kvedge/resources/values/host_ports.py
# Tests: kvedge/runtime/serving/https_server.py
"""Addresses as settings and Kubernetes write them."""

from __future__ import annotations

import pytest

from kvedge.resources.values.host_ports import join_address
from kvedge.runtime.serving.https_server import ServerError, split_address


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::1]:8443", ("::1", 8443)),
        pytest.param("fd00::1:8186", ("fd00::1", 8186), id="a host's IPv6 address as a Pod is told it"),
        ("node.example:8443", ("node.example", 8443)),
    ],
)
def test_an_address_is_split(text: str, expected: tuple[str, int]) -> None:
    assert split_address(text) == expected
    assert split_address(join_address(*expected)) == expected


@pytest.mark.parametrize("text", ["", "127.0.0.1", "[::1]", ":8443", "host:port", "a:b:c", "[::1:8443"])
def test_what_is_no_address_with_a_port_is_refused(text: str) -> None:
    with pytest.raises(ServerError):
        split_address(text)
