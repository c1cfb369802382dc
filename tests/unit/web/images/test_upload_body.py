"""What a page says of the data that it sends, and what becomes of it when the page goes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import StreamReader, web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.test_utils import make_mocked_request

from kvedge.client.uploads.upload_relay import RelayedPart
from kvedge.client.uploads.upload_stream import BrokenUpload, ProxyAddress
from kvedge.web.images import upload_body
from kvedge.web.images.image_calls import UploadTarget
from kvedge.web.images.upload_body import part_of, send_part

_GOOD = {"Content-Length": "5", "X-Kvedge-Upload-Id": "a" * 64}


def asked(**changes: str | None) -> web.Request:
    headers = {**_GOOD, **{name.replace("_", "-"): value for name, value in changes.items()}}
    return make_mocked_request(
        "POST", "/uploads/shop/disk/data", {name: value for name, value in headers.items() if value is not None}
    )


def test_a_part_is_what_its_headers_say() -> None:
    assert part_of(asked()) == RelayedPart("upload-async", "a" * 64, 0, 5)
    later = asked(X_Kvedge_Upload_Offset="7", X_Kvedge_Upload_Call="upload")
    assert part_of(later) == RelayedPart("upload", "a" * 64, 7, 5)


@pytest.mark.parametrize(
    ("header", "value", "status"),
    [
        ("Content_Length", None, 411),
        ("X_Kvedge_Upload_Id", None, 400),
        ("X_Kvedge_Upload_Id", "../../x", 400),
        ("X_Kvedge_Upload_Offset", "-1", 400),
        ("X_Kvedge_Upload_Offset", "1" * 19, 400),
        ("X_Kvedge_Upload_Call", "../secrets", 400),
    ],
)
def test_what_is_wrong_with_a_header_is_told_by_its_name(header: str, value: str | None, status: int) -> None:
    with pytest.raises(web.HTTPException) as refused:
        part_of(asked(**{header: value}))
    assert refused.value.status == status
    assert header.replace("_", "-") in str(refused.value.reason)


def test_a_page_that_sends_nothing_any_more_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload_body, "_PATIENCE", 0.01)
    taken: list[bytes] = []

    async def relay(address: Any, token: str, part: RelayedPart, pieces: Any) -> None:
        async for piece in pieces:
            taken.append(piece)

    monkeypatch.setattr(upload_body, "relay_part", relay)

    async def test() -> None:
        loop = asyncio.get_running_loop()
        protocol = BaseProtocol(loop)
        protocol.connection_made(asyncio.Transport())
        payload = StreamReader(protocol, 1 << 16, loop=loop)
        payload.feed_data(b"abc")
        request = make_mocked_request("POST", "/uploads/shop/disk/data", _GOOD, payload=payload)
        with pytest.raises(BrokenUpload, match="has sent nothing"):
            await send_part(request, UploadTarget(ProxyAddress("https://proxy"), "t"), part_of(request))

    asyncio.run(test())
    assert taken == [b"abc"]
