"""Which port of a guest's vsock a query asks for."""

from __future__ import annotations

import pytest

from kvedge.handler.launchers.vsock_request import BadVsockRequest, VsockRequest, vsock_request


def test_tls_is_spoken_unless_the_query_says_no() -> None:
    assert vsock_request({"port": "22"}) == VsockRequest(22, tls=True)
    assert vsock_request({"port": "4294967294", "tls": "true"}) == VsockRequest(4294967294, tls=True)
    assert vsock_request({"port": "1", "tls": "false"}) == VsockRequest(1, tls=False)


@pytest.mark.parametrize("port", ["", "0", "-1", "4294967295", "ssh", "2" * 100])
def test_what_is_no_port_is_refused(port: str) -> None:
    with pytest.raises(BadVsockRequest, match=r"port: .* is not between 1 and 4294967294"):
        vsock_request({"port": port})


def test_what_is_neither_yes_nor_no_is_refused() -> None:
    with pytest.raises(BadVsockRequest, match="tls: 'maybe' is neither true nor false"):
        vsock_request({"port": "22", "tls": "maybe"})
