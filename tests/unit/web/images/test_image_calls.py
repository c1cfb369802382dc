"""The steps of an upload besides its data, before a played API server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from msgspec import Struct

from kvedge.client.errors import ClientError, FlagError, RefusedError, UsageError
from kvedge.client.session import Session
from kvedge.kube.errors import NotFound
from kvedge.web.images.image_calls import (
    begin_upload,
    cancel_upload,
    read_images,
    read_offset,
    read_upload_right,
)

_VOLUME = "/apis/cdi.kubevirt.io/v1beta1/namespaces/shop/datavolumes/disk"


@dataclass
class PlayedServer:
    """Has one DataVolume, or none; keeps what is written."""

    volume: Any = None
    forbidden: tuple[str, ...] = ()
    written: list[tuple[str, str, Any]] = field(default_factory=list)

    def hurry(self, seconds: float) -> PlayedServer:
        return self

    def list(self, kind: Any, namespace: str | None = None) -> Any:
        raise NotFound(404, "NotFound", "no such kind")

    def request(self, method: str, path: str, body: Any = None, *more: Any) -> Any:
        if path.endswith("selfsubjectaccessreviews"):
            return {"status": {"allowed": body["spec"]["resourceAttributes"]["resource"] not in self.forbidden}}
        if method == "GET":
            if self.volume is None or path != _VOLUME:
                raise NotFound(404, "NotFound", "no such thing")
            return self.volume
        self.written.append((method, path, body))
        return body


class PlayedSession(Struct, frozen=True):
    client: PlayedServer
    namespace: str = "default"


def of(server: PlayedServer) -> Session:
    return cast(Session, PlayedSession(server))


def test_where_cdis_kinds_are_not_known_there_are_no_images() -> None:
    assert read_images(of(PlayedServer()), None) == {"rows": [], "more": 0}


@pytest.mark.parametrize("missing", ["datavolumes", "uploadtokenrequests"])
def test_who_may_not_make_a_disk_or_its_token_uploads_nothing(missing: str) -> None:
    assert read_upload_right(of(PlayedServer()), "shop") == {"mayUpload": True}
    assert read_upload_right(of(PlayedServer(forbidden=(missing,))), "shop") == {"mayUpload": False}


def test_an_upload_begins_with_a_disk_that_waits_for_it() -> None:
    server = PlayedServer()
    begin_upload(of(server), "shop", "disk", {"size": "3Mi", "storageClass": "fast"})
    [(method, path, made)] = server.written
    assert (method, path) == ("POST", _VOLUME.removesuffix("/disk"))
    assert made["metadata"]["annotations"] == {"cdi.kubevirt.io/storage.bind.immediate.requested": ""}
    storage = {"resources": {"requests": {"storage": "3Mi"}}, "storageClassName": "fast"}
    assert made["spec"] == {"source": {"upload": {}}, "contentType": "kubevirt", "storage": storage}


@pytest.mark.parametrize(
    "body", [{"size": 3}, {"size": "1Gi", "storageClass": ["x"]}, {}], ids=["size", "class", "none"]
)
def test_what_is_no_size_makes_nothing(body: Any) -> None:
    server = PlayedServer()
    with pytest.raises(UsageError):
        begin_upload(of(server), "shop", "disk", body)
    assert server.written == []


@pytest.mark.parametrize("identity", ["", "x" * 64, "a" * 65, "A" * 64])
def test_an_identity_is_a_digest(identity: str) -> None:
    with pytest.raises(FlagError):
        read_offset(of(PlayedServer()), "shop", "disk", identity)


@pytest.mark.parametrize("place", [("..", "disk"), ("shop", "a/b"), ("shop", "")], ids=["up", "slash", "none"])
def test_names_stay_within_their_path(place: tuple[str, str]) -> None:
    server = PlayedServer()
    with pytest.raises(ClientError):
        cancel_upload(of(server), *place)
    with pytest.raises(ClientError):
        begin_upload(of(server), *place, {"size": "1Gi"})
    assert server.written == []


def a_volume(source: str, phase: str) -> Any:
    return {
        "metadata": {"uid": "u", "resourceVersion": "7"},
        "spec": {"source": {source: {}}},
        "status": {"phase": phase},
    }


def test_a_cancelled_upload_goes_by_its_uid_whatever_is_written_to_it_meanwhile() -> None:
    server = PlayedServer(a_volume("upload", "UploadReady"))
    cancel_upload(of(server), "shop", "disk")
    assert server.written == [("DELETE", _VOLUME, {"preconditions": {"uid": "u"}})]


@pytest.mark.parametrize(("source", "phase"), [("upload", "Succeeded"), ("http", "ImportInProgress")])
def test_what_is_filled_or_no_upload_is_not_cancelled(source: str, phase: str) -> None:
    server = PlayedServer(a_volume(source, phase))
    with pytest.raises(RefusedError, match="delete it with kubectl"):
        cancel_upload(of(server), "shop", "disk")
    assert server.written == []
