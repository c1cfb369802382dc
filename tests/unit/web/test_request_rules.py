"""Which requests are ours."""

from __future__ import annotations

import pytest
from multidict import CIMultiDict

from kvedge.web.request_rules import judge_request

_OURS = {"127.0.0.1:5000": "http://127.0.0.1:5000", "localhost:5000": "http://localhost:5000"}
_PAGE = {"Host": "127.0.0.1:5000"}
_READ = {**_PAGE, "Sec-Fetch-Site": "same-origin"}
_SOCKET = {**_PAGE, "Origin": "http://127.0.0.1:5000", "Connection": "Upgrade", "Upgrade": "websocket"}
_WRITE = {
    **_READ,
    "Origin": "http://127.0.0.1:5000",
    "X-Kvedge-Console": "1",
    "Content-Type": "application/json; charset=utf-8",
}

_DATA = {**_WRITE, "Content-Type": "application/octet-stream"}
_OWN = "X-Kvedge-Console"


def status(method: str, path: str, headers: dict[str, str]) -> int:
    refused = judge_request(method, path, CIMultiDict(headers), _OURS)
    return refused.status if refused else 200


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("GET", "/", _PAGE),
        ("GET", "/", {**_PAGE, "Sec-Fetch-Site": "none"}),
        ("GET", "/", {**_PAGE, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}),
        ("GET", "/who", _READ),
        ("GET", "/live", _SOCKET),
        ("POST", "/tickets", _WRITE),
        ("POST", "/tickets", {**_WRITE, "Host": "localhost:5000", "Origin": "http://localhost:5000"}),
        ("POST", "/uploads/shop/disk/data", _DATA),
        ("POST", "/uploads/shop/disk/begin", _WRITE),
    ],
)
def test_requests_of_our_pages_pass(method: str, path: str, headers: dict[str, str]) -> None:
    assert status(method, path, headers) == 200


@pytest.mark.parametrize(
    ("method", "path", "headers", "expected"),
    [
        ("GET", "/", {}, 421),
        ("GET", "/", {"Host": "evil.example"}, 421),
        ("GET", "/", {"Host": "127.0.0.1"}, 421),
        ("GET", "/static/main.js", {"Host": "evil.example:5000"}, 421),
        ("GET", "/live", {**_SOCKET, "Origin": "http://evil.example"}, 403),
        ("GET", "/live", {**_SOCKET, "Origin": "null"}, 403),
        ("GET", "/live", {**_SOCKET, "Origin": "http://localhost:5000"}, 403),
        ("GET", "/live", {key: value for key, value in _SOCKET.items() if key != "Origin"}, 403),
        ("GET", "/live", {"Host": "127.0.0.1:5000", "connection": "keep-alive, upgrade"}, 403),
        ("GET", "/who", {**_PAGE, "Sec-Fetch-Site": "cross-site"}, 403),
        ("GET", "/who", {**_PAGE, "Sec-Fetch-Site": "none"}, 403),
        ("GET", "/", {**_PAGE, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403),
        ("POST", "/tickets", {key: value for key, value in _WRITE.items() if key != "Origin"}, 403),
        ("POST", "/tickets", {**_WRITE, "Origin": "https://127.0.0.1:5000"}, 403),
        ("POST", "/tickets", {key: value for key, value in _WRITE.items() if key != "X-Kvedge-Console"}, 403),
        ("POST", "/tickets", {**_WRITE, "Content-Type": "text/plain"}, 415),
        ("DELETE", "/tickets", _READ, 403),
        # Bytes are taken where an image goes, and nothing else is taken there.
        ("POST", "/uploads/shop/disk/data", _WRITE, 415),
        ("POST", "/uploads/shop/disk/data", {**_DATA, "Content-Type": "text/plain"}, 415),
        ("POST", "/uploads/shop/disk/data", {**_DATA, "Content-Type": "multipart/form-data; boundary=x"}, 415),
        ("POST", "/uploads/shop/disk/begin", _DATA, 415),
        ("POST", "/tickets", _DATA, 415),
        ("POST", "/static/uploads/shop/disk/data", _DATA, 415),
        ("POST", "/uploads/shop/disk/data", {**_DATA, "Origin": "http://evil.example"}, 403),
        ("POST", "/uploads/shop/disk/data", {key: each for key, each in _DATA.items() if key != "Origin"}, 403),
        ("POST", "/uploads/shop/disk/data", {key: each for key, each in _DATA.items() if key != _OWN}, 403),
        ("POST", "/uploads/shop/disk/data", {**_DATA, "Sec-Fetch-Site": "cross-site"}, 403),
    ],
)
def test_requests_of_others_are_refused(method: str, path: str, headers: dict[str, str], expected: int) -> None:
    assert status(method, path, headers) == expected
